import HTTP
import Telemetry
import Transport
import Wire

/// The end of a turn, the timeouts and the end of HTTP/2 connections.
extension Worker {
    // MARK: the end of a turn

    /// Sends what the sessions have written in this turn, and settles what they wait for.
    mutating func settleSessions(_ scratch: inout Scratch) {
        guard !downstream.unsettled.isEmpty else { return }
        var settled: [Handle<Client>] = []
        swap(&settled, &downstream.unsettled)
        for client in settled where downstream.clients.isCurrent(client) { settleSession(client.index, &scratch) }
        // Those that came meanwhile are settled in the next turn, which does not wait.
        settled.removeAll(keepingCapacity: true)
        if downstream.unsettled.isEmpty { swap(&settled, &downstream.unsettled) }
    }

    private mutating func settleSession(_ client: ClientIndex, _ scratch: inout Scratch) {
        guard let session = downstream.clients[client].session else { return }
        let handle = downstream.clients.handle(client)
        downstream.sessions[session].isUnsettled = false
        let waited = downstream.clients[client].connection.interest.contains(.write)
        if !takesFrames(client) { downstream.sessions[session].wasFull = true }
        downstream.sessions[session].http2.outputLeaves()
        while !downstream.clients[client].output.isEmpty {
            switch downstream.clients[client].sendWaiting() {
            case .done(let count): if waited { downstream.taken(client, count, at: now.monotonic, timeout: settings.sendTimeout) }
            case .wouldBlock:
                if !waited { downstream.startTakingClock(client, at: now.monotonic, timeout: settings.sendTimeout) }
                return refreshInterest(client)
            case .closed, .failed: return abandon(client, &scratch)
            }
        }
        // Kept for the next turn; freed when the connection has idled for a while.
        if downstream.clients[client].output.capacity > Downstream.maxBacklog { scratch.recycle(&downstream.clients[client].output) }
        if downstream.sessions[session].wasFull {
            downstream.sessions[session].wasFull = false
            serveStreams(session, &scratch)
        }
        guard downstream.clients.isCurrent(handle) else { return }
        if downstream.sessions[session].isHeldBack || downstream.clients[client].connection.hasPending {
            continueSession(client, &scratch)
        }
        guard downstream.clients.isCurrent(handle), downstream.clients[client].session != nil else { return }
        if !downstream.clients[client].output.isEmpty { return downstream.settleLater(client) }
        idleIfDone(client, session, waited: waited)
        refreshInterest(client)
    }

    /// Without streams the connection idles, or ends if it drains.
    private mutating func idleIfDone(_ client: ClientIndex, _ session: SessionIndex, waited: Bool) {
        guard downstream.sessions[session].http2.streamCount == 0 else { return }
        if downstream.sessions[session].http2.acceptsNoMore {
            downstream.releaseSession(client)
            return downstream.closeAfterFlush(client, lingering: true, at: now.monotonic, in: loop)
        }
        guard downstream.sessions[session].wasBusy || waited, !downstream.sessions[session].isInsideFrame else { return }
        // Frames without a request do not prolong it.
        if downstream.sessions[session].wasBusy {
            downstream.sessions[session].idlesUntil = now.monotonic.advanced(milliseconds: settings.idleTimeout)
        }
        downstream.sessions[session].wasBusy = false
        downstream.startIdling(client, at: now.monotonic, until: downstream.sessions[session].idlesUntil)
    }

    // MARK: time

    mutating func sessionTimedOut(_ client: ClientIndex, _ scratch: inout Scratch) {
        guard let session = downstream.clients[client].session else { return }
        // Frames that leave at the end of this turn do not wait for the client.
        if downstream.clients[client].connection.interest.contains(.write) { return abandon(client, cause: .sendTimeout, &scratch) }
        if downstream.sessions[session].isInsideFrame { return closeSession(client, session, .enhanceYourCalm, &scratch) }
        if downstream.sessions[session].http2.isDraining, !downstream.sessions[session].http2.acceptsNoMore {
            downstream.sessions[session].http2.finishDraining(into: &downstream.clients[client].output)
            downstream.settleLater(client)
        }
        // Its last stream may have ended in this turn. Frames without a stream prolong nothing, not even in the turn in which they come.
        // A client that has sent nothing has never been settled.
        let isSilent = downstream.sessions[session].idlesUntil.nanoseconds == 0 && !downstream.sessions[session].isUnsettled
        if downstream.sessions[session].http2.streamCount > 0 || downstream.sessions[session].wasBusy && !isSilent {
            downstream.timers.set(client.id, deadline: now.monotonic.advanced(milliseconds: settings.idleTimeout))
        } else if let end = downstream.clients[client].idlesUntil {
            downstream.clients[client].idlesUntil = nil
            downstream.clients[client].connection.rest()
            downstream.clients[client].output = ByteBuffer()
            downstream.sessions[session].http2.rest()
            downstream.timers.set(client.id, deadline: end)
        } else {
            closeSession(client, session, .noError, &scratch)
        }
    }

