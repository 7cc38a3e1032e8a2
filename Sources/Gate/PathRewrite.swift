import Wire

/// Slow path of `CanonicalPath`: one pass that copies, decodes and removes segments.
struct PathRewrite {
    let encodedSlash: CanonicalPath.EncodedSlash
    private(set) var traits: PathTraits = []
    /// Whether the segment contains a `%25`, which may begin another encoding.
    private var hasEncodedPercent = false
    /// Start of the segment in the output, behind its slash.
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
        if byte == UInt8(ascii: ";") { traits.insert(.parameters) }
        out.append(byte)
        return nil
    }

    /// Handles the encoding whose percent sign is at `offset`.
    private mutating func encoding(_ path: RawSpan, _ offset: Int, _ out: inout ByteBuffer) -> PathFault? {
        guard let byte = Self.pair(path, offset + 1) else { return .badEncoding }
        guard utf8.accept(byte) else { return .badEncoding }
        switch byte {
        case 0: return .encodedNul
        case UInt8(ascii: "\\"): return .encodedBackslash
        case UInt8(ascii: "/"):
            if encodedSlash == .refuse { return .encodedSlash }
            traits.insert(.encodedSlash)
        case UInt8(ascii: "%"): hasEncodedPercent = true
        case UInt8(ascii: ";"): traits.insert(.parameters)
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

    /// Ends the segment at `segment`: keeps it, removes it, or removes its parent too. Then begins the next.
    private mutating func endSegment(_ out: inout ByteBuffer, isLast: Bool) -> PathFault? {
        guard utf8.isBetweenCharacters else { return .badEncoding }
        if hasEncodedPercent {
            if hidesAnother(&out) { return .doubledEncoding }
            hasEncodedPercent = false
        }
        switch Self.kind(out.readable.dropping(segment)) {
        case .empty: break
        case .current: out.truncate(to: segment)
        case .parent:
            // `segment` is behind this segment's slash; its parent begins behind the slash before.
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

    /// Kind of a segment. Dots up to a `;`, `%3B` or `%2F` are ambiguous: servers that cut parameters or decode the slash
    /// would resolve them.
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

    /// Whether a segment's parameters begin at `offset`: a `;` or its encoding.
    static func beginsParameters(_ path: RawSpan, _ offset: Int) -> Bool {
        path[offset] == UInt8(ascii: ";")
            || path[offset] == UInt8(ascii: "%") && pair(path, offset + 1) == UInt8(ascii: ";")
    }

    /// 1 at a `;`, 3 at a `%3B` or `%2F`, otherwise 0.
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

    /// Start of the segment that ends before `slash`.
    private static func segmentStart(_ path: RawSpan, before slash: Int) -> Int {
        var offset = slash
        while offset > 0 && path[offset - 1] != UInt8(ascii: "/") { offset -= 1 }
        return offset
    }

    /// Whether repeated decoding of the last segment of `out` would produce a slash, a backslash, a dot or a NUL that
    /// decoding once does not.
    ///
    /// Works on the output, so it sees encodings assembled from decoded pieces (`%25%32%65`) and the canonical form sent
    /// directly. One pass, with the space behind the segment as a stack: when its last three bytes are an encoding, they are
    /// decoded. The order of decoding does not change the result.
    private func hidesAnother(_ out: inout ByteBuffer) -> Bool {
        let end = out.count
        defer { out.truncate(to: end) }
        var offset = segment
        while offset < end {
            let byte = out.readable[offset]
            if byte == UInt8(ascii: "%"), let decoded = Self.pair(out.readable, offset + 1) {
                out.append(decoded)
                offset += 3
            } else {
                out.append(byte)
                offset += 1
            }
            while let decoded = Self.lastEncoding(out.readable.dropping(end)) {
                switch decoded {
                case UInt8(ascii: "/"), UInt8(ascii: "\\"), UInt8(ascii: "."), 0: return true
                default:
                    out.truncate(to: out.count - 3)
                    out.append(decoded)
                }
            }
        }
        return false
    }

    /// The octet encoded by the last three bytes; nil if they are not an encoding.
    private static func lastEncoding(_ bytes: RawSpan) -> UInt8? {
        let start = bytes.byteCount - 3
        return start >= 0 && bytes[start] == UInt8(ascii: "%") ? pair(bytes, start + 1) : nil
    }

    /// The octet of the two hex digits at `offset`.
    private static func pair(_ path: RawSpan, _ offset: Int) -> UInt8? {
        guard offset + 1 < path.byteCount else { return nil }
        guard let high = path[offset].hexValue, let low = path[offset + 1].hexValue else { return nil }
        return high << 4 | low
    }

    private static func hex(_ nibble: UInt8) -> UInt8 { nibble < 10 ? 48 + nibble : 55 + nibble }

    /// RFC 3986, 2.3.
    private static func isUnreserved(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || byte.isASCIIDigit || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".")
            || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "~")
    }
}

/// Incremental check that encoded octets are UTF-8 (The Unicode Standard, table 3-7).
private struct UTF8Check {
    private var left = 0
    private var lowest: UInt8 = 0x80
    private var highest: UInt8 = 0xBF

    var isBetweenCharacters: Bool { left == 0 }

    /// Accepts the next octet; false if it is invalid here.
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
