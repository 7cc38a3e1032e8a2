import HTTP
import Transport
import Wire

/// The end of a turn, the timeouts and the end of HTTP/2 connections to upstreams.
extension Worker {
    // MARK: the end of a turn

    /// Sends what the sessions have written in this turn, and settles what they wait for.
    mutating func settleUpstreams(_ scratch: inout Scratch) {
        if !upstreams.resumable.isEmpty { resumeClients(&scratch) }
        var settled: [Handle<UpstreamConnection>] = []
        swap(&settled, &upstreams.unsettled)
        for upstream in settled where upstreams.connections.isCurrent(upstream) { settle(upstream.index, &scratch) }
        // Those that came meanwhile are settled in the next turn, which does not wait.
        settled.removeAll(keepingCapacity: true)
        if upstreams.unsettled.isEmpty { swap(&settled, &upstreams.unsettled) }
        resumeClients(&scratch)
    }

    private mutating func settle(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        guard let session = upstreams.connections[upstream].session else { return }
        upstreams.sessions[session].isUnsettled = false
        switch upstreams.connections[upstream].phase {
        case .free, .connecting, .handshaking, .busy, .tunnel, .ending, .idle: return
        case .greeting, .multiplexed, .probing: break
        }
        let wasFull = upstreams.connections[upstream].output.count >= UpstreamCarrier.maxBacklog
        sendFrames(upstream, session, &scratch)
        if wasFull, upstreams.connections[upstream].output.count < UpstreamCarrier.maxBacklog { serveRequests(upstream, session) }
        let handle = upstreams.connections.handle(upstream)
        if upstreams.sessions[session].isHeldBack, takesFrames(upstream) {
            upstreams.sessions[session].isHeldBack = false
            receiveFrames(upstream, &scratch)
            guard upstreams.connections.isCurrent(handle), upstreams.connections[upstream].session == session else { return }
        }
        upstreams.collectEnded(session)
        idleIfDone(upstream, session)
        if upstreams.connections.isCurrent(handle) { watchFrames(upstream, session) }
    }

    private mutating func sendFrames(_ upstream: UpstreamIndex, _ session: UpstreamSessionIndex, _ scratch: inout Scratch) {
        upstreams.sessions[session].http2.outputLeaves()
        upstreams.sessions[session].writes &+= 1
        while !upstreams.connections[upstream].output.isEmpty {
            switch upstreams.connections[upstream].sendWaiting() {
            case .done: break
            case .wouldBlock: return
            // It may have said before what becomes of its streams, so that is still read: the loop reports the lost connection.
            case .closed, .failed:
                upstreams.sessions[session].isBroken = true
                upstreams.connections[upstream].output = ByteBuffer()
            }
        }
        if upstreams.connections[upstream].output.capacity > UpstreamCarrier.maxBacklog {
            scratch.recycle(&upstreams.connections[upstream].output)
        }
    }

    private mutating func idleIfDone(_ upstream: UpstreamIndex, _ session: UpstreamSessionIndex) {
        if upstreams.isSessionOver(upstream) { return upstreams.close(upstream) }
        guard upstreams.connections[upstream].phase == .multiplexed, upstreams.sessions[session].load == 0,
            upstreams.sessions[session].wasBusy
        else { return }
        upstreams.sessions[session].wasBusy = false
        upstreams.sessionIdles(upstream, session)
        upstreams.connections[upstream].idleSince = now.monotonic
    }

    private mutating func watchFrames(_ upstream: UpstreamIndex, _ session: UpstreamSessionIndex) {
        var interest = Interest()
        if !upstreams.sessions[session].isHeldBack { interest.insert(.read) }
        if !upstreams.connections[upstream].output.isEmpty { interest.insert(.write) }
        guard upstreams.connections[upstream].connection.interest != interest else { return }
        let token = Token(.upstream, upstreams.connections.handle(upstream)).bits
        upstreams.connections[upstream].connection.watch(interest, token: token, in: loop)
    }

    /// Clients whose exchange has moved on a stream may have more to do.
    mutating func resumeClients(_ scratch: inout Scratch) {
        while !upstreams.resumable.isEmpty {
            var clients: [Handle<Client>] = []
            swap(&clients, &upstreams.resumable)
            for client in clients { resumeClient(client, &scratch) }
            clients.removeAll(keepingCapacity: true)
            if upstreams.resumable.isEmpty { return swap(&clients, &upstreams.resumable) }
        }
    }

    // MARK: time

    /// The first request after a silence goes out together with a PING: a connection that was lost unnoticed is found out soon.
    mutating func pingIfSilent(_ upstream: UpstreamIndex) {
        guard let session = upstreams.connections[upstream].session, !upstreams.sessions[session].http2.awaitsPong,
            now.monotonic >= upstreams.sessions[session].heardAt.advanced(milliseconds: settings.upstreamPingAfter)
        else { return }
        ping(upstream, session)
    }

