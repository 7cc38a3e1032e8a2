import Transport
import Wire

/// Sends a client what is there for it, and keeps what its socket does not take.
extension Worker {
    /// Sends what waits; when all of it is gone, the connection goes on with what it was waiting to do.
    mutating func flushClient(_ client: Int, _ scratch: inout Scratch) {
        if clients[client].awaitsPipe, !drainAnswer(client, &scratch) { return }
        while !clients[client].output.isEmpty {
            switch clients[client].sendWaiting(&workspace) {
            case .done(let count):
                clients[client].taking.moved(count)
                setTakingDeadline(client)
            case .wouldBlock: return
            case .closed, .failed: return abandon(client, &scratch)
            }
        }
        scratch.recycle(&clients[client].output)
        switch clients[client].phase {
        case .flushing: finishClosing(client)
        case .open:
            let handle = clientHandle(client)
            resumeAnswer(client, &scratch)
            if clients.isCurrent(handle) { continueReading(client, &scratch) }
        case .free, .announcing, .handshaking, .lingering: break
        }
    }

    /// Sends `bytes`, or keeps what the socket does not take. The connection may be gone afterwards.
    mutating func sendToClient(_ client: Int, _ bytes: RawSpan, _ scratch: inout Scratch) {
        guard let sent = sendNow(client, bytes, &scratch), sent < bytes.byteCount else { return }
        beginWaiting(client)
        clients[client].output.append(bytes.dropping(sent))
        refreshInterest(client)
    }

    /// Sends the first `count` bytes of `input`, or keeps what the socket does not take, and consumes them. The connection
    /// may be gone afterwards.
    mutating func sendToClient(_ client: Int, _ count: Int, of input: inout ByteBuffer, _ scratch: inout Scratch) {
        let sent = sendNow(client, input.readable.extracting(0..<count), &scratch)
        input.discard(sent ?? count)
        guard let sent, sent < count else { return }
        beginWaiting(client)
        clients[client].output.take(count - sent, of: &input)
        refreshInterest(client)
    }

    /// Sends what the socket takes, if nothing waits to be sent before. nil if the connection has gone.
    private mutating func sendNow(_ client: Int, _ bytes: RawSpan, _ scratch: inout Scratch) -> Int? {
        var sent = 0
        guard !clients[client].hasUnsent else { return 0 }
        while sent < bytes.byteCount {
            switch clients[client].channel.send(bytes.dropping(sent), &workspace) {
            case .done(let count): sent += count
            case .wouldBlock: return sent
            case .closed, .failed:
                abandon(client, &scratch)
                return nil
            }
        }
        return sent
    }

    mutating func beginWaiting(_ client: Int) {
        guard !clients[client].hasUnsent else { return }
        clients[client].taking.begin(at: now.monotonic)
        setTakingDeadline(client)
    }

    mutating func sendToClient(_ client: Int, _ text: StaticString, _ scratch: inout Scratch) {
        var bytes = ByteBuffer(capacity: text.utf8CodeUnitCount)
        bytes.append(text)
        sendToClient(client, bytes.readable, &scratch)
    }
}
