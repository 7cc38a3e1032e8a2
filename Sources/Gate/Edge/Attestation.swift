import Credentials
import HTTP
import Wire

/// The attestation that a route asks for (`attest=`): a token of another issuer, such as Firebase App Check, which says that the request
/// comes from a genuine app.
package struct AttestationRule: Hashable, Sendable {
    /// That of its line, in lower case.
    package var name: String
    /// The request field that brings it, which no upstream gets.
    package var field: String
    /// Whether a token counts once, over all gateways.
    package var isOnce: Bool

    package init(name: String, field: String = "", isOnce: Bool = false) { (self.name, self.field, self.isOnce) = (name, field, isOnce) }

    /// The name of its issuer in the trust.
    package var issuerName: String { Self.issuerName(name) }
    package static func issuerName(_ name: String) -> String { "attest-\(name)" }
}

/// The rule of a route with the place of its issuer in the trust; -1 for one that is not there, by which no request passes.
struct AttestationPlan: Sendable {
    let rule: AttestationRule
    let issuer: Int
    let isShadowed: Bool

    init?(_ rule: RouteRule, _ trust: Trust) {
        guard let attestation = rule.attestation else { return nil }
        self.rule = attestation
        issuer = trust.issuers.firstIndex { $0.use == .attestation && $0.name == attestation.issuerName } ?? -1
        isShadowed = rule.shadow.contains(.attestation)
    }
}

/// The attestations that hold, and those with a bad signature: apart from bearers, so that neither passes for the other.
struct Attestations: ~Copyable {
    private var cache: TokenCache
    private var refused = RefusedTokens(hash: .random())
    /// Scratch: the fields of an identity that no upstream gets.
    private var lines = FieldEdits()

    init(capacity: Int) { cache = TokenCache(capacity: capacity, hash: .random()) }

    /// Another policy is in force; `ended`: the keys that it no longer has, nil if other rules hold.
    mutating func adopt(_ ended: Set<IssuerKey>?) {
        if let ended { cache.drop(ended) } else { cache.removeAll() }
        refused.removeAll()
    }

    /// Verifies a token by the issuer with this index. The identity's session is what counts once.
    mutating func verify(
        _ token: RawSpan, by issuer: Int, _ verifier: inout TokenVerifier, _ policy: Policy, _ hash: KeyedHash, at now: WallTime
    ) -> Result<Identity, TokenFault> {
        let entry = cache.lookup(token, at: now.seconds)
        if entry >= 0, Int(cache.identity(entry).issuerIndex) == issuer { return .success(cache.identity(entry)) }
        let key = refused.key(of: token, asked: issuer)
        if refused.find(key) != nil { return .failure(.badSignature) }
        switch verifier.verify(token, trust: policy.trust, now: now, attestationBy: issuer) {
        case .success(let verified):
            lines.removeAll()
            let identity = Identity(verified, token, trust: policy.trust, tiers: policy.tiers, hash: hash, edits: &lines)
            guard var identity else { return .failure(.unsafeClaim) }
            let trusted = policy.trust.issuers[issuer]
            identity.session = LimitSubject.attestation(verified, token, issuer: trusted.issuer ?? trusted.name, hash)
            cache.insert(token, identity, key: RawSpan(), fields: RawSpan(), at: now.seconds)
            return .success(identity)
        case .failure(let fault):
            if fault == .badSignature, let algorithm = verifier.lastAlgorithm { refused.insert(key, algorithm) }
            return .failure(fault)
        }
    }
}

extension Admission {
    /// Whether the request brings the attestation that the route asks for. A token whose issuer's keys were never fetched is 503, unless
    /// shadow mode lets it pass.
    mutating func isAttested(
        _ plan: AttestationPlan, _ head: borrowing RequestHead, _ bytes: RawSpan, _ now: WallTime, _ decision: inout Decision
    ) -> Bool {
        var refusal = Refusal.attestationRequired()
        decision.attestation = .missing
        if let slice = VersionGate.sole(plan.rule.field, head, bytes), !slice.isEmpty {
            let fault: TokenFault
            switch attestations.verify(bytes[slice], by: plan.issuer, &verifier, policy, hash, at: now) {
            case .success(let identity):
                decision.attestation = AuthReason.none
                if plan.rule.isOnce { useOnce(identity, plan.isShadowed, now, &decision) }
                return true
            case .failure(let found): fault = found
            }
            decision.attestation = AuthReason(fault)
            decision.effects.keysWanted = fault.issuerWithoutKeys ?? fault.issuerOfUnknownKey
            if fault.issuerWithoutKeys != nil { refusal = .unavailable(.attestationKeys, retryAfterSeconds: Self.keysRetrySeconds) }
        }
        guard !plan.isShadowed else {
            decision.shadowed.insert(.attestation)
            return true
        }
        decision.refuse(refusal)
        return false
    }

    private func useOnce(_ attested: Identity, _ isShadowed: Bool, _ now: WallTime, _ decision: inout Decision) {
        decision.attestationUse = LimitCharge.Item(
            key: attested.session,
            rate: .attestation(until: attested.expiresAt, at: now, skewSeconds: policy.trust.clockSkewSeconds), subject: .attestation,
            tag: attested.session.tag)
        if isShadowed { decision.watchesUse = true } else { decision.singles.insert(.attestation) }
    }
}
