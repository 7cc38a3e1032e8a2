import HTTP
import Wire

/// Writes an answer that the gateway makes itself.
enum OwnResponse {
    /// Writes the head and, unless the request is HEAD, the content.
    static func write(
        status: Int, contentType: StaticString, body: RawSpan, isHead: Bool, requestID: RawSpan, edits: borrowing FieldEdits,
        saysCaching: Bool = false, persistence: Persistence, at now: WallTime, into out: inout ByteBuffer
    ) {
        // These two never have content (RFC 9110 §15.3.5, §15.4.5).
        let hasContent = status != 204 && status != 304
        writeHead(
            status: status, contentType: contentType, framing: hasContent ? .length(UInt64(body.byteCount)) : .none, requestID: requestID,
            edits: edits, saysCaching: saysCaching, persistence: persistence, at: now, into: &out)
        if !isHead && hasContent { out.append(body) }
    }

    /// - Parameters:
    ///   - edits: further fields, such as limits or a challenge.
    ///   - saysCaching: whether `Cache-Control` is among them; otherwise it is `no-store`.
    static func writeHead(
        status: Int, contentType: StaticString = "", framing: BodyFraming, requestID: RawSpan, edits: borrowing FieldEdits,
        saysCaching: Bool, persistence: Persistence, at now: WallTime, into out: inout ByteBuffer
    ) {
        out.appendStatusLine(status, StatusText.reason(status).rawBytes)
        out.append("Date: ")
        HTTPDate.write(now, into: &out)
        out.append("\r\nServer: tollgate\r\n")
        if contentType.utf8CodeUnitCount > 0 {
            out.append("Content-Type: ")
            out.append(contentType)
            out.append("\r\n")
        }
        switch framing {
        case .none, .untilClose: break
        case .length(let length):
            out.append("Content-Length: ")
            out.append(decimal: length)
            out.append("\r\n")
        case .chunked: out.append("Transfer-Encoding: chunked\r\n")
        }
        if !saysCaching { out.append("Cache-Control: no-store\r\n") }
        out.append("X-Request-Id: ")
        out.append(requestID)
        out.append("\r\n")
        out.append(edits.http1)
        out.append(persistence)
        out.append("\r\n")
    }
}

extension ByteBuffer {
    mutating func appendStatusLine(_ status: Int, _ reason: RawSpan) {
        append("HTTP/1.1 ")
        append(decimal: status)
        append(UInt8(ascii: " "))
        append(reason)
        append("\r\n")
    }

    /// The `Connection` field that the machine asks for.
    mutating func append(_ persistence: Persistence) {
        switch persistence {
        case .implied: break
        case .keepAlive: append("Connection: keep-alive\r\n")
        case .close: append("Connection: close\r\n")
        }
    }
}
