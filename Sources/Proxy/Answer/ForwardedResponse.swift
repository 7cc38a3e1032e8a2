import Gate
import HTTP
import Wire

/// Writes the head of an upstream's answer for the client (RFC 9110 §7.6).
enum ForwardedResponse {
    /// - Parameters:
    ///   - framing: how the content is framed for the client.
    ///   - edits: fields of the gateway's own, such as rate limits, and the upstream's fields that they replace.
    ///   - persistence: from the connection's machine; nil if it and the empty line are written later.
    static func write(
        _ head: borrowing ResponseHead, _ bytes: RawSpan, framing: BodyFraming, requestID: RawSpan,
        edits: borrowing FieldEdits, persistence: Persistence?, into out: inout ByteBuffer
    ) {
        out.appendStatusLine(head.status, bytes[head.reason])
        // A 204 has no length (RFC 9110 §8.6), whatever its sender thinks.
        let hasLength = framing.mayHaveLength && head.status != 204
        copyFields(head.fields, bytes, hasLength: hasLength, edits, &out)
        writeOwn(requestID: requestID, edits, &out)
        if framing == .chunked { out.append("Transfer-Encoding: chunked\r\n") }
        guard let persistence else { return }
        out.append(persistence)
        out.append("\r\n")
    }

    /// Writes the fields of the same head for HTTP/2: the upstream's as a block, the gateway's own as lines, which complete it.
    static func writeBlock(
        _ head: borrowing ResponseHead, _ bytes: RawSpan, framing: BodyFraming, requestID: RawSpan, edits: borrowing FieldEdits,
        lines: inout ByteBuffer, into block: inout ByteBuffer
    ) {
        let hasLength = framing.mayHaveLength && head.status != 204
        encodeFields(head.fields, bytes, hasLength: hasLength, edits, lines: &lines, into: &block)
        HPACKEncoder.field(("x-request-id" as StaticString).rawBytes, requestID, known: .other, into: &block)
        lines.append(edits.http1)
    }

    /// Writes the fields of the gateway's own.
    private static func writeOwn(
        requestID: RawSpan, _ edits: borrowing FieldEdits, _ out: inout ByteBuffer
    ) {
        out.append("X-Request-Id: ")
        out.append(requestID)
        out.append("\r\n")
        out.append(edits.http1)
    }

    /// Writes the acceptance of a WebSocket: the upstream's 101, or 200 over HTTP/2 (RFC 8441 §5).
    ///
    /// - Parameters:
    ///   - accept: the value of `Sec-WebSocket-Accept`.
    ///   - saysBearer: whether the client offered `bearer` for its token, and the upstream chose nothing.
    static func writeAcceptance(
        _ head: borrowing ResponseHead, _ bytes: RawSpan, isHTTP2: Bool, accept: RawSpan, saysBearer: Bool, requestID: RawSpan,
        edits: borrowing FieldEdits, into out: inout ByteBuffer
    ) {
        out.appendStatusLine(isHTTP2 ? 200 : 101, StatusText.reason(isHTTP2 ? 200 : 101).rawBytes)
        var run = FieldRun()
        for index in 0..<head.fields.count {
            let field = head.fields[index]
            let isReplaced = edits.removesCORS && isOfCORS(field, bytes)
            let passes =
                !isReplaced && field.isForwarded(edits, bytes) && isOfUpstream(field, bytes, isFirstLength: false, edits)
                && !WebSocketAcceptance.owns(bytes[field.name])
            run.add(field, bytes, &out, if: passes)
            if isReplaced, field.known == .vary, !field.endsHere { writeVary(bytes[field.value], &out) }
        }
        run.flush(bytes, &out)
        if saysBearer {
            out.append("Sec-WebSocket-Protocol: ")
            out.append(WebSocketHandshake.bearer.rawBytes)
            out.append("\r\n")
        }
        if !isHTTP2 {
            out.append("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ")
            out.append(accept)
            out.append("\r\n")
        }
        writeOwn(requestID: requestID, edits, &out)
        out.append("\r\n")
    }

