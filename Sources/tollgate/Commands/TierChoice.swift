internal import Gate
internal import Wire

/// A tier as the operator gives it, and its end: on the command line and to the admin API.
struct TierChoice: Sendable {
    let name: String
    let until: WallTime?

    enum Fault: Error {
        case unreadableEnd(String)
        case pastEnd(WallTime)
        case unknownTier(String, TierList)
        case endOfEveryonesTier(String)
    }

    init(_ name: String, until: String?) throws(Fault) {
        self.name = name
        self.until = until.flatMap { ISO8601.parse($0) }
        if let until, self.until == nil { throw .unreadableEnd(until) }
    }

    /// What the accounts keep: nil for the tier that everyone has.
    func kept(_ tiers: TierList, now: WallTime) throws(Fault) -> String? {
        guard let tier = tiers.rank(of: name) else { throw .unknownTier(name, tiers) }
        if tier == .lowest, until != nil { throw .endOfEveryonesTier(name) }
        if let until, until <= now { throw .pastEnd(until) }
        return tier == .lowest ? nil : name
    }
}

extension TierChoice.Fault {
    /// The sentence for whoever gave it; `end` is what they call the end, and `tier` what stands before the tier's name.
    func message(end: String, tier: String = "") -> String {
        switch self {
        case .unreadableEnd(let text): "\(end) \(quoted(text)) is no RFC 3339 time in UTC, write one like 2027-01-01T00:00:00Z"
        case .pastEnd(let time): "\(end) \(ISO8601.text(time)) is past, give a time to come"
        case .unknownTier(let name, let tiers): tier + tiers.complaint(about: name)
        case .endOfEveryonesTier(let name): "\(end) goes with a tier above \(name), which everyone has for good"
        }
    }
}

extension TierList {
    /// Why a name is no tier's, and which are.
    func complaint(about name: String) -> String { "\(quoted(name)) names no tier, the tiers are \(names.joined(separator: ", "))" }
}

extension TierChoice {
    /// As the words of a command have it.
    init(_ name: String, _ arguments: Arguments) throws(UsageFault) {
        do throws(Fault) {
            try self.init(name, until: arguments.value("until"))
        } catch {
            throw UsageFault(message: error.message(end: "--until"), command: arguments.command)
        }
    }

    func kept(_ desk: AccountDesk, label: String = "") throws(AccountCommandFault) -> String? {
        do throws(Fault) {
            return try kept(desk.tiers, now: desk.now)
        } catch {
            throw AccountCommandFault(message: error.message(end: "--until", tier: label), exitCode: 2)
        }
    }
}
