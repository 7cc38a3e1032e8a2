package import Wire

/// What became of a request path.
package enum PathOutcome: Equatable, Sendable {
    /// Canonical as it stands; nothing was written.
    case same(PathTraits)
    /// The canonical path was written.
    case rewritten(PathTraits)
    /// It cannot be normalised safely: 400.
    case refused(PathFault)
}

/// What a canonical path holds that some upstreams read in another way than this gateway.
package struct PathTraits: OptionSet, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// A `%2F`, which only some routes let through.
    package static let encodedSlash = Self(rawValue: 1)
    /// A `;` or `%3B`, where some servers cut a segment off.
    package static let parameters = Self(rawValue: 2)
}

/// The one form of a path that is both matched and forwarded, so that gate and upstream never disagree about it.
///
/// Repeated slashes are merged, `.` and `..` resolved, encoded unreserved characters decoded once and the digits of
/// the other encodings made capital (RFC 3986 §6.2.2). Bytes that are neither are left alone. Refused: `..` above the
/// root, `\`, `%5C`, `%00`, `%2F` (unless it may pass), their doubled encodings and those of a dot, in one piece or in
/// several (`%25%32%65`), percent signs without two hex digits, encodings that are not UTF-8, and dot segments with
/// parameters (`/..;x/`), which some servers read as dot segments. Idempotent: a canonical path is its own canonical form.
package enum CanonicalPath {
    /// What to do with `%2F`: refuse it, or leave it encoded.
    package enum EncodedSlash: Sendable { case refuse, pass }

    /// Puts `path` (without a query) into canonical form. `out` is emptied, and filled only for `.rewritten`.
    package static func canonicalise(
        _ path: RawSpan, into out: inout ByteBuffer, encodedSlash: EncodedSlash
    ) -> PathOutcome {
        guard path.byteCount > 0, path[0] == UInt8(ascii: "/") else { return .refused(.notAbsolute) }
        if isPlain(path) { return .same([]) }
        out.removeAll()
        out.reserve(path.byteCount)
        var rewrite = PathRewrite(encodedSlash: encodedSlash)
        if let fault = rewrite.run(path, &out) {
            out.removeAll()
            return .refused(fault)
        }
        guard out.readable.equals(path) else { return .rewritten(rewrite.traits) }
        out.removeAll()
        return .same(rewrite.traits)
    }

    /// Appends `path`, which is canonical, without the parameters of its segments: what a server that cuts them off, and
    /// merges the slashes around a segment that was nothing else, would route by.
    static func appendWithoutParameters(_ path: RawSpan, to out: inout ByteBuffer) {
        var isParameter = false
        var isAfterSlash = false
        for offset in 0..<path.byteCount {
            let byte = path[offset]
            if byte == UInt8(ascii: "/") {
                isParameter = false
                if !isAfterSlash { out.append(byte) }
                isAfterSlash = true
            } else if !isParameter {
                isParameter = PathRewrite.beginsParameters(path, offset)
                guard !isParameter else { continue }
                out.append(byte)
                isAfterSlash = false
            }
        }
    }

    /// Whether nothing in `path` needs a second look: no `%`, `\` or `;`, only visible ASCII, and no slash before a slash
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
        // Subtracting borrows into the high bit of a byte that is zero; exact as to whether there is one, for ASCII.
        let percent = (word ^ UInt64(UInt8(ascii: "%")) &* ones) &- ones
        let backslash = (word ^ UInt64(UInt8(ascii: "\\")) &* ones) &- ones
        let semicolon = (word ^ UInt64(UInt8(ascii: ";")) &* ones) &- ones
        // Below 0x21: subtracting borrows into the high bit; DEL: adding one does. Non-ASCII has it already.
        let invisible = (word &- 0x21 &* ones) & ~word | (word &+ ones) | word
        let afterSlash = slashes << 8 | carry
        carry = slashes >> 56
        return ((percent | backslash | semicolon | invisible) & highs | afterSlash & (slashes | dots)) != 0
    }
}
