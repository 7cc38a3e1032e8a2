import Wire

/// Frames that cost the gateway more than the peer and have little use: each kind is allowed in a measure that no ordinary client
/// reaches, and beyond it the connection ends with ENHANCE_YOUR_CALM.
package enum HTTP2Glitch: Int, Sendable, CaseIterable {
    /// The client cancels a request before its answer has ended (CVE-2023-44487).
    case reset
    /// The client makes the gateway reset a stream, by a malformed request or a bad frame (CVE-2025-8671). Resets that the gateway
    /// decides on by itself, such as after an early answer, do not count.
    case provokedReset
    /// A stream beyond the limit that the gateway has announced, or after the last GOAWAY of a drain.
    case refusedStream
    /// DATA without content that does not end its stream.
    case emptyData
    /// CONTINUATION: more than a few in one field section (CVE-2024-27316).
    case continuation
    case ping
    /// SETTINGS and GOAWAY.
    case settings
    /// PRIORITY, PRIORITY_UPDATE, and frames of unknown types.
    case priority
    /// WINDOW_UPDATE beyond a number for each DATA frame that was sent; a frame that a window cuts short excuses none.
    case windowUpdate
    /// Frames for a stream that is over.
    case closedStream

    /// Stable, snake_case, for metrics and logs.
    package var text: StaticString {
        switch self {
        case .reset: "reset"
        case .provokedReset: "provoked_reset"
        case .refusedStream: "refused_stream"
        case .emptyData: "empty_data"
        case .continuation: "continuation"
        case .ping: "ping"
        case .settings: "settings"
        case .priority: "priority"
        case .windowUpdate: "window_update"
        case .closedStream: "closed_stream"
        }
    }

    /// How many may come at once, and how many a second in the long run.
    package var bound: (burst: UInt32, perSecond: UInt32) {
        switch self {
        // A browser that leaves a page cancels up to 100 streams; a search field cancels a few a second.
        case .reset: (200, 33)
        case .provokedReset: (100, 10)
        case .refusedStream: (200, 33)
        case .emptyData: (100, 10)
        case .continuation: (100, 10)
        // gRPC clients ping to measure the bandwidth, at most once a round trip.
        case .ping: (1_000, 100)
        case .settings: (100, 10)
        // Browsers send some for each request.
        case .priority: (1_000, 200)
        case .windowUpdate: (1_000, 100)
        // Content in flight when its stream is reset: at most a window of small frames.
        case .closedStream: (1_000, 100)
        }
    }
}

/// Leaky buckets, one for each kind of glitch of one connection.
struct HTTP2Glitches {
    private struct Bucket {
        /// In thousandths.
        var level: UInt32 = 0
        /// Milliseconds of the monotonic clock, which may wrap.
        var at: UInt32 = 0
    }

    private var buckets = InlineArray<10, Bucket>(repeating: Bucket())

    /// Counts one more; returns whether it is within the bound.
    mutating func isWithinBound(_ kind: HTTP2Glitch, at now: MonotonicTime) -> Bool {
        let bound = kind.bound
        let moment = UInt32(truncatingIfNeeded: now.nanoseconds / 1_000_000)
        let leaked = UInt64(moment &- buckets[kind.rawValue].at) * UInt64(bound.perSecond)
        let level = UInt64(buckets[kind.rawValue].level)
        let left = level - min(level, leaked) + 1_000
        buckets[kind.rawValue] = Bucket(level: UInt32(min(left, UInt64(bound.burst + 1) * 1_000)), at: moment)
        return left <= UInt64(bound.burst) * 1_000
    }
}
