package import Contracts
package import Credentials
package import Gate
internal import Mail
package import Redis
package import Wire

/// Everything the settings say, resolved and free of faults: a plain value that a reload compares and replaces.
package struct Configuration: Sendable {
    package var listeners: [ListenerDeclaration] = []
    package var tlsListeners: [ListenerDeclaration] = []
    package var tlsPairs: [TLSPairDeclaration] = []
    /// A PEM file; nil: clients are not asked for certificates.
    package var tlsClientAuthority: String?
    package var tlsClientAuthorityOrigin = Origin.builtIn
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
    package var signingAlgorithmOrigin = Origin.builtIn
    package var clockSkewSeconds: Int64 = 0
    package var tiers = TierList.standard
    package var trusts: [TrustDeclaration] = []
    package var upstreams: [UpstreamDeclaration] = []
    /// `rule.target` of each is the index of its upstream above.
    package var routes: [RouteDeclaration] = []
    package var internals: [InternalDeclaration] = []
    package var trustedProxies: [CIDR] = []
    /// nil: limits are counted in process.
    package var redis: RedisEndpoint?
    package var rateLimitFailure = LimitFailureMode.local
    package var tokenCacheEntries = 0
    /// The contracts that are answered here, and where.
    package var contracts = MountTable()
    /// Of the account page: what no route took the place of.
    package var pages: [MountTable.Place] = []
    package var providers: [ProviderDeclaration] = []
    /// As it was given; nil for a file in the data folder. It may hold a password.
    package var databaseURL: String?
    /// What gateways that share a database or a Redis have in common; 32 bytes or more.
    package var keySecret: [UInt8]?
    package var mustConfirmEmail = false
    package var refreshGraceSeconds: Int64 = 0
    package var tierGraceSeconds: Int64 = 0
    package var headerTimeoutMilliseconds: UInt32 = 0
    package var bodyTimeoutMilliseconds: UInt32 = 0
    package var sendTimeoutMilliseconds: UInt32 = 0
    package var idleTimeoutMilliseconds: UInt32 = 0
    package var drainTimeoutMilliseconds: UInt32 = 0
    package var maxConnections = 0
    package var upgradeURL: String?
    /// nil: mail goes to the development outbox.
    var mailServer: MailServer?
    var mailServerOrigin = Origin.builtIn
    /// Given wherever `mailServer` is.
    var mailFrom: Sender?
    /// nil: text messages go to the development outbox.
    var smsURL: String?
    /// nil: a reset mail brings the bare token.
    var resetURL: String?
    package var logLevel = LogLevel.info
    package var accessLog = AccessLogFormat.json
    /// What env files say in vain of variables that the process environment sets otherwise.
    var overridden: [String: String] = [:]

    /// All endpoints of the contracts and of the account page, in the order in which the policy has them behind the routes.
    package var endpoints: [MountTable.Place] { contracts.places + pages }

    /// Whether there are accounts: with a contract to reach them by, or a database that others share.
    package var hasAccounts: Bool { !contracts.mounts.isEmpty || databaseURL != nil }

    /// Everything whose keys are kept fresh: outside issuers, then providers.
    package var keyHolders: [TrustDeclaration] { trusts + providers.map(\.source) }
}

/// A certificate chain and its key, both PEM files.
package struct TLSPairDeclaration: Hashable, Sendable {
    package var certificate: String
    package var key: String
    package var origin: Origin
}

/// How much the gateway says of itself (`TOLLGATE_LOG`), ascending.
package enum LogLevel: String, CaseIterable, Comparable, Sendable {
    case debug, info, warning, error

    package static func < (left: Self, right: Self) -> Bool {
        allCases.firstIndex(of: left) ?? 0 < allCases.firstIndex(of: right) ?? 0
    }
}

/// The form of the access log (`TOLLGATE_ACCESS_LOG`).
package enum AccessLogFormat: String, CaseIterable, Sendable { case json, text, off }
