package import Wire

/// What became of a request path.
package enum PathOutcome: Equatable, Sendable {
    /// Canonical as it stands; nothing was written.
    case same
    /// The canonical path was written. `hasEncodedSlash`: it still holds a `%2F`, which only some routes let through.
    case rewritten(hasEncodedSlash: Bool)
    /// It cannot be normalised safely: 400.
    case refused(PathFault)
}

/// The one form of a path that is both matched and forwarded, so that gate and upstream never disagree about it.
///
/// Repeated slashes are merged, `.` and `..` resolved, encoded unreserved characters decoded once and the digits of
/// the other encodings made capital (RFC 3986 §6.2.2). Bytes that are neither are left alone. Refused: `..` above the
/// root, `\`, `%5C`, `%00`, `%2F` (unless it may pass), their doubled encodings and those of a dot, percent signs
/// without two hex digits, encodings that are not UTF-8, and dot segments with parameters (`/..;x/`), which some
/// servers read as dot segments. Canonicalising twice changes nothing.
package enum CanonicalPath {
    /// What to do with `%2F`: refuse it, or leave it encoded.
    package enum EncodedSlash: Sendable { case refuse, pass }

    /// Puts `path` (without a query) into canonical form. `out` is emptied, and filled only for `.rewritten`.
    package static func canonicalise(
        _ path: RawSpan, into out: inout ByteBuffer, encodedSlash: EncodedSlash
    ) -> PathOutcome {
        guard path.byteCount > 0, path[0] == UInt8(ascii: "/") else { return .refused(.notAbsolute) }
        if isPlain(path) { return .same }
        out.removeAll()
        out.reserve(path.byteCount)
        var rewrite = PathRewrite(encodedSlash: encodedSlash)
        if let fault = rewrite.run(path, &out) {
            out.removeAll()
            return .refused(fault)
        }
        return .rewritten(hasEncodedSlash: rewrite.sawEncodedSlash)
    }

    /// Whether nothing in `path` needs a second look: no `%` or `\`, only visible ASCII, and no slash before a slash
    /// or a dot. Eight bytes at a time.
    private static func isPlain(_ path: RawSpan) -> Bool {
        let count = path.byteCount
        var offset = 0
        var carry: UInt64 = 0
        while offset + 8 <= count {
            if isSuspicious(path.load64(offset), &carry) { return false }
            offset += 8
        }
        guard offset < count else { return true }
        var tail: UInt64 = 0x6161_6161_6161_6161
        for index in offset..<count {
            let shift = UInt64(8 &* (index &- offset))
            tail = tail & ~(0xFF << shift) | UInt64(path[index]) << shift
        }
        return !isSuspicious(tail, &carry)
    }

    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let highs: UInt64 = 0x8080_8080_8080_8080

    /// The high bit of every byte of `word` that equals `byte`; exact for words without high bits.
    @inline(__always)
    private static func matches(_ word: UInt64, _ byte: UInt8) -> UInt64 {
        let difference = word ^ (UInt64(byte) &* ones)
        return ~((difference & ~highs) &+ ~highs | difference) & highs
    }

    /// `carry` is the mark of a slash in the last byte of the word before, moved to this word's first byte.
    @inline(__always)
    private static func isSuspicious(_ word: UInt64, _ carry: inout UInt64) -> Bool {
        let slashes = matches(word, UInt8(ascii: "/"))
        let dots = matches(word, UInt8(ascii: "."))
        let encoded = matches(word, UInt8(ascii: "%")) | matches(word, UInt8(ascii: "\\"))
        // Below 0x21: subtracting borrows into the high bit; DEL: adding one does. Non-ASCII has it already.
        let invisible = (word &- 0x21 &* ones) & ~word | (word &+ ones) | word
        let afterSlash = slashes << 8 | carry
        carry = slashes >> 56
        return (encoded | invisible & highs | afterSlash & (slashes | dots)) != 0
    }
}
