package import Wire

/// The head of one request, as offsets into the bytes it was parsed from. One value is reused for every message of a
/// worker: `parse` overwrites it, and its slices are valid only with those same bytes.
package struct RequestHead: ~Copyable {
    package internal(set) var fields: FieldTable
    package internal(set) var method = Method.other
    package internal(set) var methodText = Slice()
    /// The request target as received.
    package internal(set) var target = Slice()
    package internal(set) var form = TargetForm.origin
    /// The target's path without the query; `/` for an absolute target without one, `*` for the asterisk form.
    package internal(set) var path = Slice()
    /// The query with its `?`; empty if there is none.
    package internal(set) var query = Slice()
    /// The authority, with the port if one was sent; empty only in HTTP/1.0.
    package internal(set) var host = Slice()
    /// `host` without the port; an IPv6 address keeps its brackets.
    package internal(set) var hostname = Slice()
    /// 0 or 1; 1 for a request of HTTP/2.
    package internal(set) var minorVersion: UInt8 = 1
    /// Whether it came on a stream of HTTP/2: set by `take`. `parse` cannot know and says no.
    package var isHTTP2 = false
    package var version: HTTPVersion { isHTTP2 ? .http2 : minorVersion == 1 ? .http11 : .http10 }
    package internal(set) var framing = BodyFraming.none
    /// Whether the end of a request of HTTP/2 with `content-length: 0` is still to come: its HEADERS have not ended the stream.
    package internal(set) var awaitsEnd = false
    /// Whether the client keeps the connection open after this message.
    package internal(set) var keepAlive = false
    /// Whether the client waits for `100 Continue` before it sends the content. False if there is none.
    package internal(set) var expectsContinue = false
    /// `Authorization` fields; more than one is for the gate to refuse.
    package internal(set) var authorizationCount = 0
    /// The value of the first `Authorization` field.
    package internal(set) var authorization = Slice()
    /// Bytes of the head with its blank line and any empty lines before it.
    package internal(set) var length = 0

    /// A head with room for `fields` field lines.
    package init(fields: Int = 100) {
        self.fields = FieldTable(capacity: fields)
    }

    /// Parses the head at the start of `bytes` (RFC 9112). After anything but `complete` the properties mean nothing.
    ///
    /// The outcome does not depend on how the bytes were cut: a fault in some bytes stays the same when more are received.
    package mutating func parse(_ bytes: RawSpan, limits: HeadLimits) -> HeadOutcome {
        let window = bytes.extracting(0..<min(bytes.byteCount, limits.headBytes))
        isHTTP2 = false
        awaitsEnd = false
        do throws(HeadStop) {
            let fieldStart = try readRequestLine(window, limits)
            length = try fields.read(window, from: fieldStart, limit: limits.fields)
            try interpret(window)
            return .complete
        } catch {
            switch error {
            case .fault(let reason): return .invalid(HTTPFault(reason))
            case .incomplete where window.byteCount >= limits.headBytes: return .invalid(HTTPFault(.headTooLarge))
            case .incomplete: return .incomplete
            }
        }
    }

    /// Takes the request that `section` holds, which must be without a fault: the outcome and the properties are those of parsing
    /// `section.head`, but its lines are known already.
    mutating func take(_ section: inout FieldSection, limits: HeadLimits) -> HeadOutcome {
        length = section.head.byteCount
        isHTTP2 = true
        awaitsEnd = false
        fields.take(&section.table)
        do throws(HeadStop) {
            try takeRequestLine(section.requestLine, section.head, limits)
            guard fields.count <= limits.fields else { throw .fault(.tooManyFields) }
            guard length <= limits.headBytes else { throw .fault(.headTooLarge) }
            try interpret(section.head)
            return .complete
        } catch {
            switch error {
            case .fault(let reason): return .invalid(HTTPFault(reason))
            case .incomplete: return .incomplete
            }
        }
    }

    /// Takes the fields of a section that is over a limit, as far as they were read. Nothing else of the head means anything then.
    mutating func takeFields(of section: inout FieldSection) { fields.take(&section.table) }

    /// Reads the fields that decide framing, routing and persistence.
    private mutating func interpret(_ bytes: RawSpan) throws(HeadStop) {
        try findHost(bytes)
        framing = try requestFraming(bytes)
        let options = try fields.readConnection(bytes)
        keepAlive = minorVersion == 1 ? !options.close : options.keepAlive && !options.close
        expectsContinue = try fields.expectsContinue(bytes) && minorVersion == 1 && framing.hasContent
        authorizationCount = fields.occurrences(of: .authorization)
        authorization = fields.first(.authorization).map { fields[$0].value } ?? Slice()
    }

    /// RFC 9112 §6.3, without any of its leniencies.
    private func requestFraming(_ bytes: RawSpan) throws(HeadStop) -> BodyFraming {
        guard fields.hasFraming else { return .none }
        let framing: BodyFraming
        if fields.contains(.transferEncoding) {
            guard !fields.contains(.contentLength) else { throw .fault(.lengthAndCoding) }
            guard minorVersion == 1 else { throw .fault(.transferEncoding) }
            try fields.checkChunked(bytes)
            framing = .chunked
        } else {
            framing = .length(try fields.soleContentLength(bytes))
        }
        // RFC 9110 §9.3.8: a client must not send content in a TRACE request.
        if method == .trace, framing.hasContent { throw .fault(.contentInTrace) }
        return framing
    }
}

/// The forms of a request target that are served (RFC 9112 §3.2).
package enum TargetForm: UInt8, Sendable {
    case origin, absolute, asterisk

    package var isAsterisk: Bool {
        switch self {
        case .origin, .absolute: false
        case .asterisk: true
        }
    }
}
