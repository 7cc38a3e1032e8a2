import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Drives HTTP/2 connections: frames arrive, the connection's machine says what they are, one switch acts on it. Everything behind
/// the switch is as for HTTP/1: a stream's end is a `Client`.
extension Worker {
    // MARK: beginning

    /// Tells HTTP/2 by prior knowledge from HTTP/1 (RFC 9113 §3.3).
    mutating func greet(_ client: ClientIndex, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        let preface = HTTP2Core.preface.rawBytes
        let count = min(preface.byteCount, input.count)
        let isHTTP2 = input.readable.extracting(0..<count).equals(preface.extracting(0..<count))
        // "PRI" tells enough: it is no method of HTTP/1 (RFC 9113 §11.5).
        if isHTTP2, count < 4 { return }
        downstream.clients[client].phase = .open
        if isHTTP2 { startSession(client) }
        received(client, &input, &scratch)
    }

    /// The connection speaks HTTP/2.
    mutating func startSession(_ client: ClientIndex) {
        let session = downstream.sessions.acquire().index
        downstream.sessions[session].http2 = .server(settings.http2)
        downstream.clients[client].session = session
        downstream.clients[client].phase = .multiplexed
        downstream.clients[client].wasUsed = true
        if phase != .serving { drainSession(client) }
    }

    // MARK: frames

    /// Whether frames are read: not while the client leaves those before unread.
    func takesFrames(_ client: ClientIndex) -> Bool { downstream.clients[client].output.count < Downstream.maxBacklog }

    /// Whether frames that were received wait for the end of the turn.
    func isHeldBack(_ client: ClientIndex) -> Bool {
        guard let session = downstream.clients[client].session else { return false }
        return downstream.sessions[session].isHeldBack
    }

    /// Requests of one connection that are begun at once, so that other connections have their turns.
    private static var maxBegun: Int { 100 }

    /// Handles the frames that have been received, as far as the connection may go now.
    mutating func advanceSession(_ client: ClientIndex, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        let handle = downstream.clients.handle(client)
        guard let session = downstream.clients[client].session else { return }
        var begun = 0
        while true {
            guard takesFrames(client), begun < Self.maxBegun else {
                downstream.sessions[session].isHeldBack = true
                break
            }
            let event = downstream.sessions[session].http2.next(
                &input, &scratch.section, &scratch.request, settings.headLimits, at: now.monotonic,
                into: &downstream.clients[client].output)
            if event == .needMore { break }
            if event.beginsRequest { begun += 1 }
            act(on: event, client, session, &input, &scratch)
            guard downstream.clients.isCurrent(handle), downstream.clients[client].session != nil else { return }
        }
        watchFrames(client, session, input)
        downstream.settleLater(client)
    }

    private mutating func act(
        on event: HTTP2Event, _ client: ClientIndex, _ session: SessionIndex, _ input: inout ByteBuffer, _ scratch: inout Scratch
    ) {
        switch event {
        case .needMore: break
        case .head(let id): beginStream(openStream(client, session, id), &scratch)
        case .unreadable(let id, let fault):
            let stream = openStream(client, session, id)
            downstream.clients[stream].http.streamBegan()
            faulted(stream, fault, hasFields: true, &scratch)
        case .malformed(let fault): noteMalformed(client, fault)
        case .content(let id, let count):
            if let stream = owner(of: id, session) {
                downstream.clients[stream].input.append(input.readable.extracting(0..<count))
                downstream.clients[stream].http.message.arrived(count)
                input.discard(count)
                continueStream(stream, &scratch)
            } else {
                input.discard(count)
            }
        case .trailers(let id):
            // A WebSocket has no trailers.
            guard let stream = owner(of: id, session), !asksForTunnel(stream) else { return }
            downstream.clients[stream].input.append(scratch.section.head)
            downstream.clients[stream].http.message.trailersArrived(length: scratch.section.head.byteCount)
        case .end(let id):
            guard let stream = owner(of: id, session) else { return }
            downstream.clients[stream].http.message.ended()
            continueStream(stream, &scratch)
        case .reset(let id, _):
            if let stream = owner(of: id, session) { abandon(stream, &scratch) }
        case .roomGrew(let id):
            if id.number == 0 { return serveStreams(session, &scratch) }
            if let stream = owner(of: id, session) { serveStream(stream, &scratch) }
        case .fault(let fault):
            telemetry.metrics.http2Ended(HTTP2EndReason(fault))
            finishSession(client, &scratch)
        case .interim, .badAnswer, .settings, .wentAway: preconditionFailure("an event of an upstream")
        }
    }

