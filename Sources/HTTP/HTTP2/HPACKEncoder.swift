package import Wire

/// The HPACK encoder of one connection. It inserts nothing into the peer's table, whose size it sets to 0 in the first block, so it
/// has no state to lose and a field costs the same each time.
///
/// Strings are not Huffman-coded: that would save a fifth of a head's bytes and take four times as long as all else here.
package struct HPACKEncoder: Sendable {
    private var hasBegun = false
    private let names = FieldNameIndex.shared

    package init() {}

    /// Begins a block. The first one announces the size of the table; no SETTINGS of the peer can lower it further.
    package mutating func begin(_ out: inout ByteBuffer) {
        if !hasBegun { out.append(0x20) }
        hasBegun = true
    }

    /// Appends `:status`, of three digits.
    package func status(_ status: Int, into out: inout ByteBuffer) {
        switch status {
        case 200: out.append(0x80 | 8)
        case 204: out.append(0x80 | 9)
        case 206: out.append(0x80 | 10)
        case 304: out.append(0x80 | 11)
        case 400: out.append(0x80 | 12)
        case 404: out.append(0x80 | 13)
        case 500: out.append(0x80 | 14)
        default:
            // The name of index 8, and a string of three octets.
            out.append(lowBytes: 0x0308, count: 2)
            out.append(decimal: status)
        }
    }

    /// Appends the pseudo-fields of a request; without `:authority` if that is empty.
    package func request(
        method: RawSpan, isSecure: Bool, authority: RawSpan, path: RawSpan, into out: inout ByteBuffer
    ) {
        if method.equals("GET") {
            out.append(0x80 | 2)
        } else if method.equals("POST") {
            out.append(0x80 | 3)
        } else {
            appendLiteral(nameIndex: 2, method, into: &out)
        }
        out.append(isSecure ? 0x80 | 7 : 0x80 | 6)
        if authority.byteCount > 0 { appendLiteral(nameIndex: 1, authority, into: &out) }
        if path.equals("/") { out.append(0x80 | 4) } else { appendLiteral(nameIndex: 4, path, into: &out) }
    }

    /// Appends the fields of lines `name: value` from `start` on, but those of `dropped` names, up to an empty one or the end; returns its
    /// offset.
    @discardableResult
    package func lines(_ lines: RawSpan, from start: Int = 0, dropping dropped: UInt64 = 0, into out: inout ByteBuffer) -> Int {
        var start = start
        while start < lines.byteCount, lines[start] != ByteClass.carriageReturn {
            let line = HTTP1Line(lines, from: start)
            field(line, of: lines, dropping: dropped, into: &out)
            start = line.next
        }
        return start
    }

    /// Appends the field of a line, its name in lower case, unless its name is one of `dropped`. Of `TE` only `trailers` is then kept.
    @inline(__always)
    func field(_ line: HTTP1Line, of lines: RawSpan, dropping dropped: UInt64, into out: inout ByteBuffer) {
        let nameCount = line.colon &- line.start
        let value = lines.extracting(line.first..<line.end)
        guard nameCount > 0, nameCount <= WordTriple.longest, value.byteCount < 0x7F else {
            let name = lines.extracting(line.start..<line.colon)
            let known = FieldName.recognise(name)
            if known.bit & dropped == 0 { Self.field(name, value, known: known, into: &out) }
            return
        }
        // The lengths take one octet each. The index of a name takes two, because a prefix of four bits holds no more than 14.
        let words = WordTriple(lines, line.start, nameCount)
        let known = names.find(words, nameCount)
        guard known.bit & dropped == 0 || known == .te && value.equalsIgnoringCase("trailers") else { return }
        let form: UInt64 = known.isCredential ? 0x10 : 0x00
        let valueCount = UInt64(truncatingIfNeeded: value.byteCount)
        if known.hpackIndex >= 0x0F {
            let index = UInt64(truncatingIfNeeded: known.hpackIndex &- 0x0F)
            out.append(lowBytes: form | 0x0F | index &<< 8 | valueCount &<< 16, count: 3)
        } else {
            out.append(lowBytes: form | UInt64(truncatingIfNeeded: nameCount) &<< 8, count: 2)
            out.appendLowercased(words, nameCount)
            out.append(UInt8(truncatingIfNeeded: valueCount))
        }
        out.append(value)
    }

    /// Appends a field whose name is recognised already. Credentials are marked as never indexed, for the hops behind this one
    /// (RFC 7541 §7.1.3).
    @inline(__always)
    package static func field(_ name: RawSpan, _ value: RawSpan, known: FieldName, into out: inout ByteBuffer) {
        let form: UInt8 = known.isCredential ? 0x10 : 0x00
        let index = known.hpackIndex
        if index > 0 {
            out.appendHPACKInteger(index, prefix: 4, form)
        } else {
            out.append(form)
            out.appendHPACKInteger(name.byteCount, prefix: 7, 0)
            out.appendLowercased(name)
        }
        out.appendHPACKInteger(value.byteCount, prefix: 7, 0)
        out.append(value)
    }

    private func appendLiteral(nameIndex: Int, _ value: RawSpan, into out: inout ByteBuffer) {
        out.appendHPACKInteger(nameIndex, prefix: 4, 0)
        out.appendHPACKString(value)
    }

    /// Calls `body` with the name and the place of the value of each field of a block in `bytes` that was written here.
    package static func forEachField(in bytes: RawSpan, _ block: Range<Int>, _ body: (RawSpan, Range<Int>) -> Void) {
        let (table, bytes) = (HPACKStaticTable.shared, bytes.extracting(0..<block.upperBound))
        var offset = block.lowerBound
        do throws(HPACKFault) {
            while offset < bytes.byteCount {
                let index = try bytes.hpackInteger(prefix: 4, at: &offset)
                let name = index > 0 ? 0..<0 : try bytes.hpackString(at: &offset)
                let value = try bytes.hpackString(at: &offset)
                if index > 0 { body(table.name(index), value) } else { body(bytes.extracting(name), value) }
            }
        } catch {
            preconditionFailure("a block of the gateway's own that is broken")
        }
    }
}

