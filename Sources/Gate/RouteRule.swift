package import Credentials

/// What a route asks of a caller's identity (`auth=`).
package enum AuthMode: UInt8, Sendable, CaseIterable {
    /// A valid bearer token.
    case required
    /// Nobody or a valid bearer; a bad one is still refused.
    case optional
    /// Identity is not looked at.
    case none
    /// A matching internal caller; a bearer is verified if there is one.
    case `internal`

    package init?(name: String) {
        guard let mode = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = mode
    }

    package var name: String {
        switch self {
        case .required: "required"
        case .optional: "optional"
        case .none: "none"
        case .internal: "internal"
        }
    }
}

/// Where a route's requests go.
package enum RouteTarget: Equatable, Sendable {
    /// Index of an upstream, counted by whoever made the rules.
    case upstream(Int)
    /// An endpoint of the gateway itself, by a number that the proxy knows.
    case local(UInt16)

    var isLocal: Bool {
        switch self {
        case .upstream: false
        case .local: true
        }
    }
}

/// Which decisions of a route are only made, counted and logged (`shadow=`).
package struct ShadowSet: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let limit = Self(rawValue: 1)
    package static let tier = Self(rawValue: 2)
    package static let filter = Self(rawValue: 4)
}

/// One `TOLLGATE_ROUTE_<NAME>`: which requests it takes, where they go, under which policy.
package struct RouteRule: Sendable {
    /// The route's name in lower case.
    package var name: String
    /// Method names as they are sent; empty: all.
    package var methods: [String]
    /// Without port, in any case; nil: every host.
    package var host: String?
    /// Begins with a slash; without the `*`.
    package var path: String
    /// Whether the path ended in `*`.
    package var isPrefix: Bool
    package var target: RouteTarget
    package var auth: AuthMode
    /// The lowest tier that may pass.
    package var tier: Tier?
    /// All must admit a request; at most `LimitCharge.capacity`.
    package var limits: [LimitPolicy]
    /// Whom a limit counts that does not say so itself.
    package var limitBy: LimitBy
    /// All must hold.
    package var claims: [ClaimRequirement]
    /// Whether the upstream gets the bearer (`forward=authorization`).
    package var forwardsAuthorization: Bool
    /// Whether the upstream is told of emails that are not proven too, and which are (`forward=email`).
    package var forwardsEmail: Bool
    /// Fields that reach the upstream although a client sent them (`keep=`).
    package var keptFields: KeptFields
    /// Removed from the start of the path, at a segment's end.
    package var strip: String?
    package var timeoutMilliseconds: UInt32?
    /// Bytes of request content at most.
    package var bodyLimit: UInt64
    package var retries: UInt8?
    package var errors: Dialect
    package var encodedSlashPasses: Bool
    package var shadow: ShadowSet
    /// What callers receive of JSON answers is judged by these; at most `FilterPlan.capacity`.
    package var filters: [FilterPath]
    /// Answers with a body that is not JSON are refused (`filter-strict=on`).
    package var filterIsStrict: Bool
    /// Elements without the field leave too (`filter-require=on`).
    package var filterRequiresField: Bool
    /// Whether a long answer goes on although the token that opened it has expired or its session has ended.
    package var keepsStreams: Bool
    /// An endpoint of the gateway itself: it takes its path with a slash behind it too, and another method is refused
    /// there although a wider route might take it. Not for prefixes.
    package var isEndpoint: Bool
    /// A document of the gateway itself that says the same to everybody: a bearer is not looked at. Everything else that
    /// the gateway answers itself is closed to actors, also where it asks for no bearer.
    package var isDocument: Bool

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
        forwardsAuthorization = false
        forwardsEmail = false
        keptFields = []
        strip = nil
        timeoutMilliseconds = nil
        bodyLimit = 10 << 20
        retries = nil
        errors = .password
        encodedSlashPasses = false
        shadow = []
        filters = []
        filterIsStrict = true
        filterRequiresField = false
        keepsStreams = false
        isEndpoint = false
        isDocument = false
    }

    /// `METHODS HOST/PATH*` as it stands in the settings.
    package var pattern: String {
        let methods = methods.isEmpty ? "" : methods.joined(separator: ",") + " "
        return "\(methods)\(host ?? "")\(path)\(isPrefix ? "*" : "")"
    }

    /// What answers and logs call limit `index`: the first by the route's name, the others `NAME.2`, `NAME.3` and so on.
    package func limitName(_ index: Int) -> String { index == 0 ? name : "\(name).\(index + 1)" }

    /// The claim requirements of all `rules`, each once: what the trust that serves them must be made with.
    package static func requirements(of rules: [RouteRule]) -> [ClaimRequirement] {
        var seen: Set<ClaimRequirement> = []
        return rules.flatMap(\.claims).filter { seen.insert($0).inserted }
    }
}
