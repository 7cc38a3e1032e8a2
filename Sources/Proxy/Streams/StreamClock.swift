import Gate
import Wire

/// State machine of a stream's end: when its session is asked about, when its client is warned, when it ends. Pure.
///
/// The end is the expiry of the newest token that is known of the session, plus the leeway. The worker
/// asks the store for a refresh before a warning and at the end, so refreshes need no broadcast. No answer counts as no refresh.
struct StreamClock: Equatable {
    enum Action: Equatable {
        case nothing
        /// Ask the store when the newest token of the session expires. `answered` follows; without it the clock decides after `patience`.
        case ask
        /// Tell the client that the stream ends in so many seconds.
        case warn(seconds: Int64)
        case end
    }

    private enum Phase: Equatable {
        case running
        /// Left by the answer, or when it is late.
        case asking(since: WallTime)
    }

    /// How long an answer is waited for, in microseconds. It bounds how much longer a stream lives whose session cannot be asked about.
    static let patience: Int64 = 2_500_000

    private var phase = Phase.running
    /// `exp` of the newest token that is known, in seconds since 1970.
    private var expiresAt: Int64
    private let leeway: Int64
    private let extends: Bool
    /// How long before the end the warning is due, in microseconds; 0 for none.
    private let warning: Int64
    private var isWarned = false

    init(_ life: StreamLife, warningMilliseconds: UInt32? = nil) {
        self.init(
            expiresAt: life.expiresAt, leeway: life.leeway, extends: life.extendingSession != nil,
            warningMilliseconds: warningMilliseconds)
    }

    init(expiresAt: Int64, leeway: Int64, extends: Bool, warningMilliseconds: UInt32? = nil) {
        self.expiresAt = expiresAt
        self.leeway = leeway
        self.extends = extends
        warning = Int64(warningMilliseconds ?? 0) * 1_000
    }

    /// The stream's end, unless it is extended.
    private var end: WallTime {
        let (seconds, overflows) = expiresAt.addingReportingOverflow(leeway)
        return WallTime(seconds: overflows ? .max : seconds)
    }

    /// When the client is warned; nil if it is not, or was.
    private var warningAt: WallTime? {
        warning > 0 && !isWarned ? WallTime(microseconds: end.microseconds - warning) : nil
    }

    /// When `advance` is due next.
    var nextAt: WallTime {
        switch phase {
        case .running: warningAt ?? end
        case .asking(let since): WallTime(microseconds: since.microseconds + Self.patience)
        }
    }

    mutating func advance(to now: WallTime) -> Action {
        guard nextAt <= now else { return .nothing }
        if extends, phase == .running {
            phase = .asking(since: now)
            return .ask
        }
        phase = .running
        return settle(at: now)
    }

    /// The newest token of the session is valid until then, in seconds since 1970; nil if there is none or it is not known.
    mutating func answered(_ newest: Int64?, at now: WallTime) -> Action {
        guard case .asking(let since) = phase else { return .nothing }
        phase = .running
        if let newest, newest > expiresAt {
            expiresAt = newest
            isWarned = false
            return .nothing
        }
        // A question from before the end misses a refresh in between.
        if end <= now, since < end { return advance(to: now) }
        return settle(at: now)
    }

    /// The session was not refreshed: warns or ends.
    private mutating func settle(at now: WallTime) -> Action {
        let left = end.microseconds - now.microseconds
        guard left > 0 else { return .end }
        guard warningAt != nil else { return .nothing }
        isWarned = true
        return .warn(seconds: (left + 999_999) / 1_000_000)
    }
}
