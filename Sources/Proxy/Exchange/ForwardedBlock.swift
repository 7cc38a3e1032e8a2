import Gate
import HTTP
import Telemetry
import Wire

/// Writes the fields of a forwarded request as a block of HTTP/2, for an upstream that speaks it: the same fields as its lines have.
extension ForwardedRequest {
    /// Appends the fields behind the request line and `Host`, which stay text because attempts at other addresses write them anew.
    static func writeBlock(
        _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: borrowing Decision, requestID: RawSpan, traceparent: RawSpan,
        isTraced: Bool, from peer: Peer, _ parts: inout UpstreamHead, _ out: inout ByteBuffer
    ) {
        parts.block = out.count
        if hasTrailersAccepted(head, bytes) { out.append("\0\u{2}te\u{8}trailers" as StaticString) }
        for index in 0..<head.fields.count {
            let field = head.fields[index]
            guard field.isForwarded(decision.requestEdits, bytes), passes(field, bytes, decision) else { continue }
            HPACKEncoder.field(bytes[field.name], bytes[field.value], known: field.known, into: &out)
        }
        writeOwnFields(
            head, bytes, decision, requestID: requestID, traceparent: traceparent, isTraced: isTraced, from: peer, hidesClient: false,
            asBlock: true, &parts, &out)
        if !decision.requestEdits.addsNothing {
            HPACKEncoder().lines(decision.requestEdits.http1, dropping: FieldName.ofHTTP1Alone, into: &out)
        }
        if case .length(let count) = head.framing {
            out.append("\u{F}\u{D}" as StaticString)
            let start = out.beginHPACKString()
            out.append(decimal: count)
            out.endHPACKString(start)
        }
        parts.length = out.count
    }
}
