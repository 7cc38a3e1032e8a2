/// One `limit=`: a rule for anonymous callers, and one per tier.
package struct LimitPolicy: Hashable, Sendable {
    /// Parse error; `message` is for the operator.
    package struct Fault: Error, Equatable, Sendable {
        package let message: String
    }

    /// For callers without identity, and on routes that do not read it.
    package let anonymous: LimitRule
    /// By the tier's rank.
    package let tiers: [LimitRule]
    /// As written in the settings.
    package let text: String

    /// Parses `60/m`, or a list by tier: `anonymous:20/m,free:60/m,premium:600/m+burst=50`. A list must name the lowest
    /// tier. A tier it leaves out has the rule of the nearest lower one, `anonymous` that of the lowest. Each rule may name
    /// its subject.
    package init(parsing text: String, tiers: TierList) throws(Fault) {
        let items = text.split(separator: ",", omittingEmptySubsequences: false).map(Self.split)
        guard items.contains(where: { $0.tier != nil }) else {
            guard items.count == 1 else {
                throw Fault(message: "the list names no tiers; write limit= once for each limit, or tiers like free:60/m")
            }
            let rule = try LimitRule(parsing: text)
            self.init(anonymous: rule, tiers: Array(repeating: rule, count: tiers.names.count), text: text)
            return
        }
        var anonymous: LimitRule?
        var named: [LimitRule?] = Array(repeating: nil, count: tiers.names.count)
        for item in items {
            guard let tier = item.tier else {
                throw Fault(message: "\"\(item.rule)\" names no tier, unlike the rest of the list")
            }
            let rule = try LimitRule(parsing: item.rule)
            if tier == "anonymous" {
                guard anonymous == nil else { throw Fault(message: "anonymous is limited twice") }
                anonymous = rule
            } else {
                let rank = try Self.rank(tier, tiers)
                guard named[rank] == nil else { throw Fault(message: "the tier \(tier) is limited twice") }
                named[rank] = rule
            }
        }
        guard let lowest = named[0] else {
            throw Fault(message: "the list leaves out \(tiers.names[0]), the lowest tier, which it must name")
        }
        self.init(anonymous: anonymous ?? lowest, tiers: Self.filled(named, from: lowest), text: text)
    }

    private init(anonymous: LimitRule, tiers: [LimitRule], text: String) {
        self.anonymous = anonymous
        self.tiers = tiers
        self.text = text
    }

    /// Splits `free:60/m`. A colon after a plus belongs to the subject.
    private static func split(_ item: Substring) -> (tier: String?, rule: String) {
        guard let colon = item.prefix(while: { $0 != "+" }).firstIndex(of: ":") else { return (nil, String(item)) }
        return (String(item[..<colon]), String(item[item.index(after: colon)...]))
    }

    private static func rank(_ name: String, _ tiers: TierList) throws(Fault) -> Int {
        guard let tier = tiers.rank(of: name) else {
            let known = tiers.names.joined(separator: ", ")
            throw Fault(message: "\"\(name)\" is no tier; the tiers are \(known), and anonymous")
        }
        return Int(tier.rawValue)
    }

    private static func filled(_ named: [LimitRule?], from lowest: LimitRule) -> [LimitRule] {
        var last = lowest
        return named.map { rule in
            last = rule ?? last
            return last
        }
    }

    /// The rule for a caller; `tier` is nil for an anonymous one.
    package func rule(of tier: Tier?) -> LimitRule {
        guard let tier else { return anonymous }
        return tiers[min(Int(tier.rawValue), tiers.count - 1)]
    }
}
