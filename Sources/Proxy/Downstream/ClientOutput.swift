import Transport
import Wire

/// Sends to clients, and queues what their sockets do not take.
extension Worker {
    /// Sends what waits; when all of it is gone, the connection resumes what it had stopped.
    mutating func flushClient(_ client: ClientIndex, _ scratch: inout Scratch) {
        if downstream.clients[client].session != nil { return downstream.settleLater(client) }
        if downstream.clients[client].awaitsPipe, !drainAnswer(client, &scratch) { return }
        while !downstream.clients[client].output.isEmpty {
            switch downstream.clients[client].sendWaiting() {
            case .done(let count): downstream.taken(client, count, at: now.monotonic, timeout: settings.sendTimeout)
            case .wouldBlock: return
            case .closed, .failed: return abandon(client, &scratch)
            }
        }
        scratch.recycle(&downstream.clients[client].output)
        switch downstream.clients[client].phase {
        case .flushing: downstream.finishClosing(client, at: now.monotonic, in: loop)
        case .open:
            let handle = downstream.clients.handle(client)
            if downstream.clients[client].exchange.isNone, downstream.clients[client].readsHead {
                downstream.startIdling(client, at: now.monotonic, timeout: settings.idleTimeout)
            }
            resumeSource(client, &scratch)
            if downstream.clients.isCurrent(handle) { continueReading(client, &scratch) }
        case .tunnel: resumeTunnel(client, &scratch)
        case .free, .announcing, .handshaking, .greeting, .multiplexed, .lingering: break
        }
    }

    /// Sends the first `count` bytes of `input`, or queues what the socket does not take, and consumes them. The connection
    /// may be gone afterwards.
    mutating func sendToClient(_ client: ClientIndex, _ count: Int, of input: inout ByteBuffer, _ scratch: inout Scratch) {
        guard !downstream.clients[client].isStream else {
            return downstream.sendOnStream(client, count, of: &input, at: now.monotonic, timeout: settings.sendTimeout)
        }
        let waited = downstream.clients[client].hasUnsent
        switch downstream.clients[client].send(count, of: &input) {
        case .sent: break
        case .queued:
            if !waited { downstream.startTakingClock(client, at: now.monotonic, timeout: settings.sendTimeout) }
            refreshInterest(client)
        case .lost: abandon(client, &scratch)
        }
    }
}
