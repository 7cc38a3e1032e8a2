import Gate
import Telemetry
import Transport
import Wire

/// An answer that has been found to be a stream. A class, so that other exchanges hold a reference's room for it; so is `Tunnel`.
final class LongAnswer {
    let kind: StreamKind
    /// nil if neither token nor session ends it.
    var clock: StreamClock?
    /// Milliseconds of silence after which a comment is sent; nil for never.
    let heartbeat: UInt64?
    /// When content last went to the client.
    var movedAt: MonotonicTime
    /// A warning that waits for the gap between two events: the seconds until the end.
    var warning: Int64?
    /// Why it ends. Set before the exchange ends, and while the end waits for a gap.
    var end: StreamEndReason?
    /// When a stream is cut whose end waits for a gap.
    var cutAt: MonotonicTime?
    /// Its place in `StreamTable.open`.
    fileprivate(set) var place = 0

    init(_ kind: StreamKind, _ life: StreamLife?, _ rule: StreamRule, isReadable: Bool, at now: MonotonicTime) {
        self.kind = kind
        let writesEvents = kind == .sse && isReadable
        clock = life.map { StreamClock($0, warningMilliseconds: writesEvents ? rule.warningMilliseconds : nil) }
        heartbeat = writesEvents ? rule.heartbeatMilliseconds.map(UInt64.init) : nil
        movedAt = now
    }

    /// Notes why it ends, unless that is known.
    func ends(_ reason: StreamEndReason) {
        if end == nil { end = reason }
    }

    /// The warning that waits, which is about to be written.
    func takeWarning() -> Int64? {
        defer { warning = nil }
        return warning
    }

    /// Whether something waits for a gap between two frames.
    var awaitsGap: Bool { warning != nil || cutAt != nil }
}

/// The streams of one worker and their clock. Answers that are no streams are not here.
struct StreamTable: ~Copyable {
    private(set) var open = UniqueArray<Handle<Exchange>>()
    /// By the number of the exchange.
    var timers: TimerWheel
    /// When answers are next looked through for what has become long, or has lost its session meanwhile.
    var sweepAt: MonotonicTime
    /// Whether tiers or accounts are being looked up for streams.
    var awaitsLookUps = false

    init(now: MonotonicTime) {
        timers = TimerWheel(now: now)
        sweepAt = now
    }

    /// Sessions have ended, or tiers may have changed. Those that come together are looked at together.
    mutating func sweepSoon(at now: MonotonicTime) { sweepAt = min(sweepAt, now.advanced(milliseconds: 20)) }

    /// How long the loop may wait, at most `longest` milliseconds.
    mutating func millisecondsToNext(_ now: MonotonicTime, longest: Int32) -> Int32 {
        let toSweep = (sweepAt.nanoseconds(since: now) + 999_999) / 1_000_000
        let shortest = min(longest, Int32(clamping: toSweep))
        return open.isEmpty ? shortest : timers.millisecondsToNext(now, longest: shortest)
    }

    mutating func add(_ exchange: Handle<Exchange>, _ live: LongAnswer) {
        live.place = open.count
        open.append(exchange)
    }

    /// Removes the stream at `place`; returns the one that takes it, if another does.
    mutating func remove(_ exchange: Handle<Exchange>, at place: Int) -> Handle<Exchange>? {
        timers.clear(exchange.index.id)
        guard let last = open.popLast(), last != exchange else { return nil }
        open[place] = last
        return last
    }
}

extension Slab where Element == Exchange {
    /// The stream moves to another place of the table.
    mutating func move(_ exchange: Handle<Exchange>, to place: Int) { self[exchange.index].rare?.live?.place = place }
}
