import Credentials
import HTTP
import Wire

/// A request's way through the policy, for the operator: each step and the verdict. Made from the record of the actual
/// decision, so the two cannot differ.
package struct Explanation: Sendable, Equatable {
    package struct Step: Sendable, Equatable {
        /// `client`, `path`, `route`, `address`, `cors`, `sunset`, `maintenance`, `app`, `caller`, `identity`, `proof`, `standing`,
        /// `refresh`, `tier`, `scope`, `attributes`, `sign-in`, `size`, `limit`, `split`, `cache`, `filter`, `compress`, `cause` or
        /// `verdict`; `tollgate explain` adds more, as
        /// `redirect`.
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

    /// Explains `note` under `policy`, which decided it.
    package init(_ note: borrowing DecisionRecord, policy: Policy) {
        let refusal = note.refusal
        status = refusal?.status ?? 0
        code = refusal.map { "\($0.code.text)" }
        add("client", Self.client(note))
        if note.isDecided {
            add("path", Self.path(note))
            addRouteSteps(note, policy)
        }
        if note.cause.utf8CodeUnitCount > 0 { add("cause", "\(note.cause)") }
        addVerdict(note, policy)
    }

    /// Adds the steps from the route to the last one reached.
    private mutating func addRouteSteps(_ note: borrowing DecisionRecord, _ policy: Policy) {
        let refusal = note.refusal
        if case .badRequest(.path) = refusal { return }
        if case .badRequest(.description) = refusal { return }
        let cors = Self.cors(note, policy)
        guard note.routeIndex >= 0 else {
            // A plain address leads to HTTPS before routing.
            if case .answer(status: 308) = note.verdict { return }
            let isPreflight = if case .answer = note.verdict { true } else { false }
            let isOther = refusal?.code == .methodNotAllowed
            add("route", isPreflight ? "none for the method that the preflight names" : isOther ? "none for this method" : "none")
            if let address = Self.address(note, nil, policy) { add("address", address) }
            if let cors { add("cors", cors) }
            return
        }
        let rule = policy.rules[Int(note.routeIndex)]
        add("route", "\(rule.name): \(rule.pattern), auth=\(rule.auth.name)")
        if let address = Self.address(note, rule, policy) { add("address", address) }
        if let cors { add("cors", cors) }
        if case .answer = note.verdict { return }
        if case .addressDenied = refusal { return }
        addEdge(note, rule, policy)
        if [.maintenance, .gone, .appUpdateRequired].contains(refusal?.code) { return }
        if let attestation = rule.attestation, let found = note.attestation {
            let isShadowed = note.shadowed.contains(.attestation)
            let use = found == .none && attestation.isOnce ? ", counts once" : ""
            add("attest", "\(attestation.name), \(attestation.field): \(found.text)\(use)\(isShadowed ? ", shadow mode lets it pass" : "")")
            if found != .none, !isShadowed { return }
        }
        if refusal == .forbidden(.origin) || refusal == .forbidden(.preflight) { return }
        if rule.auth == .internal { add("caller", Self.caller(note, policy)) }
        if refusal != .forbidden(.caller), refusal != .unauthorized(.caller) { add("identity", Self.identity(note, policy)) }
        if let proof = Self.proof(note, rule) { add("proof", proof) }
        if let source = Self.tierSource(note, policy) { add("standing", source) }
        if note.offersRefresh { add("refresh", Self.refresh(note)) }
        if let tier = rule.tier { add("tier", Self.tier(note, policy, needed: tier)) }
        if !rule.scopes.isEmpty { add("scope", Self.scopes(note, rule, policy)) }
        if !rule.attributes.isEmpty { add("attributes", Self.attributes(note, rule)) }
        if let maxAge = rule.maxAgeSeconds { add("sign-in", Self.signIn(note, maxAge)) }
        if let factor = Self.factor(note, rule, policy) { add("factor", factor) }
        if refusal == .payloadTooLarge { add("size", "the content is larger than \(rule.bodyLimit) bytes") }
        for index in rule.limits.indices { add("limit", Self.limit(note, rule, index)) }
        if let limit = Self.keyLimit(note, rule) { add("limit", limit) }
        if let split = rule.split, note.splitSide != .none { add("split", Self.split(note, rule, split)) }
        if refusal == nil, let cache = Self.cache(note, rule) { add("cache", cache) }
        if refusal == nil || refusal == .premiumRequired, !rule.filters.isEmpty { add("filter", Self.filter(note, rule, policy)) }
        if refusal == nil, let compression = Self.compression(rule) { add("compress", compression) }
    }

    /// Adds the steps of `EdgePlan`, up to the one that refuses.
    private mutating func addEdge(_ note: borrowing DecisionRecord, _ rule: RouteRule, _ policy: Policy) {
        let now = WallTime(seconds: note.decidedAt)
        if let sunset = rule.sunset { add("sunset", "\(ISO8601.text(sunset)), which \(sunset <= now ? "is past" : "lies ahead")") }
        guard note.refusal != .gone else { return }
        if !rule.maintenance.isEmpty {
            let ends = rule.maintenance.map { maintenance in
                (maintenance.since.map { "since \(ISO8601.text($0)) " } ?? "")
                    + (maintenance.until.map { "until \(ISO8601.text($0))" } ?? "without an end")
            }.joined(separator: ", ")
            let isClosed = note.refusal?.code == .maintenance
            add("maintenance", "set \(ends): \(isClosed ? "the request is refused" : "it is over, or lets this caller pass")")
            if isClosed { return }
        }
        guard rule.app != .off, let number = note.appGate else { return }
        guard let gate = policy.versionGate(number) else { return add("app", "no version gate is for this platform, app=\(rule.app)") }
        let sent = note.appVersion.isEmpty ? "no version in \(gate.field)" : "version \(note.appVersion)"
        let floor = gate.least.map { "at least \($0.text) is needed" } ?? "every version passes"
        let shadow = note.shadowed.contains(.app) ? ", shadow mode lets it pass" : ""
        add("app", "\(sent), gate \(gate.name): \(floor), app=\(rule.app)\(shadow)")
    }

    private mutating func add(_ name: String, _ text: String) { steps.append(Step(name, text)) }

    private mutating func addVerdict(_ note: borrowing DecisionRecord, _ policy: Policy) {
        switch note.verdict {
        case .forward(let upstream): add("verdict", "passes, to upstream \(upstream)")
        case .local:
            let name = policy.rules[Int(note.routeIndex)].name
            add("verdict", "passes, to the gateway's own endpoint \(name), which decides by itself")
        case .lookUp: add("verdict", "waits for the tier of user \(note.userID)")
        case .refresh: add("verdict", "waits for the refresh of user \(note.userID)'s expired token")
        case .answer(let status): add("verdict", "answered by the gateway itself: \(status)")
        case .refuse(let refusal):
            let sentence = policy.message(of: refusal) ?? "\(policy.envelopes[note.dialect].sentence(for: refusal))"
            add("verdict", "refused: \(refusal.status) \(refusal.code.text), \(sentence)")
        }
    }

    private static func client(_ note: borrowing DecisionRecord) -> String {
        let via = note.client.peerIsTrusted ? ", named by a trusted proxy" : ""
        let doubt = note.client.isCertain ? "" : ", uncertain: the forwarding fields are missing, unreadable or contradictory"
        return note.client.address.text + via + doubt
    }

    /// How the lists of addresses took the client's; nil where there is none.
    private static func address(_ note: borrowing DecisionRecord, _ rule: RouteRule?, _ policy: Policy) -> String? {
        let lists = [("TOLLGATE_DENY_FROM", policy.denyFrom), ("deny-from=", rule?.denyFrom), ("allow-from=", rule?.allowFrom)]
        let named = lists.filter { $0.1 != nil }.map(\.0)
        guard !named.isEmpty else { return nil }
        guard case .addressDenied(let why) = note.refusal else { return "passes by \(named.joined(separator: ", "))" }
        switch why {
        case .denied:
            return
                "\(policy.addresses?.denial(of: note.client) == nil ? "deny-from=" : "TOLLGATE_DENY_FROM") contains \(note.client.address.text)"
        case .notAllowed: return "allow-from= does not contain \(note.client.address.text)"
        case .uncertain: return "\(named.joined(separator: ", ")) needs a certain address"
        }
    }

    private static func path(_ note: borrowing DecisionRecord) -> String {
        if case .refuse(.badRequest(.path(let fault))) = note.verdict { return "\(note.sentPath): \(fault.message)" }
        return note.pathIsVerbatim ? note.sentPath : "\(note.sentPath) becomes \(note.path)"
    }

    private static func caller(_ note: borrowing DecisionRecord, _ policy: Policy) -> String {
        note.internalCaller < 0 ? "no internal caller matches" : "\(policy.internals[Int(note.internalCaller)].name)"
    }

    private static func identity(_ note: borrowing DecisionRecord, _ policy: Policy) -> String {
        switch note.auth {
        case .notLooked: return "not checked"
        case .anonymous: return "anonymous"
        case .refused, .unavailable:
            guard let named = named(note, policy) else { return "refused: \(note.authReason.text)" }
            return "\(named); refused: \(note.authReason.text)"
        case .accepted: return named(note, policy) ?? "anonymous"
        }
    }

    /// The user; nil if no token was accepted.
    private static func named(_ note: borrowing DecisionRecord, _ policy: Policy) -> String? {
        guard note.issuerIndex >= 0 else { return nil }
        let issuer = policy.trust.issuers[Int(note.issuerIndex)].name
        let tier = note.tier.map { policy.tiers.name(of: $0) } ?? "unknown"
        guard let algorithm = note.algorithm else { return "API key \(note.userID), tier \(tier)" }
        return "user \(note.userID) of \(issuer), tier \(tier), by \(algorithm.name)"
    }

    /// Source and age of the tier and of the session's state; nil for an anonymous caller.
    private static func tierSource(_ note: borrowing DecisionRecord, _ policy: Policy) -> String? {
        // Actors are refused without a look at the accounts.
        guard note.issuerIndex >= 0, note.authReason != .actor else { return nil }
        if note.authReason == .banned { return "the account is banned" }
        if note.authReason == .closed { return "the account is closed" }
        if note.authReason == .revoked {
            guard let endedAt = note.sessionEndedAt else { return "the session has ended" }
            return "the session ended \(max(0, note.decidedAt - endedAt)) s ago"
        }
        let session = note.hasOwnSession ? ", and the session is not known to have ended" : ""
        let email = note.hidesEmail ? ", and the token's email is not the account's any more, so the upstream gets none" : ""
        return tierSentence(note, policy) + session + email
    }

    private static func tierSentence(_ note: borrowing DecisionRecord, _ policy: Policy) -> String {
        let decidedAt = note.decidedAt
        func ago(_ time: Int64) -> String { "\(max(0, decidedAt - time)) s ago" }
        let issuer = policy.trust.issuers[Int(note.issuerIndex)].name
        if note.algorithm == nil {
            return note.tierOrigin == .claim(.known)
                ? "the tier is the key's" : "the key's tier is none of TOLLGATE_TIERS, so it is the lowest"
        }
        switch note.tierOrigin {
        case .none where policy.tierSources[Int(note.issuerIndex)] == .lookup:
            return "the tier server of \(issuer) does not answer, the tier is unknown"
        case .none: return "the accounts are unavailable, the tier is unknown"
        case .claim(.known): return "the tier is what the token claims"
        case .claim(.missing): return "the token claims no tier, so it is the lowest"
        case .claim(.unknown): return "the token claims a tier that is none of TOLLGATE_TIERS, so it is the lowest"
        case .account(let source, let time):
            return "the tier is the account's, \(source == .pushed ? "pushed" : "looked up") \(ago(time))"
        case .noAccount(let time):
            return "no tier was set here for \(issuer):\(note.userID), so it is the lowest, looked up \(ago(time))"
        case .lookup(let time): return "the tier is the answer of the tier server of \(issuer), asked \(ago(time))"
        }
    }

    private static func refresh(_ note: borrowing DecisionRecord) -> String {
        switch note.refreshRole {
        case .none: note.auth == .accepted ? "a refresh token was sent, the token is still valid" : "a refresh token was sent and not used"
        case .leader: "the token had expired and was refreshed for this request"
        case .follower: "the token had expired and was refreshed for another request at the same time"
        case .remote: "the token had expired and was refreshed by another gateway at the same time"
        }
    }

    private static func tier(_ note: borrowing DecisionRecord, _ policy: Policy, needed: Tier) -> String {
        let name = policy.tiers.name(of: needed)
        if note.shadowed.contains(.tier) { return "\(name) is needed and missing, shadow mode lets it pass" }
        guard let own = note.tier else { return "\(name) is needed" }
        return own >= needed ? "\(name) is needed and held" : "\(name) is needed, \(policy.tiers.name(of: own)) is held"
    }

    private static func split(_ note: borrowing DecisionRecord, _ rule: RouteRule, _ split: RouteSplit) -> String {
        let conditions = rule.splitWhen.map(\.text).joined(separator: ", ")
        let share = "\(split.percent)% by \(rule.splitBy.rawValue) go to \(split.upstreamName)"
        switch note.splitSide {
        case .none: return "none"
        case .unmet: return "\(share) where \(conditions), which does not hold here"
        case .main: return "\(share), this one does not"
        case .split: return "\(share), and so does this one"
        }
    }

    private static func attributes(_ note: borrowing DecisionRecord, _ rule: RouteRule) -> String {
        let needed = "\(rule.attributes.map(\.text).joined(separator: ", ")) is needed"
        if note.authReason == .attributes { return "\(needed), and the account does not have it" }
        return note.auth == .accepted ? "\(needed) and held" : needed
    }

    private static func signIn(_ note: borrowing DecisionRecord, _ maxAge: UInt32) -> String {
        let needed = "at most \(maxAge) s ago is needed"
        guard note.issuerIndex >= 0 else { return needed }
        guard let signedInAt = note.signedInAt else { return "\(needed), the token has no auth_time" }
        let age = note.decidedAt - signedInAt
        return age < 0 ? "\(needed), auth_time is \(-age) s in the future" : "\(needed), it was \(age) s ago"
    }

    private static func factor(_ note: borrowing DecisionRecord, _ rule: RouteRule, _ policy: Policy) -> String? {
        guard rule.factorSeconds != nil || rule.factorTier != nil else { return nil }
        let needed =
            rule.factorSeconds.map { "a second factor at most \($0) s ago is needed" }
            ?? "from the tier \(policy.tiers.name(of: rule.factorTier ?? .lowest)) on, a second factor is needed"
        guard note.issuerIndex >= 0 else { return needed }
        guard let at = note.factorAt else { return "\(needed), the session has proven none" }
        return "\(needed), it was proven \(note.decidedAt - at) s ago"
    }

    private static func filter(_ note: borrowing DecisionRecord, _ rule: RouteRule, _ policy: Policy) -> String {
        let tier = policy.tiers.name(of: note.tier ?? .lowest)
        let fields = rule.filters.map(\.text).joined(separator: ", ")
        let shadow = rule.shadow.contains(.filter) ? ", shadow mode only counts them" : ""
        return "elements above \(tier) by \(fields) are removed from the answer\(unlabelled(note, rule))\(shadow)"
    }

    /// Which callers share a stored answer; nil on a route without a cache.
    private static func cache(_ note: borrowing DecisionRecord, _ rule: RouteRule) -> String? {
        guard let seconds = rule.cache.freshSeconds else { return nil }
        guard ["GET", "HEAD"].contains(note.method) else { return "\(note.method) asks the upstream" }
        let sharing =
            switch rule.cache.sharing {
            case .everyone: "for all callers"
            case .tier: "for each tier"
            case .user: "for each user"
            }
        return "a stored answer \(sharing) that is at most \(seconds) s old, else the upstream's"
    }

    /// The compression of the answer, where the route has any.
    private static func compression(_ rule: RouteRule) -> String? {
        guard let plan = CompressionPlan(rule) else { return nil }
        let events = plan.takesEvents ? ", event streams too" : ""
        return
            "the answer is compressed from \(plan.least) bytes on, by the first of \(rule.compression.codings.text) that the client likes best\(events)"
    }

    /// The rule for elements without a label, where the route has one.
    private static func unlabelled(_ note: borrowing DecisionRecord, _ rule: RouteRule) -> String {
        let (leaves, stays) = (", elements without a label too", ", elements without a label are kept")
        switch rule.unlabelled {
        case .byForm: return ""
        case .keep: return stays
        case .drop: return leaves
        case .tier(let counted): return (note.tier ?? .lowest) < counted ? leaves : stays
        }
    }

    private static func limit(_ note: borrowing DecisionRecord, _ rule: RouteRule, _ index: Int) -> String {
        let limited = rule.limits[index].rule(of: note.tier)
        return Self.limit(note, "\(limited.rate.text) by \((limited.by ?? rule.limitBy).text)", index)
    }

    /// The standing of the limit that is charged at this place.
    static func limit(_ note: borrowing DecisionRecord, _ limit: String, _ index: Int) -> String {
        switch note.limitResult {
        case .none: return "not reached, nothing is charged"
        case .open: return "\(limit): cannot be counted, passes"
        case .closed: return "\(limit): cannot be counted, does not pass"
        case .admitted, .refused, .shadowRefused:
            let standing = note.limits[index]
            let left = "\(limit): \(standing.remaining) left"
            guard standing.retryAfterSeconds > 0, note.limitResult != .admitted else { return left }
            let wait = "\(left), again in \(standing.retryAfterSeconds) s"
            return note.limitResult == .shadowRefused ? "\(wait), shadow mode lets it pass" : wait
        }
    }
}
