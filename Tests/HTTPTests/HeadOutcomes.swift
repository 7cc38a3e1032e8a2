import HTTP
import Wire

/// The parsers' results for some bytes, as text: how the case documents write it, and what splits are compared by.
enum Described {
    static func request(_ bytes: RawSpan, limits: HeadLimits = HeadLimits()) -> String {
        var head = RequestHead()
        switch head.parse(bytes, limits: limits) {
        case .incomplete: return "incomplete"
        case .invalid(let fault): return "\(fault.status) \(fault.text)"
        case .complete: return request(head, bytes)
        }
    }

    static func request(_ head: borrowing RequestHead, _ bytes: RawSpan) -> String {
        var words = ["accepted", bytes[head.methodText].text, bytes[head.path].text]
        if !head.query.isEmpty { words.append(bytes[head.query].text) }
        words += ["1.\(head.minorVersion)", "host=\(bytes[head.host].text)"]
        if head.hostname != head.host { words.append("name=\(bytes[head.hostname].text)") }
        if head.form != .origin { words.append("\(head.form)") }
        words.append(describe(head.framing))
        words.append(head.keepAlive ? "keep-alive" : "close")
        if head.expectsContinue { words.append("continue") }
        if head.authorizationCount > 0 { words.append("authorizations=\(head.authorizationCount)") }
        if !head.authorization.isEmpty {
            words.append("authorization=\(ByteNotation.text(bytes[head.authorization].array))")
        }
        return ([words.joined(separator: " ")] + lines(head.fields, bytes) + rest(bytes, head.length))
            .joined(separator: "\n")
    }

    static func response(_ bytes: RawSpan, method: Method, limits: HeadLimits = HeadLimits()) -> String {
        var head = ResponseHead()
        switch head.parse(bytes, requestMethod: method, limits: limits) {
        case .incomplete: return "incomplete"
        case .invalid(let fault): return "\(fault.status) \(fault.text)"
        case .complete: break
        }
        var words = ["accepted", "\(head.status)", "1.\(head.minorVersion)", describe(head.framing)]
        words.append(head.keepAlive ? "keep-alive" : "close")
        if head.isInterim { words.append("interim") }
        if let length = head.contentLength, head.framing != .length(length) { words.append("declares=\(length)") }
        if !head.reason.isEmpty { words.append("reason=\(ByteNotation.text(bytes[head.reason].array))") }
        return ([words.joined(separator: " ")] + lines(head.fields, bytes) + rest(bytes, head.length))
            .joined(separator: "\n")
    }

    static func proxy(_ bytes: RawSpan) -> String {
        switch ProxyProtocol.parse(bytes) {
        case .incomplete: "incomplete"
        case .invalid: "invalid"
        case .complete(.local, let consumed): (["accepted local"] + rest(bytes, consumed)).joined(separator: "\n")
        case .complete(.address(let address, let port), let consumed):
            (["accepted \(address.text) port=\(port)"] + rest(bytes, consumed)).joined(separator: "\n")
        }
    }

    static func describe(_ framing: BodyFraming) -> String {
        switch framing {
        case .none: "none"
        case .length(let count): "length=\(count)"
        case .chunked: "chunked"
        case .untilClose: "until-close"
        }
    }

    /// One line per field; `-` before those that end at this hop, `!` before those that `Connection` names or a trailer
    /// section may not hold.
    static func lines(_ fields: borrowing FieldTable, _ bytes: RawSpan) -> [String] {
        var lines: [String] = []
        for index in 0..<fields.count {
            let field = fields[index]
            let mark = field.isNominated ? "! " : field.endsHere ? "- " : ""
            lines.append("\(mark)\(bytes[field.name].text): \(ByteNotation.text(bytes[field.value].array))")
        }
        return lines
    }

    private static func rest(_ bytes: RawSpan, _ consumed: Int) -> [String] {
        consumed < bytes.byteCount ? ["rest \(ByteNotation.text(bytes.dropping(consumed).array))"] : []
    }
}
