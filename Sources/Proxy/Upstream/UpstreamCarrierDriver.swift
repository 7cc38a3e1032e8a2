import HTTP
import Transport
import Wire

/// Drives HTTP/2 connections to upstreams: frames arrive, and what they bring goes to the streams' ends. Behind these, everything is as
/// for HTTP/1: a stream's end is an `UpstreamConnection`.
extension Worker {
    // MARK: frames

    mutating func sessionReady(_ upstream: UpstreamIndex, _ ready: Ready, _ scratch: inout Scratch) {
        let handle = upstreams.connections.handle(upstream)
        if ready.writable { upstreams.settleLater(upstream) }
        if ready.readable || ready.error || ready.hangup { receiveFrames(upstream, &scratch) }
        if upstreams.connections.isCurrent(handle), upstreams.isSessionOver(upstream) { upstreams.close(upstream) }
    }

    /// Whether frames are read: not while the upstream leaves too much unread.
    func takesFrames(_ upstream: UpstreamIndex) -> Bool { upstreams.connections[upstream].output.count < UpstreamCarrier.maxUnsent }

    /// Receives once; with TLS, everything that the session holds, which the kernel does not report.
    mutating func receiveFrames(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        let handle = upstreams.connections.handle(upstream)
        guard let session = upstreams.connections[upstream].session else { return }
        repeat {
            var input = scratch.takeInput(behind: &upstreams.connections[upstream].input)
            let outcome = upstreams.connections[upstream].connection.receive(into: &input, upTo: upstreams.sessions[session].readSize.bytes)
            if case .done(let count) = outcome {
                upstreams.sessions[session].heardAt = now.monotonic
                upstreams.sessions[session].readSize.received(count, wasKept: false)
            }
            let fault = readFrames(upstream, session, &input, &scratch)
            upstreams.keepInput(input, of: handle)
            scratch.putBack(input)
            guard upstreams.connections.isCurrent(handle) else { return }
            relayTouched(upstream, session, &scratch)
            guard upstreams.connections.isCurrent(handle), upstreams.connections[upstream].session == session else { return }
            if let fault { return lost(upstream, fault, &scratch) }
            switch outcome {
            case .done: break
            case .wouldBlock: return
            case .closed, .failed: return lost(upstream, .closedUnanswered, &scratch)
            }
        } while upstreams.connections[upstream].connection.hasPending && takesFrames(upstream)
    }

    /// Reads the frames in `input`; returns the loss if the connection cannot go on.
    private mutating func readFrames(
        _ upstream: UpstreamIndex, _ session: UpstreamSessionIndex, _ input: inout ByteBuffer, _ scratch: inout Scratch
    ) -> UpstreamLoss? {
        let handle = upstreams.connections.handle(upstream)
        upstreams.settleLater(upstream)
        while upstreams.connections.isCurrent(handle) {
            guard takesFrames(upstream) else {
                upstreams.sessions[session].isHeldBack = true
                return nil
            }
            let event = upstreams.sessions[session].http2.next(
                &input, &scratch.section, &scratch.response, settings.headLimits, at: now.monotonic,
                into: &upstreams.connections[upstream].output)
            if event == .needMore { return nil }
            if let loss = act(on: event, upstream, session, &input, &scratch) { return loss }
        }
        return nil
    }

