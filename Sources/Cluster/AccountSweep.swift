internal import Accounts
internal import Synchronization
internal import Transport

/// Deletes expired codes, sessions and log rows from the store, at the start and once an hour.
final class AccountSweep: Sendable {
    private static let periodMilliseconds: UInt64 = 3_600_000

    private let context: AccountContext
    private let task = Mutex<Task<Void, Never>?>(nil)

    init(context: AccountContext) { self.context = context }

    func start() {
        let context = context
        task.withLock { task in
            // Unstructured: `stop` cancels it.
            task = Task {
                while !Task.isCancelled {
                    do throws(AccountFailure) {
                        try await context.sweep()
                    } catch {
                        // The service has logged it; the next hour brings the next try.
                    }
                    await pause(milliseconds: Self.periodMilliseconds)
                }
            }
        }
    }

    func stop() { task.withLock { $0 }?.cancel() }
}
