package import Wire

/// The head of one response of an upstream. Reused like `RequestHead`.
package struct ResponseHead: ~Copyable {
    package internal(set) var fields: FieldTable
    /// 100 to 599.
    package internal(set) var status = 0
    /// As received; may be empty.
    package internal(set) var reason = Slice()
    /// 0 or 1.
    package internal(set) var minorVersion: UInt8 = 1
    package internal(set) var framing = BodyFraming.none
    /// The value of `Content-Length`, also if it does not frame the message (HEAD, 304).
    package internal(set) var contentLength: UInt64?
    /// Whether the connection may carry another exchange once the content has ended.
    package internal(set) var keepAlive = false
    /// See `keepAliveSeconds` of its fields.
    package internal(set) var keepAliveSeconds: UInt32?
    package internal(set) var length = 0

    /// A head with room for `fields` field lines.
    package init(fields: Int = 100) {
        self.fields = FieldTable(capacity: fields)
    }

    /// 1xx: another head follows.
    package var isInterim: Bool { status < 200 }

    /// Changes the fields: those that do not pass leave, and `lines` follow the others, also behind `bytes`, which the head was parsed from.
    package mutating func change(_ bytes: inout ByteBuffer, adding lines: RawSpan, keeping passes: (Field, RawSpan) -> Bool) {
        fields.keep { passes($0, bytes.readable) }
        let start = bytes.count
        bytes.append(lines)
        fields.add(linesFrom: start, bytes.readable)
    }

    /// Parses the head at the start of `bytes`, the answer to a `requestMethod` request. Its faults are 502; so is a 101, unless the
    /// request asked to change protocols (`mayUpgrade`).
    package mutating func parse(
        _ bytes: RawSpan, requestMethod: Method, limits: HeadLimits, mayUpgrade: Bool = false
    ) -> HeadOutcome {
        let window = bytes.extracting(0..<min(bytes.byteCount, limits.headBytes))
        do throws(HeadStop) {
            let fieldStart = try readStatusLine(window)
            guard status != 101 || mayUpgrade else { throw .fault(.upgraded) }
            length = try fields.read(window, from: fieldStart, limit: limits.fields)
            try interpret(window, requestMethod)
            return .complete
        } catch {
            switch error {
            case .fault(let reason): return .invalid(HTTPFault(502, reason))
            case .incomplete where window.byteCount >= limits.headBytes: return .invalid(HTTPFault(502, .headTooLarge))
            case .incomplete: return .incomplete
            }
        }
    }

    /// Takes the answer that `section` holds, which must be without a fault: the outcome and the properties are those of parsing
    /// `section.head`, but its lines are known already.
    mutating func take(_ section: inout FieldSection, requestMethod: Method, limits: HeadLimits) -> HeadOutcome {
        length = section.head.byteCount
        minorVersion = 1
        // The status line has none.
        reason = Slice(start: 13, count: 0)
        fields.take(&section.table)
        do throws(HeadStop) {
            status = try Self.status(section.head)
            guard status != 101 else { throw .fault(.upgraded) }
            guard fields.count <= limits.fields else { throw .fault(.tooManyFields) }
            guard length <= limits.headBytes else { throw .fault(.headTooLarge) }
            try interpret(section.head, requestMethod)
            return .complete
        } catch {
            switch error {
            case .fault(let reason): return .invalid(HTTPFault(502, reason))
            case .incomplete: return .incomplete
            }
        }
    }

    /// Reads the status line (RFC 9112 §4); returns the offset of the first field line. The space before an empty reason
    /// may be missing, as it is from many servers.
    @inline(__always)
    private mutating func readStatusLine(_ bytes: RawSpan) throws(HeadStop) -> Int {
        minorVersion = try bytes.minorVersion(at: 0, orElse: .statusLine)
        guard bytes.byteCount > 12 else { throw .incomplete }
        status = try Self.status(bytes)
        let hasReason = bytes[12] == ByteClass.space
        guard hasReason || bytes[12] == ByteClass.carriageReturn else { throw .fault(.statusLine) }
        let start = hasReason ? 13 : 12
        let end = bytes.firstControl(from: start)
        reason = Slice(from: start, to: end)
        return try bytes.endOfValue(at: end)
    }

    @inline(__always)
    private static func status(_ bytes: RawSpan) throws(HeadStop) -> Int {
        guard bytes[8] == ByteClass.space, bytes[9].isASCIIDigit, bytes[10].isASCIIDigit, bytes[11].isASCIIDigit else {
            throw .fault(.statusLine)
        }
        let status = Int(bytes[9] &- 48) &* 100 &+ Int(bytes[10] &- 48) &* 10 &+ Int(bytes[11] &- 48)
        guard status >= 100, status < 600 else { throw .fault(.statusLine) }
        return status
    }

    @inline(__always)
    private mutating func interpret(_ bytes: RawSpan, _ requestMethod: Method) throws(HeadStop) {
        contentLength = try fields.agreedContentLength(bytes)
        framing = try responseFraming(bytes, requestMethod)
        let options = try fields.readConnection(bytes)
        keepAliveSeconds = fields.keepAliveSeconds(bytes)
        keepAlive = (minorVersion == 1 ? !options.close : options.keepAlive && !options.close) && framing != .untilClose
    }

    /// RFC 9112 §6.3.
    @inline(__always)
    private func responseFraming(_ bytes: RawSpan, _ requestMethod: Method) throws(HeadStop) -> BodyFraming {
        let isChunked = fields.contains(.transferEncoding)
        if isChunked {
            guard contentLength == nil else { throw .fault(.lengthAndCoding) }
            guard minorVersion == 1 else { throw .fault(.transferEncoding) }
            try fields.checkChunked(bytes)
        }
        if isInterim || status == 204 {
            // These never have content (RFC 9110 §15.2, §15.3.5). One that announces some cannot be followed by a known message.
            guard !isChunked, contentLength ?? 0 == 0 else { throw .fault(.contentLength) }
            return .none
        }
        if requestMethod == .head || status == 304 { return .none }
        if isChunked { return .chunked }
        return contentLength.map { .length($0) } ?? .untilClose
    }
}
