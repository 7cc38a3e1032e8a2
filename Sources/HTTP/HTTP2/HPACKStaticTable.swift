import Wire

/// An entry of an HPACK table: a field, kept as the HTTP/1 field line that a section takes it as.
struct HPACKEntry: BitwiseCopyable {
    /// Where the line begins, counted from the first byte that its table ever held.
    var start: UInt32
    var nameCount: UInt16
    var valueCount: UInt16
    var name: FieldIdentity
    /// Whether the value may stand in a field (RFC 9113 §8.2.1), and is one of the pseudo-field if the name is.
    var isValueValid: Bool

    /// Bytes of `name: value` with the line break.
    var lineCount: Int { Int(nameCount) &+ Int(valueCount) &+ 4 }
    /// The size by which the tables' bound counts (RFC 7541 §4.1).
    var size: Int { Int(nameCount) &+ Int(valueCount) &+ 32 }
}

/// The static table of HPACK (RFC 7541, appendix A).
struct HPACKStaticTable: Sendable {
    static let shared = HPACKStaticTable()
    static let count = 61

    private(set) var lines: [UInt8] = []
    /// By index less 1.
    private(set) var entries: [HPACKEntry] = []

    private init() {
        var names = ByteBuffer()
        names.append(Self.text)
        let text = names.readable
        var offset = 0
        while offset < text.byteCount {
            let end = text.firstOffset(of: UInt8(ascii: "\n"), from: offset)
            let nameEnd = min(text.firstOffset(of: UInt8(ascii: " "), from: offset), end)
            append(text.extracting(offset..<nameEnd), text.extracting(min(nameEnd + 1, end)..<end))
            offset = end + 1
        }
        precondition(entries.count == Self.count)
    }

    /// The line of an entry of this table.
    @inline(__always)
    @_lifetime(borrow self)
    func line(_ entry: HPACKEntry) -> RawSpan {
        lines.rawBytes.extracting(Int(entry.start)..<Int(entry.start) &+ entry.lineCount)
    }

    /// The name of the entry at `index`, which counts from 1.
    @_lifetime(borrow self)
    func name(_ index: Int) -> RawSpan {
        let entry = entries[index &- 1]
        return line(entry).extracting(0..<Int(entry.nameCount))
    }

    private mutating func append(_ name: RawSpan, _ value: RawSpan) {
        entries.append(
            HPACKEntry(
                start: UInt32(lines.count), nameCount: UInt16(name.byteCount), valueCount: UInt16(value.byteCount),
                name: FieldIdentity(name, .shared), isValueValid: true))
        lines += name.array + Array(": ".utf8) + value.array + Array("\r\n".utf8)
    }

    /// A line for each field: its name and, if it has a value, a space and the value.
    private static let text: StaticString = """
        :authority
        :method GET
        :method POST
        :path /
        :path /index.html
        :scheme http
        :scheme https
        :status 200
        :status 204
        :status 206
        :status 304
        :status 400
        :status 404
        :status 500
        accept-charset
        accept-encoding gzip, deflate
        accept-language
        accept-ranges
        accept
        access-control-allow-origin
        age
        allow
        authorization
        cache-control
        content-disposition
        content-encoding
        content-language
        content-length
        content-location
        content-range
        content-type
        cookie
        date
        etag
        expect
        expires
        from
        host
        if-match
        if-modified-since
        if-none-match
        if-range
        if-unmodified-since
        last-modified
        link
        location
        max-forwards
        proxy-authenticate
        proxy-authorization
        range
        referer
        refresh
        retry-after
        server
        set-cookie
        strict-transport-security
        transfer-encoding
        user-agent
        vary
        via
        www-authenticate

        """
}
