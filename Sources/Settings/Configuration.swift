package import Credentials
package import Gate
package import Telemetry
package import Wire

/// Everything the settings say, resolved and free of faults: a plain value that a reload compares and replaces.
///
/// Texts whose grammar belongs to another room (contracts, URLs of Redis, the database and the mail server) stay texts:
/// Assembly has them read by their rooms and reports what these refuse.
package struct Configuration: Sendable {
    /// Where each setting was written, by its variable; one that is not here has its default.
    package var origins: [String: Origin] = [:]
    package var listeners: [ListenerDeclaration] = []
    package var tlsListeners: [ListenerDeclaration] = []
    package var tlsPairs: [TLSPairDeclaration] = []
    /// A PEM file; nil: clients are not asked for certificates.
    package var tlsClientAuthority: String?
    package var adminListeners: [ListenerDeclaration] = []
    /// nil: one is generated and printed once.
    package var adminToken: [UInt8]?
    /// Names, in lower case, that the admin listeners answer to besides addresses and `localhost`.
    package var adminHosts: [String] = []
    /// nil: one for each core.
    package var workers: Int?
    package var dataDirectory = ""
    package var publicURL = ""
    /// `iss` of own tokens.
    package var issuer = ""
    /// `aud` of own tokens.
    package var audience = ""
    /// Signs own tokens in place of generated keys; 32 bytes or more.
    package var jwtSecret: [UInt8]?
    package var signingAlgorithm = SigningAlgorithm.ES256
    package var clockSkewSeconds: Int64 = 0
    package var tiers = TierList.standard
    package var trusts: [TrustDeclaration] = []
    package var upstreams: [UpstreamDeclaration] = []
    /// `rule.target` of each is the index of its upstream above.
    package var routes: [RouteDeclaration] = []
    package var internals: [InternalDeclaration] = []
    package var trustedProxies: [CIDR] = []
    /// `REDIS_URL` as it was given, perhaps with a password; nil: limits are counted in process.
    package var redisURL: String?
    package var rateLimitFailure = LimitFailureMode.local
    package var tokenCacheEntries = 0
    /// The contracts that are answered here, each as `id@base`.
    package var contracts: [String] = []
    /// Paths of the `dlauth` contract, each with the whole name of its variable.
    package var dlauthPaths: [EnvEntry] = []
    package var providers: [ProviderDeclaration] = []
    /// As it was given; nil for a file in the data folder. It may hold a password.
    package var databaseURL: String?
    /// What gateways that share a database or a Redis have in common; 32 bytes or more.
    package var keySecret: [UInt8]?
    package var mustConfirmEmail = false
    /// Accounts that one address may open.
    package var signUpLimit: LimitRate = LimitRate(defaultOf: .signUpLimit)
    /// SMS that are sent in all.
    package var smsBudget: LimitRate = LimitRate(defaultOf: .smsBudget)
    package var refreshGraceSeconds: Int64 = 0
    package var tierGraceSeconds: Int64 = 0
    package var headerTimeoutMilliseconds: UInt32 = 0
    package var bodyTimeoutMilliseconds: UInt32 = 0
    package var sendTimeoutMilliseconds: UInt32 = 0
    package var idleTimeoutMilliseconds: UInt32 = 0
    package var drainTimeoutMilliseconds: UInt32 = 0
    package var maxConnections = 0
    package var upgradeURL: String?
    /// `SMTP_URL` as it was given, perhaps with a password; nil: mail goes to the development outbox.
    package var smtpURL: String?
    /// The sender of mails; empty for none.
    package var mailFrom = ""
    /// nil: text messages go to the development outbox.
    package var smsURL: String?
    /// nil: a reset mail carries the bare token.
    package var resetURL: String?
    package var logLevel = LogLevel.info
    package var accessLog = AccessLogFormat.json
    /// What env files say in vain of variables that the process environment sets otherwise.
    package var overridden: [String: String] = [:]

    package init() {}

    /// Whether there are accounts: with a contract to reach them by, or a database that others share.
    package var hasAccounts: Bool { !contracts.isEmpty || databaseURL != nil }

    /// Where a setting was written, for messages.
    package func origin(of setting: Setting) -> Origin { origins[setting.name] ?? .builtIn }
}

/// A certificate chain and its key, both PEM files.
package struct TLSPairDeclaration: Hashable, Sendable {
    package var certificate: String
    package var key: String
    package var origin: Origin
}

/// The form of the access log (`TOLLGATE_ACCESS_LOG`).
package enum AccessLogFormat: String, CaseIterable, Sendable { case json, text, off }

extension LimitRate {
    /// What holds when `setting`, a rate, is not set.
    init(defaultOf setting: Setting) {
        guard let rate = LimitRate(parsing: setting.byDefault) else { preconditionFailure("\(setting.name) has no default") }
        self = rate
    }
}
