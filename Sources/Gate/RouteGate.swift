import Credentials
import Wire

/// A compiled rule, without references, so that reading one does not touch a reference count.
struct RouteGate: Sendable {
    let target: RouteTarget
    let auth: AuthMode
    let takesKeys: Bool
    /// Whether own tokens with an actor are refused.
    let refusesActors: Bool
    let proof: ProofMode
    let tier: Tier?
    /// How many seconds ago the sign-in may be at most; 0 for any time.
    let maxAge: UInt32
    /// How many seconds ago the second factor may have been proven at most; 0 for any time, or never.
    let factorAge: UInt32
    /// From which tier on it must have been proven at all.
    let factorTier: Tier?
    /// Whether it looks at the age of the sign-in or at the factor.
    let stepsUp: Bool
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
    var mayHideStricterRoute = false
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
            || rule.factorSeconds != nil || !rule.scopes.isEmpty || !rule.attributes.isEmpty || !rule.forwardedAttributes.isEmpty
            || rule.announcesMerges || rule.proof == .required
        if rule.auth == .none && looksAtIdentity { throw .identityNeeded(rule.name) }
        target = rule.target
        auth = rule.auth
        takesKeys = rule.auth.takesKeys && trust.issuers.contains { $0.name == TrustedIssuer.apiKeys.name }
        refusesActors = rule.target.isLocal && !rule.isDocument
        proof = rule.proof
        tier = rule.tier
        maxAge = rule.maxAgeSeconds ?? 0
        factorAge = rule.factorSeconds ?? 0
        factorTier = rule.factorTier
        stepsUp = maxAge != 0 || factorAge != 0 || factorTier != nil
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
        // A proof goes with the token that it is for.
        keptFields = forwardsAuthorization ? rule.keptFields.union(.deviceProof) : rule.keptFields
        changesFields = rule.auth.takesKeys || rule.attestation != nil || !rule.requestFields.isEmpty || !rule.allAnswerFields.isEmpty
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
