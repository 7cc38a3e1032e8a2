import Credentials

/// The scopes that routes ask for (`scope=`).
extension Admission {
    /// Whether the caller has the scopes of the route: an own user those of the tier as it is now, others those of their token.
    func holdsScopes(_ gate: RouteGate, _ decision: inout Decision) -> Bool {
        guard let identity = decision.identity else { return refuseAnonymous(&decision) }
        var held = identity.scopes
        if identity.isOwn {
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
        let holder = policy.trust.issuers[Int(note.issuerIndex)].isOwn ? "the tier" : "the token"
        return note.authReason == .scope ? "\(needed), and \(holder) does not give it" : "\(needed), and \(holder) gives it"
    }
}
