package import Credentials
package import Wire

/// Everything that decisions depend on besides the request, the time and the counts: an immutable snapshot. A reload
/// makes a new one; a request sees one from start to end.
package final class Policy: Sendable {
    /// Grows with every reload; for logs.
    package let version: Int
    package let tiers: TierList
    package let table: RouteTable
    package let trust: Trust
    /// Whose forwarding fields are believed.
    package let trustedProxies: [CIDR]
    package let internals: [InternalCaller]
    package let realm: String
    package let upgradeURL: String?
    /// How a refusal looks that no route has a say in.
    package let dialect: Dialect
    /// Whether there are accounts, whose tiers count in place of what own tokens claim.
    package let hasAccounts: Bool
    /// The outside issuers whose expired tokens can be refreshed, by name.
    package let refreshers: Set<String>

    package var rules: [RouteRule] { table.rules }

    /// What Admission needs of each rule, in their order.
    let gates: [RouteGate]
    /// Of each rule, the filters of its answers.
    let filters: [FilterPlan?]
    /// Canonical prefixes without their last slash; sliced by the gates.
    let texts: [UInt8]
    /// Header lines of each tier for the upstream; in the texts.
    let tierLines: [Slice]
    /// The realm as the inside of a quoted-string.
    let realmText: [UInt8]

    package init(
        version: Int = 1, tiers: TierList = .standard, rules: [RouteRule], trust: Trust, trustedProxies: [CIDR] = [],
        internals: [InternalCaller] = [], realm: String = "tollgate", upgradeURL: String? = nil,
        dialect: Dialect = .problem, hasAccounts: Bool = false, refreshers: Set<String> = []
    ) throws(RouteFault) {
        self.version = version
        self.tiers = tiers
        table = try RouteTable(rules)
        self.trust = trust
        self.trustedProxies = trustedProxies
        self.internals = internals
        self.realm = realm
        self.upgradeURL = upgradeURL
        self.dialect = dialect
        self.hasAccounts = hasAccounts
        self.refreshers = refreshers
        var gates: [RouteGate] = []
        var texts: [UInt8] = []
        for rule in rules { gates.append(try RouteGate(rule, trust: trust, texts: &texts)) }
        self.gates = gates
        filters = rules.map { FilterPlan($0, tiers: tiers) }
        tierLines = tiers.names.indices.map { tier in
            let lines = IdentityHeaders.tierFields(Tier(rawValue: UInt8(tier)), tiers)
            texts += lines
            return Slice(start: texts.count - lines.count, count: lines.count)
        }
        self.texts = texts
        realmText = Self.quoted(realm)
    }

    /// The same policy with other keys, after a key set was fetched.
    package func replacing(trust: Trust, version: Int) throws(RouteFault) -> Policy {
        try Policy(
            version: version, tiers: tiers, rules: rules, trust: trust, trustedProxies: trustedProxies,
            internals: internals, realm: realm, upgradeURL: upgradeURL, dialect: dialect, hasAccounts: hasAccounts,
            refreshers: refreshers)
    }

    /// Quotes and backslashes escaped (RFC 9110 §5.6.4); what a header cannot hold is left out.
    private static func quoted(_ text: String) -> [UInt8] {
        var out: [UInt8] = []
        for byte in text.utf8 where byte >= 0x20 && byte != 0x7F {
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { out.append(UInt8(ascii: "\\")) }
            out.append(byte)
        }
        return out
    }

    /// The keys that count, each under its issuer.
    var liveKeys: Set<IssuerKey> {
        var live: Set<IssuerKey> = []
        for (index, issuer) in trust.issuers.enumerated() {
            for key in issuer.keys?.keys ?? [] { live.insert(IssuerKey(issuer: Int32(index), serial: key.serial)) }
        }
        return live
    }

    /// Whether a token that `other` accepted means the same here, given that its key still counts.
    func readsTokens(like other: Policy) -> Bool {
        tiers == other.tiers && trust.hasSameRules(as: other.trust)
    }
}

/// What a route asks, without a pointer: to read one costs no reference count.
struct RouteGate: Sendable {
    let target: RouteTarget
    let auth: AuthMode
    /// Whether own tokens with an actor are refused.
    let refusesActors: Bool
    let tier: Tier?
    /// Requirements that must hold, as in `VerifiedToken.requirementMask`.
    let claims: UInt64
    let hasLimit: Bool
    let forwardsAuthorization: Bool
    let forwardsEmail: Bool
    let keptFields: KeptFields
    let encodedSlashPasses: Bool
    /// In the policy's texts; empty: nothing is stripped.
    let strip: Slice
    let bodyLimit: UInt64
    let timeoutMilliseconds: UInt64?
    let retries: Int?
    let shadow: ShadowSet
    let keepsStreams: Bool
    let dialect: Dialect

    init(_ rule: RouteRule, trust: Trust, texts: inout [UInt8]) throws(RouteFault) {
        let looksAtIdentity = rule.tier != nil || !rule.claims.isEmpty || !rule.filters.isEmpty
        if rule.auth == .none && looksAtIdentity { throw .identityNeeded(rule.name) }
        target = rule.target
        auth = rule.auth
        refusesActors = rule.target.isLocal && !rule.isDocument
        tier = rule.tier
        claims = try Self.mask(rule, trust)
        guard rule.limits.count <= LimitCharge.capacity else { throw .tooManyLimits(rule.name) }
        hasLimit = !rule.limits.isEmpty
        // With auth=none nobody here has looked at it, so it is not ours to take away.
        forwardsAuthorization = rule.forwardsAuthorization || rule.auth == .none
        forwardsEmail = rule.forwardsEmail
        keptFields = rule.keptFields
        encodedSlashPasses = rule.encodedSlashPasses
        let prefix = try Self.strip(rule)
        strip = Slice(start: texts.count, count: prefix.count)
        texts += prefix
        bodyLimit = rule.bodyLimit
        timeoutMilliseconds = rule.timeoutMilliseconds.map(UInt64.init)
        retries = rule.retries.map(Int.init)
        shadow = rule.shadow
        keepsStreams = rule.keepsStreams
        dialect = rule.errors
    }

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
        return path
    }
}

extension FilterPlan {
    /// The filters of a route; nil if it has none.
    convenience init?(_ rule: RouteRule, tiers: TierList) {
        guard !rule.filters.isEmpty else { return nil }
        self.init(
            rule.filters, tiers: tiers, isStrict: rule.filterIsStrict, requiresField: rule.filterRequiresField,
            isShadow: rule.shadow.contains(.filter))
    }
}
