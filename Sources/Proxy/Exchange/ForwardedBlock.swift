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
        if let timeout = decision.grpcTimeout {
            out.append("\0\u{C}grpc-timeout\u{9}" as StaticString)
            parts.timeout = out.appendTimeout(timeout)
        }
        writeForwardingBlock(head, bytes, decision, from: peer, &out)
        out.appendHPACKString(requestID)
        out.append("\0\u{B}traceparent" as StaticString)
        out.appendHPACKString(traceparent)
        if isTraced { parts.span = Slice(start: out.count - traceparent.byteCount + TraceContext.spanOffset, count: 16) }
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

    /// Ends with the name of the next field, as `writeForwarding` does.
    private static func writeForwardingBlock(
        _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: borrowing Decision, from peer: Peer, _ out: inout ByteBuffer
    ) {
        if !head.host.isEmpty {
            out.append("\0\u{10}x-forwarded-host" as StaticString)
            out.appendHPACKString(bytes[head.host])
        }
        out.append("\0\u{F}x-forwarded-for" as StaticString)
        var start = out.beginHPACKString()
        if decision.client.peerIsTrusted { copyValues(.xForwardedFor, head.fields, bytes, &out) }
        peer.address.write(into: &out)
        out.endHPACKString(start)
        out.append("\0\u{9}x-real-ip" as StaticString)
        start = out.beginHPACKString()
        decision.client.address.write(into: &out)
        out.endHPACKString(start)
        out.append(peer.isTLS ? "\0\u{11}x-forwarded-proto\u{5}https" : "\0\u{11}x-forwarded-proto\u{4}http" as StaticString)
        // 60 is the index of `via`.
        out.append(
            head.isHTTP2
                ? "\u{F}\u{2D}\u{A}2 tollgate\0\u{C}x-request-id" : "\u{F}\u{2D}\u{C}1.1 tollgate\0\u{C}x-request-id" as StaticString)
    }
}
