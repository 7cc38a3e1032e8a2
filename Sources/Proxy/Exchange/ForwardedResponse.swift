import Gate
import HTTP
import Wire

/// Writes the head of an upstream's answer for the client (RFC 9110 section 7.6).
enum ForwardedResponse {
    /// - Parameters:
    ///   - framing: how the end of the content is marked towards the client.
    ///   - edits: fields of the gateway's own, such as rate limits, and those of the upstream that they replace.
    ///   - persistence: what the connection's machine says; nil if that, and the empty line, are to follow later.
    ///   - filtered: what changes because the content is filtered.
    static func write(
        _ head: borrowing ResponseHead, _ bytes: RawSpan, framing: BodyFraming, requestID: RawSpan,
        edits: borrowing FieldEdits, persistence: Persistence?, filtered: FilteredFields? = nil, into out: inout ByteBuffer
    ) {
        writeStatusLine(head.status, bytes[head.reason], &out)
        // A 204 has no length (RFC 9110 §8.6), whatever its sender thinks.
        let hasLength = framing.mayHaveLength && head.status != 204
        copyFields(head.fields, bytes, hasLength: hasLength, edits, filtered, &out)
        if let filtered { filtered.writeAnswer(head.fields, bytes, into: &out) }
        out.append("X-Request-Id: ")
        out.append(requestID)
        out.append("\r\n")
        out.append(edits.http1)
        if framing == .chunked { out.append("Transfer-Encoding: chunked\r\n") }
        guard let persistence else { return }
        out.append(persistence)
        out.append("\r\n")
    }

    /// An interim answer (1xx) is passed on without a word of our own.
    static func writeInterim(_ head: borrowing ResponseHead, _ bytes: RawSpan, into out: inout ByteBuffer) {
        writeStatusLine(head.status, bytes[head.reason], &out)
        copyFields(head.fields, bytes, hasLength: false, FieldEdits(), nil, &out)
        out.append("\r\n")
    }

    private static func writeStatusLine(_ status: Int, _ reason: RawSpan, _ out: inout ByteBuffer) {
        out.append("HTTP/1.1 ")
        out.append(decimal: status)
        out.append(UInt8(ascii: " "))
        out.append(reason)
        out.append("\r\n")
    }

    private static func copyFields(
        _ fields: borrowing FieldTable, _ bytes: RawSpan, hasLength: Bool, _ edits: borrowing FieldEdits, _ filtered: FilteredFields?,
        _ out: inout ByteBuffer
    ) {
        var run = FieldRun()
        for index in 0..<fields.count {
            let field = fields[index]
            let isFirstLength = hasLength && fields.first(.contentLength) == index
            let mayPass = filtered == nil || filtered!.passesAnswer(field, bytes)
            if mayPass, passes(field, bytes, isFirstLength: isFirstLength, edits) {
                run.add(field, bytes, &out)
            } else {
                run.flush(bytes, &out)
            }
        }
        run.flush(bytes, &out)
    }

    private static func passes(
        _ field: Field, _ bytes: RawSpan, isFirstLength: Bool, _ edits: borrowing FieldEdits
    ) -> Bool {
        if field.endsHere || edits.removes(field.known) { return false }
        switch field.known {
        // The parser saw to it that all of them say the same, and that it is right or frames nothing (HEAD, 304).
        case .contentLength: return isFirstLength
        case .xRequestID, .xNewAccessToken, .xNewRefreshToken, .xNewTokenExpiresAt: return false
        case .other: return !IdentityHeaders.ownsInAnswer(bytes[field.name])
        default: return true
        }
    }
}
