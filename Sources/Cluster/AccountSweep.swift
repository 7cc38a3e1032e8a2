internal import Accounts
internal import Synchronization
internal import Threads

/// Deletes expired codes, sessions and log rows from the store, at the start and once an hour.
final class AccountSweep: Sendable {
    private static let periodMilliseconds: UInt64 = 3_600_000
    /// Seconds by which one sweep may go beyond the last: twice the period, so that sweeps catch up after the gateway was down.
    private static let stride = Int64(periodMilliseconds / 1_000 * 2)

    private let context: AccountContext
    private let task = Mutex<Task<Void, Never>?>(nil)

    init(context: AccountContext) { self.context = context }

    func start() {
        let context = context
        task.withLock { task in
            // Unstructured: `stop` cancels it.
            task = Task {
                // The first goes no further than the last of the process before, or restarts would add up.
                var stride: Int64 = 0
                while !Task.isCancelled {
                    do throws(AccountFailure) {
                        try await context.sweep(stride: stride)
                    } catch {
                        // The service has logged it; the next hour brings the next try.
                    }
                    stride = Self.stride
                    await pause(milliseconds: Self.periodMilliseconds)
                }
            }
        }
    }

    func stop() { task.withLock { $0 }?.cancel() }
}
