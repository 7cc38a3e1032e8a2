import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Drives the client's side: bytes arrive, the connection's machine says what they are, one switch acts on it.
extension Worker {
    // MARK: events

    mutating func clientReady(_ client: ClientIndex, _ ready: Ready, _ scratch: inout Scratch) {
        // A lingering client that ends its side has ended both. Its last bytes are read first: closing a socket with unread bytes
        // sends a reset, which destroys what the client has not read yet.
        let isOver = ready.hangup && downstream.clients[client].phase != .lingering
        if ready.error || isOver { return abandon(client, &scratch) }
        let handle = downstream.clients.handle(client)
        if downstream.clients[client].phase == .handshaking {
            continueHandshake(client, &scratch)
        } else {
            if ready.writable { flushClient(client, &scratch) }
            if ready.readable, downstream.clients.isCurrent(handle), wantsRead(client) { receive(client, &scratch) }
        }
        if downstream.clients.isCurrent(handle) { refreshInterest(client) }
    }

    /// Receives once; with TLS, everything that the session holds, which the kernel does not report.
    mutating func receive(_ client: ClientIndex, _ scratch: inout Scratch) {
        let handle = downstream.clients.handle(client)
        let mayBeSpliced = downstream.clients[client].readsBody || downstream.clients[client].phase == .tunnel
        if mayBeSpliced, splice(.request, downstream.clients[client].exchange.index, &scratch) { return }
        repeat {
            var input = scratch.takeInput(behind: &downstream.clients[client].input)
            let outcome = downstream.clients[client].connection.receive(into: &input, upTo: receiveSize(client))
            switch outcome {
            case .done(let count):
                received(client, &input, &scratch)
                if downstream.clients.isCurrent(handle) { adaptReadSize(count, client, isKept: !input.isEmpty) }
            case .wouldBlock, .closed: break
            case .failed: abandon(client, &scratch)
            }
            if !input.isEmpty, downstream.clients.isCurrent(handle) { downstream.clients[client].input.append(input.readable) }
            scratch.putBack(input)
            guard downstream.clients.isCurrent(handle) else { return }
            switch outcome {
            case .done, .failed: break
            case .wouldBlock: return
            case .closed: return inputClosed(client, &scratch)
            }
        } while downstream.clients[client].connection.hasPending && wantsRead(client)
    }

    /// Bytes to receive at once. Where a head comes next on a plain socket, few: more of a large body can be spliced once the head is known.
    private func receiveSize(_ client: ClientIndex) -> Int {
        let isBeforeBody = downstream.clients[client].phase == .open && downstream.clients[client].readsHead
        if isBeforeBody, downstream.clients[client].connection.isPlain { return AdaptiveReadSize.least }
        return downstream.clients[client].readSize.bytes
    }

    private mutating func adaptReadSize(_ count: Int, _ client: ClientIndex, isKept: Bool) {
        let exchange = downstream.clients[client].exchange
        let waits = !exchange.isNone && !exchanges[exchange.index].attempt.pending.isEmpty
        downstream.clients[client].readSize.received(count, wasKept: isKept || waits)
    }

    mutating func received(_ client: ClientIndex, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        switch downstream.clients[client].phase {
        case .free, .handshaking, .flushing: break
        case .announcing: readAnnouncement(client, &input, &scratch)
        case .greeting: greet(client, &input, &scratch)
        case .multiplexed: advanceSession(client, &input, &scratch)
        case .open: advance(client, &input, &scratch)
        case .tunnel: tunnelReceived(client, &input, &scratch)
        case .lingering:
            downstream.clients[client].arrival.moved(input.count)
            input.removeAll()
            if downstream.clients[client].arrival.bytes > Downstream.maxLingered { downstream.close(client) }
        }
    }

    mutating func inputClosed(_ client: ClientIndex, _ scratch: inout Scratch) {
        downstream.clients[client].inputEnded = true
        switch downstream.clients[client].phase {
        case .free, .announcing, .handshaking, .greeting, .lingering: downstream.close(client)
        case .flushing: break
        // A client that ends its side takes no answers either.
        case .multiplexed: abandon(client, &scratch)
        case .open where settings.cancelsOnHalfClose && awaitsUpstream(client): abandon(client, &scratch)
        case .open: apply(downstream.clients[client].http.inputClosed(), client, &scratch)
        case .tunnel: clientLeftTunnel(client, &scratch)
        }
    }

