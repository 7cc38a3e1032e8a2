internal import Accounts
internal import Synchronization
internal import Transport

/// Drops from the store what is long over, at the start and once an hour.
final class AccountSweep: Sendable {
    private static let period: UInt64 = 3_600_000

    private let context: AccountContext
    private let task = Mutex<Task<Void, Never>?>(nil)

    init(context: AccountContext) { self.context = context }

    func start() {
        let context = context
        task.withLock { task in
            // Waited for by nobody: it ends when `stop` cancels it.
            task = Task {
                while !Task.isCancelled {
                    do throws(AccountFailure) {
                        try await context.sweep()
                    } catch {
                        // A store that is away has been told of; the next hour brings the next try.
                    }
                    await pause(milliseconds: Self.period)
                }
            }
        }
    }

    func stop() { task.withLock { $0 }?.cancel() }
}
