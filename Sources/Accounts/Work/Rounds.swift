internal import Synchronization

/// A task that repeats a round of work, with pauses, until it is stopped.
package final class Rounds: Sendable {
    private let task = Mutex<Task<Void, Never>?>(nil)

    package init() {}

    /// Begins the rounds after `first` milliseconds, unless they have begun. Each gets its number, from 0 on, and returns the pause behind it
    /// in milliseconds.
    package func start(
        _ clock: AccountClock, after first: UInt64 = 0, on executor: (any TaskExecutor)? = nil,
        _ round: @escaping @Sendable (_ number: UInt64) async -> UInt64
    ) {
        task.withLock { task in
            guard task == nil else { return }
            // Unstructured: `stop` cancels it.
            task = Task(executorPreference: executor) {
                if first > 0 { await clock.pause(first) }
                var number: UInt64 = 0
                while !Task.isCancelled {
                    await clock.pause(await round(number))
                    number += 1
                }
            }
        }
    }

    /// Cancels the round under way, and begins no other one.
    package func stop() { task.withLock { $0 }?.cancel() }

    /// Returns once the round under way has ended.
    package func ended() async { await task.withLock { $0 }?.value }
}