    /// Whether the client's request is on its way to an upstream whose answer has not begun. A handler of the gateway's own works on, and of
    /// a request that waits for a decision it is not known whose it is.
    private func awaitsUpstream(_ client: ClientIndex) -> Bool {
        let exchange = downstream.clients[client].exchange
        guard !exchange.isNone, exchanges[exchange.index].state.answer == .none else { return false }
        switch exchanges[exchange.index].state.phase {
        case .connecting, .relaying, .waiting(.room), .waiting(.fetch): return true
        case .deciding, .waiting, .collecting, .producing, .tunnel, .finishing, .answered: return false
        }
    }

    // MARK: requests

    /// Handles what has been received, as far as the connection may go now. What it leaves in `input` waits.
    mutating func advance(_ client: ClientIndex, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        let handle = downstream.clients.handle(client)
        repeat {
            readEvents(client, &input, &scratch)
            guard downstream.clients.isCurrent(handle) else { return }
            // The part of the body that came with the head is sent with it, the rest once there is a connection.
        } while sendOff(client, &scratch) && downstream.clients.isCurrent(handle)
    }

    private mutating func readEvents(_ client: ClientIndex, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        let handle = downstream.clients.handle(client)
        let gathers = downstream.clients[client].readsBody && exchanges[downstream.clients[client].exchange.index].gathersChunks
        var hasMoved = false
        reading: while mayAdvance(client, hasInput: !input.isEmpty, gathers: gathers) {
            let isHead = downstream.clients[client].readsHead
            let isSampled = isHead && telemetry.samples()
            let start = isSampled ? EventLoop.now().monotonic : now.monotonic
            let before = input.count
            defer {
                if !isHead, input.count < before {
                    downstream.clients[client].arrival.moved(before - input.count)
                    hasMoved = true
                }
            }
            switch downstream.clients[client].http.next(&input, &scratch.request, &scratch.trailers, settings.headLimits) {
            case .needMore: break reading
            case .headBegun:
                downstream.timers.set(client.id, deadline: now.monotonic.advanced(milliseconds: settings.headTimeout))
                break reading
            case .head:
                if isSampled {
                    telemetry.metrics.overhead(.parse, nanoseconds: EventLoop.now().monotonic.nanoseconds(since: start))
                }
                begin(client, isSampled: isSampled, &input, &scratch)
                guard downstream.clients.isCurrent(handle) else { return }
                continue reading
            case .content(let count): pump(downstream.clients[client].exchange.index, count, of: &input, &scratch)
            case .trailers(let length):
                pumpTrailers(downstream.clients[client].exchange.index, length, of: &input, &scratch)
            case .end: requestEnded(client, &scratch)
            case .reset: cut(client, &scratch)
            case .fault(let fault): refuse(client, fault, &scratch)
            case .close(let lingering): downstream.closeAfterFlush(client, lingering: lingering, at: now.monotonic, in: loop)
            }
            guard downstream.clients.isCurrent(handle) else { return }
        }
        if hasMoved { bodyMoved(client) }
        let exchange = downstream.clients[client].exchange
        if gathers, downstream.clients.isCurrent(handle), !exchange.isNone, exchanges[exchange.index].state.phase == .relaying {
            flushRequest(exchange.index)
        }
    }

    /// Some of the body was read: sets the deadline for the rest, if there is any.
    private mutating func bodyMoved(_ client: ClientIndex) {
        guard downstream.clients[client].phase == .open else { return }
        switch downstream.clients[client].http.reading {
        case .body, .discard: downstream.bodyMoved(client, by: 0, at: now.monotonic, settings)
        case .head, .nothing: break
        }
    }