    private mutating func owner(of id: StreamID, _ session: SessionIndex) -> ClientIndex? {
        downstream.sessions[session].http2.owner(of: id).map { ClientIndex(number: $0) }
    }

    /// Runs the header timeout while part of a frame or of a field section has arrived.
    private mutating func watchFrames(_ client: ClientIndex, _ session: SessionIndex, _ input: borrowing ByteBuffer) {
        let isInside = !downstream.sessions[session].isHeldBack && downstream.sessions[session].http2.isInsideFrame(input)
        guard isInside != downstream.sessions[session].isInsideFrame else { return }
        downstream.sessions[session].isInsideFrame = isInside
        // While bytes wait for the client's socket, the send timeout runs: frames from the client must not prolong it.
        guard !downstream.clients[client].connection.interest.contains(.write) else { return }
        if isInside {
            downstream.timers.set(client.id, deadline: now.monotonic.advanced(milliseconds: settings.headTimeout))
        } else if downstream.sessions[session].http2.streamCount == 0, !downstream.sessions[session].wasBusy {
            downstream.startIdling(client, at: now.monotonic, until: downstream.sessions[session].idlesUntil)
        }
    }

    /// Handles what was received while the connection was held back, and reads on.
    mutating func continueSession(_ client: ClientIndex, _ scratch: inout Scratch) {
        let handle = downstream.clients.handle(client)
        guard let session = downstream.clients[client].session else { return }
        // The end of a request may be held back without bytes behind it.
        let wasHeldBack = downstream.sessions[session].isHeldBack
        downstream.sessions[session].isHeldBack = false
        if wasHeldBack || !downstream.clients[client].input.isEmpty {
            var input = ByteBuffer()
            swap(&input, &downstream.clients[client].input)
            received(client, &input, &scratch)
            guard downstream.clients.isCurrent(handle) else { return }
            if !input.isEmpty { swap(&input, &downstream.clients[client].input) }
        }
        if downstream.clients[client].connection.hasPending, wantsRead(client) { receive(client, &scratch) }
    }

    // MARK: streams

    /// Makes the end of a stream.
    private mutating func openStream(_ client: ClientIndex, _ session: SessionIndex, _ id: StreamID) -> ClientIndex {
        let stream = downstream.clients.acquire().index
        downstream.clients[stream].phase = .open
        downstream.clients[stream].listener = downstream.clients[client].listener
        downstream.clients[stream].peer = downstream.clients[client].peer
        downstream.clients[stream].share = downstream.clients[client].share
        downstream.clients[stream].stream = StreamRef(
            connection: client, session: session, id: id, windowOpenings: downstream.sessions[session].http2.windowOpenings)
        downstream.streams += 1
        downstream.sessions[session].http2.setOwner(stream.number, of: id)
        downstream.sessions[session].wasBusy = true
        return stream
    }

    /// Begins the request whose head is in `scratch.section`.
    private mutating func beginStream(_ stream: ClientIndex, _ scratch: inout Scratch) {
        let handle = downstream.clients.handle(stream)
        downstream.clients[stream].http.streamBegan(scratch.request)
        var head = ByteBuffer()
        scratch.section.exchangeHead(&head)
        begin(stream, isSampled: telemetry.samples(), &head, &scratch)
        head.removeAll()
        // A request of HTTP/2 has no pipelined next one: what is left to do is to send it.
        if downstream.clients.isCurrent(handle) { advance(stream, &head, &scratch) }
        scratch.section.exchangeHead(&head)
    }