    /// A timer of a stream that has no window and nothing to send. Other streams may have used the connection's window up a moment ago,
    /// so the send timeout begins unless it was this timer.
    mutating func windowTimedOut(_ stream: ClientIndex, _ scratch: inout Scratch) {
        guard downstream.clients[stream].stream?.awaitsWindow == false else { return abandon(stream, cause: .sendTimeout, &scratch) }
        downstream.clients[stream].stream?.awaitsWindow = true
        downstream.startTakingClock(stream, at: now.monotonic, timeout: settings.sendTimeout)
    }

    /// Says GOAWAY and closes.
    private mutating func closeSession(
        _ client: ClientIndex, _ session: SessionIndex, _ code: HTTP2ErrorCode, _ scratch: inout Scratch
    ) {
        downstream.sessions[session].http2.close(code, into: &downstream.clients[client].output)
        finishSession(client, &scratch)
    }

    /// GOAWAY was written: ends all streams, and closes when it has gone out.
    mutating func finishSession(_ client: ClientIndex, _ scratch: inout Scratch) {
        let handle = downstream.clients.handle(client)
        endSession(client, &scratch)
        downstream.startTakingClock(client, at: now.monotonic, timeout: settings.sendTimeout)
        downstream.closeAfterFlush(client, lingering: true, at: now.monotonic, in: loop)
        if downstream.clients.isCurrent(handle) { flushClient(client, &scratch) }
        if downstream.clients.isCurrent(handle) { refreshInterest(client) }
    }

    // MARK: end

    /// Milliseconds that a client has to answer the first GOAWAY's PING, until the second.
    private static var drainGrace: UInt64 { 1_000 }

    /// Begins a drain of the connection: it takes requests that are on their way, and no more.
    mutating func drainSession(_ client: ClientIndex) {
        guard let session = downstream.clients[client].session else { return }
        downstream.sessions[session].http2.drain(into: &downstream.clients[client].output)
        // A client that reads slowly keeps its send timeout, and may answer the PING within it.
        if !downstream.clients[client].connection.interest.contains(.write) {
            downstream.timers.set(client.id, deadline: now.monotonic.advanced(milliseconds: Self.drainGrace))
        }
        downstream.settleLater(client)
    }

    /// Ends all streams and their exchanges.
    mutating func endSession(_ client: ClientIndex, cause: CutCause = .client, _ scratch: inout Scratch) {
        guard let session = downstream.clients[client].session else { return }
        while downstream.sessions[session].http2.streamCount > 0 {
            abandon(ClientIndex(number: downstream.sessions[session].http2.owner(at: 0)), cause: cause, &scratch)
        }
        downstream.releaseSession(client)
    }

    /// For the gauges.
    func isSessionIdle(_ client: ClientIndex) -> Bool {
        guard let session = downstream.clients[client].session else { return false }
        return downstream.sessions[session].http2.streamCount == 0
    }
}

extension HTTP2EndReason {
    /// The metrics' label value.
    init(_ fault: HTTP2Fault) {
        switch fault.glitch {
        case .reset: self = .reset
        case .provokedReset: self = .provokedReset
        case .refusedStream: self = .refusedStream
        case .emptyData: self = .emptyData
        case .continuation: self = .continuation
        case .ping: self = .ping
        case .settings: self = .settings
        case .priority: self = .priority
        case .windowUpdate: self = .windowUpdate
        case .closedStream: self = .closedStream
        case .none:
            switch fault.code {
            case .compressionError: self = .compressionError
            case .flowControlError: self = .flowControlError
            case .frameSizeError: self = .frameSizeError
            case .noError, .protocolError, .internalError, .settingsTimeout, .streamClosed, .refusedStream, .cancel, .connectError,
                .enhanceYourCalm, .inadequateSecurity, .http11Required:
                self = .protocolError
            }
        }
    }
}

extension Downstream {
    /// Frees the machine of a connection without streams.
    mutating func releaseSession(_ client: ClientIndex) {
        guard let session = clients[client].session else { return }
        clients[client].session = nil
        sessions[session] = HTTP2Carrier()
        sessions.release(session)
    }
}
