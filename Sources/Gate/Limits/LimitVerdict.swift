/// Where one count stands, as its caller may be told. All times are microseconds from the answer on.
package struct LimitReading: Equatable, Sendable {
    /// What could pass now.
    package var remaining: UInt32
    /// Whether anything was heard of this count: a request that one limit refuses need not ask after the others.
    package var isKnown: Bool
    /// Until the full burst is there again.
    package var reset: UInt64
    /// Until one more may pass; 0 if `remaining` is not 0.
    package var retryAfter: UInt64

    package init(remaining: UInt32, reset: UInt64, retryAfter: UInt64, isKnown: Bool = true) {
        self.remaining = remaining
        self.isKnown = isKnown
        self.reset = reset
        self.retryAfter = retryAfter
    }

    package init(_ outcome: GCRA.Outcome) {
        self.init(remaining: outcome.remaining, reset: outcome.reset, retryAfter: outcome.retryAfter)
    }

    /// Of a count that nothing is known of.
    package static let unknown = LimitReading(remaining: 0, reset: 0, retryAfter: 0, isKnown: false)

    fileprivate func isTighter(than other: LimitReading) -> Bool {
        guard isKnown, other.isKnown else { return isKnown }
        return retryAfter == other.retryAfter ? remaining < other.remaining : retryAfter > other.retryAfter
    }
}

/// What a store of counts answers to a charge. Written where it lies, like the charge.
package struct LimitVerdict: Equatable, Sendable {
    package enum Kind: UInt8, Sendable {
        /// All limits admitted the request, and all have counted it.
        case granted
        /// One did not, and none has.
        case refused
        /// Nothing could be counted, and the request passes all the same.
        case open
        /// Nothing could be counted, and the request must not pass.
        case closed
    }

    package private(set) var kind = Kind.closed
    /// What knew it.
    package private(set) var source = LimitOutcome.Source.fallback
    /// Readings: the charge's count, or 0 where nothing could be counted.
    package private(set) var count = 0
    /// How long a caller who is refused for want of counting is told to wait.
    package private(set) var retryAfterSeconds: UInt32 = 0
    /// When it was counted, in microseconds on the clock of whoever counted: in process since the machine started, by
    /// Redis since 1970. What the proof over access logs goes by.
    package var countedAt: UInt64 = 0
    private var readings: InlineArray<4, LimitReading>

    /// Closed, until something else is known.
    package init() { readings = InlineArray(repeating: .unknown) }

    /// Nothing could be counted; passes.
    package static let open = {
        var verdict = LimitVerdict()
        verdict.kind = .open
        return verdict
    }()

    /// Nothing could be counted; does not pass.
    package static func closed(retryAfterSeconds: UInt32) -> LimitVerdict {
        var verdict = LimitVerdict()
        verdict.retryAfterSeconds = retryAfterSeconds
        return verdict
    }

    /// Makes it an answer of counting. The readings must all be set, or are those of a verdict before.
    package mutating func becomes(granted: Bool, _ source: LimitOutcome.Source, count: Int) {
        kind = granted ? .granted : .refused
        self.source = source
        self.count = count
    }

    /// Becomes `other`; copies the readings that it has and no more.
    mutating func becomes(_ other: inout LimitVerdict) {
        kind = other.kind
        source = other.source
        count = other.count
        retryAfterSeconds = other.retryAfterSeconds
        countedAt = other.countedAt
        for index in 0..<count { readings[index] = other.readings[index] }
    }

    /// Reading `index`, below `count`; in the order of the charge.
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

    /// Adds grants that are held in advance to what could pass now.
    mutating func add(_ grants: UInt32) {
        guard grants > 0 else { return }
        for index in 0..<count {
            let (sum, overflow) = readings[index].remaining.addingReportingOverflow(grants)
            readings[index].remaining = overflow ? .max : sum
            readings[index].retryAfter = 0
        }
    }

    /// The limit to tell a caller of: that with the longest wait, and while there is none, that which lets the fewest pass.
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
