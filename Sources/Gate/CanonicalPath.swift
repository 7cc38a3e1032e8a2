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

/// Why a path is refused. Each is something that two parsers may read differently.
package enum PathFault: UInt8, Error, CaseIterable, Sendable {
    case notAbsolute
    case badCharacter
    case badEncoding
    case aboveRoot
    case backslash
    case encodedSlash
    case encodedBackslash
    case encodedNul
    case doubledEncoding
    case parameterisedDots

    /// A stable word for logs and metrics.
    package var reason: StaticString {
        switch self {
        case .notAbsolute: "path_not_absolute"
        case .badCharacter: "path_bad_character"
        case .badEncoding: "path_bad_encoding"
        case .aboveRoot: "path_above_root"
        case .backslash: "path_backslash"
        case .encodedSlash: "path_encoded_slash"
        case .encodedBackslash: "path_encoded_backslash"
        case .encodedNul: "path_encoded_nul"
        case .doubledEncoding: "path_doubled_encoding"
        case .parameterisedDots: "path_parameterised_dots"
        }
    }

    package var message: StaticString {
        switch self {
        case .notAbsolute: "The path does not begin with a slash."
        case .badCharacter: "The path holds a character that must be percent-encoded."
        case .badEncoding: "The path holds a broken percent-encoding."
        case .aboveRoot: "The path leads above the root."
        case .backslash: "The path holds a backslash."
        case .encodedSlash: "The path holds an encoded slash."
        case .encodedBackslash: "The path holds an encoded backslash."
        case .encodedNul: "The path holds an encoded NUL."
        case .doubledEncoding: "The path holds a doubled percent-encoding."
        case .parameterisedDots: "The path holds a dot segment with parameters."
        }
    }
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

/// The slow path of `CanonicalPath`: one pass that copies, decodes and drops segments.
private struct PathRewrite {
    let encodedSlash: CanonicalPath.EncodedSlash
    var sawEncodedSlash = false
    /// Where the current segment begins in the output, behind its slash.
    private var segment = 0
    private var utf8 = UTF8Check()

    init(encodedSlash: CanonicalPath.EncodedSlash) { self.encodedSlash = encodedSlash }

    mutating func run(_ path: RawSpan, _ out: inout ByteBuffer) -> PathFault? {
        let count = path.byteCount
        var offset = 0
        while offset < count {
            let byte = path[offset]
            let fault: PathFault?
            switch byte {
            case UInt8(ascii: "/"):
                fault = endSegment(&out, isLast: false)
                offset += 1
            case UInt8(ascii: "%"):
                fault = encoding(path, offset, &out)
                offset += 3
            default:
                fault = plain(byte, &out)
                offset += 1
            }
            if let fault { return fault }
        }
        return endSegment(&out, isLast: true)
    }

    private mutating func plain(_ byte: UInt8, _ out: inout ByteBuffer) -> PathFault? {
        if byte == UInt8(ascii: "\\") { return .backslash }
        if byte <= 0x20 || byte >= 0x7F { return .badCharacter }
        if !utf8.isBetweenCharacters { return .badEncoding }
        out.append(byte)
        return nil
    }

    /// The encoding at `offset`, which is the percent sign.
    private mutating func encoding(_ path: RawSpan, _ offset: Int, _ out: inout ByteBuffer) -> PathFault? {
        guard let byte = Self.pair(path, offset + 1) else { return .badEncoding }
        guard utf8.accept(byte) else { return .badEncoding }
        switch byte {
        case 0: return .encodedNul
        case UInt8(ascii: "\\"): return .encodedBackslash
        case UInt8(ascii: "/"):
            if encodedSlash == .refuse { return .encodedSlash }
            sawEncodedSlash = true
        case UInt8(ascii: "%"):
            if Self.hidesAnother(path, offset + 3) { return .doubledEncoding }
        default:
            if Self.isUnreserved(byte) {
                out.append(byte)
                return nil
            }
        }
        out.append(UInt8(ascii: "%"))
        out.append(Self.hex(byte >> 4))
        out.append(Self.hex(byte & 15))
        return nil
    }

    /// Ends the segment that began at `segment`: drops it, drops one more, or keeps it; then opens the next one.
    private mutating func endSegment(_ out: inout ByteBuffer, isLast: Bool) -> PathFault? {
        guard utf8.isBetweenCharacters else { return .badEncoding }
        switch Self.kind(out.readable.dropping(segment)) {
        case .empty: break
        case .current: out.truncate(to: segment)
        case .parent:
            // `segment` is behind the slash of this segment; the one before it begins behind the slash before that.
            guard segment > 1 else { return .aboveRoot }
            out.truncate(to: Self.segmentStart(out.readable, before: segment - 1))
        case .ambiguous: return .parameterisedDots
        case .name: if !isLast { out.append(UInt8(ascii: "/")) }
        }
        if out.isEmpty { out.append(UInt8(ascii: "/")) }
        segment = out.count
        return nil
    }

    private enum Kind { case empty, current, parent, name, ambiguous }

    /// What a segment means. One that is dots up to a `;`, `%3B` or `%2F` is ambiguous: servers that cut parameters
    /// off or decode the slash would resolve it.
    private static func kind(_ segment: RawSpan) -> Kind {
        let count = segment.byteCount
        if count == 0 { return .empty }
        if segment[0] == UInt8(ascii: ".") {
            if count == 1 { return .current }
            if count == 2 && segment[1] == UInt8(ascii: ".") { return .parent }
        }
        var start = 0
        var offset = 0
        while offset < count {
            let width = separatorWidth(segment, offset)
            if width > 0 {
                if isDots(segment, start, offset) { return .ambiguous }
                offset += width
                start = width == 3 && segment[offset - 1] == UInt8(ascii: "F") ? offset : count
            } else {
                offset += 1
            }
        }
        return start > 0 && isDots(segment, start, count) ? .ambiguous : .name
    }

    /// 1 at a `;`, 3 at a `%3B` or `%2F`, else 0.
    private static func separatorWidth(_ segment: RawSpan, _ offset: Int) -> Int {
        let byte = segment[offset]
        if byte == UInt8(ascii: ";") { return 1 }
        guard byte == UInt8(ascii: "%"), offset + 2 < segment.byteCount else { return 0 }
        let isSemicolon = segment[offset + 1] == UInt8(ascii: "3") && segment[offset + 2] == UInt8(ascii: "B")
        let isSlash = segment[offset + 1] == UInt8(ascii: "2") && segment[offset + 2] == UInt8(ascii: "F")
        return isSemicolon || isSlash ? 3 : 0
    }

    private static func isDots(_ segment: RawSpan, _ start: Int, _ end: Int) -> Bool {
        guard end > start, end - start <= 2 else { return false }
        return segment[start] == UInt8(ascii: ".") && segment[end - 1] == UInt8(ascii: ".")
    }

    /// Where the segment that ends before the slash at `slash` begins.
    private static func segmentStart(_ path: RawSpan, before slash: Int) -> Int {
        var offset = slash
        while offset > 0 && path[offset - 1] != UInt8(ascii: "/") { offset -= 1 }
        return offset
    }

    /// Whether what follows an encoded percent sign would be a dangerous encoding to a second decoder: any number of
    /// `25`, then `2F`, `5C`, `00` or `2E`.
    private static func hidesAnother(_ path: RawSpan, _ start: Int) -> Bool {
        var offset = start
        while let byte = pair(path, offset) {
            switch byte {
            case UInt8(ascii: "%"): offset += 2
            case UInt8(ascii: "/"), UInt8(ascii: "\\"), UInt8(ascii: "."), 0: return true
            default: return false
            }
        }
        return false
    }

    /// The octet that the two digits at `offset` spell.
    private static func pair(_ path: RawSpan, _ offset: Int) -> UInt8? {
        guard offset + 1 < path.byteCount else { return nil }
        guard let high = path[offset].hexValue, let low = path[offset + 1].hexValue else { return nil }
        return high << 4 | low
    }

    private static func hex(_ nibble: UInt8) -> UInt8 { nibble < 10 ? 48 + nibble : 55 + nibble }

    /// RFC 3986 §2.3.
    private static func isUnreserved(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || byte.isASCIIDigit || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".")
            || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "~")
    }
}

/// Follows encoded octets and says whether they are UTF-8 so far (The Unicode Standard, table 3-7).
private struct UTF8Check {
    private var left = 0
    private var lowest: UInt8 = 0x80
    private var highest: UInt8 = 0xBF

    var isBetweenCharacters: Bool { left == 0 }

    /// Takes the next octet; false if it cannot stand here.
    mutating func accept(_ byte: UInt8) -> Bool {
        if left > 0 {
            guard byte >= lowest, byte <= highest else { return false }
            (left, lowest, highest) = (left - 1, 0x80, 0xBF)
            return true
        }
        switch byte {
        case 0x00...0x7F: left = 0
        case 0xC2...0xDF: left = 1
        case 0xE0...0xEF:
            left = 2
            if byte == 0xE0 { lowest = 0xA0 }
            if byte == 0xED { highest = 0x9F }
        case 0xF0...0xF4:
            left = 3
            if byte == 0xF0 { lowest = 0x90 }
            if byte == 0xF4 { highest = 0x8F }
        default: return false
        }
        return true
    }
}
