package import Credentials
package import Wire

/// Authentication that a route requires (`auth=`).
package enum AuthMode: UInt8, Sendable, CaseIterable {
    /// A valid bearer token.
    case required
    /// Anonymous, or a valid bearer; a bad one is refused.
    case optional
    /// Credentials are not read.
    case none
    /// A matching internal caller; a bearer is verified if there is one.
    case `internal`
    /// An API key.
    case key
    /// A valid bearer token or an API key.
    case requiredOrKey

    package var takesKeys: Bool { self == .key || self == .requiredOrKey }

    package var name: String {
        switch self {
        case .required: "required"
        case .optional: "optional"
        case .none: "none"
        case .internal: "internal"
        case .key: "key"
        case .requiredOrKey: "required,key"
        }
    }
}

/// Target of a route.
package enum RouteTarget: Equatable, Sendable {
    /// Index of an upstream in the configuration.
    case upstream(Int)
    /// An endpoint of the gateway, by its number in the proxy.
    case local(UInt16)

    var isLocal: Bool {
        switch self {
        case .upstream: false
        case .local: true
        }
    }
}

/// Decisions of a route that are in shadow mode: made, counted and logged, but not enforced (`shadow=`).
package struct ShadowSet: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let limit = Self(rawValue: 1)
    package static let tier = Self(rawValue: 2)
    package static let filter = Self(rawValue: 4)
    package static let app = Self(rawValue: 8)
    package static let attestation = Self(rawValue: 16)
}

