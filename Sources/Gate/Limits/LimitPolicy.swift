/// One `limit=`: a rate for callers without identity, and one for each tier.
package struct LimitPolicy: Hashable, Sendable {
    /// What is wrong with the text, for people.
    package struct Fault: Error, Equatable, Sendable {
        package let message: String
    }

    /// Of callers whose identity is unknown or not looked at.
    package let anonymous: LimitRule
    /// By rank.
    package let tiers: [LimitRule]
    /// As it stands in the settings.
    package let text: String

    /// `60/m`, or a list by tier: `anonymous:20/m,free:60/m,premium:600/m+burst=50`. A list names the lowest tier; a
    /// tier that it leaves out has the rate of the nearest lower one, `anonymous` that of the lowest. Each rate may say
    /// whom it counts.
    package init(parsing text: String, tiers: TierList) throws(Fault) {
        let items = text.split(separator: ",", omittingEmptySubsequences: false).map(Self.split)
        guard items.contains(where: { $0.tier != nil }) else {
            guard items.count == 1 else {
                throw Fault(message: "the list names no tiers; write limit= once for each limit, or tiers like free:60/m")
            }
            let term = try LimitRule(parsing: text)
            self.init(anonymous: term, tiers: Array(repeating: term, count: tiers.names.count), text: text)
            return
        }
        var anonymous: LimitRule?
        var named: [LimitRule?] = Array(repeating: nil, count: tiers.names.count)
        for item in items {
            guard let tier = item.tier else {
                throw Fault(message: "\"\(item.term)\" names no tier, unlike the rest of the list")
            }
            let term = try LimitRule(parsing: item.term)
            if tier == "anonymous" {
                guard anonymous == nil else { throw Fault(message: "anonymous is limited twice") }
                anonymous = term
            } else {
                let rank = try Self.rank(tier, tiers)
                guard named[rank] == nil else { throw Fault(message: "the tier \(tier) is limited twice") }
                named[rank] = term
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

    /// `free:60/m` into its two parts. A colon behind a plus is part of what is counted by.
    private static func split(_ item: Substring) -> (tier: String?, term: String) {
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
        return named.map { term in
            last = term ?? last
            return last
        }
    }

    /// What limits a caller; `tier` is nil for one without identity.
    package func term(of tier: Tier?) -> LimitRule {
        guard let tier else { return anonymous }
        return tiers[min(Int(tier.rawValue), tiers.count - 1)]
    }
}