    private mutating func ping(_ upstream: UpstreamIndex, _ session: UpstreamSessionIndex) {
        upstreams.sessions[session].http2.ping(into: &upstreams.connections[upstream].output)
        upstreams.sessions[session].pingedAt = now.monotonic
        upstreams.timers.set(upstream.id, deadline: now.monotonic.advanced(milliseconds: settings.upstreamPingTimeout))
        upstreams.settleLater(upstream)
    }

    mutating func sessionTimedOut(_ upstream: UpstreamIndex, _ session: UpstreamSessionIndex, _ scratch: inout Scratch) {
        let isIdle = upstreams.sessions[session].load == 0
        let deadline = isIdle ? idleDeadline(upstream) : silenceDeadline(session)
        guard now.monotonic >= deadline else {
            if isIdle {
                upstreams.connections[upstream].connection.rest()
                if upstreams.connections[upstream].output.isEmpty { upstreams.connections[upstream].output = ByteBuffer() }
                upstreams.sessions[session].http2.rest()
            }
            // A connection with streams may have idled by then.
            let latest = now.monotonic.advanced(milliseconds: settings.upstreamIdleTimeout)
            return upstreams.timers.set(upstream.id, deadline: min(deadline, latest))
        }
        if isIdle { return upstreams.close(upstream) }
        if upstreams.sessions[session].http2.awaitsPong { return lost(upstream, .closedUnanswered, &scratch) }
        ping(upstream, session)
    }

    private func idleDeadline(_ upstream: UpstreamIndex) -> MonotonicTime {
        upstreams.connections[upstream].idleSince.advanced(milliseconds: settings.upstreamIdleTimeout)
    }

    /// When a connection with streams is pinged, or given up if it was.
    private func silenceDeadline(_ session: UpstreamSessionIndex) -> MonotonicTime {
        let heardAt = upstreams.sessions[session].heardAt
        let due = heardAt.advanced(milliseconds: settings.upstreamPingAfter)
        guard let pingedAt = upstreams.sessions[session].pingedAt else { return due }
        if upstreams.sessions[session].http2.awaitsPong, heardAt <= pingedAt {
            return pingedAt.advanced(milliseconds: settings.upstreamPingTimeout)
        }
        return max(due, pingedAt.advanced(milliseconds: settings.upstreamPingInterval))
    }

    // MARK: the end

    /// The connection has failed: closes it, and retries or answers what it carried. Answers that are complete here are still sent.
    mutating func sessionLost(_ upstream: UpstreamIndex, _ loss: UpstreamLoss, _ scratch: inout Scratch) {
        let handle = upstreams.connections.handle(upstream)
        let endpoint = upstreams.connections[upstream].endpoint
        let isProbe = upstreams.connections[upstream].isProbe
        let isGreeting = upstreams.connections[upstream].phase == .greeting
        upstreams.unlinkSession(upstream)
        // None of its streams is open any more.
        if let session = upstreams.connections[upstream].session {
            upstreams.sessions[session].http2.close(.noError, into: &upstreams.connections[upstream].output)
        }
        // Its requests may need the room for another connection.
        upstreams.releaseRoom(upstream)
        while !isProbe, upstreams.connections.isCurrent(handle), let session = upstreams.connections[upstream].session,
            let end = upstreams.anyStream(session)
        {
            // Stale only if nothing has come since the request was sent: others' answers keep a connection in use that it may have broken.
            upstreams.connections[end].wasUsed =
                upstreams.sessions[session].wasUsed && (loss != .closedUnanswered || heardNothing(session, since: end))
            if upstreams.connections[end].http.message.hasEnded {
                upstreams.detachStream(end)
            } else {
                upstreams.resumable.append(clientServed(by: end))
                lost(end, isGreeting && loss == .closedUnanswered ? .notHTTP2 : streamLoss(end, session, loss), &scratch)
            }
        }
        if upstreams.connections.isCurrent(handle) { upstreams.close(upstream) }
        if isProbe { probeEnded(endpoint, good: false) }
    }

    private func heardNothing(_ session: UpstreamSessionIndex, since end: UpstreamIndex) -> Bool {
        let exchange = upstreams.connections[end].exchange
        return !exchange.isNone && upstreams.sessions[session].heardAt < exchanges[exchange.index].record.sentAt
    }

    /// The loss for one stream of a connection that was lost.
    private func streamLoss(_ end: UpstreamIndex, _ session: UpstreamSessionIndex, _ loss: UpstreamLoss) -> UpstreamLoss {
        guard let stream = upstreams.connections[end].stream, stream.id != .none else { return loss }
        if upstreams.connections[end].http.hasBegunAnswer || !upstreams.connections[end].input.isEmpty { return .brokenAnswer }
        return stream.writtenAt == upstreams.sessions[session].writes ? .unprocessed : loss
    }
}