    /// Passes on what has arrived of the stream's request, and lets the client send as much again.
    mutating func continueStream(_ stream: ClientIndex, _ scratch: inout Scratch) {
        let handle = downstream.clients.handle(stream)
        guard let end = downstream.clients[stream].stream else { return }
        let before = downstream.clients[stream].http.message.unread
        var input = ByteBuffer()
        swap(&input, &downstream.clients[stream].input)
        if downstream.clients[stream].phase == .open, downstream.clients[stream].readsBody {
            advance(stream, &input, &scratch)
            guard downstream.clients.isCurrent(handle) else { return }
        } else if downstream.clients[stream].phase == .tunnel {
            tunnelReceived(stream, &input, &scratch)
            guard downstream.clients.isCurrent(handle) else { return }
            if downstream.clients[stream].phase == .tunnel, downstream.clients[stream].http.message.hasEnded, wantsRead(stream) {
                clientLeftTunnel(stream, &scratch)
                guard downstream.clients.isCurrent(handle) else { return }
            }
        } else if downstream.clients[stream].phase == .open, asksForTunnel(stream) {
            // Frames that came before the answer wait for it.
            return swap(&input, &downstream.clients[stream].input)
        } else {
            downstream.clients[stream].http.message.drop()
            input.removeAll()
            if downstream.clients[stream].phase == .lingering {
                downstream.dropped(before, of: stream, hasEnded: downstream.clients[stream].http.message.hasEnded)
                guard downstream.clients.isCurrent(handle) else { return }
            }
        }
        if !input.isEmpty { swap(&input, &downstream.clients[stream].input) }
        let taken = before - downstream.clients[stream].http.message.unread
        guard taken > 0 else { return }
        downstream.sessions[end.session].http2.consumed(taken, of: end.id, into: &downstream.clients[end.connection].output)
        downstream.settleLater(end.connection)
    }

    /// Whether the stream's request is the handshake of a WebSocket.
    private func asksForTunnel(_ stream: ClientIndex) -> Bool {
        let exchange = downstream.clients[stream].exchange
        guard !exchange.isNone else { return false }
        // A request that waits for its decision, and whose content is not read, can only be a CONNECT.
        return exchanges[exchange.index].attempt.asksForTunnel
            || exchanges[exchange.index].state.waitsForDecision && !downstream.clients[stream].readsBody
    }

    /// There is room again: sends what waits for this stream, then reads its upstream on.
    private mutating func serveStream(_ stream: ClientIndex, _ scratch: inout Scratch) {
        while downstream.writeTurn(stream, at: now.monotonic, timeout: settings.sendTimeout) > 0 {
            guard let end = downstream.clients[stream].stream, takesFrames(end.connection) else { return }
        }
        resumeStream(stream, &scratch)
    }

    /// If nothing waits for the stream any more: ends it, or reads its upstream on.
    private mutating func resumeStream(_ stream: ClientIndex, _ scratch: inout Scratch) {
        guard downstream.clients[stream].output.isEmpty else { return }
        switch downstream.clients[stream].phase {
        case .flushing: downstream.finishStreamIfSent(stream, at: now.monotonic)
        case .open:
            guard downstream.hasRoom(stream) else { return }
            downstream.clients[stream].stream?.awaitsWindow = false
            if isUpstreamPaused(stream) { resumeSource(stream, &scratch) }
        case .tunnel: if downstream.hasRoom(stream) { resumeTunnel(stream, &scratch) }
        case .free, .announcing, .handshaking, .greeting, .multiplexed, .lingering: break
        }
    }

    /// Whether the stream's upstream, or the source of its answer, is not read because the stream had no room.
    func isUpstreamPaused(_ stream: ClientIndex) -> Bool {
        let exchange = downstream.clients[stream].exchange
        if !exchange.isNone, exchanges[exchange.index].state.phase == .producing { return true }
        guard !exchange.isNone, exchanges[exchange.index].state.phase == .relaying else { return false }
        return exchanges[exchange.index].answer.isWaiting || !upstreams.isRead(exchanges[exchange.index].attempt.upstream.index)
    }

    /// Gives all streams turns, a frame each, until nothing waits, or the windows or the backlog end it. A small answer waits for one
    /// frame of each large one.
    mutating func serveStreams(_ session: SessionIndex, _ scratch: inout Scratch) {
        var hasSent = true
        while hasSent {
            hasSent = false
            // A stream that ends leaves the table, so the count is asked for again.
            for _ in 0..<downstream.sessions[session].http2.streamCount {
                let count = downstream.sessions[session].http2.streamCount
                guard count > 0 else { return }
                let turn = downstream.sessions[session].turn
                let index = turn < count ? turn : 0
                let stream = ClientIndex(number: downstream.sessions[session].http2.owner(at: index))
                guard let end = downstream.clients[stream].stream, takesFrames(end.connection) else { return }
                let handle = downstream.clients.handle(stream)
                if downstream.writeTurn(stream, at: now.monotonic, timeout: settings.sendTimeout) > 0 { hasSent = true }
                resumeStream(stream, &scratch)
                // A stream that has ended leaves its place in the order to the next.
                downstream.sessions[session].turn = downstream.clients.isCurrent(handle) ? index + 1 : index
            }
        }
    }
}
