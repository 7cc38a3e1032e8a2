import Wire

/// The token of an `Authorization` value: of the scheme `Bearer` (RFC 6750, 2.1), or `DPoP` (RFC 9449, 7.1). What a token needs does not
/// depend on the scheme: one that is bound to a key needs a proof in either, any other in none.
enum Bearer {
    /// Offset of the token; nil for another scheme. `Bearer` alone has an empty token, which fails verification.
    ///
    /// A value that starts with the scheme's name, followed by a byte that cannot belong to the name, is treated as a (bad)
    /// bearer. Otherwise a laxer parser upstream could accept as a bearer what was anonymous here.
    @inline(__always)
    static func tokenStart(_ value: RawSpan) -> Int? {
        let count = value.byteCount
        guard count >= 6, isScheme(value) else { return proofTokenStart(value) }
        if count > 6 && MethodSet.isTokenByte(value[6]) { return nil }
        return skipSpaces(value, from: 6)
    }

    /// The same for the scheme `DPoP`.
    @inline(never)
    private static func proofTokenStart(_ value: RawSpan) -> Int? {
        guard value.byteCount >= 4, value.extracting(0..<4).equalsIgnoringCase("dpop") else { return nil }
        return value.byteCount > 4 && MethodSet.isTokenByte(value[4]) ? nil : skipSpaces(value, from: 4)
    }

    @inline(__always)
    private static func skipSpaces(_ value: RawSpan, from offset: Int) -> Int {
        let count = value.byteCount
        var start = offset
        while start < count && value[start] == 0x20 { start &+= 1 }
        return start
    }

    @inline(__always)
    private static func isScheme(_ value: RawSpan) -> Bool {
        let head = UInt32(littleEndian: unsafe value.unsafeLoadUnaligned(fromByteOffset: 0, as: UInt32.self))
        let tail = UInt16(littleEndian: unsafe value.unsafeLoadUnaligned(fromByteOffset: 4, as: UInt16.self))
        // "bear" and "er", compared with the case bits set.
        return head | 0x2020_2020 == 0x7261_6562 && tail | 0x2020 == 0x7265
    }
}
