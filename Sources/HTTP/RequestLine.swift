import Wire

extension RequestHead {
    /// Longer than any registered method; a longer one is answered 501 (RFC 9110 §9.1).
    static let maxMethod = 32

    /// Reads the request line (RFC 9112 §3); returns the offset of the first field line.
    @inline(__always)
    mutating func readRequestLine(_ bytes: RawSpan, _ limits: HeadLimits) throws(HeadStop) -> Int {
        let start = try Self.skipEmptyLines(bytes)
        let targetStart = try readMethod(bytes, start)
        let targetEnd = try readTarget(bytes, targetStart, limits.targetBytes)
        let next = try readVersion(bytes, targetEnd &+ 1)
        try splitTarget(bytes, targetStart..<targetEnd)
        return next
    }

    /// So many empty lines before a request are harmless: some clients send one after a body (RFC 9112 §2.2).
    package static let maxEmptyLines = 2

    /// Whether `bytes` begin with an empty line.
    package static func isEmptyLine(_ bytes: RawSpan) -> Bool {
        bytes.byteCount > 1 && bytes[0] == ByteClass.carriageReturn && bytes[1] == ByteClass.lineFeed
    }

    /// Whether `bytes` hold more than what may become an empty line.
    package static func isBegun(by bytes: RawSpan) -> Bool {
        bytes.byteCount > 1 || bytes.byteCount == 1 && bytes[0] != ByteClass.carriageReturn
    }

    @inline(__always)
    private static func skipEmptyLines(_ bytes: RawSpan) throws(HeadStop) -> Int {
        var start = 0
        while start < bytes.byteCount, bytes[start] == ByteClass.carriageReturn {
            guard start < 2 * maxEmptyLines else { throw .fault(.requestLine) }
            start = try bytes.endOfLine(at: start)
        }
        return start
    }

    /// Returns the start of the target.
    @inline(__always)
    private mutating func readMethod(_ bytes: RawSpan, _ start: Int) throws(HeadStop) -> Int {
        if bytes.holds(4, at: start), bytes.load32(start) == 0x2054_4547 {  // "GET "
            method = .get
            methodText = Slice(from: start, to: start &+ 3)
            return start &+ 4
        }
        var end = start
        let bound = min(bytes.byteCount, start &+ Self.maxMethod &+ 1)
        while end < bound, ByteClass.isToken(bytes[end]) { end &+= 1 }
        guard end &- start <= Self.maxMethod else { throw .fault(.method) }
        guard end < bytes.byteCount else { throw .incomplete }
        guard bytes[end] == ByteClass.space, end > start else { throw .fault(.requestLine) }
        try setMethod(Slice(from: start, to: end), bytes)
        return end &+ 1
    }

    @inline(__always)
    private mutating func setMethod(_ text: Slice, _ bytes: RawSpan) throws(HeadStop) {
        methodText = text
        method = Method(bytes, Int(text.start), Int(text.count))
        // There is no tunnel here.
        guard method != .connect else { throw .fault(.method) }
    }

    /// Takes a request line whose parts are known.
    mutating func takeRequestLine(_ line: RequestLineSlices, _ bytes: RawSpan, _ limits: HeadLimits) throws(HeadStop) {
        guard line.method.count <= Self.maxMethod else { throw .fault(.method) }
        try setMethod(line.method, bytes)
        guard line.target.count <= limits.targetBytes else { throw .fault(.targetTooLong) }
        guard !line.target.isEmpty else { throw .fault(.requestLine) }
        target = line.target
        minorVersion = 1
        try splitTarget(bytes, Int(target.start)..<target.end)
    }

    /// Returns the end of the target.
    @inline(__always)
    private mutating func readTarget(_ bytes: RawSpan, _ start: Int, _ limit: Int) throws(HeadStop) -> Int {
        let end = bytes.firstOutsideTarget(from: start)
        guard end &- start <= limit else { throw .fault(.targetTooLong) }
        guard end < bytes.byteCount else { throw .incomplete }
        guard bytes[end] == ByteClass.space else {
            let lineEnds = bytes[end] == ByteClass.carriageReturn || bytes[end] == ByteClass.lineFeed
            throw .fault(lineEnds ? .requestLine : .target)
        }
        guard end > start else { throw .fault(.requestLine) }
        target = Slice(from: start, to: end)
        return end
    }

