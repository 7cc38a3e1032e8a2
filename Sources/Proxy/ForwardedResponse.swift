import Gate
import HTTP
import Wire

/// Writes the head of an upstream's answer for the client (RFC 9110 section 7.6).
enum ForwardedResponse {
    /// - Parameters:
    ///   - delimiting: how the end of the content is marked towards the client.
    ///   - lines: whole field lines of the gateway's own, such as rate limits.
    ///   - saysLimits: whether those are among them: then the upstream's own are not passed on.
    ///   - persistence: what the connection's machine says; nil if that, and the empty line, are to follow later.
    ///   - filtered: what changes because the content is filtered.
    static func write(
        _ head: borrowing ResponseHead, _ bytes: RawSpan, delimiting: BodyFraming, requestID: RawSpan,
        lines: RawSpan, saysLimits: Bool, persistence: Persistence?, filtered: FilteredFields? = nil, into out: inout ByteBuffer
    ) {
        writeStatusLine(head.status, bytes[head.reason], &out)
        // A 204 has no length (RFC 9110 §8.6), whatever its sender thinks.
        let hasLength = delimiting.mayHaveLength && head.status != 204
        copyFields(head.fields, bytes, hasLength: hasLength, ownLimits: saysLimits, filtered, &out)
        if let filtered { filtered.writeAnswer(head.fields, bytes, into: &out) }
        out.append("X-Request-Id: ")
        out.append(requestID)
        out.append("\r\n")
        out.append(lines)
        if delimiting == .chunked { out.append("Transfer-Encoding: chunked\r\n") }
        guard let persistence else { return }
        out.append(persistence)
        out.append("\r\n")
    }

    /// An interim answer (1xx) is passed on without a word of our own.
    static func writeInterim(_ head: borrowing ResponseHead, _ bytes: RawSpan, into out: inout ByteBuffer) {
        writeStatusLine(head.status, bytes[head.reason], &out)
        copyFields(head.fields, bytes, hasLength: false, ownLimits: false, nil, &out)
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
        _ fields: borrowing FieldTable, _ bytes: RawSpan, hasLength: Bool, ownLimits: Bool, _ filtered: FilteredFields?,
        _ out: inout ByteBuffer
    ) {
        var run = FieldRun()
        for index in 0..<fields.count {
            let field = fields[index]
            let isFirstLength = hasLength && fields.first(.contentLength) == index
            let mayPass = filtered == nil || filtered!.passesAnswer(field, bytes)
            if mayPass, passes(field, bytes, isFirstLength: isFirstLength, ownLimits: ownLimits) {
                run.add(field, bytes, &out)
            } else {
                run.flush(bytes, &out)
            }
        }
        run.flush(bytes, &out)
    }

    private static func passes(
        _ field: Field, _ bytes: RawSpan, isFirstLength: Bool, ownLimits: Bool
    ) -> Bool {
        if field.isNominated || field.known.isHopByHop { return false }
        switch field.known {
        // The parser saw to it that all of them say the same, and that it is right or frames nothing (HEAD, 304).
        case .contentLength: return isFirstLength
        case .xRequestID, .xNewAccessToken, .xNewRefreshToken, .xNewTokenExpiresAt: return false
        case .rateLimit, .rateLimitPolicy, .xRateLimitLimit, .xRateLimitRemaining, .xRateLimitReset: return !ownLimits
        case .other: return !IdentityHeaders.ownsInAnswer(bytes[field.name])
        default: return true
        }
    }
}
