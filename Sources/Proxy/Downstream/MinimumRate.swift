import Wire

/// How fast one body comes or one answer is taken: who is slow is waited for, and who drips is not.
///
/// Some time is given to begin with; then each byte buys a millisecond, so that in the long run a peer must move about a
/// kilobyte a second. A value without clocks.
struct MinimumRate: Equatable {
    private var since = MonotonicTime(nanoseconds: 0)
    /// Bytes since the beginning.
    private(set) var bytes: UInt64 = 0

    mutating func begin(at now: MonotonicTime) {
        since = now
        bytes = 0
    }

    mutating func moved(_ count: Int) { bytes += UInt64(count) }

    /// When the next byte must have moved; `allowance` is the time given to begin with, in milliseconds.
    func deadline(allowance: UInt64) -> MonotonicTime {
        since.advanced(milliseconds: allowance + min(bytes, 1 << 40))
    }
}
