package import Credentials
package import Wire

/// Immutable snapshot of the configuration that decisions depend on. A reload makes a new one; a request uses one from start
/// to end.
package final class Policy: Sendable {
    /// Increases with every reload; for logs.
    package let version: Int
    package let tiers: TierList
    package let table: RouteTable
    package let trust: Trust
    /// Proxies whose forwarding fields are trusted.
    package let trustedProxies: [CIDR]
    package let internals: [InternalCaller]
    package let realm: String
    /// Where to upgrade, as the member of a refusal.
    package let upgrade: [Envelope.Extra]
    package let envelopes: Envelopes
    /// The floors for versions of apps, in the order in which they are asked for a request; at most `VersionGate.capacity`.
    package let versionGates: [VersionGate]
    /// Hashes versions and clients for the census, in the same way at all gateways that share it.
    let appHash: KeyedHash
    /// The rendered field of each that tells of an update.
    let updateLines: [[UInt8]]
    /// Error format of refusals without a route.
    package let dialect: Dialect
    /// Whether accounts exist, whose tiers override the claims of own tokens.
    package let hasAccounts: Bool
    /// `TOLLGATE_DENY_FROM`; nil: no list.
    package let denyFrom: NetworkList?
    private let networks: [NetworkList: NetworkSet]
    /// Refuses requests by their address, whatever their route; nil if no list does.
    let addresses: AddressRule?
    /// Names of the external issuers whose expired tokens can be refreshed.
    package let refreshers: Set<String>
    /// The source of the tiers of each issuer's users, by its index in `trust`.
    package let tierSources: [TierSource]
    /// The scopes that own users of each tier have, by its rank; nothing for those that it leaves out.
    package let tierScopes: [[String]]
    /// Signs the identities of `identity=signed`; nil without a key that upstreams can verify by.
    package let identitySigner: IdentitySigner?

    package var rules: [RouteRule] { table.rules }
    /// The fields of all attributes that routes forward.
    package var attributeFields: [[UInt8]] { attributes.fields }

    /// The place of API keys among the issuers; -1 where no route takes any.
    let keyIssuer: Int
    /// The compiled CORS policies. Routes with equal ones share one.
    let cors: [CORSGate]
    /// The policy of answers without a route; -1 for none.
    let defaultCORS: Int
    /// The origin of `TOLLGATE_PUBLIC_URL`; empty if unknown.
    let ownOrigin: [UInt8]

    /// The base paths of contracts, the longest first.
    let contractBases: [ContractBase]

    /// The policy that this is a copy of. It is kept so that the control plane, which keeps it longer, frees what both share.
    private let original: Policy?
    /// The compiled limits; nil in a policy that no worker adopts.
    let limits: CompiledLimits?
    /// The compiled rules, by index.
    let gates: [RouteGate]
    /// Finds paths that hide a stricter rule; nil if no rule is stricter than another.
    let foldedRoutes: FoldedRoutes?
    /// Whether every path is looked up in it, also one that is in its folded form: some rules are not.
    let foldsEveryPath: Bool
    /// The compiled parts of each rule for the requests and answers that it lets through.
    let plans: [RoutePlan]
    /// The attributes that the rules look at.
    let attributes: AttributeTable
    /// Prefixes to strip and tier fields, referenced by slices.
    let texts: [UInt8]
    /// `tierScopes` as bits of `trust.scopes`, for every tier.
    let scopesOfTiers: [UInt64]
    /// Rendered fields of each tier, in `texts`.
    let tierLines: [Slice]
    /// The realm as the inside of a quoted-string.
    let realmText: [UInt8]

    package init(
        version: Int = 1, tiers: TierList = .standard, rules: [RouteRule], trust: Trust, trustedProxies: [CIDR] = [],
        internals: [InternalCaller] = [], realm: String = "tollgate", upgradeURL: String? = nil, envelopes: Envelopes = Envelopes(),
        dialect: Dialect = .problem, hasAccounts: Bool = false, refreshers: Set<String> = [],
        tierSources: [String: TierSource] = [:], identitySigner: IdentitySigner? = nil, cors: CORSRule? = nil,
        ownOrigin: String? = nil, contractBases: [ContractBase] = [], tierScopes: [[String]] = [], versionGates: [VersionGate] = [],
        appHash: KeyedHash = .random(), denyFrom: NetworkList? = nil, networks: [NetworkList: NetworkSet] = [:]
    ) throws(RouteFault) {
        self.version = version
        self.contractBases = contractBases.sorted { $0.path.count > $1.path.count }
        self.tiers = tiers
        table = try RouteTable(rules)
        self.trust = trust
        self.trustedProxies = trustedProxies
        self.denyFrom = denyFrom
        self.networks = networks
        addresses = AddressRule(denying: denyFrom, networks)
        self.internals = internals
        self.realm = realm
        upgrade = upgradeURL.map { [Envelope.Extra(name: "upgrade_url", value: $0)] } ?? []
        self.envelopes = envelopes
        self.dialect = dialect
        self.versionGates = versionGates
        self.appHash = appHash
        updateLines = versionGates.map { gate in
            Array(gate.warned.map { "X-App-Update: recommended; min=\($0.text)\r\n" }?.utf8 ?? "".utf8)
        }
        self.hasAccounts = hasAccounts
        self.refreshers = refreshers
        self.identitySigner = identitySigner
        keyIssuer = trust.issuers.firstIndex { $0.name == TrustedIssuer.apiKeys.name } ?? -1
        self.tierScopes = tierScopes
        scopesOfTiers = tiers.names.indices.map { rank in
            tierScopes.indices.contains(rank) ? AttributeTable.bits(tierScopes[rank], in: trust.scopes) : 0
        }
        self.tierSources = trust.issuers.map { issuer in
            issuer.isOwn ? (hasAccounts ? .ownAccount : .claim) : tierSources[issuer.name] ?? .claim
        }
        let foldedRoutes = try FoldedRoutes(rules)
        self.foldedRoutes = foldedRoutes
        foldsEveryPath = foldedRoutes?.hasUnfoldedRules ?? false
        attributes = try AttributeTable(rules)
        var gates: [RouteGate] = []
        var texts: [UInt8] = []
        var policies = [cors].compactMap(\.self)
        defaultCORS = policies.count - 1
        for (index, rule) in rules.enumerated() {
            var number = -1
            if var policy = rule.cors {
                policy.furtherExposed += rule.exposedFields
                number = policies.firstIndex(of: policy) ?? policies.count
                if number == policies.count { policies.append(policy) }
            }
            var gate = try RouteGate(rule, corsNumber: number, trust: trust, attributes, texts: &texts)
            gate.mayHideStricterRoute = !rule.target.isLocal && !rule.upstreamPathsAreExact && foldedRoutes?.mayHide(behind: index) == true
            gates.append(gate)
        }
        self.cors = policies.map(CORSGate.init)
        self.ownOrigin = Array((ownOrigin ?? "").utf8)
        self.gates = gates
        hasCache = gates.contains(where: \.isCached)
        let table = attributes
        plans = rules.map { RoutePlan($0, tiers: tiers, table, networks) }
        tierLines = tiers.names.indices.map { tier in
            let lines = IdentityHeaders.tierFields(Tier(rawValue: UInt8(tier)), tiers)
            texts += lines
            return Slice(start: texts.count - lines.count, count: lines.count)
        }
        self.texts = texts
        realmText = Self.quoted(realm)
        limits = nil
        original = nil
    }

    private init(
        _ other: Policy, version: Int? = nil, table: RouteTable, folded: FoldedRoutes?, texts: [UInt8], limits: CompiledLimits?
    ) {
        self.version = version ?? other.version
        contractBases = other.contractBases
        tiers = other.tiers
        self.table = table
        foldedRoutes = folded
        foldsEveryPath = other.foldsEveryPath
        trust = other.trust
        trustedProxies = other.trustedProxies
        denyFrom = other.denyFrom
        networks = other.networks
        addresses = other.addresses
        internals = other.internals
        realm = other.realm
        upgrade = other.upgrade
        envelopes = other.envelopes
        dialect = other.dialect
        versionGates = other.versionGates
        appHash = other.appHash
        updateLines = other.updateLines
        hasAccounts = other.hasAccounts
        refreshers = other.refreshers
        tierSources = other.tierSources
        identitySigner = other.identitySigner
        cors = other.cors
        defaultCORS = other.defaultCORS
        ownOrigin = other.ownOrigin
        self.limits = limits
        original = other
        gates = other.gates
        hasCache = other.hasCache
        plans = other.plans
        attributes = other.attributes
        self.texts = texts
        keyIssuer = other.keyIssuer
        tierScopes = other.tierScopes
        scopesOfTiers = other.scopesOfTiers
        tierLines = other.tierLines
        realmText = other.realmText
    }

    /// The same policy with its limits compiled for the limiter of this hash, so that no worker that adopts it has to. `version`: its
    /// number, where it is known only now.
    package convenience init(_ plain: Policy, limitsBy hash: KeyedHash, version: Int? = nil) {
        self.init(
            plain, version: version, table: plain.table, folded: plain.foldedRoutes, texts: plain.texts,
            limits: CompiledLimits(plain.rules, plain.tiers, hash))
    }

    /// The same policy for one worker alone. Requests retain and release its table, its texts and its limits: counted in objects that all
    /// workers share, each request would move their cache lines between cores.
    convenience init(unshared other: Policy) {
        // `map`, because an array would share its buffer.
        self.init(
            other, table: RouteTable(unshared: other.table), folded: other.foldedRoutes.map(FoldedRoutes.init(unshared:)),
            texts: other.texts.map { $0 }, limits: other.limits.map(CompiledLimits.init(unshared:)))
    }

    /// The policy without what workers need: for those who keep many old ones to explain decisions.
    package var plain: Policy { original?.plain ?? self }

    /// The same policy with other keys, after a key set was fetched.
    package func replacing(trust: Trust, version: Int) throws(RouteFault) -> Policy {
        let sources = zip(self.trust.issuers, tierSources).map { ($0.name, $1) }
        return try Policy(
            version: version, tiers: tiers, rules: rules, trust: trust, trustedProxies: trustedProxies,
            internals: internals, realm: realm, upgradeURL: upgrade.first?.value, envelopes: envelopes, dialect: dialect,
            hasAccounts: hasAccounts,
            refreshers: refreshers, tierSources: Dictionary(sources) { first, _ in first }, identitySigner: identitySigner,
            cors: defaultCORS < 0 ? nil : self.cors[defaultCORS].rule,
            ownOrigin: String(decoding: ownOrigin, as: UTF8.self), contractBases: contractBases, tierScopes: tierScopes,
            versionGates: versionGates, appHash: appHash, denyFrom: denyFrom, networks: networks)
    }

    /// Whether any route is cached.
    let hasCache: Bool

    /// Whether any answer has CORS fields.
    var hasCORS: Bool { !cors.isEmpty }

    /// The CORS policy of a request with this match; -1 for none.
    func corsNumber(of match: RouteMatch) -> Int {
        switch match {
        case .route(let route), .methodNotAllowed(_, by: let route): gates[route].corsNumber
        case .none: defaultCORS
        }
    }

    /// The current keys, with their issuers.
    var liveKeys: Set<IssuerKey> {
        var live: Set<IssuerKey> = []
        for (index, issuer) in trust.issuers.enumerated() {
            for key in issuer.keys?.keys ?? [] { live.insert(IssuerKey(issuer: Int32(index), serial: key.serial)) }
        }
        return live
    }

    /// Whether a token accepted under `other` means the same here, given that its key is still live.
    func readsTokens(like other: Policy) -> Bool {
        tiers == other.tiers && tierSources == other.tierSources && trust.hasSameRules(as: other.trust)
    }
}