    /// Whether the connection's machine may go on now.
    private func mayAdvance(_ client: ClientIndex, hasInput: Bool, gathers: Bool) -> Bool {
        guard downstream.clients[client].phase == .open else { return false }
        switch downstream.clients[client].http.reading {
        // Backpressure: the next pipelined request waits until the client has taken the last answer.
        case .head: return hasInput && downstream.clients[client].output.isEmpty
        // The end of a body needs no room: it is handled at once, not when the upstream or the client moves again.
        case .body:
            if downstream.clients[client].http.isBodyAtEnd { return true }
            return hasInput && (gathers || hasRoom(.request, downstream.clients[client].exchange.index))
        case .discard: return hasInput
        case .nothing: return false
        }
    }

    /// Opens an exchange for the request whose head is in `scratch.request`, and begins what is decided about it.
    mutating func begin(
        _ client: ClientIndex, isSampled: Bool, _ input: inout ByteBuffer, _ scratch: inout Scratch
    ) {
        downstream.clients[client].wasUsed = true
        downstream.clients[client].readSize = AdaptiveReadSize()
        let exchange = openExchange(client)
        exchanges[exchange.index].request.isHeadAlone = !downstream.clients[client].readsBody
        if downstream.clients[client].readsBody { downstream.startBodyClock(client, at: now.monotonic, settings) }
        let length = scratch.request.length
        if downstream.listeners[downstream.clients[client].listener].isAdmin {
            scratch.decision = Decision()
            identify(exchange.index, input.readable, &scratch)
            prepareLocal(exchange.index, services.admin, .other, input.readable, &scratch)
        } else {
            // Others wait for its connection.
            if downstream.clientsWait, !downstream.clients[client].isStream {
                apply(downstream.clients[client].http.drainRequested(headBegun: true), client, &scratch)
            }
            if !answersPlainly(exchange.index, input.readable, &scratch) {
                judge(exchange, client, input.readable, length, isSampled: isSampled, &scratch)
            }
        }
        input.discard(length)
        start(exchange, bodyHasArrived: !input.isEmpty, &scratch)
    }

    private mutating func judge(
        _ exchange: Handle<Exchange>, _ client: ClientIndex, _ bytes: RawSpan, _ length: Int, isSampled: Bool, _ scratch: inout Scratch
    ) {
        let shedding = takeSlot(exchange.index, bytes, scratch.request)
        if downstream.listeners[downstream.clients[client].listener].isCheck {
            return check(exchange, bytes, isSampled: isSampled, shedding: shedding, &scratch)
        }
        decide(exchange.index, bytes, isSampled: isSampled, shedding: shedding, &scratch)
        if exchanges.isCurrent(exchange) { exchanges[exchange.index].hold(bytes.extracting(0..<length)) }
    }

    mutating func openExchange(_ client: ClientIndex) -> Handle<Exchange> {
        let handle = exchanges.acquire()
        exchanges[handle.index].begin(for: downstream.clients.handle(client), at: now.monotonic)
        downstream.clients[client].exchange = handle
        return handle
    }

    /// The last byte of the request has been read; if its answer is over, the connection is idle.
    private mutating func requestEnded(_ client: ClientIndex, _ scratch: inout Scratch) {
        let exchange = downstream.clients[client].exchange
        guard !exchange.isNone else { return downstream.startIdling(client, at: now.monotonic, timeout: settings.idleTimeout) }
        requestReceived(exchange.index, &scratch)
    }

    // MARK: actions of the machine

    /// Carries out what the connection's machine decided.
    mutating func apply(_ action: ServerAction, _ client: ClientIndex, _ scratch: inout Scratch) {
        switch action {
        // A stream carries one request.
        case .readHead where downstream.clients[client].isStream:
            downstream.closeAfterFlush(client, lingering: false, at: now.monotonic, in: loop)
        case .discardBody where downstream.clients[client].isStream:
            downstream.closeAfterFlush(client, lingering: false, at: now.monotonic, in: loop)
        case .readHead, .waitForAnswer, .carryOn: break
        case .readBody, .discardBody: downstream.startBodyClock(client, at: now.monotonic, settings)
        case .sendContinue:
            downstream.startBodyClock(client, at: now.monotonic, settings)
            var out = scratch.takeOutput()
            downstream.clients[client].http.sendContinue(into: &out)
            sendToClient(client, out.count, of: &out, &scratch)
            scratch.putBackOutput(out)
        case .refuse: refuse(client, HTTPFault(.truncated), &scratch)
        case .abort: cut(client, &scratch)
        case .closeAfterFlush(let lingering): downstream.closeAfterFlush(client, lingering: lingering, at: now.monotonic, in: loop)
        }
    }

