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

    /// Adds the field lines, each with its CRLF, that stand at the end of `bytes` from `start` on. They are of the gateway's own writing.
    package mutating func add(linesFrom start: Int, _ bytes: RawSpan) {
        var offset = start
        do throws(HeadStop) {
            while offset < bytes.byteCount { offset = try addLine(bytes, offset) }
        } catch {
            preconditionFailure("a line of the gateway's own that is no field")
        }
    }

    /// Reads one field line into a table with room; answers the offset of the next line.
    @inline(__always)
    private mutating func readLine(_ bytes: RawSpan, _ start: Int) throws(HeadStop) -> Int {
        let colon = bytes.firstOffset(of: UInt8(ascii: ":"), from: start)
        let known = try readName(bytes, start, colon &- start)
        guard colon < bytes.byteCount else { throw .incomplete }
        let first = bytes.startOfValue(behind: colon)
        let stop = bytes.firstControl(from: first)
        let next = try bytes.endOfValue(at: stop)
        let last = bytes.endOfText(from: first, before: stop)
        append(Field(name: Slice(from: start, to: colon), value: Slice(from: first, to: last), known: known))
        return next
    }

    @inline(never)
    private mutating func addLine(_ bytes: RawSpan, _ start: Int) throws(HeadStop) -> Int {
        if count == entries.count { entries.append(Field(name: Slice(), value: Slice(), known: .other)) }
        return try readLine(bytes, start)
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

    /// Refuses a name that is no token, or resembles a framing field.
    private static func checkName(_ bytes: RawSpan, _ name: Range<Int>) throws(HeadStop) {
        guard ByteClass.areTokens(bytes, name) else { throw .fault(.fieldName) }
        guard name.upperBound < bytes.byteCount else { return }
        guard !name.isEmpty else { throw .fault(.fieldName) }
        if bytes.extracting(name).resemblesFraming { throw .fault(.fieldName) }
    }
}

extension RawSpan {
    /// Whether servers that read `_` as `-`, like CGI, take the name for that of a framing field.
    var resemblesFraming: Bool {
        guard byteCount == 14 || byteCount == 17 else { return false }
        return equalsIgnoringCase("content_length") || equalsIgnoringCase("transfer_encoding")
    }

    /// The offset behind the white space that follows a colon: nearly always a single space.
    @inline(__always)
    func startOfValue(behind colon: Int) -> Int {
        if holds(4, at: colon) {
            let word = load32(colon)
            if word & 0xFF00 == 0x2000, word & 0xFF_0000 > 0x20_0000 { return colon &+ 2 }
        }
        return firstOtherThanBlank(from: colon &+ 1)
    }

    @inline(never)
    private func firstOtherThanBlank(from start: Int) -> Int {
        var offset = start
        while offset < byteCount, ByteClass.isBlank(self[offset]) { offset &+= 1 }
        return offset
    }

    /// The end of the value from `start` on without the white space before `end`.
    @inline(__always)
    func endOfText(from start: Int, before end: Int) -> Int {
        if end > start, !ByteClass.isBlank(self[end &- 1]) { return end }
        return lastOtherThanBlank(from: start, before: end)
    }

    @inline(never)
    private func lastOtherThanBlank(from start: Int, before end: Int) -> Int {
        var end = end
        while end > start, ByteClass.isBlank(self[end &- 1]) { end &-= 1 }
        return end
    }

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
        if holds(2, at: offset), load16(offset) == 0x0A0D { return offset &+ 2 }
        guard offset < byteCount else { throw .incomplete }
        if self[offset] == ByteClass.carriageReturn { return try endOfLine(at: offset) }
        throw .fault(self[offset] == ByteClass.lineFeed ? .lineEnd : .fieldValue)
    }
}
