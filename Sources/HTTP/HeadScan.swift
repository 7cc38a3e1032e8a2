import Wire

/// Remembers how far an incomplete head was searched for its end, so that a client that sends it byte by byte costs
/// linear work. One per connection; a new one for each message.
package struct HeadScan: Sendable {
    /// Bytes among which the blank line does not end.
    private var searched: UInt32 = 0
    /// Bytes there were when a parse was last worth it.
    private var parsed: UInt32 = 0

    package init() {}

    /// Whether `bytes`, everything received from the start of this head on, hold its blank line.
    package mutating func isComplete(_ bytes: RawSpan) -> Bool {
        var offset = Int(searched)
        while let hit = bytes.firstIndex(of: ByteClass.lineFeed, from: offset) {
            if hit >= 3, bytes[hit - 1] == ByteClass.carriageReturn, bytes[hit - 2] == ByteClass.lineFeed,
                bytes[hit - 3] == ByteClass.carriageReturn
            {
                return true
            }
            offset = hit + 1
        }
        searched = UInt32(clamping: bytes.byteCount)
        return false
    }

    /// Whether it is worth parsing `bytes` now: there is a blank line that was not there when this was last true, or the
    /// head is too long, or twice as long as then, so that what can never become a head is found out early.
    package mutating func isDue(_ bytes: RawSpan, limits: HeadLimits) -> Bool {
        let count = bytes.byteCount
        guard count >= 2 * Int(parsed) || count >= limits.headBytes || isComplete(bytes) else { return false }
        parsed = UInt32(clamping: count)
        searched = parsed
        return count > 0
    }
}
