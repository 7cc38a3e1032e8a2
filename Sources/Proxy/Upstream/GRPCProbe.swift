import HTTP
import Transport
import Wire

/// Active health checks of upstreams with `health=grpc`, each on an HTTP/2 connection of its own.
extension Worker {
    /// The connection is established: sends the request. Without a session ALPN has chosen HTTP/1.1, over which there is no gRPC.
    mutating func sendGRPCProbe(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        guard let session = upstreams.connections[upstream].session else { return lost(upstream, .notHTTP2, &scratch) }
        let address = upstreams.directory.address(upstreams.connections[upstream].endpoint)
        var request = ByteBuffer(capacity: 256)
        request.append("POST ")
        request.append(address.pathPrefix)
        request.append(GRPCHealthCheck.path)
        request.append(" HTTP/1.1\r\nHost: ")
        request.append(address.authority)
        request.append("\r\nUser-Agent: tollgate-health\r\nContent-Type: application/grpc\r\nTE: trailers\r\n\r\n")
        let sent = upstreams.sessions[session].http2.sendRequest(
            request.readable, isSecure: address.tls != nil, endsStream: false, owner: upstream.number,
            into: &upstreams.connections[upstream].output)
        guard let sent else { return lost(upstream, .refused, &scratch) }
        _ = upstreams.sessions[session].http2.sendContent(
            GRPCHealthCheck.request.rawBytes, isLast: true, on: sent.stream, into: &upstreams.connections[upstream].output)
        upstreams.connections[upstream].check = GRPCHealthCheck()
        upstreams.settleLater(upstream)
    }

    /// Takes an event of the check's stream; false if it is one of the connection, or the end of the check by a fault.
    mutating func takesGRPCProbe(
        _ event: HTTP2Event, _ upstream: UpstreamIndex, _ input: inout ByteBuffer, _ scratch: inout Scratch
    ) -> Bool {
        switch event {
        case .interim: break
        case .head:
            let isGRPC = scratch.response.status == 200 && scratch.response.isGRPC(scratch.section.head)
            if !isGRPC { endGRPCProbe(upstream, good: false) }
        case .content(_, let count):
            upstreams.connections[upstream].check?.received(input.readable.extracting(0..<count))
            input.discard(count)
        case .trailers:
            let lines = scratch.section.head
            let fault = parseTrailers(lines, Slice(start: 0, count: lines.byteCount - 2), into: &scratch.trailers)
            if fault == nil { upstreams.connections[upstream].check?.ended(scratch.trailers, lines) }
        case .end: endGRPCProbe(upstream, good: upstreams.connections[upstream].check?.isServing == true)
        case .needMore, .reset, .badAnswer, .roomGrew, .settings, .wentAway, .fault, .unreadable, .malformed: return false
        }
        return true
    }

    private mutating func endGRPCProbe(_ upstream: UpstreamIndex, good: Bool) {
        let endpoint = upstreams.connections[upstream].endpoint
        upstreams.close(upstream)
        probeEnded(endpoint, good: good)
    }
}
