internal import Wire

/// Decides when the change log is read, one reading at a time, and which writers each reading releases. A writer waits for a
/// reading that begins after its commit; those that wait at once share one.
struct ChangeLogPollerState<Writer> {
    /// Milliseconds between readings with a bus, and without one.
    static var period: UInt64 { 500 }
    static var periodWithoutBus: UInt64 { 300 }
    /// Hints of a burst are served by one reading.
    static var spacing: UInt64 { 5 }
    /// After a failed reading that writers wait for.
    static var retry: UInt64 { 50 }
    /// How long a writer waits at most, plus up to a period of the polling thread; its change is committed all the same.
    let patience: UInt64

    init(patience: UInt64) { self.patience = patience }

    private struct Waiting {
        let writer: Writer
        let deadline: MonotonicTime
    }

    private(set) var isReading = false
    private(set) var isStopped = true
    private var hasBus = false
    private var isHinted = false
    /// Whether the latest reading that has ended has failed.
    private(set) var lastFailed = false
    /// Whether the next reading is due sooner than after a period.
    var isRestless: Bool { lastFailed || isHinted }
    private var lastBegan: MonotonicTime?
    private var lastEnded = MonotonicTime(nanoseconds: 0)
    /// In the order in which they came, and so of their deadlines.
    private var waiting: [Waiting] = []
    /// How many of them, from the first on, the reading under way releases.
    private var covered = 0

    /// The first reading is due at once.
    mutating func started() { isStopped = false }

    /// No reading begins any more; answers every writer that waits.
    mutating func stopped() -> [Writer] {
        isStopped = true
        return release(waiting.count)
    }

    mutating func hinted() { isHinted = true }

    mutating func busChanged(isConnected: Bool) {
        hasBus = isConnected
        isHinted = true
    }

    /// A writer has committed; false if there are no readings to wait for.
    mutating func joined(_ writer: Writer, at now: MonotonicTime) -> Bool {
        guard !isStopped else { return false }
        waiting.append(Waiting(writer: writer, deadline: now.advanced(milliseconds: patience)))
        return true
    }

    /// Begins a reading if one is due: the caller must then read, and call `ended`.
    mutating func begins(at now: MonotonicTime) -> Bool {
        guard !isStopped, !isReading, dueAt <= now else { return false }
        isReading = true
        isHinted = false
        lastBegan = now
        covered = waiting.count
        return true
    }

    /// The reading has ended; answers the writers whose changes it has applied. After a failure they wait for the next one.
    mutating func ended(succeeded: Bool, at now: MonotonicTime) -> [Writer] {
        isReading = false
        lastFailed = !succeeded
        lastEnded = now
        defer { covered = 0 }
        return succeeded ? release(covered) : []
    }

    /// The writers that have waited for too long.
    mutating func expired(at now: MonotonicTime) -> [Writer] { release(waiting.prefix { $0.deadline <= now }.count) }

    private mutating func release(_ count: Int) -> [Writer] {
        defer {
            waiting.removeFirst(count)
            covered = max(0, covered - count)
        }
        return waiting.prefix(count).map(\.writer)
    }

    /// How long nothing happens by itself, in milliseconds, at most a period.
    func pause(at now: MonotonicTime) -> UInt64 {
        isReading ? period : min(Self.period, (dueAt.nanoseconds(since: now) + 999_999) / 1_000_000)
    }

    private var period: UInt64 { hasBus ? Self.period : Self.periodWithoutBus }

    private var dueAt: MonotonicTime {
        guard let lastBegan else { return MonotonicTime(nanoseconds: 0) }
        if !waiting.isEmpty { return lastFailed ? lastEnded.advanced(milliseconds: Self.retry) : lastEnded }
        return lastBegan.advanced(milliseconds: isHinted ? Self.spacing : period)
    }
}
