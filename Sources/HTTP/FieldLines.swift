import Wire

/// Why a head parser stopped before the end of the head.
enum HeadStop: Error {
    case incomplete
    case fault(HTTPFault.Reason)
}

extension FieldTable {
    /// Reads the field lines from `start` up to and with the empty line that ends them (RFC 9112 §5); answers the offset
    /// behind it.
    ///
    /// CRLF only, no white space before the colon, no line folding, no controls but HTAB in values.
    mutating func read(_ bytes: RawSpan, from start: Int, limit: Int) throws(HeadStop) -> Int {
        removeAll()
        let room = min(limit, entries.count)
        var offset = start
        while true {
            guard offset < bytes.byteCount else { throw .incomplete }
            if bytes[offset] == ByteClass.carriageReturn { return try bytes.endOfLine(at: offset) }
            guard count < room else { throw .fault(.tooManyFields) }
            offset = try readLine(bytes, offset)
        }
    }

    /// Reads one field line; answers the offset of the next line.
    @inline(__always)
    private mutating func readLine(_ bytes: RawSpan, _ start: Int) throws(HeadStop) -> Int {
        let colon = bytes.firstOffset(of: UInt8(ascii: ":"), from: start)
        let known = try readName(bytes, start, colon &- start)
        guard colon < bytes.byteCount else { throw .incomplete }
        var first = colon &+ 1
        while first < bytes.byteCount, ByteClass.isBlank(bytes[first]) { first &+= 1 }
        let stop = bytes.firstControl(from: first)
        let next = try bytes.endOfValue(at: stop)
        var last = stop
        while last > first, ByteClass.isBlank(bytes[last &- 1]) { last &-= 1 }
        append(Field(name: Slice(from: start, to: colon), value: Slice(from: first, to: last), known: known))
        return next
    }

    /// Tells which field the `length` bytes from `start` on name.
    @inline(__always)
    private func readName(_ bytes: RawSpan, _ start: Int, _ length: Int) throws(HeadStop) -> FieldName {
        if length > 0, length <= WordTriple.longest {
            let words = WordTriple(bytes, start, length)
            let known = index.find(words, length)
            // A name that is known has been compared with its spelling, and needs no look at its bytes.
            if known != .other || words.isPlainName(length) { return known }
        }
        try Self.checkName(bytes, start..<start &+ length)
        return .other
    }

    /// Refuses a name that is no token, and one that servers which read `_` as `-`, like CGI, take for a framing field.
    private static func checkName(_ bytes: RawSpan, _ name: Range<Int>) throws(HeadStop) {
        guard ByteClass.areTokens(bytes, name) else { throw .fault(.fieldName) }
        guard name.upperBound < bytes.byteCount else { return }
        guard !name.isEmpty else { throw .fault(.fieldName) }
        guard name.count == 14 || name.count == 17 else { return }
        let text = bytes.extracting(name)
        if text.equalsIgnoringCase("content_length") || text.equalsIgnoringCase("transfer_encoding") {
            throw .fault(.fieldName)
        }
    }
}

extension RawSpan {
    /// The offset behind the CRLF whose CR stands at `offset`.
    @inline(__always)
    func endOfLine(at offset: Int) throws(HeadStop) -> Int {
        guard offset &+ 1 < byteCount else { throw .incomplete }
        guard self[offset &+ 1] == ByteClass.lineFeed else { throw .fault(.lineEnd) }
        return offset &+ 2
    }

    /// The offset behind the line whose value was followed up to `offset`, where a control stands or the bytes end.
    @inline(__always)
    func endOfValue(at offset: Int) throws(HeadStop) -> Int {
        guard offset < byteCount else { throw .incomplete }
        if self[offset] == ByteClass.carriageReturn { return try endOfLine(at: offset) }
        throw .fault(self[offset] == ByteClass.lineFeed ? .lineEnd : .fieldValue)
    }
}
