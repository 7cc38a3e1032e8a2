import Wire

/// How far an incomplete head was searched for its end, so that a client that sends it byte by byte causes linear work. A new
/// value for each message.
package struct HeadScan: Sendable {
    /// Bytes that were searched for the blank line in vain.
    private var searched: UInt32 = 0
    /// Bytes that were there at the last parse.
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

    /// Whether to parse `bytes` now: a blank line has arrived since this was last true, the head is too long, or it has doubled, so
    /// that bytes which can never become a head are refused early.
    package mutating func isDue(_ bytes: RawSpan, limits: HeadLimits) -> Bool {
        let count = bytes.byteCount
        guard count >= 2 * Int(parsed) || count >= limits.headBytes || isComplete(bytes) else { return false }
        parsed = UInt32(clamping: count)
        searched = parsed
        return count > 0
    }
}
