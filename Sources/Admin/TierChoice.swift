package import Gate
package import Wire

/// A tier and its end, as the operator gives them on the command line or to the admin API.
package struct TierChoice: Sendable {
    package let name: String
    package let until: WallTime?

    package enum Fault: Error {
        case unreadableEnd(String)
        case pastEnd(WallTime)
        case unknownTier(String, TierList)
        case endOfEveryonesTier(String)
    }

    package init(_ name: String, until: String?) throws(Fault) {
        self.name = name
        self.until = try Self.end(until)
    }

    /// The time that the operator gives as an end.
    package static func end(_ text: String?) throws(Fault) -> WallTime? {
        guard let text else { return nil }
        guard let time = ISO8601.parse(text) else { throw .unreadableEnd(text) }
        return time
    }

    /// The tier to store: nil for the lowest.
    package func kept(_ tiers: TierList, now: WallTime) throws(Fault) -> String? {
        guard let tier = tiers.rank(of: name) else { throw .unknownTier(name, tiers) }
        if tier == .lowest, until != nil { throw .endOfEveryonesTier(name) }
        if let until, until <= now { throw .pastEnd(until) }
        return tier == .lowest ? nil : name
    }
}

extension TierChoice.Fault {
    /// The message. `end` is the name of the parameter for the end, `tier` a prefix for the name of the tier.
    package func message(end: String, tier: String = "") -> String {
        switch self {
        case .unreadableEnd(let text): "\(end) \(quoted(text)) is no RFC 3339 time in UTC, write one like 2027-01-01T00:00:00Z"
        case .pastEnd(let time): "\(end) \(ISO8601.text(time)) is past, give a time to come"
        case .unknownTier(let name, let tiers): tier + tiers.complaint(about: name)
        case .endOfEveryonesTier(let name): "\(end) goes with a tier above \(name), which everyone has for good"
        }
    }
}

extension TierList {
    /// The message for an unknown tier, with the known ones.
    package func complaint(about name: String) -> String { "\(quoted(name)) names no tier, the tiers are \(names.joined(separator: ", "))" }
}