    /// Returns the offset of the next line.
    @inline(__always)
    private mutating func readVersion(_ bytes: RawSpan, _ start: Int) throws(HeadStop) -> Int {
        minorVersion = try bytes.minorVersion(at: start, orElse: .requestLine)
        let end = start &+ 8
        guard end < bytes.byteCount else { throw .incomplete }
        guard bytes[end] == ByteClass.carriageReturn else {
            throw .fault(bytes[end] == ByteClass.lineFeed ? .lineEnd : .requestLine)
        }
        return try bytes.endOfLine(at: end)
    }

    /// Tells the forms of a target apart and finds path and query (RFC 9112 §3.2).
    @inline(__always)
    private mutating func splitTarget(_ bytes: RawSpan, _ range: Range<Int>) throws(HeadStop) {
        host = Slice()
        if bytes[range.lowerBound] == UInt8(ascii: "/") {
            form = .origin
            splitPath(bytes, range)
        } else {
            try splitOtherForm(bytes, range)
        }
    }

    @inline(__always)
    private mutating func splitPath(_ bytes: RawSpan, _ range: Range<Int>) {
        let end = bytes.extracting(0..<range.upperBound).firstOffset(of: UInt8(ascii: "?"), from: range.lowerBound)
        path = Slice(from: range.lowerBound, to: end)
        query = Slice(from: end, to: range.upperBound)
    }

    private mutating func splitOtherForm(_ bytes: RawSpan, _ range: Range<Int>) throws(HeadStop) {
        let text = bytes.extracting(range)
        if text.equals("*") {
            guard method == .options else { throw .fault(.target) }
            form = .asterisk
            path = target
            query = Slice(from: range.upperBound, to: range.upperBound)
            return
        }
        form = .absolute
        let scheme: StaticString = "http://"
        let secureScheme: StaticString = "https://"
        if text.hasPrefixIgnoringCase(scheme) {
            splitAuthority(bytes, range.dropFirst(scheme.utf8CodeUnitCount))
        } else if text.hasPrefixIgnoringCase(secureScheme) {
            splitAuthority(bytes, range.dropFirst(secureScheme.utf8CodeUnitCount))
        } else {
            throw .fault(.target)
        }
    }

    /// The authority ends where the path or the query begins, or with the target.
    private mutating func splitAuthority(_ bytes: RawSpan, _ range: Range<Int>) {
        var end = range.lowerBound
        while end < range.upperBound, bytes[end] != UInt8(ascii: "/"), bytes[end] != UInt8(ascii: "?") { end += 1 }
        host = Slice(from: range.lowerBound, to: end)
        splitPath(bytes, end..<range.upperBound)
        // An empty path means `/` (RFC 9110 §4.2.3): the last slash of `://` serves.
        if path.isEmpty { path = Slice(from: range.lowerBound - 1, to: range.lowerBound) }
    }
}

extension RawSpan {
    /// The minor version that `HTTP/1.x` at `start` names (RFC 9112 §2.3); `malformed` is the fault of anything else.
    @inline(__always)
    func minorVersion(at start: Int, orElse malformed: HTTPFault.Reason) throws(HeadStop) -> UInt8 {
        if start &+ 8 <= byteCount {
            let difference = load64(start) ^ 0x312E_312F_5054_5448  // "HTTP/1.1"
            if difference == 0 { return 1 }
            if difference == 0x0100_0000_0000_0000 { return 0 }
        }
        throw versionFault(at: start, malformed)
    }

    /// The fault of bytes at `start` that are neither `HTTP/1.1` nor `HTTP/1.0`.
    private func versionFault(at start: Int, _ malformed: HTTPFault.Reason) -> HeadStop {
        let pattern: StaticString = "HTTP/0.0"
        for index in 0..<min(8, byteCount - start) {
            let byte = self[start + index]
            let wanted = unsafe pattern.utf8Start[index]
            let isGood = wanted == UInt8(ascii: "0") ? byte.isASCIIDigit : byte == wanted
            guard isGood else { return .fault(malformed) }
        }
        return byteCount - start < 8 ? .incomplete : .fault(.version)
    }

    func hasPrefixIgnoringCase(_ lowercased: StaticString) -> Bool {
        let count = lowercased.utf8CodeUnitCount
        return byteCount >= count && extracting(0..<count).equalsIgnoringCase(lowercased)
    }
}