/// A compiled rule, without references, so that reading one does not touch a reference count.
struct RouteGate: Sendable {
    let target: RouteTarget
    let auth: AuthMode
    let takesKeys: Bool
    /// Whether own tokens with an actor are refused.
    let refusesActors: Bool
    let tier: Tier?
    /// How many seconds ago the sign-in may be at most; 0 for any time.
    let maxAge: UInt32
    /// Whether the upstream gets the identity as a JWT as well.
    let signsIdentity: Bool
    /// Whether its answers are filtered by the caller's tier, beyond shadow mode.
    let filters: Bool
    /// Required claims, as bits of `VerifiedToken.requirementMask`.
    let claims: UInt64
    /// The audiences of which tokens must have one, as bits of `Identity.audiences`.
    let audiences: UInt64
    /// Required scopes, as bits of the policy's trust.
    let scopes: UInt64
    /// Whether one of the claims is an issuer's claim of the email.
    let claimsEmail: Bool
    /// Required attributes and those to forward, as bits of the policy's `AttributeTable`.
    let attributes: UInt64
    let forwardedAttributes: UInt64
    let announcesMerges: Bool
    let hasLimit: Bool
    /// Whether it refuses requests by their address.
    let hasAddressRule: Bool
    let isSplit: Bool
    let mirror: MirrorTarget?
    /// Whether its split looks at attributes of the account.
    let splitsByAttributes: Bool
    let forwardsAuthorization: Bool
    let forwardsEmail: Bool
    let forwardsName: Bool
    let keptFields: KeptFields
    /// Whether requests or answers gain or lose fields.
    let changesFields: Bool
    /// Index in `Policy.cors`; -1 for none.
    let corsNumber: Int
    let encodedSlashPasses: Bool
    let upstreamSpeaksHTTP2: Bool
    /// Whether its upstream may serve a request as one of a stricter route.
    fileprivate(set) var mayHideStricterRoute = false
    /// In the policy's texts; empty to strip nothing.
    let strip: Slice
    let bodyLimit: UInt64
    let timeoutMilliseconds: UInt64?
    let retries: Int?
    let shadow: ShadowSet
    let streams: StreamRule
    /// Whether answers to GET are cached, and for whom.
    let isCached: Bool
    /// Whether answers may go through stages.
    let hasStages: Bool
    /// Whether its plan has an `EdgePlan`.
    let hasEdge: Bool
    let cacheSharing: CacheRule.Sharing
    let takesWebSockets: Bool
    /// Of one subject; 0 for no maximum.
    let maxWebSockets: UInt32
    let dialect: Dialect
    let dialectIsOfToken: Bool