    /// Writes an interim answer (1xx), without fields of the gateway's own and without those that they would replace.
    static func writeInterim(
        _ head: borrowing ResponseHead, _ bytes: RawSpan, edits: borrowing FieldEdits, into out: inout ByteBuffer
    ) {
        out.appendStatusLine(head.status, bytes[head.reason])
        copyFields(head.fields, bytes, hasLength: false, edits, &out)
        out.append("\r\n")
    }

    /// Writes the upstream's fields as a block of HTTP/2, those of an interim answer alone. A `Vary` that loses a name goes to `lines`.
    static func encodeFields(
        _ fields: borrowing FieldTable, _ bytes: RawSpan, hasLength: Bool, _ edits: borrowing FieldEdits,
        lines: inout ByteBuffer, into block: inout ByteBuffer
    ) {
        lines.removeAll()
        block.removeAll()
        let firstLength = hasLength ? fields.first(.contentLength) ?? -1 : -1
        for index in 0..<fields.count {
            let field = fields[index]
            if passes(field, bytes, isFirstLength: index == firstLength, edits) {
                HPACKEncoder.field(bytes[field.name], bytes[field.value], known: field.known, into: &block)
            }
            if edits.removesCORS, field.known == .vary, !field.endsHere { writeVary(bytes[field.value], &lines) }
        }
    }

    private static func copyFields(
        _ fields: borrowing FieldTable, _ bytes: RawSpan, hasLength: Bool, _ edits: borrowing FieldEdits,
        _ out: inout ByteBuffer
    ) {
        var run = FieldRun()
        let firstLength = hasLength ? fields.first(.contentLength) ?? -1 : -1
        for index in 0..<fields.count {
            let field = fields[index]
            run.add(field, bytes, &out, if: passes(field, bytes, isFirstLength: index == firstLength, edits))
            if edits.removesCORS, field.known == .vary, !field.endsHere { writeVary(bytes[field.value], &out) }
        }
        run.flush(bytes, &out)
    }

    /// Whether the client gets a field unchanged.
    @inline(__always)
    private static func passes(
        _ field: Field, _ bytes: RawSpan, isFirstLength: Bool, _ edits: borrowing FieldEdits
    ) -> Bool {
        !(edits.removesCORS && isOfCORS(field, bytes)) && field.isForwarded(edits, bytes)
            && isOfUpstream(field, bytes, isFirstLength: isFirstLength, edits)
    }

    private static func isOfCORS(_ field: Field, _ bytes: RawSpan) -> Bool {
        field.known == .vary || field.known == .other && bytes[field.name].isNameOfCORS
    }

    /// Writes the upstream's `Vary` without `Origin`, which the gateway adds.
    private static func writeVary(_ value: RawSpan, _ out: inout ByteBuffer) {
        var names = ListElements(value)
        var isFirst = true
        while let name = names.next() {
            guard !name.isEmpty, !name.equalsIgnoringCase("origin") else { continue }
            out.append(isFirst ? "Vary: " : ", ")
            out.append(name)
            isFirst = false
        }
        if !isFirst { out.append("\r\n") }
    }

    private static func isOfUpstream(_ field: Field, _ bytes: RawSpan, isFirstLength: Bool, _ edits: borrowing FieldEdits) -> Bool {
        switch field.known {
        // The parser made sure that all say the same, and that it is the length or frames nothing (HEAD, 304).
        case .contentLength: return isFirstLength
        case .xRequestID, .xNewAccessToken, .xNewRefreshToken, .xNewTokenExpiresAt: return false
        // Content is passed on as it comes, so what an upstream says of buffering is for this gateway alone, and already done.
        case .other:
            return !IdentityHeaders.ownsInAnswer(bytes[field.name]) && !bytes[field.name].equalsIgnoringCase("x-accel-buffering")
                && !(edits.removesStrictTransport && bytes[field.name].equalsIgnoringCase("strict-transport-security"))
        default: return true
        }
    }
}
