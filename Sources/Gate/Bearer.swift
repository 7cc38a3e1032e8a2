import Wire

/// The token in an `Authorization` value (RFC 6750 §2.1).
enum Bearer {
    /// Where the token begins; nil if the scheme is another. `Bearer` alone has an empty token, which verifies as none.
    ///
    /// Whatever begins with the scheme and then something that cannot belong to its name is a bearer, if a bad one: so
    /// nothing that a laxer parser behind us would take for a bearer passes here as nobody's.
    @inline(__always)
    static func tokenStart(_ value: RawSpan) -> Int? {
        let count = value.byteCount
        guard count >= 6, isScheme(value) else { return nil }
        if count > 6 && MethodSet.isTokenByte(value[6]) { return nil }
        var start = 6
        while start < count && value[start] == 0x20 { start &+= 1 }
        return start
    }

    @inline(__always)
    private static func isScheme(_ value: RawSpan) -> Bool {
        let head = UInt32(littleEndian: unsafe value.unsafeLoadUnaligned(fromByteOffset: 0, as: UInt32.self))
        let tail = UInt16(littleEndian: unsafe value.unsafeLoadUnaligned(fromByteOffset: 4, as: UInt16.self))
        // "bear" and "er", their case bits set.
        return head | 0x2020_2020 == 0x7261_6562 && tail | 0x2020 == 0x7265
    }
}
