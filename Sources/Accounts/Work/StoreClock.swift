internal import Synchronization
package import Wire

/// The clock of the store's server, by which all rules about sessions, codes and other rows are applied: gateways whose own clocks differ
/// apply them alike. Between two readings it advances with the monotonic clock, so a change of the gateway's wall clock
/// does not move it.
///
/// A reading has an interval: the server told its time between the question and the answer. The estimate is always within the last
/// reading's, and is moved no further than into it; it begins with the gateway's own time of day, which is also all there is where the
/// store has no clock of its own. Any thread.
package final class StoreClock: Sendable {
    /// Backward corrections up to this many microseconds are not shown: the time stands still meanwhile.
    private static let maxHalt: Int64 = 1_000_000

    private struct Estimate {
        /// Microseconds since 1970, at zero of the monotonic clock.
        var base: Int64
        /// The latest time that was told.
        var told: Int64 = .min
    }

    private let estimate = Mutex<Estimate?>(nil)

    package init() {}

    /// The server's clock showed `time` after the moment `asked` and before `answered`.
    package func read(_ time: WallTime, from asked: Moment, to answered: Moment) {
        let (latest, earliest) = (time.microseconds &- Self.microseconds(asked), time.microseconds &- Self.microseconds(answered))
        estimate.withLock { estimate in
            let base = estimate?.base ?? answered.wall.microseconds &- Self.microseconds(answered)
            estimate = Estimate(base: min(max(base, min(earliest, latest)), latest), told: estimate?.told ?? .min)
        }
    }

    /// The store's time at a moment of the gateway: the gateway's own before the first reading.
    package func time(at moment: Moment) -> WallTime {
        estimate.withLock { estimate in
            guard var known = estimate else { return moment.wall }
            let time = known.base &+ Self.microseconds(moment)
            let isHalt = time < known.told && known.told &- time <= Self.maxHalt
            known.told = isHalt ? known.told : time
            estimate = known
            return WallTime(microseconds: known.told)
        }
    }

    /// Microseconds by which the gateway's time of day is ahead of the store's; nil before the first reading.
    package func skew(at moment: Moment) -> Int64? {
        estimate.withLock { $0.map { moment.wall.microseconds &- ($0.base &+ Self.microseconds(moment)) } }
    }

    private static func microseconds(_ moment: Moment) -> Int64 { Int64(moment.monotonic.nanoseconds / 1_000) }
}
