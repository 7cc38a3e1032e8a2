internal import Gate
internal import Wire

/// A tier as the operator gives it, and its end.
struct TierChoice: Sendable {
    let name: String
    let until: WallTime?

    /// `until` is the value of `--until`.
    init(_ name: String, until: String?, _ command: Command) throws(UsageFault) {
        self.name = name
        self.until = until.flatMap { ISO8601.parse($0) }
        if let until, self.until == nil {
            let message = "--until \(quoted(until)) is no RFC 3339 time in UTC, write one like 2027-01-01T00:00:00Z"
            throw UsageFault(message: message, command: command)
        }
    }

    /// What the accounts keep: nil for the tier that everyone has. `label` is what stands before the name.
    func kept(_ desk: AccountDesk, label: String = "") throws(AccountCommandFault) -> String? {
        guard let tier = desk.tiers.rank(of: name) else {
            throw AccountCommandFault(message: label + desk.tiers.complaint(about: name), exitCode: 2)
        }
        if tier == .lowest, until != nil {
            throw AccountCommandFault(message: "--until goes with a tier above \(name), which everyone has for good", exitCode: 2)
        }
        if let until, until <= desk.now {
            throw AccountCommandFault(message: "--until \(ISO8601.text(until)) is past, give a time to come", exitCode: 2)
        }
        return tier == .lowest ? nil : name
    }
}

extension TierList {
    /// Why a name is no tier's, and which are.
    func complaint(about name: String) -> String { "\(quoted(name)) names no tier, the tiers are \(names.joined(separator: ", "))" }
}
