internal import Storage

/// Whether the account store answers, and whether it can be written: on a full disk it is read as before. Pure. Each change returns whether
/// to log it.
struct StoreCondition {
    /// Why the store does not answer; nil while it does.
    private var problem: String?
    /// Why the latest write failed; nil if it did not.
    private var writeProblem: String?
    /// Whether a read has failed since the store last answered.
    private var readFails = false

    /// The reason for `/readyz`; nil while all is well.
    var reason: String? { problem ?? writeProblem.map { "changes fail: \($0)" } }

    /// The store does not answer.
    mutating func failed(_ reason: String) -> Bool {
        // One that only cannot be written was logged as that.
        guard writeProblem != reason || readFails else { return false }
        defer { problem = reason }
        return problem == nil
    }

    mutating func answered() -> Bool {
        // Writes failed because the whole store did not answer.
        if readFails { (readFails, writeProblem) = (false, nil) }
        defer { problem = nil }
        return problem != nil
    }

    /// A transaction has ended. Failing writes count until one succeeds.
    mutating func ended(_ outcome: StoreOutcome) -> Bool {
        let before = writeProblem
        switch outcome {
        case .readFailed: readFails = true
        // Reported once for each reason.
        case .skippedRow: return true
        case .wrote: writeProblem = nil
        case .writeFailed(let reason): writeProblem = reason
        }
        return (before == nil) != (writeProblem == nil)
    }
}
