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
    /// Refuses requests by their address, whatever their route; nil if no list does.
    let addresses: AddressRule?
    /// Names of the external issuers whose expired tokens can be refreshed.
    package let refreshers: Set<String>
    /// The source of the tiers of each issuer's users, by its index in `trust`.
    package let tierSources: [TierSource]
    /// Signs the identities of `identity=signed`; nil without a key that upstreams can verify by.
    package let identitySigner: IdentitySigner?
    /// The secret from which the nonces of proofs are made, the same at all gateways; nil where proofs need none.
    let nonceSecret: [UInt8]?

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
    /// `TOLLGATE_PUBLIC_URL` without a slash at its end; empty if unknown.
    let publicURL: [UInt8]

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
    /// The scopes that own users of each tier have, by its rank, as bits of `trust.scopes`.
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
        appHash: KeyedHash = .random(), denyFrom: NetworkList? = nil, networks: [NetworkList: NetworkSet] = [:],
        nonceSecret: [UInt8]? = nil,
        publicURL: String = ""
    ) throws(RouteFault) {
        self.version = version
        self.contractBases = contractBases.sorted { $0.path.count > $1.path.count }
        self.tiers = tiers
        table = try RouteTable(rules)
        self.trust = trust
        self.trustedProxies = trustedProxies
        self.denyFrom = denyFrom
        addresses = AddressRule(denying: denyFrom, networks)
        self.internals = internals
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
        self.nonceSecret = nonceSecret
        keyIssuer = trust.issuers.firstIndex { $0.name == TrustedIssuer.apiKeys.name } ?? -1
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
                policy.requestFields += rule.askedFields(versionGates)
                number = policies.firstIndex(of: policy) ?? policies.count
                if number == policies.count { policies.append(policy) }
            }
            var gate = try RouteGate(rule, corsNumber: number, trust: trust, attributes, texts: &texts)
            gate.mayHideStricterRoute = !rule.target.isLocal && !rule.upstreamPathsAreExact && foldedRoutes?.mayHide(behind: index) == true
            gates.append(gate)
        }
        self.cors = policies.map(CORSGate.init)
        self.ownOrigin = Array((ownOrigin ?? "").utf8)
        self.publicURL = Array((publicURL.hasSuffix("/") ? publicURL.dropLast() : publicURL[...]).utf8)
        self.gates = gates
        hasCache = gates.contains(where: \.isCached)
        cachesStagedAnswers = gates.contains { $0.isCached && $0.hasStages }
        let table = attributes
        plans = rules.map { RoutePlan($0, tiers: tiers, trust, table, networks) }
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
        addresses = other.addresses
        internals = other.internals
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
        nonceSecret = other.nonceSecret
        cors = other.cors
        defaultCORS = other.defaultCORS
        ownOrigin = other.ownOrigin
        publicURL = other.publicURL
        self.limits = limits
        original = other
        gates = other.gates
        hasCache = other.hasCache
        cachesStagedAnswers = other.cachesStagedAnswers
        plans = other.plans
        attributes = other.attributes
        self.texts = texts
        keyIssuer = other.keyIssuer
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

    /// Whether any route is cached.
    let hasCache: Bool
    /// Whether a route is cached whose answers may go through stages.
    package let cachesStagedAnswers: Bool

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