    init(_ rule: RouteRule, corsNumber: Int, trust: Trust, _ table: AttributeTable, texts: inout [UInt8]) throws(RouteFault) {
        let looksAtIdentity =
            rule.tier != nil || !rule.claims.isEmpty || !rule.filters.isEmpty || rule.maxAgeSeconds != nil || rule.signsIdentity
            || !rule.scopes.isEmpty || !rule.attributes.isEmpty || !rule.forwardedAttributes.isEmpty || rule.announcesMerges
        if rule.auth == .none && looksAtIdentity { throw .identityNeeded(rule.name) }
        target = rule.target
        auth = rule.auth
        takesKeys = rule.auth.takesKeys && trust.issuers.contains { $0.name == TrustedIssuer.apiKeys.name }
        refusesActors = rule.target.isLocal && !rule.isDocument
        tier = rule.tier
        maxAge = rule.maxAgeSeconds ?? 0
        signsIdentity = rule.signsIdentity
        filters = !rule.filters.isEmpty && !rule.shadow.contains(.filter)
        claims = try Self.mask(rule, trust)
        scopes = try Self.scopes(rule, trust)
        let resource = rule.resource.map { resource in trust.resources.firstIndex { $0.url == resource.url } }
        // A resource that the trust does not have takes no token.
        audiences = resource.map { $0.map { 1 << UInt64($0) } ?? 0 } ?? Trust.ownAudience
        claimsEmail = rule.claims.contains { claim in trust.issuers.contains { $0.emailClaim == claim.name } }
        attributes = table.required(by: rule)
        forwardedAttributes = table.forwarded(by: rule)
        announcesMerges = rule.announcesMerges
        guard rule.limits.count <= rule.mostLimits else { throw .tooManyLimits(rule.name) }
        hasLimit = !rule.limits.isEmpty
        hasAddressRule = rule.denyFrom != nil || rule.allowFrom != nil
        isSplit = rule.split != nil
        mirror = MirrorTarget(rule.mirror)
        splitsByAttributes = isSplit && !rule.splitAttributes.isEmpty
        // With auth=none the gateway does not read it, so it forwards it.
        forwardsAuthorization = rule.forwardsAuthorization || rule.auth == .none
        forwardsEmail = rule.forwardsEmail
        forwardsName = rule.forwardsName
        keptFields = rule.keptFields
        changesFields = rule.auth.takesKeys || !rule.requestFields.isEmpty || !rule.allAnswerFields.isEmpty
        self.corsNumber = corsNumber
        encodedSlashPasses = rule.encodedSlashPasses
        upstreamSpeaksHTTP2 = rule.upstreamSpeaksHTTP2
        let prefix = try Self.strip(rule)
        strip = Slice(start: texts.count, count: prefix.count)
        texts += prefix
        bodyLimit = rule.bodyLimit
        timeoutMilliseconds = rule.timeoutMilliseconds.map(UInt64.init)
        retries = rule.retries.map(Int.init)
        shadow = rule.shadow
        streams = rule.streams
        isCached = rule.cache.freshSeconds != nil && !rule.target.isLocal
        hasEdge = rule.hasEdge
        hasStages = !rule.filters.isEmpty || rule.compression.mode == .on
        cacheSharing = rule.cache.sharing
        takesWebSockets = rule.takesWebSockets
        maxWebSockets = rule.maxWebSockets ?? 0
        dialect = rule.errors
        dialectIsOfToken = rule.errorsAreOfToken
    }

    /// Whether a request needs the details of its account.
    var looksAtAccount: Bool { attributes | forwardedAttributes != 0 || announcesMerges || splitsByAttributes }

    private static func mask(_ rule: RouteRule, _ trust: Trust) throws(RouteFault) -> UInt64 {
        var mask: UInt64 = 0
        for claim in rule.claims {
            guard let bit = trust.requirements.firstIndex(of: claim) else {
                throw .unknownRequirement(rule.name, claim: claim.name)
            }
            mask |= 1 << UInt64(bit)
        }
        return mask
    }

    private static func strip(_ rule: RouteRule) throws(RouteFault) -> [UInt8] {
        guard let strip = rule.strip else { return [] }
        var out = ByteBuffer()
        let outcome = strip.withRawBytes { CanonicalPath.canonicalise($0, into: &out, encodedSlash: .refuse) }
        var path: [UInt8]
        switch outcome {
        case .same: path = Array(strip.utf8)
        case .rewritten: path = out.readable.array
        case .refused: throw .badStrip(rule.name, strip)
        }
        while path.last == UInt8(ascii: "/") { path.removeLast() }
        guard let pattern = PathPattern(path) else { throw .badStrip(rule.name, strip) }
        return pattern.bytes
    }
}
