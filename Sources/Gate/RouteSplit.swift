package import HTTP
package import Wire

/// The part of a route's requests that goes to another upstream (`split=`), or of which one gets copies (`mirror=`).
package struct RouteSplit: Sendable, Equatable {
    /// Whose requests go to the same side.
    package enum Subject: String, Sendable, CaseIterable {
        /// The user; without one the address.
        case user
        /// The session; without one the user.
        case session
        case address
    }

    /// The share in percent, from 0 to 100.
    package var percent: Int
    /// The name of the other upstream, and its index in the configuration once all lines are read.
    package var upstreamName: String
    package var upstream = -1

    package init(percent: Int, upstreamName: String) {
        self.percent = percent
        self.upstreamName = upstreamName
    }
}

/// The upstream that gets copies of a route's requests, and of how many in a hundred.
package struct MirrorTarget: Sendable {
    package let upstream: Int
    package let percent: UInt64

    init?(_ mirror: RouteSplit?) {
        guard let mirror, mirror.upstream >= 0 else { return nil }
        (upstream, percent) = (mirror.upstream, UInt64(clamping: mirror.percent))
    }
}

/// A condition that a request must meet to be split (`when=`).
package struct SplitCondition: Sendable, Equatable {
    package enum Fact: Sendable, Equatable {
        /// The tier is this one; an anonymous caller has the lowest.
        case tier(Tier)
        /// The request has one field of this name, with this value.
        case header(name: String, value: String)
        case attribute(AttributeRequirement)
    }

    package let fact: Fact
    /// As written in the settings.
    package let text: String
}

