import Wire

/// The head of a forwarded request at the start of its attempt's replay buffer, by the parts that an attempt writes anew: those that
/// depend on the upstream's address, the time that is left, its span, and the offer of a WebSocket.
struct UpstreamHead: Equatable, Sendable {
    /// All of its bytes, with the empty line.
    var length = 0
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
        timeout.move(by: shift)
        span.move(by: shift)
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
