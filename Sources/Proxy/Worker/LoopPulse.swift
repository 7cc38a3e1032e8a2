import Synchronization

/// Counts the turns of one worker's event loop, so that other threads see whether it is stuck. The loop turns at least once a
/// second, and at once when it is woken.
package final class LoopPulse: Sendable {
    private let count = Atomic<UInt64>(0)

    package init() {}

    /// Turns so far; nil once the worker has ended. Any thread.
    package var turns: UInt64? {
        let turns = count.load(ordering: .relaxed)
        return turns == .max ? nil : turns
    }

    /// The loop begins a turn. The worker's thread, the only one that writes.
    func turned() { count.store(count.load(ordering: .relaxed) &+ 1, ordering: .relaxed) }

    func ended() { count.store(.max, ordering: .relaxed) }
}
