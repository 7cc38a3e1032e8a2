import Credentials

/// The tier and the scopes that routes ask for (`tier=`, `scope=`).
extension Admission {
    func holds(_ tier: Tier, _ gate: RouteGate, _ decision: inout Decision) -> Bool {
        if let own = decision.tier, own >= tier { return true }
        if gate.shadow.contains(.tier) {
            decision.shadowed.insert(.tier)
            return true
        }
        guard decision.identity != nil else { return refuseAnonymous(&decision) }
        guard decision.tier != nil else { return refuseUnknownTier(&decision) }
        decision.refuse(.premiumRequired, .refused, .tier)
        return false
    }

    func refuseAnonymous(_ decision: inout Decision) -> Bool {
        decision.refuse(.unauthorized(.missing), .refused, .missing)
        return false
    }

    /// Whether the caller has the scopes of the route: an own user and an API key those of the tier as it is now, others those of their token.
    func holdsScopes(_ gate: RouteGate, _ decision: inout Decision) -> Bool {
        guard let identity = decision.identity else { return refuseAnonymous(&decision) }
        var held = identity.scopes
        if identity.isOwn || identity.apiKey != nil {
            guard let tier = decision.tier else { return refuseUnknownTier(&decision) }
            held = policy.scopes(of: tier)
        }
        if held & gate.scopes == gate.scopes { return true }
        decision.refuse(.forbidden(.scope), .refused, .scope)
        return false
    }
}

extension Policy {
    /// The scopes of own users of a tier, as bits of the trust.
    func scopes(of tier: Tier) -> UInt64 {
        Int(tier.rawValue) < scopesOfTiers.count ? scopesOfTiers[Int(tier.rawValue)] : 0
    }
}

extension RouteGate {
    /// The scopes of a rule, as bits of the trust.
    static func scopes(_ rule: RouteRule, _ trust: Trust) throws(RouteFault) -> UInt64 {
        if let scope = rule.scopes.first(where: { !trust.scopes.contains($0) }) { throw .unknownRequirement(rule.name, claim: scope) }
        return AttributeTable.bits(rule.scopes, in: trust.scopes)
    }
}

extension Explanation {
    static func scopes(_ note: borrowing DecisionRecord, _ rule: RouteRule, _ policy: Policy) -> String {
        let needed = "\(rule.scopes.joined(separator: " ")) is needed"
        guard note.issuerIndex >= 0, note.auth == .accepted || note.authReason == .scope else { return needed }
        let holder = policy.trust.issuers[Int(note.issuerIndex)].isOwn || note.algorithm == nil ? "the tier" : "the token"
        return note.authReason == .scope ? "\(needed), and \(holder) does not give it" : "\(needed), and \(holder) gives it"
    }
}
