import HTTP
import Wire

/// Writes the head of an upstream's answer for the client (RFC 9110 section 7.6).
enum ForwardedResponse {
    /// - Parameters:
    ///   - delimiting: how the end of the content is marked towards the client.
    ///   - lines: whole field lines of the gateway's own, such as rate limits.
    static func write(
        _ head: borrowing ResponseHead, _ bytes: RawSpan, delimiting: BodyFraming, requestID: RawSpan,
        lines: RawSpan, persistence: Persistence, into out: inout ByteBuffer
    ) {
        writeStatusLine(head.status, bytes[head.reason], &out)
        copyFields(head.fields, bytes, delimiting: delimiting, ownLimits: !lines.isEmpty, &out)
        out.append("X-Request-Id: ")
        out.append(requestID)
        out.append("\r\n")
        out.append(lines)
        if delimiting == .chunked { out.append("Transfer-Encoding: chunked\r\n") }
        out.append(persistence)
        out.append("\r\n")
    }

    /// An interim answer (1xx) is passed on without a word of our own.
    static func writeInterim(_ head: borrowing ResponseHead, _ bytes: RawSpan, into out: inout ByteBuffer) {
        writeStatusLine(head.status, bytes[head.reason], &out)
        copyFields(head.fields, bytes, delimiting: .chunked, ownLimits: false, &out)
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
        _ fields: borrowing FieldTable, _ bytes: RawSpan, delimiting: BodyFraming, ownLimits: Bool,
        _ out: inout ByteBuffer
    ) {
        var run = FieldRun()
        for index in 0..<fields.count {
            let field = fields[index]
            if passes(field, bytes, delimiting, ownLimits: ownLimits) {
                run.add(field, bytes, &out)
            } else {
                run.flush(bytes, &out)
            }
        }
        run.flush(bytes, &out)
    }

    private static func passes(
        _ field: Field, _ bytes: RawSpan, _ delimiting: BodyFraming, ownLimits: Bool
    ) -> Bool {
        if field.isNominated || field.known.isHopByHop { return false }
        switch field.known {
        // The parser saw to it that there is one at the most, and that it is right or frames nothing (HEAD, 304).
        case .contentLength: return delimiting != .chunked && delimiting != .untilClose
        case .xRequestID, .xNewAccessToken, .xNewRefreshToken, .xNewTokenExpiresAt: return false
        case .rateLimit, .rateLimitPolicy, .xRateLimitLimit, .xRateLimitRemaining, .xRateLimitReset: return !ownLimits
        default: return true
        }
    }
}
