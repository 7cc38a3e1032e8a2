/// A `limit=`: a rate for callers without identity, and one for each tier.
package struct LimitPolicy: Hashable, Sendable {
    /// What is wrong with the text, for people.
    package struct Fault: Error, Equatable, Sendable {
        package let message: String
    }

    /// Of callers whose identity is unknown or not looked at.
    package let anonymous: LimitRate
    /// By rank.
    package let tiers: [LimitRate]
    /// As it stands in the settings.
    package let text: String

    /// One rate for everyone.
    package init(_ rate: LimitRate, tiers: TierList) {
        self.init(anonymous: rate, tiers: Array(repeating: rate, count: tiers.names.count), text: rate.text)
    }

    /// `60/m`, or a list by tier: `anonymous:20/m,free:60/m,premium:600/m+burst=50`. A list names the lowest tier; a
    /// tier that it leaves out has the rate of the nearest lower one, `anonymous` that of the lowest.
    package init(parsing text: String, tiers: TierList) throws(Fault) {
        guard text.contains(":") else {
            self.init(try Self.rate(text), tiers: tiers)
            return
        }
        var anonymous: LimitRate?
        var named: [LimitRate?] = Array(repeating: nil, count: tiers.names.count)
        for item in text.split(separator: ",", omittingEmptySubsequences: false) {
            let pair = item.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard pair.count == 2 else { throw Fault(message: "\"\(item)\" names no tier, unlike the rest of the list") }
            let rate = try Self.rate(pair[1])
            if pair[0] == "anonymous" {
                guard anonymous == nil else { throw Fault(message: "anonymous is limited twice") }
                anonymous = rate
            } else {
                let rank = try Self.rank(pair[0], tiers)
                guard named[rank] == nil else { throw Fault(message: "the tier \(pair[0]) is limited twice") }
                named[rank] = rate
            }
        }
        guard let lowest = named[0] else {
            throw Fault(message: "the list leaves out \(tiers.names[0]), the lowest tier, which it must name")
        }
        self.init(anonymous: anonymous ?? lowest, tiers: Self.filled(named, from: lowest), text: text)
    }

    private init(anonymous: LimitRate, tiers: [LimitRate], text: String) {
        self.anonymous = anonymous
        self.tiers = tiers
        self.text = text
    }

    private static func rate(_ text: String) throws(Fault) -> LimitRate {
        guard let rate = LimitRate(parsing: text) else {
            throw Fault(message: "\"\(text)\" is no rate; a rate is like 60/m, 10/h+burst=5 or 100/s+lease")
        }
        return rate
    }

    private static func rank(_ name: String, _ tiers: TierList) throws(Fault) -> Int {
        guard let tier = tiers.rank(of: name) else {
            let known = tiers.names.joined(separator: ", ")
            throw Fault(message: "\"\(name)\" is no tier; the tiers are \(known), and anonymous")
        }
        return Int(tier.rawValue)
    }

    private static func filled(_ named: [LimitRate?], from lowest: LimitRate) -> [LimitRate] {
        var last = lowest
        return named.map { rate in
            last = rate ?? last
            return last
        }
    }

    /// The rate of a caller; `tier` is nil for one without identity.
    package func rate(of tier: Tier?) -> LimitRate {
        guard let tier else { return anonymous }
        return tiers[min(Int(tier.rawValue), tiers.count - 1)]
    }
}