/// One `TOLLGATE_ROUTE_<NAME>`: the requests it matches, their target and policy.
package struct RouteRule: Sendable {
    /// Name in lower case.
    package var name: String
    /// Method names as sent; empty for all.
    package var methods: [String]
    /// Without port, in any case; nil for every host.
    package var host: String?
    /// Begins with a slash; without the `*`.
    package var path: String
    /// Whether the path ended in `*`.
    package var isPrefix: Bool
    package var target: RouteTarget
    package var auth: AuthMode
    /// Minimum tier.
    package var tier: Tier?
    /// All must admit a request; at most `LimitCharge.capacity`.
    package var limits: [LimitPolicy]
    /// Subject of limits that do not name one.
    package var limitBy: LimitBy
    /// All are required.
    package var claims: [ClaimRequirement]
    /// All are required of the token, or of the tier of an own one (`scope=`).
    package var scopes: [String]
    /// Whose requests are refused by their address (`deny-from=`), and whose alone are not (`allow-from=`); nil: no list.
    package var denyFrom: NetworkList?
    package var allowFrom: NetworkList?
    /// The resource that it belongs to: then only tokens for that are valid.
    package var resource: ProtectedResource?
    /// All are required of the account.
    package var attributes: [AttributeRequirement]
    /// The attributes that the upstream gets (`forward-attributes=`).
    package var forwardedAttributes: [AttributeName]
    /// Whether the upstream gets the merges that it has not confirmed (`merge=announce`).
    package var announcesMerges: Bool
    /// How long ago the sign-in may be, in seconds, 1 or more; nil for any time (`max-age=`).
    package var maxAgeSeconds: UInt32?
    /// How long ago the session may have proven the second factor, in seconds, 1 or more; nil for any time, or never (`factor=`).
    package var factorSeconds: UInt32?
    /// The tier from which on users must have proven it (`TOLLGATE_FACTOR`).
    package var factorTier: Tier?
    /// Whether the upstream gets the identity as a JWT, too (`identity=signed`).
    package var signsIdentity: Bool
    /// Whether the upstream gets the bearer (`forward=authorization`).
    package var forwardsAuthorization: Bool
    /// Whether the upstream also gets unverified emails, and which are verified (`forward=email`).
    package var forwardsEmail: Bool
    /// Whether the upstream also gets the user's name (`forward=name`).
    package var forwardsName: Bool
    /// Client fields that are forwarded although they are removed by default (`keep=`).
    package var keptFields: KeptFields
    /// Fields that requests and answers gain and lose.
    package var requestFields = FieldChanges()
    package var answerFields = FieldChanges()
    /// The part of the requests that goes to another upstream (`split=`), by whom it is chosen, and what must hold of it.
    package var split: RouteSplit?
    package var splitBy = RouteSplit.Subject.user
    package var splitWhen: [SplitCondition] = []
    /// Counts how often the split side fails (`split-guard=`); nil for no guard.
    package var splitGuard: SplitWatch?
    /// The upstream that gets copies of some requests (`mirror=`), whose answers are dropped.
    package var mirror: RouteSplit?
    /// Prefix to remove from the path, at a segment's end.
    package var strip: String?
    package var timeoutMilliseconds: UInt32?
    /// Maximum request content in bytes.
    package var bodyLimit: UInt64
    package var retries: UInt8?
    package var errors: Dialect
    /// Whether refusals have the format of the contract that issued the caller's token, if it is known; an endpoint for all contracts.
    package var errorsAreOfToken: Bool
    package var encodedSlashPasses: Bool
    /// Whether the upstream tells paths apart by case, last slash and blanks at the end (`paths=exact` of the upstream).
    package var upstreamPathsAreExact: Bool
    /// Whether requests go to the upstream over HTTP/2 (`http2=on` of the upstream).
    package var upstreamSpeaksHTTP2: Bool
    package var shadow: ShadowSet
    /// Tier filters of JSON answers; at most `FilterPlan.capacity`.
    package var filters: [FilterPath]
    /// Refuses answers with a body that is not JSON (`filter-strict=on`).
    package var filterIsStrict: Bool
    /// The rule for elements without the field (`filter-unlabelled=`).
    package var unlabelled: UnlabelledRule
    package var compression: CompressionRule
    /// The policy for pages of other origins (`cors=`); nil leaves CORS to the upstream.
    package var cors: CORSRule?
    package var streams: StreamRule
    package var cache: CacheRule
    /// Whether WebSocket handshakes pass (`websocket=on`).
    package var takesWebSockets: Bool
    /// WebSockets that one subject of `limitBy` may hold open on one gateway; nil for any number (`websocket-max=`).
    package var maxWebSockets: UInt32?
    /// An endpoint of the gateway: also matches its path with a trailing slash, and refuses other methods even if a wider
    /// route would match. Not for prefixes.
    package var isEndpoint: Bool
    /// A document of the gateway that is the same for every caller, so the bearer is not read. All other local targets
    /// refuse actors, even without required authentication.
    package var isDocument: Bool
    /// While any of these is in force, the route is closed.
    package var maintenance: [Maintenance] = []
    /// When the route ends (`sunset=`), since when it is deprecated (`deprecated=`), and the page that says why (`sunset-link=`).
    package var sunset: WallTime?
    package var deprecated: WallTime?
    package var sunsetLink: String?
    package var app = AppMode.off
    package var proof = ProofMode.bound
    package var attestation: AttestationRule?

    /// A rule with the defaults of the settings.
    package init(
        name: String, methods: [String] = [], host: String? = nil, path: String, isPrefix: Bool, target: RouteTarget,
        auth: AuthMode = .required
    ) {
        self.name = name
        self.methods = methods
        self.host = host
        self.path = path
        self.isPrefix = isPrefix
        self.target = target
        self.auth = auth
        tier = nil
        limits = []
        limitBy = .user
        claims = []
        scopes = []
        attributes = []
        forwardedAttributes = []
        announcesMerges = false
        maxAgeSeconds = nil
        signsIdentity = false
        forwardsAuthorization = false
        forwardsEmail = false
        forwardsName = false
        keptFields = []
        strip = nil
        timeoutMilliseconds = nil
        bodyLimit = 10 << 20
        retries = nil
        errors = Dialect(.password)
        errorsAreOfToken = false
        encodedSlashPasses = false
        upstreamPathsAreExact = false
        upstreamSpeaksHTTP2 = false
        shadow = []
        filters = []
        filterIsStrict = true
        unlabelled = .byForm
        compression = CompressionRule()
        cors = nil
        streams = StreamRule()
        cache = CacheRule()
        takesWebSockets = false
        maxWebSockets = nil
        isEndpoint = false
        isDocument = false
    }

    /// `METHODS HOST/PATH*`, as in the settings.
    package var pattern: String {
        let methods = methods.isEmpty ? "" : methods.joined(separator: ",") + " "
        return "\(methods)\(host ?? "")\(path)\(isPrefix ? "*" : "")"
    }

    /// How many limits it may have: an API key may bring one of its own.
    package var mostLimits: Int { auth.takesKeys ? LimitCharge.capacity - 1 : LimitCharge.capacity }

    /// Name of limit `index` in answers and logs: the route's name, then `NAME.2`, `NAME.3` and so on.
    package func limitName(_ index: Int) -> String { index == 0 ? name : "\(name).\(index + 1)" }

    /// The distinct claim requirements of `rules`, which their `Trust` must be made with.
    package static func requirements(of rules: [RouteRule]) -> [ClaimRequirement] {
        var seen: Set<ClaimRequirement> = []
        return rules.flatMap(\.claims).filter { seen.insert($0).inserted }
    }

    /// The distinct scopes of `rules`, likewise.
    package static func scopes(of rules: [RouteRule]) -> [String] {
        var seen: Set<String> = []
        return rules.flatMap(\.scopes).filter { seen.insert($0).inserted }
    }
}
