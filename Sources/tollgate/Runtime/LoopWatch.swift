internal import Proxy
internal import Synchronization
internal import Threads
internal import Wire

/// Judges by their turns whether all event loops are alive. Pure.
struct LoopWatch {
    /// Turns at the last ping.
    private var pinged: [UInt64?]
    /// Turns at the last look, and since when they have been the same. Empty before the first look.
    private var seen: [(turns: UInt64?, since: MonotonicTime)] = []

    /// Time without a turn after which a loop counts as stuck. The longest that a healthy loop waits is one second.
    static let patience: UInt64 = 10_000

    /// `count` loops that have not turned yet.
    init(_ count: Int) { pinged = Array(repeating: 0, count: count) }

    /// Returns the loops that have not turned since the last ping; none: the watchdog may be pinged, and that counts as done. A worker that
    /// has ended, whose turns are nil, counts as alive.
    mutating func look(_ turns: [UInt64?], at now: MonotonicTime) -> [Int] {
        if seen.isEmpty { seen = turns.map { ($0, now) } }
        for index in seen.indices where turns[index] != seen[index].turns { seen[index] = (turns[index], now) }
        let still = turns.indices.filter { turns[$0] != nil && turns[$0] == pinged[$0] }
        if still.isEmpty { pinged = turns }
        return still
    }

    /// The loops that are stuck by what the last look saw and by their turns now.
    func stuck(_ turns: [UInt64?], at now: MonotonicTime) -> [Int] {
        seen.indices.filter { index in
            turns[index] != nil && turns[index] == seen[index].turns
                && now >= seen[index].since.advanced(milliseconds: Self.patience)
        }
    }
}

/// Watches the event loops of the workers for systemd's watchdog, `/livez` and the log.
final class WorkerWatch: Sendable {
    let pulses: [LoopPulse]
    private let wakers: [Waker]
    private let state: Mutex<(watch: LoopWatch, logged: [Int])>

    init(_ wakers: [Waker]) {
        self.wakers = wakers
        pulses = wakers.map { _ in LoopPulse() }
        state = Mutex((LoopWatch(wakers.count), []))
    }

    /// Called about once a second. Whether every loop has turned since this was last true; those that have not are woken, so that only
    /// a stuck one stays behind until the next call.
    func mayPing(at now: MonotonicTime, _ log: ServerLog) -> Bool {
        let turns = pulses.map(\.turns)
        let (still, stuck, before) = state.withLock { state in
            let still = state.watch.look(turns, at: now)
            let before = state.logged
            state.logged = state.watch.stuck(turns, at: now)
            return (still, state.logged, before)
        }
        for index in still { wakers[index].wake() }
        for index in stuck where !before.contains(index) { log.error("the event loop of a worker is stuck", ("worker", "\(index)")) }
        for index in before where !stuck.contains(index) { log.info("the event loop of a worker turns again", ("worker", "\(index)")) }
        return still.isEmpty
    }

    /// Why `/livez` fails; nil if no loop is stuck. Any thread.
    func problem(at now: MonotonicTime) -> String? {
        let turns = pulses.map(\.turns)
        let stuck = state.withLock { $0.watch.stuck(turns, at: now) }
        guard !stuck.isEmpty else { return nil }
        return "the event loop of worker \(stuck.map(String.init).joined(separator: ", ")) is stuck"
    }
}
