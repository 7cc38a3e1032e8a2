import Wire

/// Rate of a limit: `count` per `windowSeconds` on average, `burst` at once.
///
/// Times are whole microseconds. The interval between grants is rounded up, so rounding admits at most burst + rate × T in
/// any window of length T, never more.
package struct LimitRate: Hashable, Sendable {
    /// The N of `N/m`, at least 1. With microseconds as the unit, rates above a million per second act as a million.
    package let count: UInt32
    /// 1, 60, 3,600 or 86,400.
    package let windowSeconds: UInt32
    /// Requests admitted at once, at least 1.
    package let burst: UInt32
    /// `+lease`: gateways may hold a few grants in advance. No effect while counting in process.
    package let mayLease: Bool
    /// Microseconds between two grants.
    package let interval: UInt64

    /// Microseconds of grants that an idle caller has saved up: `burst` × `interval`.
    package var tolerance: UInt64 { UInt64(burst) * interval }

    /// Microseconds for which a gateway may hold leased grants; 0 for no leases.
    ///
    /// A function of the policy alone: `storedTolerance` depends on it, and all gateways must store alike. It costs up to a
    /// quarter of the burst. A burst of 1 allows none, and a lease shorter than a round trip would expire unused.
    package var leaseTime: UInt64 {
        let time = min(Self.maxLease, tolerance / 4)
        return mayLease && burst > 1 && time >= Self.shortestLease ? time : 0
    }

    /// Tolerance used in Redis. A leased grant is spent up to `leaseTime` after it was counted, and a burst smaller by that
    /// much keeps every window within its bound (`SharedLimitClient`).
    package var storedTolerance: UInt64 { tolerance - leaseTime }

    private static let maxLease: UInt64 = 100_000
    private static let shortestLease: UInt64 = 5_000

    /// 2^52 µs is about 139 years; a quarter of that keeps sums of times far from overflow.
    private static let maxTolerance: UInt64 = 1 << 50

    /// nil if a number is 0 or a time exceeds the arithmetic's range.
    package init?(count: UInt32, windowSeconds: UInt32, burst: UInt32? = nil, mayLease: Bool = false) {
        let burst = burst ?? count
        guard count > 0, burst > 0, windowSeconds > 0, windowSeconds <= 86_400 else { return nil }
        self.count = count
        self.windowSeconds = windowSeconds
        self.burst = burst
        self.mayLease = mayLease
        let window = UInt64(windowSeconds) * 1_000_000
        interval = (window + UInt64(count) - 1) / UInt64(count)
        guard UInt64(burst) <= Self.maxTolerance / interval else { return nil }
    }

    /// The same rate with another burst and interval.
    package init(of rate: LimitRate, burst: UInt32, interval: UInt64) {
        count = rate.count
        windowSeconds = rate.windowSeconds
        self.burst = burst
        mayLease = rate.mayLease
        self.interval = interval
    }

    /// Placeholder that admits nothing.
    package static let nothing = LimitRate()

    private init() {
        count = 0
        windowSeconds = 0
        burst = 0
        mayLease = false
        interval = .max
    }

    /// Parses `10/h`, `60/m+burst=10`, `60/m+lease`; nil for anything else.
    package init?(parsing text: String) {
        let parts = text.split(separator: "+", omittingEmptySubsequences: false).map(String.init)
        let rate = parts[0].split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard rate.count == 2, let count = Self.number(rate[0]), let window = Self.window(rate[1]) else { return nil }
        var burst: UInt32?
        var mayLease = false
        for part in parts.dropFirst() {
            if part == "lease", !mayLease {
                mayLease = true
            } else if part.hasPrefix("burst="), burst == nil, let value = Self.number(String(part.dropFirst(6))) {
                burst = value
            } else {
                return nil
            }
        }
        self.init(count: count, windowSeconds: window, burst: burst, mayLease: mayLease)
    }

    private static func number(_ text: String) -> UInt32? {
        guard !text.isEmpty, text.utf8.count <= 10, text.utf8.allSatisfy(\.isASCIIDigit) else { return nil }
        return UInt32(text)
    }

    private static func window(_ unit: String) -> UInt32? {
        switch unit {
        case "s": 1
        case "m": 60
        case "h": 3_600
        case "d": 86_400
        default: nil
        }
    }

    /// As written in the settings.
    package var text: String {
        let unit =
            switch windowSeconds {
            case 1: "s"
            case 60: "m"
            case 3_600: "h"
            case 86_400: "d"
            default: "\(windowSeconds)s"
            }
        return "\(count)/\(unit)" + (burst == count ? "" : "+burst=\(burst)") + (mayLease ? "+lease" : "")
    }
}
