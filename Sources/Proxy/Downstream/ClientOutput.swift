import Transport
import Wire

/// Sends a client what is there for it, and keeps what its socket does not take.
extension Worker {
    /// Sends what waits; when all of it is gone, the connection goes on with what it was waiting to do.
    mutating func flushClient(_ client: ClientIndex, _ scratch: inout Scratch) {
        if downstream.clients[client].awaitsPipe, !drainAnswer(client, &scratch) { return }
        while !downstream.clients[client].output.isEmpty {
            switch downstream.clients[client].sendWaiting() {
            case .done(let count):
                downstream.clients[client].taking.moved(count)
                downstream.setTakingDeadline(client, at: now.monotonic, timeout: settings.sendTimeout)
            case .wouldBlock: return
            case .closed, .failed: return abandon(client, &scratch)
            }
        }
        scratch.recycle(&downstream.clients[client].output)
        switch downstream.clients[client].phase {
        case .flushing: finishClosing(client)
        case .open:
            let handle = downstream.clients.handle(client)
            resumeUpstream(client, &scratch)
            if downstream.clients.isCurrent(handle) { continueReading(client, &scratch) }
        case .free, .announcing, .handshaking, .lingering: break
        }
    }

    /// Sends `bytes`, or keeps what the socket does not take. The connection may be gone afterwards.
    mutating func sendToClient(_ client: ClientIndex, _ bytes: RawSpan, _ scratch: inout Scratch) {
        guard let sent = sendNow(client, bytes, &scratch), sent < bytes.byteCount else { return }
        downstream.beginWaiting(client, at: now.monotonic, timeout: settings.sendTimeout)
        downstream.clients[client].output.append(bytes.dropping(sent))
        refreshInterest(client)
    }

    /// Sends the first `count` bytes of `input`, or keeps what the socket does not take, and consumes them. The connection
    /// may be gone afterwards.
    mutating func sendToClient(_ client: ClientIndex, _ count: Int, of input: inout ByteBuffer, _ scratch: inout Scratch) {
        let sent = sendNow(client, input.readable.extracting(0..<count), &scratch)
        input.discard(sent ?? count)
        guard let sent, sent < count else { return }
        downstream.beginWaiting(client, at: now.monotonic, timeout: settings.sendTimeout)
        downstream.clients[client].output.take(count - sent, of: &input)
        refreshInterest(client)
    }

    /// Sends what the socket takes, if nothing waits to be sent before. nil if the connection has gone.
    private mutating func sendNow(_ client: ClientIndex, _ bytes: RawSpan, _ scratch: inout Scratch) -> Int? {
        var sent = 0
        guard !downstream.clients[client].hasUnsent else { return 0 }
        while sent < bytes.byteCount {
            switch downstream.clients[client].connection.send(bytes.dropping(sent)) {
            case .done(let count): sent += count
            case .wouldBlock: return sent
            case .closed, .failed:
                abandon(client, &scratch)
                return nil
            }
        }
        return sent
    }

    mutating func sendToClient(_ client: ClientIndex, _ text: StaticString, _ scratch: inout Scratch) {
        var bytes = ByteBuffer(capacity: text.utf8CodeUnitCount)
        bytes.append(text)
        sendToClient(client, bytes.readable, &scratch)
    }
}
