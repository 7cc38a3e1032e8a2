internal import Credentials
package import Gate
package import Wire

/// The typed values of all settings: a plain value that a reload compares and replaces.
///
/// Settings whose grammar belongs to another target (contracts, URLs of Redis, the database and the mail server) stay strings
/// here. `tollgate/Assembly` has those targets parse them and reports their errors.
@dynamicMemberLookup
package struct Configuration: Sendable {
    /// The values of plain settings that are not their defaults, by variable.
    var values: [String: any Sendable] = [:]
    /// The origin of each setting, by variable; a setting that is missing here has its default.
    package var origins: [String: Origin] = [:]
    /// All settings as texts.
    package var effective: [EffectiveSetting] = []
    package var listeners: [ListenerDeclaration] = []
    package var tlsListeners: [ListenerDeclaration] = []
    package var tlsPairs: [TLSPairDeclaration] = []
    /// The PEM file of the CA for client certificates; nil: clients are not asked for one.
    package var tlsClientAuthority: String?
    /// The directory of the authority that issues certificates; nil for none.
    package var acmeDirectory: String?
    /// The host names of the certificates in files, in lower case, as they were when the configuration was read.
    package var fileNames: Set<String> = []
    /// `TOLLGATE_ACME_NAMES`; see `certificateNames`.
    var acmeNames: [String] = []
    package var acmeEmail: String?
    package var acmeDNS: AcmeDNSDeclaration?
    package var acmeProfile: String?
    package var acmeChain: String?
    package var acmeBinding: AcmeBindingDeclaration?
    /// The PEM file of the CAs of the authority's server; nil for the system's.
    package var acmeAuthority: String?
    package var acmeListeners: [ListenerDeclaration] = []
    /// Files with lists of revoked client certificates (`TOLLGATE_TLS_CLIENT_CRL`).
    package var tlsRevocationLists: [String] = []
    /// The value of `Strict-Transport-Security` (`TOLLGATE_HSTS`); nil: answers have none.
    package var strictTransport: String?
    package var adminListeners: [ListenerDeclaration] = []
    /// Where proxies ask about requests of theirs.
    package var checkListeners: [ListenerDeclaration] = []
    /// The admin API's bearer token; nil: one is generated and printed once.
    package var adminToken: [UInt8]?
    /// Further tokens of the admin API, each with its scopes.
    package var scopedAdminTokens: [AdminTokenDeclaration] = []
    /// Host names, in lower case, that the admin listeners accept besides addresses and `localhost`.
    package var adminHosts: [String] = []
    /// The number of event loops; nil: one for each core.
    package var workers: Int?
    /// The secret that signs own tokens in place of generated keys, at least 32 bytes.
    package var jwtSecret: [UInt8]?
    package var tiers = TierList.standard
    /// The scopes of own users, by the rank of their tier.
    package var tierScopes: [[String]] = []
    package var trusts: [TrustDeclaration] = []
    package var upstreams: [UpstreamDeclaration] = []
    /// `rule.target` of each is an index into `upstreams`.
    package var routes: [RouteDeclaration] = []
    package var resources: [ResourceDeclaration] = []
    package var internals: [InternalDeclaration] = []
    package var versionGates: [VersionGateDeclaration] = []
    /// `TOLLGATE_CORS`.
    package var cors = CORSChoice.off
    /// Media types that are compressed beside those that the gateway knows (`TOLLGATE_COMPRESS_TYPES`).
    package var compressionTypes: [String] = []
    package var trustedProxies: [CIDR] = []
    /// Whose requests are refused on every route (`TOLLGATE_DENY_FROM`); nil: no list.
    package var denyFrom: NetworkList?
    /// `REDIS_URL` unparsed; it may contain a password. nil: limits are counted in process.
    package var redisURL: String?
    /// The contracts to mount, each as `id@base`.
    package var contracts: [String] = []
    /// Paths of the `dlauth` contract, each with the full name of its variable.
    package var dlauthPaths: [EnvEntry] = []
    package var providers: [ProviderDeclaration] = []
    package var products: [ProductDeclaration] = []
    package var account: AccountDeclaration?
    package var deletion: DeletionDeclaration?
    package var appleKey: AppleKeyDeclaration?
    package var attestations: [AttestDeclaration] = []
    package var attestedSignIn: AttestedSignInDeclaration?
    package var passkey: PasskeySettings?
    package var iosApps: [String] = []
    package var iosLinks: [String] = []
    package var androidApps: [AndroidApp] = []
    package var events: [EventsDeclaration] = []
    package var signUpHook: SignUpHookDeclaration?
    package var appleStore: AppleStoreDeclaration?
    package var googleStore: GoogleStoreDeclaration?
    package var stripeStore: StripeStoreDeclaration?
    package var revenueCatStore: RevenueCatStoreDeclaration?
    /// `TOLLGATE_DATABASE_URL`, `DATABASE_URL` and the same with `_DIRECT`, unparsed; they may contain a password.
    var ownDatabaseURL: String?
    var commonDatabaseURL: String?
    var ownDatabaseDirectURL: String?
    var commonDatabaseDirectURL: String?
    /// The secret that gateways with a common database or Redis share, at least 32 bytes.
    package var keySecret: [UInt8]?
    /// The most sessions of one account, by its tier's rank.
    package var maxSessions: [Int] = []
    package var factor = FactorChoice.off
    /// Lifetimes of access tokens and of sessions by contract, each with the full name of its variable.
    package var accessLifetimes: [EnvEntry] = []
    package var deviceKeys: [EnvEntry] = []
    package var refreshLifetimes: [EnvEntry] = []
    package var upgradeURL: String?
    /// `SMTP_URL` unparsed; it may contain a password. nil: mail goes to the development outbox.
    package var smtpURL: String?
    /// The webhook for SMS; nil: they go to the development outbox.
    package var smsURL: String?
    /// The page of reset links; nil: a reset mail contains the bare token.
    package var resetURL: String?
    /// The folder of templates, with a folder for each language.
    package var mailTemplates: String?
    /// Named in SMS with codes, for those that fill them in.
    package var smsDomain: String?
    package var smsAppHash: String?
    /// The changes of accounts of which their users are told.
    package var notices: [String] = []
    package var tracing = TraceSettings()
    /// The ineffective values in env files, by variable, where the process environment has a different value.
    package var overridden: [String: String] = [:]
    /// The effective text of every variable that is set, for `fingerprint`. Holds secrets.
    var texts: [String: [UInt8]] = [:]

    package init() {}

    /// The value of a plain setting.
    package subscript<Value>(dynamicMember setting: KeyPath<PlainSettings, ValueSetting<Value>>) -> Value {
        get { self[PlainSettings.rows[keyPath: setting]] }
        set { values[PlainSettings.rows[keyPath: setting].row.name] = newValue }
    }

    subscript<Value>(setting: ValueSetting<Value>) -> Value { values[setting.row.name] as? Value ?? setting.initial }

    /// A digest of all settings, keyed because secrets are among them. Equal for equal settings, wherever they are set; the files
    /// that settings name do not count, except those of secrets.
    package func fingerprint(key: [UInt8]) -> String {
        var bytes = ByteBuffer()
        for (name, value) in texts.sorted(by: { $0.key < $1.key }) {
            for part in [Array(name.utf8), value] {
                bytes.append(decimal: part.count)
                bytes.append(":")
                bytes.append(part.rawBytes)
            }
        }
        return Base64URL.encode(Digest.hmacSHA256(bytes.readable, key: key.rawBytes).rawBytes)
    }

    /// A short keyed digest of each variable that is set, by its name: tells which values differ, and not what they are.
    package func fingerprints(key: [UInt8]) -> [String: String] {
        Dictionary(
            uniqueKeysWithValues: texts.map { name, value in
                let digest = Digest.hmacSHA256((Array("\(name)=".utf8) + value).rawBytes, key: key.rawBytes)
                return (name, Base64URL.encode(Array(digest[..<9]).rawBytes))
            })
    }

    /// Whether own tokens have the names of their users: a route forwards them.
    package var tellsNames: Bool { routes.contains(where: \.rule.forwardsName) }

    /// Whether the gateway has accounts: it mounts a contract or has a database.
    package var hasAccounts: Bool { !contracts.isEmpty || databaseURL != nil }

    /// Whether it reads the store and its change log: for accounts, for tiers that are not in the tokens of outside issuers, for API keys, or
    /// for certificates that are issued.
    package var usesStore: Bool {
        hasAccounts || acmeDirectory != nil || trusts.contains { $0.tierSource != .claim } || routes.contains { $0.rule.auth.takesKeys }
    }

    /// The CORS policy of routes without `cors=`, of contracts and of answers without a route; nil for none.
    package var corsRule: CORSRule? { cors.origins.map(CORSRule.init) }

    /// The URL of the database in force, unparsed; nil: a SQLite file in the data folder. And that of the server behind a pooler.
    package var databaseURL: String? { ownDatabaseURL ?? commonDatabaseURL }
    package var databaseDirectURL: String? { ownDatabaseDirectURL ?? commonDatabaseDirectURL }
    /// The settings that have them.
    package var databaseSetting: Setting { ownDatabaseURL == nil ? .databaseURL : .ownDatabaseURL }
    package var databaseDirectSetting: Setting { ownDatabaseDirectURL == nil ? .databaseDirectURL : .ownDatabaseDirectURL }

    /// The origin of a setting, for messages.
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
