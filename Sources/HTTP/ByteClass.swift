import Wire

/// Classes of bytes, as bit sets in constants: no table to load, no lazy global.
enum ByteClass {
    static let tab = UInt8(ascii: "\t")
    static let space = UInt8(ascii: " ")
    static let carriageReturn = UInt8(ascii: "\r")
    static let lineFeed = UInt8(ascii: "\n")

    @inline(__always)
    static func isControl(_ byte: UInt8) -> Bool { byte < 0x20 || byte == 0x7F }

    @inline(__always)
    static func isBlank(_ byte: UInt8) -> Bool { byte == space || byte == tab }

    @inline(__always)
    private static func contains(_ byte: UInt8, low: UInt64, high: UInt64) -> Bool {
        let half = byte & 0x40 == 0 ? low : high
        return byte < 0x80 && (half >> UInt64(byte & 0x3F)) & 1 != 0
    }

    /// Token characters (RFC 9110 §5.6.2): ``!#$%&'*+-.^_`|~``, digits and letters.
    @inline(__always)
    static func isToken(_ byte: UInt8) -> Bool {
        contains(byte, low: 0x03FF_6CFA_0000_0000, high: 0x57FF_FFFF_C7FF_FFFE)
    }

    /// Characters of a host name: letters, digits, `-`, `.`, `_` and `~`. The sub-delimiters and percent-encodings that RFC 3986 allows
    /// are refused: no real name has them, and some parsers read a comma as two hosts.
    @inline(__always)
    static func isHost(_ byte: UInt8) -> Bool {
        contains(byte, low: 0x03FF_6000_0000_0000, high: 0x47FF_FFFE_87FF_FFFE)
    }

    /// Whether all bytes in `range` are token characters.
    @inline(__always)
    static func areTokens(_ bytes: RawSpan, _ range: Range<Int>) -> Bool {
        var offset = range.lowerBound
        while offset < range.upperBound {
            let count = min(range.upperBound &- offset, 8)
            if !ByteScan.isPlainName(bytes.loadUpTo8(offset, count) | ByteScan.plainFilling(count)) {
                for index in offset..<offset &+ count where !isToken(bytes[index]) { return false }
            }
            offset &+= count
        }
        return true
    }
}