    /// Returns the loss if the connection cannot go on.
    private mutating func act(
        on event: HTTP2Event, _ upstream: UpstreamIndex, _ session: UpstreamSessionIndex, _ input: inout ByteBuffer,
        _ scratch: inout Scratch
    ) -> UpstreamLoss? {
        if upstreams.connections[upstream].check != nil, takesGRPCProbe(event, upstream, &input, &scratch) { return nil }
        switch event {
        case .needMore: break
        case .interim(let id): headArrived(id, session, &scratch)
        case .head(let id):
            if upstreams.connections[upstream].isProbe {
                probeAnswered(upstream, scratch.response, scratch.section.head)
            } else {
                upstreams.sessions[session].wasUsed = true
                headArrived(id, session, &scratch)
            }
        case .content(let id, let count):
            if let end = arrived(input.readable.extracting(0..<count), id, session) {
                upstreams.connections[end].http.message.arrived(count)
            }
            input.discard(count)
        case .trailers(let id):
            let length = scratch.section.head.byteCount
            if let end = arrived(scratch.section.head, id, session) {
                upstreams.connections[end].http.message.trailersArrived(length: length)
            }
        case .end(let id):
            if let end = arrived(RawSpan(), id, session) { upstreams.connections[end].http.message.ended() }
        case .reset(let id, let code): resetStream(id, code, upstream, session, &scratch)
        case .badAnswer(let id, _): endStream(id, .badAnswer, upstream, session, &scratch)
        case .roomGrew(let id):
            if id.number == 0 {
                serveRequests(upstream, session)
            } else if let owner = upstreams.sessions[session].http2.owner(of: id) {
                _ = continueRequest(UpstreamIndex(number: owner), isTurn: false)
            }
        case .settings: settingsCame(upstream, session, &scratch)
        // Streams that it leaves out are reset; the others are answered.
        case .wentAway:
            if upstreams.sessions[session].http2.takesSome { upstreams.sessions[session].wasUsed = true }
            // It takes no more requests, so the connection after it needs the room.
            upstreams.releaseRoom(upstream)
        case .fault: return upstreams.connections[upstream].phase == .greeting ? .notHTTP2 : .closedUnanswered
        case .unreadable, .malformed: preconditionFailure("an event of a client")
        }
        return nil
    }

    /// Keeps bytes of an answer for the end of the stream, which gets its turn when all that was received is read. Returns the end; nil
    /// if there is none any more, or for a health check.
    @discardableResult
    private mutating func arrived(_ bytes: RawSpan, _ id: StreamID, _ session: UpstreamSessionIndex) -> UpstreamIndex? {
        guard let owner = upstreams.sessions[session].http2.owner(of: id) else { return nil }
        let end = UpstreamIndex(number: owner)
        guard let stream = upstreams.connections[end].stream else { return nil }
        if upstreams.connections[end].input.capacity == 0 { swap(&upstreams.connections[end].input, &upstreams.spareInput) }
        upstreams.connections[end].input.append(bytes)
        guard !stream.isTouched else { return end }
        upstreams.connections[end].stream?.isTouched = true
        upstreams.sessions[session].touched.append(upstreams.connections.handle(end))
        return end
    }

    /// Keeps the head in `scratch.response` for the end of its stream. One is held at a time, so the stream of the one before has its turn
    /// now: most upstreams send the content of an answer directly behind its head.
    private mutating func headArrived(_ id: StreamID, _ session: UpstreamSessionIndex, _ scratch: inout Scratch) {
        let former = scratch.heldEnd
        if upstreams.connections.isCurrent(former) { relayIfTouched(former.index, &scratch) }
        // The turn has exchanged the heads, if it used the one before.
        if former.isNone || scratch.heldEnd == former { swap(&scratch.response, &scratch.heldResponse) }
        scratch.heldEnd = .none
        let length = scratch.section.head.byteCount
        guard let end = arrived(scratch.section.head, id, session), upstreams.connections[end].input.count == length else { return }
        scratch.heldEnd = upstreams.connections.handle(end)
    }

    private mutating func settingsCame(_ upstream: UpstreamIndex, _ session: UpstreamSessionIndex, _ scratch: inout Scratch) {
        let endpoint = upstreams.connections[upstream].endpoint
        upstreams.directory[endpoint].streamsPerConnection = upstreams.sessions[session].http2.maxStreams
        guard upstreams.connections[upstream].phase == .greeting else { return }
        upstreams.connections[upstream].phase = .multiplexed
        if upstreams.connections[upstream].isProbe { return sendProbe(upstream, &scratch) }
        upstreams.timers.set(upstream.id, deadline: now.monotonic.advanced(milliseconds: settings.upstreamPingAfter))
        sendWaiting(session, &scratch)
    }

    // MARK: the answer

    /// Passes on what the bytes that were read have brought, for each stream at once.
    private mutating func relayTouched(_ upstream: UpstreamIndex, _ session: UpstreamSessionIndex, _ scratch: inout Scratch) {
        let handle = upstreams.connections.handle(upstream)
        var touched: [Handle<UpstreamConnection>] = []
        swap(&touched, &upstreams.sessions[session].touched)
        for end in touched where upstreams.connections.isCurrent(end) { relayIfTouched(end.index, &scratch) }
        scratch.heldEnd = .none
        touched.removeAll(keepingCapacity: true)
        guard upstreams.connections.isCurrent(handle), upstreams.connections[upstream].session == session else { return }
        swap(&touched, &upstreams.sessions[session].touched)
    }