    /// The request is late or too large. `hasFields` as in `refuse`.
    mutating func faulted(_ client: ClientIndex, _ fault: HTTPFault, hasFields: Bool = false, _ scratch: inout Scratch) {
        let exchange = downstream.clients[client].exchange
        // Only a stream outlives a request that cannot be read on.
        if downstream.clients[client].isStream, !exchange.isNone, mayEndWithStatus(exchange.index) {
            exchanges[exchange.index].record.error = fault.text
            return endWithStatus(exchange.index, Refusal(fault), &scratch)
        }
        switch downstream.clients[client].http.faulted(fault) {
        case .fault(let fault): refuse(client, fault, hasFields: hasFields, &scratch)
        case .reset: cut(client, &scratch)
        case .close(let lingering): downstream.closeAfterFlush(client, lingering: lingering, at: now.monotonic, in: loop)
        case .needMore, .headBegun, .head, .content, .trailers, .end: break
        }
    }

    // MARK: reading on

    /// Handles what was received while the connection was busy, and reads on.
    mutating func continueReading(_ client: ClientIndex, _ scratch: inout Scratch) {
        let handle = downstream.clients.handle(client)
        guard !downstream.clients[client].isStream else { return continueStream(client, &scratch) }
        if !downstream.clients[client].input.isEmpty {
            var input = ByteBuffer()
            swap(&input, &downstream.clients[client].input)
            received(client, &input, &scratch)
            guard downstream.clients.isCurrent(handle) else { return }
            if !input.isEmpty { swap(&input, &downstream.clients[client].input) }
        }
        if downstream.clients[client].connection.hasPending, wantsRead(client) { receive(client, &scratch) }
        if downstream.clients.isCurrent(handle) { refreshInterest(client) }
    }

    /// After an event of its exchange the client may have more to do: a body to read on, the next request.
    mutating func resumeClient(_ client: Handle<Client>, _ scratch: inout Scratch) {
        guard !client.isNone, downstream.clients.isCurrent(client), !downstream.clients[client.index].isBusy else { return }
        continueReading(client.index, &scratch)
    }

    // MARK: interest

    /// Whether the client is read from. If not, its bytes stay in the kernel and TCP holds it back.
    func wantsRead(_ client: ClientIndex) -> Bool {
        guard !downstream.clients[client].inputEnded else { return false }
        switch downstream.clients[client].phase {
        case .free, .handshaking, .flushing: return false
        case .announcing, .greeting, .lingering: return true
        case .multiplexed: return takesFrames(client) && !isHeldBack(client)
        case .tunnel: return exchanges[downstream.clients[client].exchange.index].isFlushed
        case .open: break
        }
        switch downstream.clients[client].http.reading {
        case .head: return downstream.clients[client].output.isEmpty
        case .body: return hasRoom(.request, downstream.clients[client].exchange.index)
        case .discard: return true
        // One read ahead, which notices that the client has gone.
        case .nothing: return downstream.clients[client].input.isEmpty
        }
    }

    mutating func refreshInterest(_ client: ClientIndex) {
        guard downstream.clients[client].phase != .free, downstream.clients[client].phase != .handshaking,
            downstream.clients[client].hasSocket, !downstream.isUnsettled(client)
        else { return }
        var interest = Interest()
        if wantsRead(client) { interest.insert(.read) }
        if downstream.clients[client].hasUnsent { interest.insert(.write) }
        guard downstream.clients[client].connection.interest != interest else { return }
        downstream.clients[client].connection.watch(interest, token: Token(.client, downstream.clients.handle(client)).bits, in: loop)
    }
}
