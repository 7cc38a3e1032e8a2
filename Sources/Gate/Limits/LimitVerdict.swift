/// State of one count, for the caller. Times are microseconds from now.
package struct LimitReading: Equatable, Sendable {
    /// Requests that would be admitted now.
    package var remaining: UInt32
    /// Whether the count was read: when one limit refuses, the others need not be asked.
    package var isKnown: Bool
    /// Time until the full burst is available.
    package var reset: UInt64
    /// Time until one more is admitted; 0 if `remaining` is not 0.
    package var retryAfter: UInt64

    package init(remaining: UInt32, reset: UInt64, retryAfter: UInt64, isKnown: Bool = true) {
        self.remaining = remaining
        self.isKnown = isKnown
        self.reset = reset
        self.retryAfter = retryAfter
    }

    /// A count that was not read.
    package static let unknown = LimitReading(remaining: 0, reset: 0, retryAfter: 0, isKnown: false)

    fileprivate func isTighter(than other: LimitReading) -> Bool {
        guard isKnown, other.isKnown else { return isKnown }
        return retryAfter == other.retryAfter ? remaining < other.remaining : retryAfter > other.retryAfter
    }
}

/// Answer to a charge, from this process or Redis. Written in place, like the charge.
package struct LimitVerdict: Equatable, Sendable {
    package enum Kind: UInt8, Sendable {
        /// Every limit admitted the request and counted it.
        case granted
        /// A limit refused; none counted it.
        case refused
        /// Could not be counted; admitted.
        case open
        /// Could not be counted; refused.
        case closed
    }

    package private(set) var kind = Kind.closed
    package private(set) var source = LimitOutcome.Source.fallback
    /// Number of readings: that of the charge, or 0 if it could not be counted.
    package private(set) var count = 0
    /// `Retry-After` of `closed`, in seconds.
    package private(set) var retryAfterSeconds: UInt32 = 0
    /// When it was counted, in microseconds: since the machine's start if in process, since 1970 if by Redis.
    /// `LimitVerifier` reads it from the access log.
    package var countedAt: UInt64 = 0
    private var readings: PerCount<LimitReading>

    /// Closed until set.
    package init() { readings = InlineArray(repeating: .unknown) }

    /// Could not be counted; admitted.
    package static let open = {
        var verdict = LimitVerdict()
        verdict.kind = .open
        return verdict
    }()

    /// Could not be counted; refused.
    package static func closed(retryAfterSeconds: UInt32) -> LimitVerdict {
        var verdict = LimitVerdict()
        verdict.retryAfterSeconds = retryAfterSeconds
        return verdict
    }

    /// Makes it a counted verdict. The caller sets all readings, or keeps those of the previous verdict.
    package mutating func becomes(granted: Bool, _ source: LimitOutcome.Source, count: Int) {
        kind = granted ? .granted : .refused
        self.source = source
        self.count = count
    }

    /// Copies `other`, and only the readings that it has.
    package mutating func copy(from other: inout LimitVerdict) {
        kind = other.kind
        source = other.source
        count = other.count
        retryAfterSeconds = other.retryAfterSeconds
        countedAt = other.countedAt
        for index in 0..<count { readings[index] = other.readings[index] }
    }

    /// Reading `index`, below `count`, in the order of the charge.
    package subscript(index: Int) -> LimitReading {
        get {
            precondition(index < count)
            return readings[index]
        }
        set {
            precondition(index < count)
            readings[index] = newValue
        }
    }

    /// Takes away the last reading, that of something that counts once. Whether it was used before: the others may be what refused.
    mutating func takeReplay() -> Bool {
        let reading = self[count - 1]
        count -= 1
        return kind == .refused && (count == 0 || reading.isKnown && reading.remaining == 0)
    }

    /// Adds leased grants to `remaining`.
    package mutating func add(_ grants: UInt32) {
        guard grants > 0 else { return }
        for index in 0..<count {
            let (sum, overflow) = readings[index].remaining.addingReportingOverflow(grants)
            readings[index].remaining = overflow ? .max : sum
            readings[index].retryAfter = 0
        }
    }

    /// Index of the limit to report: the longest `retryAfter`, and if none waits, the smallest `remaining`.
    package var tightest: Int {
        var tightest = 0
        for index in 1..<max(1, count) where readings[index].isTighter(than: readings[tightest]) { tightest = index }
        return tightest
    }

    package static func == (left: Self, right: Self) -> Bool {
        guard left.kind == right.kind, left.source == right.source, left.count == right.count,
            left.retryAfterSeconds == right.retryAfterSeconds
        else { return false }
        return (0..<left.count).allSatisfy { left.readings[$0] == right.readings[$0] }
    }
}
