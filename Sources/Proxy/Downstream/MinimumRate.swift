import Wire

/// Minimum transfer rate of one body, against peers that send or read a byte now and then to hold a connection (slowloris).
///
/// A peer has an allowance of time to begin with, and each byte adds a millisecond: in the long run about 1 KiB a second. A value
/// without clocks.
struct MinimumRate: Equatable {
    private var since = MonotonicTime(nanoseconds: 0)
    /// Bytes since the beginning.
    private(set) var bytes: UInt64 = 0

    mutating func begin(at now: MonotonicTime) {
        since = now
        bytes = 0
    }

    mutating func moved(_ count: Int) { bytes += UInt64(count) }

    /// When the next byte must have moved; `allowance` in milliseconds.
    func deadline(allowance: UInt64) -> MonotonicTime {
        since.advanced(milliseconds: allowance + min(bytes, 1 << 40))
    }

    /// Likewise, at `rate` bytes a second.
    func deadline(allowance: UInt64, rate: UInt64) -> MonotonicTime {
        since.advanced(milliseconds: allowance + min(bytes, 1 << 40) * 1_000 / rate)
    }
}