extension RawSpan {
    /// The place of the string at `offset`, which is not Huffman-coded.
    fileprivate func hpackString(at offset: inout Int) throws(HPACKFault) -> Range<Int> {
        let count = try hpackInteger(prefix: 7, at: &offset)
        defer { offset += count }
        return offset..<offset + count
    }
}

extension ByteBuffer {
    /// Appends a string literal, not Huffman-coded (RFC 7541 §5.2).
    package mutating func appendHPACKString(_ text: RawSpan) {
        appendHPACKInteger(text.byteCount, prefix: 7, 0)
        append(text)
    }

    /// Begins a string whose octets are appended next; returns its place, for `endHPACKString`.
    package mutating func beginHPACKString() -> Int {
        append(UInt8(0))
        return count
    }

    /// Writes the length of the string that begins at `start`.
    package mutating func endHPACKString(_ start: Int) {
        let length = count &- start
        guard length >= 0x7F else { return set(UInt8(truncatingIfNeeded: length), at: start &- 1) }
        var text = ByteBuffer()
        text.append(readable.dropping(start))
        truncate(to: start &- 1)
        appendHPACKString(text.readable)
    }

    /// Appends an integer whose prefix is the lowest `prefix` bits of an octet (RFC 7541 §5.1), `form` its other bits.
    @inline(__always)
    mutating func appendHPACKInteger(_ value: Int, prefix: Int, _ form: UInt8) {
        let mask = (1 &<< prefix) &- 1
        if value < mask { return append(form | UInt8(truncatingIfNeeded: value)) }
        append(form | UInt8(truncatingIfNeeded: mask))
        var rest = value &- mask
        while rest >= 0x80 {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest &>>= 7
        }
        append(UInt8(truncatingIfNeeded: rest))
    }

    /// Appends the `count` bytes of a token in lower case.
    @inline(__always)
    fileprivate mutating func appendLowercased(_ name: WordTriple, _ count: Int) {
        append(lowBytes: ByteScan.lowercased(name.first), count: min(count, 8))
        if count > 16 { append(lowBytes: ByteScan.lowercased(name.second), count: 8) }
        guard count > 8 else { return }
        // The last eight bytes overlap the word before, unless the count is a multiple of eight.
        let rest = (count &- 1) & 7 &+ 1
        append(lowBytes: ByteScan.lowercased(name.last) &>> UInt64(truncatingIfNeeded: 8 &* (8 &- rest)), count: rest)
    }

    /// Appends a token in lower case.
    fileprivate mutating func appendLowercased(_ name: RawSpan) {
        var offset = 0
        while offset < name.byteCount {
            let count = min(name.byteCount &- offset, 8)
            append(lowBytes: ByteScan.lowercased(name.loadUpTo8(offset, count)), count: count)
            offset &+= count
        }
    }
}

extension ByteScan {
    /// The word with its ASCII capitals in lower case. Bytes must be ASCII: no sum carries into the next.
    static func lowercased(_ word: UInt64) -> UInt64 {
        let capitals = (word &+ spread(0x80 - 0x41)) & ~(word &+ spread(0x80 - 0x5B)) & highs
        return word | capitals &>> 2
    }
}

extension FieldName {
    /// Whether the value is a secret, which no table on the way may keep.
    fileprivate var isCredential: Bool {
        let requests = Self.authorization.bit | Self.cookie.bit | Self.proxyAuthorization.bit | Self.xInternalKey.bit
        let tokens = Self.xRefreshToken.bit | Self.xNewAccessToken.bit | Self.xNewRefreshToken.bit
        return bit & (requests | tokens | Self.setCookie.bit) != 0
    }

    /// The index of the name in HPACK's static table; 0 if it is not there.
    fileprivate var hpackIndex: Int {
        switch self {
        case .acceptEncoding: 16
        case .acceptLanguage: 17
        case .acceptRanges: 18
        case .accept: 19
        case .age: 21
        case .authorization: 23
        case .cacheControl: 24
        case .contentEncoding: 26
        case .contentLength: 28
        case .contentRange: 30
        case .contentType: 31
        case .cookie: 32
        case .date: 33
        case .etag: 34
        case .expect: 35
        case .expires: 36
        case .host: 38
        case .ifMatch: 39
        case .ifModifiedSince: 40
        case .ifNoneMatch: 41
        case .ifRange: 42
        case .ifUnmodifiedSince: 43
        case .lastModified: 44
        case .location: 46
        case .proxyAuthenticate: 48
        case .proxyAuthorization: 49
        case .range: 50
        case .referer: 51
        case .retryAfter: 53
        case .server: 54
        case .setCookie: 55
        case .transferEncoding: 57
        case .userAgent: 58
        case .vary: 59
        case .via: 60
        case .wwwAuthenticate: 61
        case .other, .connection, .keepAlive, .proxyConnection, .te, .trailer, .upgrade, .xForwardedFor, .xForwardedProto,
            .xForwardedHost, .forwarded, .xRequestID, .traceparent, .tracestate, .xInternalKey, .xRefreshToken, .pragma, .origin,
            .rateLimit, .rateLimitPolicy, .xRateLimitLimit, .xRateLimitRemaining, .xRateLimitReset, .xNewAccessToken,
            .xNewRefreshToken, .xNewTokenExpiresAt:
            0
        }
    }
}
