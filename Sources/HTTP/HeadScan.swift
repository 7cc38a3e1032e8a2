import Wire

/// Remembers how far an incomplete head was searched for its end, so that a client that sends it byte by byte costs
/// linear work. One per connection; reset for each message.
package struct HeadScan: Sendable {
    private var searched: UInt32 = 0
    private var parsed: UInt32 = 0

    package init() {}

    /// Whether `bytes`, everything of this head so far, hold its blank line.
    package mutating func isComplete(_ bytes: RawSpan) -> Bool { true }

    /// Whether it is worth parsing `bytes` now: the head is complete, or too long, or has doubled since the last time this
    /// was true (so that what can never become a head is found out early).
    package mutating func isDue(_ bytes: RawSpan, limits: HeadLimits) -> Bool { true }
}
