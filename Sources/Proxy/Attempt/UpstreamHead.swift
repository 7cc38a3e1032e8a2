import HTTP
import Wire

/// The head of a forwarded request at the start of its attempt's replay buffer, by the parts that an attempt writes anew: those that
/// depend on the upstream's address, the time that is left, its span, and the offer of a WebSocket.
struct UpstreamHead: Equatable, Sendable {
    /// All of its bytes, with the empty line.
    var length = 0
    /// Where its fields are a block of HTTP/2 behind the request line and `Host`; 0 if they are lines.
    var block = 0
    /// The base path in front of the request's own path.
    var prefix = Slice()
    /// `Host`, if it is the address's; empty if it is the client's.
    var host = Slice()
    /// The value of `grpc-timeout`; empty without one.
    var timeout = Slice()
    /// The span id in `traceparent`; empty unless the request is recorded.
    var span = Slice()
    /// Bytes at the end of the head that offer a WebSocket (`WebSocketOffer`); 0 for none.
    var offer = 0

    /// The bytes of the block.
    var fields: Range<Int>? { block > 0 ? block..<length : nil }

    /// Rewrites the head at the start of `opening` for another address.
    mutating func readdress(_ opening: inout ByteBuffer, to address: UpstreamAddress) {
        var text = ByteBuffer(capacity: opening.count + address.pathPrefix.utf8.count + address.authority.utf8.count)
        text.append(opening.readable.extracting(0..<Int(prefix.start)))
        var rest = prefix.end
        prefix = text.appendSlice(address.pathPrefix)
        if !host.isEmpty {
            text.append(opening.readable.extracting(rest..<Int(host.start)))
            rest = host.end
            host = text.appendSlice(address.authority)
        }
        // Those behind both parts, which may have another length now.
        let shift = text.count - rest
        text.append(opening.readable.dropping(rest))
        length += shift
        if block > 0 { block += shift }
        timeout.move(by: shift)
        span.move(by: shift)
        swap(&text, &opening)
    }

    /// Rewrites the fields at the start of `opening` as lines, if they are a block: the connection speaks HTTP/1.1 after all.
    mutating func writeLines(_ opening: inout ByteBuffer, isChunked: Bool) {
        guard let fields else { return }
        var text = ByteBuffer()
        text.append(opening.readable.extracting(0..<block))
        let former = self
        HPACKEncoder.forEachField(in: opening.readable, fields) { name, value in
            text.append(name)
            text.append(": ")
            let shift = text.count - value.lowerBound
            if value.contains(Int(former.timeout.start)) { timeout.move(by: shift) }
            if value.contains(Int(former.span.start)) { span.move(by: shift) }
            text.append(opening.readable.extracting(value))
            text.append(name.equals("te") ? "\r\nconnection: TE\r\n" : "\r\n" as StaticString)
        }
        text.append(isChunked ? "transfer-encoding: chunked\r\n\r\n" : "\r\n" as StaticString)
        block = 0
        let content = length
        length = text.count
        text.append(opening.readable.dropping(content))
        swap(&text, &opening)
    }
}

extension Slice {
    fileprivate mutating func move(by shift: Int) {
        if !isEmpty { self = Slice(start: Int(start) + shift, count: Int(count)) }
    }
}

extension ByteBuffer {
    /// Appends `text`; returns its slice.
    mutating func appendSlice(_ text: String) -> Slice {
        let start = count
        if !text.isEmpty { append(text) }
        return Slice(start: start, count: count - start)
    }
}