extension SplitCondition {
    package init(parsing text: String, tiers: TierList) throws(ParseError) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let pair = parts.count == 2 ? parts[1].split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init) : []
        self.text = text
        switch (parts[0], pair.count) {
        case ("tier", 1):
            guard let tier = tiers.rank(of: pair[0]) else {
                throw ParseError("names no tier, the tiers are \(tiers.names.joined(separator: ", "))")
            }
            fact = .tier(tier)
        case ("header", 2) where !pair[1].isEmpty:
            try FieldOwner.request.check(pair[0], isSet: false)
            fact = .header(name: pair[0], value: try Self.decoded(pair[1], text))
        case ("attribute", 2) where !pair[0].isEmpty && !pair[1].isEmpty:
            fact = .attribute(AttributeRequirement(name: pair[0], values: [try Self.decoded(pair[1], text)]))
        default:
            throw ParseError("is no list of conditions, write tier:NAME, header:NAME=VALUE, attribute:NAME=VALUE or several with commas")
        }
    }

    private static func decoded(_ value: String, _ whole: String) throws(ParseError) -> String {
        guard let bytes = PercentEncoding.decode(Array(value.utf8)) else {
            throw ParseError("has a value that is not percent-encoded: \(quoted(whole)), write %25 for a percent sign")
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// The side of a split that a request is on.
package enum SplitSide: UInt8, Sendable {
    /// The route is not split.
    case none
    /// A condition of `when=` does not hold, so the request stays.
    case unmet
    /// It stays with the route's upstream.
    case main
    /// It goes to the other upstream.
    case split
}

/// A compiled split. Which side a subject is on follows from the route's name and the subject alone: all gateways agree without asking
/// each other, also after a restart, and a share that grows moves no user back.
package final class SplitPlan: Sendable {
    let upstream: Int
    private let percent: UInt64
    private let subject: RouteSplit.Subject
    private let hash: KeyedHash
    private let tier: Tier?
    private let headers: [(name: [UInt8], value: [UInt8])]
    /// As bits of the policy's `AttributeTable`.
    private let attributes: UInt64
    /// nil without a guard, and while nothing is split.
    let watch: SplitWatch?

    /// nil for a rule without a split.
    init?(_ rule: RouteRule, _ table: AttributeTable) {
        guard let split = rule.split, split.upstream >= 0 else { return nil }
        upstream = split.upstream
        percent = UInt64(clamping: split.percent)
        subject = rule.splitBy
        // The name stands for the route: shares of several routes are independent of each other.
        hash = "split \(rule.name)".withRawBytes { KeyedHash(derivedFrom: $0) }
        tier = rule.splitWhen.lazy.compactMap { if case .tier(let tier) = $0.fact { tier } else { nil } }.first
        headers = rule.splitWhen.compactMap {
            if case .header(let name, let value) = $0.fact { (Array(name.utf8), Array(value.utf8)) } else { nil }
        }
        attributes = table.split(by: rule)
        rule.splitGuard?.begin(split.percent)
        watch = split.percent == 0 ? nil : rule.splitGuard
    }

    /// The side of a request whose conditions hold, by the hash of its subject.
    func side(_ key: LimitKey) -> SplitSide { ((key.high >> 32) * 100) >> 32 < percent ? .split : .main }

    /// Whether the request meets the conditions about its tier and its fields.
    fileprivate func meets(_ tier: Tier, _ fields: borrowing FieldTable, _ bytes: RawSpan) -> Bool {
        if let wanted = self.tier, tier != wanted { return false }
        for (name, value) in headers {
            var found = 0
            for index in 0..<fields.count where FoldedName.isSpelling(bytes[fields[index].name], of: name.rawBytes) {
                // Of two that differ the upstream may believe either.
                guard bytes[fields[index].value].equals(value.rawBytes) else { return false }
                found += 1
            }
            guard found > 0 else { return false }
        }
        return true
    }

    fileprivate func meets(_ detail: AccountDetail?) -> Bool {
        attributes == 0 || (detail?.held ?? 0) & attributes == attributes
    }

    func key(_ user: RawSpan, _ session: RawSpan, _ address: IPAddress) -> LimitKey {
        if subject == .session, !session.isEmpty { return LimitSubject.session(session, issuer: "", hash) }
        if subject != .address, !user.isEmpty { return LimitSubject.user(user, issuer: "", hash) }
        return LimitSubject.address(address, hash)
    }
}

extension Admission {
    /// The upstream that gets copies of requests like this one. A WebSocket has no copy.
    package func mirror(_ decision: borrowing Decision) -> MirrorTarget? {
        decision.handshake == nil ? policy.gates[decision.routeIndex].mirror : nil
    }

    /// Gives the decision the fields of a copy: the one that tells it from the request itself, and no credential, which would be of use
    /// at the upstream that it is for. Returns the request's own fields, for `unmarkCopy`.
    package func markCopy(_ decision: inout Decision) -> FieldEdits {
        var edits = FieldEdits()
        edits.append(decision.requestEdits)
        edits.withdraw("authorization")
        edits.withdraw("x-tollgate-identity")
        edits.remove(.authorization)
        policy.rules[decision.routeIndex].name.withRawBytes { _ = edits.add(IdentityHeaders.mirror, $0) }
        swap(&edits, &decision.requestEdits)
        return edits
    }

    package func unmarkCopy(_ decision: inout Decision, _ own: inout FieldEdits) { swap(&own, &decision.requestEdits) }

    /// The upstream of a request on a route that is split.
    mutating func splitUpstream(
        _ route: Int, _ main: Int, _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: inout Decision
    ) -> Int {
        guard let plan = policy.plans[route].split else { return main }
        guard plan.meets(decision.tier ?? .lowest, head.fields, bytes), plan.meets(detail(decision)) else {
            decision.splitSide = .unmet
            return main
        }
        decision.splitSide = plan.side(plan.key(decision.userID, decision.sessionID, decision.client.address))
        return decision.splitSide == .split ? plan.upstream : main
    }
}

extension RouteRule {
    /// The attributes that its split looks at.
    var splitAttributes: [AttributeRequirement] {
        splitWhen.compactMap { if case .attribute(let requirement) = $0.fact { requirement } else { nil } }
    }
}
