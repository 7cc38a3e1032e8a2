internal import Accounts
internal import Synchronization
internal import Wire

/// The row that a call is about to lock, where clients choose it by what they send.
enum LockedRow: Hashable, Sendable {
    case account(UUID)
    case session(UUID)
    /// The account with this email or phone, by its key.
    case contact(String)
    case identity(IdentityKey)
    /// The purchases of a store, which change one after the other: those that accounts claim, and those of which the store speaks. A flood
    /// of claims shuts no notification out.
    case claims(PurchaseSource)
    case notifications(PurchaseSource)
}

/// The share of a pool's connections that calls for one row may hold. While another program keeps a row locked, its calls wait for it at
/// the database; without a share a client that tries again and again would take every connection.
final class RowShares: Sendable {
    private struct Line {
        var running = 0
        var waiting: [CheckedContinuation<StoreFault?, Never>] = []
    }

    private enum Turn { case now, later, never }

    /// The calls of one row that run at once, and that wait for those.
    private let share: Int
    private let capacity: Int
    private let lines = Mutex<[LockedRow: Line]>([:])

    init(share: Int, capacity: Int) {
        self.share = share
        self.capacity = capacity
    }

    /// Runs `call` once it is within the share of its row, or of the account's that `account` finds by it; a fault of that is the call's.
    /// A call that runs beside no other needs no look-up: at most one runs so, which its account may hold beyond the share. When the
    /// database gives up one call of a row, those that wait behind it get the same fault: each would wait for the same lock in turn.
    func run<Value: Sendable>(
        _ named: LockedRow?, account: (LockedRow) async throws(StoreFault) -> LockedRow, _ call: () async throws(StoreFault) -> Value
    ) async throws(StoreFault) -> Value {
        guard let named else { return try await call() }
        let isAlone = lines.withLock { lines in
            guard lines.isEmpty else { return false }
            lines[named] = Line(running: 1)
            return true
        }
        let row = isAlone ? named : try await account(named)
        if !isAlone, let fault = await enter(row) { throw fault }
        do throws(StoreFault) {
            let value = try await call()
            leave(row, nil)
            return value
        } catch {
            leave(row, error)
            throw error
        }
    }

    /// Waits for the call's turn; the fault if it gets none.
    private func enter(_ row: LockedRow) async -> StoreFault? {
        await withCheckedContinuation { continuation in
            let turn = lines.withLock { lines -> Turn in
                var line = lines[row] ?? Line()
                // Calls for one session keep their order, and share no transaction.
                let share = if case .session = row { 1 } else { share }
                defer { lines[row] = line }
                if line.running < share {
                    line.running += 1
                    return .now
                }
                guard line.waiting.count < capacity else { return .never }
                line.waiting.append(continuation)
                return .later
            }
            switch turn {
            case .now: continuation.resume(returning: nil)
            case .never: continuation.resume(returning: .busy("too many calls wait for one row of the database"))
            case .later: break
            }
        }
    }

    private func leave(_ row: LockedRow, _ fault: StoreFault?) {
        let passed: StoreFault? =
            switch fault {
            case .unavailable, .busy: fault
            case .failed, .banned, nil: nil
            }
        let resumed = lines.withLock { lines in
            guard var line = lines[row] else { return [CheckedContinuation<StoreFault?, Never>]() }
            var resumed: [CheckedContinuation<StoreFault?, Never>] = []
            if passed != nil {
                swap(&resumed, &line.waiting)
                line.running -= 1
            } else if line.waiting.isEmpty {
                line.running -= 1
            } else {
                resumed = [line.waiting.removeFirst()]
            }
            lines[row] = line.running == 0 && line.waiting.isEmpty ? nil : line
            return resumed
        }
        for continuation in resumed { continuation.resume(returning: passed) }
    }
}