    private mutating func relayIfTouched(_ end: UpstreamIndex, _ scratch: inout Scratch) {
        guard upstreams.connections[end].phase == .busy, upstreams.connections[end].stream?.isTouched == true else { return }
        upstreams.connections[end].stream?.isTouched = false
        upstreams.resumable.append(clientServed(by: end))
        startAnswerClock(upstreams.connections[end].exchange.index, end)
        relayStream(end, &scratch)
    }

    /// Passes on what has come of a stream's answer, as far as the client takes it, and lets the upstream send as much again.
    mutating func relayStream(_ end: UpstreamIndex, _ scratch: inout Scratch) {
        let handle = upstreams.connections.handle(end)
        let exchange = upstreams.connections[end].exchange.index
        let isHeadRead = scratch.takeHead(of: handle)
        let before = upstreams.connections[end].http.message.unread
        let hasEndAlone = before == 0 && upstreams.connections[end].http.message.hasEnded
        guard hasRoom(.answer, exchange) || hasEndAlone else { return refreshUpstreamInterest(end) }
        var input = ByteBuffer()
        swap(&input, &upstreams.connections[end].input)
        upstreams.connections[end].http.isHeadRead = isHeadRead
        relayAnswer(exchange, end, &input, &scratch)
        guard upstreams.connections.isCurrent(handle) else { return upstreams.reuse(&input) }
        upstreams.connections[end].http.isHeadRead = false
        if input.isEmpty { upstreams.reuse(&input) } else { swap(&input, &upstreams.connections[end].input) }
        upstreams.consumed(before - upstreams.connections[end].http.message.unread, of: end)
    }

    private mutating func resetStream(
        _ id: StreamID, _ code: HTTP2ErrorCode, _ upstream: UpstreamIndex, _ session: UpstreamSessionIndex, _ scratch: inout Scratch
    ) {
        guard code == .refusedStream else { return endStream(id, .closedUnanswered, upstream, session, &scratch) }
        guard upstreams.sessions[session].http2.isGoingAway else { return endStream(id, .refused, upstream, session, &scratch) }
        if let owner = upstreams.sessions[session].http2.owner(of: id) {
            upstreams.connections[UpstreamIndex(number: owner)].wasUsed = upstreams.sessions[session].wasUsed
        }
        endStream(id, .unprocessed, upstream, session, &scratch)
    }

    /// The upstream has reset the stream, or its answer is malformed. What came of it before is passed on first.
    private mutating func endStream(
        _ id: StreamID, _ loss: UpstreamLoss, _ upstream: UpstreamIndex, _ session: UpstreamSessionIndex, _ scratch: inout Scratch
    ) {
        guard !upstreams.connections[upstream].isProbe else { return lost(upstream, loss, &scratch) }
        guard let end = arrived(RawSpan(), id, session) else { return }
        let handle = upstreams.connections.handle(end)
        relayIfTouched(end, &scratch)
        guard upstreams.connections.isCurrent(handle), upstreams.connections[end].phase == .busy else { return }
        var hasBegun = upstreams.connections[end].http.hasBegunAnswer || !upstreams.connections[end].input.isEmpty
        if loss == .badAnswer { hasBegun = exchanges[upstreams.connections[end].exchange.index].state.answer != .none }
        lost(end, hasBegun ? .brokenAnswer : loss, &scratch)
    }
}

extension Upstreams {
    /// Keeps the small input of a stream that is over for the next one.
    mutating func reuse(_ input: inout ByteBuffer) {
        guard input.capacity > spareInput.capacity, input.capacity <= Self.maxSpare else { return }
        input.removeAll()
        swap(&input, &spareInput)
    }

    private static var maxSpare: Int { 4_096 }

    /// Whether more of the answer is read, or would be if it came.
    func isRead(_ upstream: UpstreamIndex) -> Bool {
        guard let stream = connections[upstream].stream else { return connections[upstream].connection.interest.contains(.read) }
        return !stream.isPaused
    }
}
