package import Wire

/// Request id in logs, headers and answers: a UUID of version 7 (RFC 9562), so that ids sort by time.
package enum RequestID {
    /// Length of an id in bytes.
    package static let length = 36

    /// Appends an id for `now`, from two random words of which 74 bits are used.
    package static func write(at now: WallTime, random: (UInt64, UInt64), into out: inout ByteBuffer) {
        let milliseconds = UInt64(bitPattern: now.microseconds / 1_000) & 0xFFFF_FFFF_FFFF
        out.append(
            uuid: milliseconds << 16 | 0x7000 | random.0 >> 52, (0x8000 | random.1 >> 50) << 48 | random.1 & 0xFFFF_FFFF_FFFF)
    }

    /// Whether an id from a trusted proxy may be kept: 1 to 128 letters, digits and `- _ . : / + = @`.
    package static func isSafe(_ id: RawSpan) -> Bool {
        guard (1...128).contains(id.byteCount) else { return false }
        for offset in 0..<id.byteCount where !isSafe(id[offset]) { return false }
        return true
    }

    private static func isSafe(_ byte: UInt8) -> Bool {
        if byte.isASCIILetter || byte.isASCIIDigit { return true }
        switch byte {
        case UInt8(ascii: "-")...UInt8(ascii: "/"), UInt8(ascii: "_"), UInt8(ascii: ":"), UInt8(ascii: "+"),
            UInt8(ascii: "="), UInt8(ascii: "@"):
            return true
        default:
            return false
        }
    }
}
