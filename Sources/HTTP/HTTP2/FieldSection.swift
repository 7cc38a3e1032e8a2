package import Wire

/// A decoded field section, laid out as an HTTP/1.1 head, so that one parser gives one meaning to both protocols; beside it the table
/// of its fields, so that a head's lines are not parsed again. One value is reused for every section of a worker.
///
/// Pseudo-fields become the request line and `host`, or the status line; an extended CONNECT for a WebSocket (RFC 8441) becomes the
/// handshake of HTTP/1.1, without a key. No field that means framing in HTTP/1 comes from the peer:
/// connection-specific fields are malformed (RFC 9113 §8.2.2), and a `transfer-encoding` is written here, for content without a
/// `content-length`. Every name is a token in lower case, and every value is free of control characters other than HTAB.
package struct FieldSection: ~Copyable {
    private let pin = AddressPin()
    /// The first reason for which the section is not served; nil if it is well formed and within its limits.
    package private(set) var fault: FieldSectionFault?
    private var kind = FieldSectionKind.trailers
    private var limits = FieldSectionLimits()
    private var lines = ByteBuffer()
    /// The fields of a head by their places in `lines`. `RequestHead` or `ResponseHead` takes it.
    var table = FieldTable()
    private(set) var requestLine = RequestLineSlices()
    private var pseudoFields = PseudoFields()
    /// Values of the cookie crumbs, joined.
    private var cookie = ByteBuffer()
    private var crumbs = 0
    private var fields = 0
    private var size = 0
    /// Whether the first line is written: then no pseudo-field may follow.
    private var hasFirstLine = false
    private var hasContentLength = false
    /// Memory in which the decoder puts literal fields together.
    var literal = ByteBuffer()
    var memo = HuffmanMemo()

    /// An empty section; its buffers grow with the first ones that are decoded.
    package init() {}

    /// The request's head; the response's head, without a reason phrase; or the lines of trailers; each with the empty line that ends
    /// it. After a fault it is cut off behind the last field that was read.
    package var head: RawSpan { @_lifetime(borrow self) get { lines.readable } }

    /// Moves the head out in exchange for another buffer, so that it is consumed without a copy. A second exchange gives the memory back.
    package mutating func exchangeHead(_ buffer: inout ByteBuffer) { swap(&lines, &buffer) }

    /// The value of a pseudo-field, also if a fault was found behind it; empty if there is none.
    @_lifetime(borrow self)
    package func pseudoField(_ name: PseudoField) -> RawSpan { pseudoFields[name] }

    // MARK: building

    /// Empties the section for another one.
    mutating func begin(_ kind: FieldSectionKind, _ limits: FieldSectionLimits) {
        self.kind = kind
        self.limits = limits
        fault = nil
        lines.removeAll()
        table.removeAll()
        pseudoFields.removeAll()
        cookie.removeAll()
        crumbs = 0
        fields = 0
        size = 0
        hasFirstLine = kind == .trailers
        hasContentLength = false
    }

    /// Adds a field by its line, `name: value` with a line break. After a fault nothing is stored any more.
    @inline(__always)
    mutating func add(_ line: RawSpan, nameCount: Int, _ name: FieldIdentity, isValueValid: Bool) {
        guard fault == nil, count(name.role, line.byteCount &- 4, nameCount) else { return }
        if name.role == .regular, isValueValid {
            append(line, nameCount, name.known)
        } else {
            addSpecial(name, line, nameCount, isValueValid)
        }
    }

    @inline(__always)
    private mutating func append(_ line: RawSpan, _ nameCount: Int, _ known: FieldName) {
        if !hasFirstLine { writeFirstLine() }
        let start = lines.count
        lines.append(line)
        note(start, nameCount, known)
    }

    /// Notes the last line, which begins at `start` and has `blanks` behind its value, in the table of a head.
    @inline(__always)
    private mutating func note(_ start: Int, _ nameCount: Int, _ known: FieldName, blanks: Int = 0) {
        guard kind != .trailers else { return }
        guard table.count < table.capacity else { return fail(.tooManyFields) }
        let colon = start &+ nameCount
        table.append(
            Field(name: Slice(from: start, to: colon), value: Slice(from: colon &+ 2, to: lines.count &- 2 &- blanks), known: known))
    }

    /// Ends the section: writes what must stand behind all fields.
    mutating func finish() {
        if fault == nil, !hasFirstLine { writeFirstLine() }
        guard fault == nil else { return }
        if crumbs > 0 {
            let start = lines.count
            lines.append("cookie: " as StaticString)
            lines.append(cookie)
            lines.append("\r\n" as StaticString)
            // The value of an HTTP/1 field ends before the blank that an empty last crumb leaves.
            let endsInBlank = !cookie.isEmpty && cookie.readable[cookie.count &- 1] == ByteClass.space
            note(start, 6, .cookie, blanks: endsInBlank ? 1 : 0)
        }
        if needsCoding {
            let start = lines.count
            lines.append("transfer-encoding: chunked\r\n" as StaticString)
            note(start, 17, .transferEncoding)
        }
        lines.append("\r\n" as StaticString)
    }

    private mutating func fail(_ reason: FieldSectionFault) {
        if fault == nil { fault = reason }
    }

    /// Counts a field of `length` bytes in name and value; false if that is over a limit.
    @inline(__always)
    private mutating func count(_ role: FieldRole, _ length: Int, _ nameCount: Int) -> Bool {
        if role == .cookie, isRequest {
            crumbs &+= 1
            guard crumbs <= limits.crumbs else {
                fail(.tooManyCrumbs)
                return false
            }
        }
        if role == .cookie, isRequest, crumbs > 1 {
            // Joined to those before it by "; ".
            size &+= length &- nameCount &+ 2
        } else {
            fields &+= 1
            size &+= length &+ 32
        }
        if fields > limits.fields { fail(.tooManyFields) }
        if size > limits.bytes { fail(.tooLarge) }
        return fault == nil
    }

    @inline(__always)
    private var isRequest: Bool {
        switch kind {
        case .request: true
        case .response, .trailers: false
        }
    }

    /// Whether the content has no `content-length`, so that HTTP/1.1 must frame it by chunks. Interim answers and 204 have none.
    private var needsCoding: Bool {
        switch kind {
        case .request(let hasContent): hasContent && !hasContentLength && !pseudoFields.contains(.tunnelProtocol)
        case .response(let hasContent): hasContent && !hasContentLength && !isWithoutContent
        case .trailers: false
        }
    }

    private var isWithoutContent: Bool {
        let status = pseudoField(.status)
        return status.equals("204") || status.byteCount > 0 && status[0] == UInt8(ascii: "1")
    }

    // MARK: fields with a rule of their own

    private mutating func addSpecial(_ name: FieldIdentity, _ line: RawSpan, _ nameCount: Int, _ isValueValid: Bool) {
        let value = line.extracting(nameCount &+ 2..<line.byteCount &- 2)
        // The check of a pseudo-field's value tells the fault of one that is not valid.
        guard isValueValid || name.role.pseudoField != nil && value.isFieldValue else { return fail(.fieldValue) }
        switch name.role {
        case .method, .scheme, .authority, .path, .status, .tunnelProtocol: addPseudoField(name.role, value, isValueValid)
        case .unknownPseudoField: fail(.unknownPseudoField)
        case .connectionSpecific: fail(.connectionSpecificField)
        case .upperCaseName: fail(.upperCaseName)
        case .invalidName: fail(.fieldName)
        case .cookie where isRequest: addCrumb(value)
        case .host where isRequest && pseudoFields.contains(.authority): checkHost(value)
        case .te where !value.equalsIgnoringCase("trailers"): fail(.te)
        case .regular, .authorization, .cookie, .host, .te, .contentLength:
            if name.role == .contentLength { hasContentLength = true }
            append(line, nameCount, name.known)
        }
    }

    /// Adds a crumb to the cookies before it (RFC 9113 §8.2.3).
    private mutating func addCrumb(_ value: RawSpan) {
        if !hasFirstLine { writeFirstLine() }
        if crumbs > 1 { cookie.append("; " as StaticString) }
        cookie.append(value)
    }

    /// Drops a `host` that says again what `:authority` said (RFC 9113 §8.3.1).
    private mutating func checkHost(_ value: RawSpan) {
        if !hasFirstLine { writeFirstLine() }
        if !value.equalsIgnoringCase(pseudoField(.authority)) { fail(.hostMismatch) }
    }

    private mutating func addPseudoField(_ role: FieldRole, _ value: RawSpan, _ isValid: Bool) {
        guard let name = role.pseudoField else { return fail(.unknownPseudoField) }
        guard !hasFirstLine || kind == .trailers else { return fail(.latePseudoField) }
        if let reason = pseudoFields.add(name, value, isValid: isValid, kind) { fail(reason) }
    }

    private mutating func writeFirstLine() {
        hasFirstLine = true
        guard !pseudoFields.hasMisplacedProtocol else { return fail(.unknownPseudoField) }
        guard pseudoFields.areComplete(kind) else { return fail(.missingPseudoField) }
        switch kind {
        case .request: writeRequestLine()
        case .response: pseudoFields.writeStatusLine(into: &lines)
        case .trailers: break
        }
    }

    /// Writes the request line and the fields that come from pseudo-fields.
    private mutating func writeRequestLine() {
        requestLine = pseudoFields.writeRequestLine(into: &lines)
        guard pseudoFields.contains(.authority) else { return }
        var start = lines.count
        lines.append("host: " as StaticString)
        lines.append(pseudoFields[.authority])
        lines.append("\r\n" as StaticString)
        note(start, 4, .host)
        guard pseudoFields.isWebSocket else { return }
        start = lines.count
        lines.append("connection: upgrade\r\n" as StaticString)
        note(start, 10, .connection)
        start = lines.count
        lines.append("upgrade: websocket\r\n" as StaticString)
        note(start, 7, .upgrade)
    }
}

extension ByteBuffer {
    fileprivate mutating func append(_ other: borrowing ByteBuffer) { append(other.readable) }
}
