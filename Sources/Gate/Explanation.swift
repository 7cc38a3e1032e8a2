import Credentials
import HTTP
import Wire

/// One request's way through the policy, for people: each step and the verdict. Told from what was kept of the decision
/// that was made, so it cannot say anything else than what happened.
package struct Explanation: Sendable, Equatable {
    package struct Step: Sendable, Equatable {
        /// `client`, `path`, `route`, `caller`, `identity`, `standing`, `refresh`, `tier`, `size`, `limit`, `filter`, `cause` or `verdict`; of whoever tells more,
        /// a word of theirs.
        package let name: String
        package let text: String

        package init(_ name: String, _ text: String) {
            self.name = name
            self.text = text
        }
    }

    package private(set) var steps: [Step] = []
    /// 0 if the request passes.
    package let status: UInt16
    /// The refusal's code; nil if the request passes.
    package let code: String?

    /// Tells how what `note` says came about under `policy`, which decided it.
    package init(_ note: borrowing DecisionRecord, policy: Policy) {
        let refusal = note.refusal
        status = refusal?.status ?? 0
        code = refusal.map { "\($0.code.text)" }
        add("client", Self.client(note))
        if note.isDecided {
            add("path", Self.path(note))
            tellRoute(note, policy)
        }
        if note.cause.utf8CodeUnitCount > 0 { add("cause", "\(note.cause)") }
        tellVerdict(note, policy)
    }

    /// The steps from the route on, as far as the request came.
    private mutating func tellRoute(_ note: borrowing DecisionRecord, _ policy: Policy) {
        let refusal = note.refusal
        if case .badRequest(.path) = refusal { return }
        guard note.routeIndex >= 0 else {
            return add("route", refusal?.code == .methodNotAllowed ? "none for this method" : "none")
        }
        let rule = policy.rules[note.routeIndex]
        add("route", "\(rule.name): \(rule.pattern), auth=\(rule.auth.name)")
        if rule.auth == .internal { add("caller", Self.caller(note, policy)) }
        if refusal != .forbidden(.caller) { add("identity", Self.identity(note, policy)) }
        if let status = Self.status(note) { add("standing", status) }
        if note.offersRefresh { add("refresh", Self.refresh(note)) }
        if let tier = rule.tier { add("tier", Self.tier(note, policy, needed: tier)) }
        if refusal == .payloadTooLarge { add("size", "the content is larger than \(rule.bodyLimit) bytes") }
        for index in rule.limits.indices { add("limit", Self.limit(note, rule, index)) }
        if refusal == nil || refusal == .premiumRequired, !rule.filters.isEmpty { add("filter", Self.filter(note, rule, policy)) }
    }

    private mutating func add(_ name: String, _ text: String) { steps.append(Step(name, text)) }

    private mutating func tellVerdict(_ note: borrowing DecisionRecord, _ policy: Policy) {
        switch note.verdict {
        case .forward(let upstream): add("verdict", "passes, to upstream \(upstream)")
        case .local: add("verdict", "passes, to the gateway's own endpoint \(policy.rules[note.routeIndex].name)")
        case .lookUp: add("verdict", "waits for the standing of user \(note.userID)")
        case .refresh: add("verdict", "waits for the refresh of user \(note.userID)'s expired token")
        case .refuse(let refusal):
            let sentence = note.dialect.sentence(for: refusal)
            add("verdict", "refused: \(refusal.status) \(refusal.code.text), \(sentence)")
        }
    }

    private static func client(_ note: borrowing DecisionRecord) -> String {
        let via = note.client.peerIsTrusted ? ", told by a trusted proxy" : ""
        let doubt = note.client.isCertain ? "" : ", but the proxies' words do not add up"
        return note.client.address.text + via + doubt
    }

    private static func path(_ note: borrowing DecisionRecord) -> String {
        if case .refuse(.badRequest(.path(let fault))) = note.verdict { return "\(note.sentPath): \(fault.message)" }
        return note.pathIsVerbatim ? note.sentPath : "\(note.sentPath) becomes \(note.path)"
    }

    private static func caller(_ note: borrowing DecisionRecord, _ policy: Policy) -> String {
        note.internalCaller < 0 ? "no internal caller matches" : "\(policy.internals[note.internalCaller].name)"
    }

    private static func identity(_ note: borrowing DecisionRecord, _ policy: Policy) -> String {
        switch note.auth {
        case .notLooked: return "not looked at"
        case .anonymous: return "nobody"
        case .refused, .unavailable:
            guard let named = named(note, policy) else { return "refused: \(note.authReason.text)" }
            return "\(named); refused: \(note.authReason.text)"
        case .accepted: return named(note, policy) ?? "nobody"
        }
    }

    /// nil if no token was accepted.
    private static func named(_ note: borrowing DecisionRecord, _ policy: Policy) -> String? {
        guard note.issuerIndex >= 0, let algorithm = note.algorithm else { return nil }
        let issuer = policy.trust.issuers[Int(note.issuerIndex)].name
        let tier = note.tier.map { policy.tiers.name(of: $0) } ?? "unknown"
        return "user \(note.userID) of \(issuer), tier \(tier), by \(algorithm.name)"
    }

    /// Where the tier and the state of the session come from, and how old they are; nil if nobody is known.
    private static func status(_ note: borrowing DecisionRecord) -> String? {
        // An actor is refused whatever the accounts say.
        guard note.issuerIndex >= 0, note.authReason != .actor else { return nil }
        if note.authReason == .revoked {
            guard let endedAt = note.sessionEndedAt else { return "the session has ended" }
            return "the session ended \(max(0, note.decidedAt - endedAt)) s ago, as this gateway was told"
        }
        let session = note.hasOwnSession ? ", and no end of the session was told" : ""
        switch note.tierOrigin {
        case .none: return "the accounts cannot be asked for the tier" + session
        case .claim: return "the tier is what the token claims" + session
        case .account(let source, let time):
            let age = max(0, note.decidedAt - time)
            let way = source == .pushed ? "told" : "looked up"
            return "the tier is the account's, \(way) \(age) s ago" + session
        }
    }

    private static func refresh(_ note: borrowing DecisionRecord) -> String {
        switch note.refreshRole {
        case .none: note.auth == .accepted ? "a refresh token came along, and the token was good still" : "a refresh token came along, and nothing came of it"
        case .leader: "the token had expired and was refreshed for this request"
        case .follower: "the token had expired and was refreshed for another request at the same time"
        case .remote: "the token had expired and was refreshed by another gateway at the same time"
        }
    }

    private static func tier(_ note: borrowing DecisionRecord, _ policy: Policy, needed: Tier) -> String {
        let name = policy.tiers.name(of: needed)
        if note.shadowed.contains(.tier) { return "\(name) is needed and missing, but only watched" }
        guard let own = note.tier else { return "\(name) is needed" }
        return own >= needed ? "\(name) is needed and held" : "\(name) is needed, \(policy.tiers.name(of: own)) is held"
    }

    private static func filter(_ note: borrowing DecisionRecord, _ rule: RouteRule, _ policy: Policy) -> String {
        let tier = policy.tiers.name(of: note.tier ?? .lowest)
        let fields = rule.filters.map(\.text).joined(separator: ", ")
        let watched = rule.shadow.contains(.filter) ? ", but only watched" : ""
        return "what \(fields) puts above \(tier) leaves the answer\(watched)"
    }

    private static func limit(_ note: borrowing DecisionRecord, _ rule: RouteRule, _ index: Int) -> String {
        let term = rule.limits[index].term(of: note.tier)
        let limit = "\(term.rate.text) by \((term.by ?? rule.limitBy).text)"
        switch note.limit.result {
        case .none: return "not reached, nothing is charged"
        case .open: return "\(limit): cannot be counted, and passes"
        case .closed: return "\(limit): cannot be counted, and does not pass"
        case .admitted, .refused, .shadowRefused:
            let reading = note.limitVerdict[index]
            let left = "\(limit): \(reading.remaining) left"
            guard reading.retryAfter > 0, note.limit.result != .admitted else { return left }
            let wait = "\(left), again in \(LimitOutcome.seconds(reading.retryAfter)) s"
            return note.limit.result == .shadowRefused ? "\(wait), but only watched" : wait
        }
    }
}
