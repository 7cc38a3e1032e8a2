package import Wire

/// Result of canonicalising a path.
package enum PathOutcome: Equatable, Sendable {
    /// Canonical already; nothing was written.
    case same(PathTraits)
    /// The canonical path was written.
    case rewritten(PathTraits)
    /// Cannot be normalised safely: 400.
    case refused(PathFault)
}

/// Parts of a canonical path that some upstreams parse differently.
package struct PathTraits: OptionSet, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// A `%2F`, which only some routes accept.
    package static let encodedSlash = Self(rawValue: 1)
    /// A `;` or `%3B`, at which some servers cut a segment.
    package static let parameters = Self(rawValue: 2)
}

/// The canonical form of a path, used both for matching and for forwarding, so that the gateway and the upstream never
/// disagree about it.
///
/// Merges repeated slashes, resolves `.` and `..`, decodes encoded unreserved characters once, and writes the hex digits of
/// other encodings in upper case (RFC 3986, 6.2.2). Refuses `..` above the root, `\`, `%5C`, `%00`, `%2F` (unless allowed),
/// their double encodings and those of a dot, whole or in pieces (`%25%32%65`), percent signs without two hex digits,
/// encodings that are not UTF-8, and dot segments with parameters (`/..;x/`), which some servers resolve. Idempotent.
package enum CanonicalPath {
    /// Whether `%2F` is refused or kept encoded.
    package enum EncodedSlash: Sendable { case refuse, pass }

    /// Canonicalises `path`, which has no query. `out` is emptied, and filled only for `.rewritten`.
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

    /// Appends the canonical `path` without its parameters, as a server routes that cuts them off and merges the slashes
    /// around an empty segment.
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

    /// Appends the canonical `path` up to its first parameter, as a server routes that treats everything after a `;` as
    /// parameters.
    static func appendUpToParameters(_ path: RawSpan, to out: inout ByteBuffer) {
        var end = 0
        while end < path.byteCount, !PathRewrite.beginsParameters(path, end) { end += 1 }
        out.append(path.extracting(0..<end))
    }

    /// Appends the canonical `path` with encoded slashes decoded, as a server routes that decodes first.
    static func appendWithSlashes(_ path: RawSpan, to out: inout ByteBuffer) {
        var offset = 0
        while offset < path.byteCount {
            let isSlash = offset + 3 <= path.byteCount && path.extracting(offset..<offset + 3).equalsIgnoringCase("%2f")
            out.append(isSlash ? UInt8(ascii: "/") : path[offset])
            offset += isSlash ? 3 : 1
        }
    }

    /// Fast path: true if `path` has no `%`, `\` or `;`, only visible ASCII, and no slash before a slash or dot. Reads eight
    /// bytes at a time.
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
        if offset > 0 {
            // The last eight bytes, without those that were looked at.
            let bits = UInt64(truncatingIfNeeded: 8 &* (count &- offset))
            tail = path.load64(count &- 8) &>> (64 &- bits) | tail &<< bits
        } else {
            for index in 0..<count {
                let shift = UInt64(8 &* index)
                tail = tail & ~(0xFF << shift) | UInt64(path[index]) << shift
            }
        }
        return !isSuspicious(tail, &carry)
    }

    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let highs: UInt64 = 0x8080_8080_8080_8080

    /// Sets the high bit of every byte of `word` that equals `byte`; exact for words without high bits.
    @inline(__always)
    private static func matches(_ word: UInt64, _ byte: UInt8) -> UInt64 {
        let difference = word ^ (UInt64(byte) &* ones)
        return ~((difference & ~highs) &+ ~highs | difference) & highs
    }

    /// `carry` marks a slash in the last byte of the previous word, moved to the first byte of this one.
    @inline(__always)
    private static func isSuspicious(_ word: UInt64, _ carry: inout UInt64) -> Bool {
        let slashes = matches(word, UInt8(ascii: "/"))
        let dots = matches(word, UInt8(ascii: "."))
        // Subtracting borrows into the high bit of a zero byte; for ASCII, exact as to whether there is one.
        let percent = (word ^ UInt64(UInt8(ascii: "%")) &* ones) &- ones
        let backslash = (word ^ UInt64(UInt8(ascii: "\\")) &* ones) &- ones
        let semicolon = (word ^ UInt64(UInt8(ascii: ";")) &* ones) &- ones
        // Below 0x21, subtracting borrows into the high bit; for DEL, adding one sets it. Non-ASCII has it already.
        let invisible = (word &- 0x21 &* ones) & ~word | (word &+ ones) | word
        let afterSlash = slashes << 8 | carry
        carry = slashes >> 56
        return ((percent | backslash | semicolon | invisible) & highs | afterSlash & (slashes | dots)) != 0
    }
}
