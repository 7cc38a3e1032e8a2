import Credentials
package import HTTP
import Wire

/// One request's way through the policy, for people: each step and the verdict. Told from the decision that was made,
/// so it cannot say anything else than what happened.
package struct Explanation: Sendable, Equatable {
    package struct Step: Sendable, Equatable {
        /// `client`, `path`, `route`, `caller`, `identity`, `tier`, `size`, `limit` or `verdict`.
        package let name: String
        package let text: String
    }

    package private(set) var steps: [Step] = []
    /// 0 if the request passes.
    package let status: UInt16
    /// The refusal's code; nil if the request passes.
    package let code: String?

    /// Tells how `decision`, made by `policy`, came about for this request.
    package init(_ decision: borrowing Decision, _ head: borrowing RequestHead, _ bytes: RawSpan, policy: Policy) {
        let refusal = decision.refusal
        status = refusal?.status ?? 0
        code = refusal.map { "\($0.code.text)" }
        add("client", Self.client(decision))
        add("path", Self.path(decision, bytes[head.path]))
        tellRoute(decision, policy)
        tellVerdict(decision, policy)
    }

    /// The steps from the route on, as far as the request came.
    private mutating func tellRoute(_ decision: borrowing Decision, _ policy: Policy) {
        let refusal = decision.refusal
        if case .badRequest(.path) = refusal { return }
        guard decision.routeIndex >= 0 else {
            return add("route", refusal?.code == .methodNotAllowed ? "none for this method" : "none")
        }
        let rule = policy.rules[decision.routeIndex]
        add("route", "\(rule.name): \(rule.pattern), auth=\(rule.auth.name)")
        if rule.auth == .internal { add("caller", Self.caller(decision, policy)) }
        if refusal != .forbidden(.caller) { add("identity", Self.identity(decision, policy)) }
        if let tier = rule.tier { add("tier", Self.tier(decision, policy, needed: tier)) }
        if refusal == .payloadTooLarge { add("size", "the content is larger than \(rule.bodyLimit) bytes") }
        for index in rule.limits.indices { add("limit", Self.limit(decision, rule, index)) }
    }

    private mutating func add(_ name: String, _ text: String) { steps.append(Step(name: name, text: text)) }

    private mutating func tellVerdict(_ decision: borrowing Decision, _ policy: Policy) {
        switch decision.verdict {
        case .forward(let upstream): add("verdict", "passes, to upstream \(upstream)")
        case .local: add("verdict", "passes, to the gateway's own endpoint \(policy.rules[decision.routeIndex].name)")
        case .lookUp: add("verdict", "waits for the standing of user \(decision.userID.text)")
        case .refuse(let refusal):
            let sentence = decision.dialect.sentence(for: refusal)
            add("verdict", "refused: \(refusal.status) \(refusal.code.text), \(sentence)")
        }
    }

    private static func client(_ decision: borrowing Decision) -> String {
        let via = decision.client.peerIsTrusted ? ", told by a trusted proxy" : ""
        let doubt = decision.client.isCertain ? "" : ", but the proxies' words do not add up"
        return decision.client.address.text + via + doubt
    }

    private static func path(_ decision: borrowing Decision, _ sent: RawSpan) -> String {
        if case .refuse(.badRequest(.path(let fault))) = decision.verdict { return "\(sent.text): \(fault.message)" }
        return decision.pathIsVerbatim ? sent.text : "\(sent.text) becomes \(decision.path.text)"
    }

    private static func caller(_ decision: borrowing Decision, _ policy: Policy) -> String {
        decision.internalCaller < 0 ? "no internal caller matches" : "\(policy.internals[decision.internalCaller].name)"
    }

    private static func identity(_ decision: borrowing Decision, _ policy: Policy) -> String {
        switch decision.auth {
        case .notLooked: return "not looked at"
        case .anonymous: return "nobody"
        case .refused, .unavailable:
            guard let identity = decision.identity else { return "refused: \(decision.authReason.text)" }
            return "\(named(identity, decision, policy)); refused: \(decision.authReason.text)"
        case .accepted:
            guard let identity = decision.identity else { return "nobody" }
            return named(identity, decision, policy)
        }
    }

    private static func named(_ identity: Identity, _ decision: borrowing Decision, _ policy: Policy) -> String {
        let issuer = policy.trust.issuers[Int(identity.issuerIndex)].name
        let tier = decision.tier.map { policy.tiers.name(of: $0) } ?? "unknown"
        return "user \(decision.userID.text) of \(issuer), tier \(tier), by \(identity.algorithm.name)"
    }

    private static func tier(_ decision: borrowing Decision, _ policy: Policy, needed: Tier) -> String {
        let name = policy.tiers.name(of: needed)
        if decision.shadowed.contains(.tier) { return "\(name) is needed and missing, but only watched" }
        guard let own = decision.tier else { return "\(name) is needed" }
        return own >= needed ? "\(name) is needed and held" : "\(name) is needed, \(policy.tiers.name(of: own)) is held"
    }

    private static func limit(_ decision: borrowing Decision, _ rule: RouteRule, _ index: Int) -> String {
        let term = rule.limits[index].term(of: decision.tier)
        let limit = "\(term.rate.text) by \((term.by ?? rule.limitBy).text)"
        switch decision.limit.result {
        case .none: return "not reached, nothing is charged"
        case .open: return "\(limit): cannot be counted, and passes"
        case .closed: return "\(limit): cannot be counted, and does not pass"
        case .admitted, .refused, .shadowRefused:
            let reading = decision.limitVerdict[index]
            let left = "\(limit): \(reading.remaining) left"
            guard reading.retryAfter > 0, decision.limit.result != .admitted else { return left }
            let wait = "\(left), again in \(LimitOutcome.seconds(reading.retryAfter)) s"
            return decision.limit.result == .shadowRefused ? "\(wait), but only watched" : wait
        }
    }
}
