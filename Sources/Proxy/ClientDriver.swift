import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Drives the client's side: bytes arrive, the connection's machine says what they are for, one switch does it.
extension Worker {
    // MARK: events

    mutating func clientReady(_ client: Int, _ ready: Ready, _ scratch: inout Scratch) {
        // Both directions have ended when a client that lingers ends its own. What it sent before is still dropped first: a
        // close with unread bytes is a reset, which destroys what the client has not read yet.
        let isOver = ready.hangup && clients[client].phase != .lingering
        if ready.error || isOver { return abandon(client, &scratch) }
        let handle = clientHandle(client)
        if clients[client].phase == .handshaking {
            continueHandshake(client, &scratch)
        } else {
            if ready.writable { flushClient(client, &scratch) }
            if ready.readable, clients.isCurrent(handle), wantsRead(client) { receive(client, &scratch) }
        }
        if clients.isCurrent(handle) { refreshInterest(client) }
    }

    /// Receives once and works on it; with TLS, on all that the session holds, which the kernel will not announce.
    mutating func receive(_ client: Int, _ scratch: inout Scratch) {
        let handle = clientHandle(client)
        if clients[client].reading == .body, pipeRequest(client, &scratch) { return }
        repeat {
            var input = scratch.takeInput()
            if !clients[client].input.isEmpty {
                input.append(clients[client].input.readable)
                clients[client].input = ByteBuffer()
            }
            let outcome = clients[client].channel.receive(into: &input, upTo: clients[client].room.bytes, &workspace)
            switch outcome {
            case .done(let count):
                received(client, &input, &scratch)
                if clients.isCurrent(handle) { noteReceived(count, client, isKept: !input.isEmpty) }
            case .wouldBlock, .closed: break
            case .failed: abandon(client, &scratch)
            }
            if !input.isEmpty, clients.isCurrent(handle) { clients[client].input.append(input.readable) }
            scratch.putBack(input)
            guard clients.isCurrent(handle) else { return }
            switch outcome {
            case .done, .failed: break
            case .wouldBlock: return
            case .closed: return inputClosed(client, &scratch)
            }
        } while wantsRead(client) && clients[client].channel.hasPending
    }

    private mutating func noteReceived(_ count: Int, _ client: Int, isKept: Bool) {
        let exchange = clients[client].exchange
        let waits = !exchange.isNone && !exchanges[Int(exchange.index)].pending.isEmpty
        clients[client].room.received(count, wasKept: isKept || waits)
    }

    private mutating func received(_ client: Int, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        switch clients[client].phase {
        case .free, .handshaking, .flushing: break
        case .announcing: readAnnouncement(client, &input, &scratch)
        case .open: advance(client, &input, &scratch)
        case .lingering:
            clients[client].arrival.moved(input.count)
            input.removeAll()
            if clients[client].arrival.bytes > Self.mostLingered { closeClient(client) }
        }
    }

    /// Bytes that are dropped at most before a lingering connection is closed all the same.
    private static var mostLingered: UInt64 { 1 << 20 }

    mutating func inputClosed(_ client: Int, _ scratch: inout Scratch) {
        clients[client].inputEnded = true
        switch clients[client].phase {
        case .free, .announcing, .handshaking, .lingering: closeClient(client)
        case .flushing: break
        case .open: apply(clients[client].messages.inputClosed(), client, HTTPFault(.truncated), &scratch)
        }
    }

    // MARK: the machine's answers

    /// Does what the connection's machine decided; `fault` is what a refusal is for.
    mutating func apply(_ action: ServerAction, _ client: Int, _ fault: HTTPFault, _ scratch: inout Scratch) {
        switch action {
        case .readHead: clients[client].reading = .head
        case .readBody: startBody(client)
        case .sendContinue:
            startBody(client)
            sendToClient(client, "HTTP/1.1 100 Continue\r\n\r\n", &scratch)
        case .discardBody where clients[client].reading == .discard: setBodyDeadline(client)
        case .discardBody:
            clients[client].reading = .discard
            startBodyClock(client)
        case .waitForAnswer: clients[client].reading = .nothing
        case .refuse: refuse(client, fault, &scratch)
        case .abort: cut(client)
        case .closeAfterFlush(let lingering):
            clients[client].phase = .flushing(lingering: lingering)
            clients[client].reading = .nothing
            if clients[client].output.isEmpty { finishClosing(client) }
        case .carryOn: break
        }
    }

    /// For what the machine decides when nothing was wrong with the request.
    mutating func apply(_ action: ServerAction, _ client: Int, _ scratch: inout Scratch) {
        apply(action, client, HTTPFault(.truncated), &scratch)
    }

    private mutating func startBody(_ client: Int) {
        clients[client].reading = .body
        startBodyClock(client)
    }

    /// The time that a body may take begins.
    mutating func startBodyClock(_ client: Int) {
        clients[client].arrival.begin(at: now.monotonic)
        setBodyDeadline(client)
    }

    // MARK: requests

    /// Works through what has been received, as far as the connection may go now. What it leaves in `input` waits.
    mutating func advance(_ client: Int, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        let handle = clientHandle(client)
        var goesOn = true
        while goesOn, !input.isEmpty, clients.isCurrent(handle), clients[client].phase == .open {
            switch clients[client].reading {
            case .head: goesOn = readHead(client, &input, &scratch)
            case .body: goesOn = readBody(client, &input, &scratch)
            case .discard: goesOn = discardBody(client, &input, &scratch)
            case .nothing: goesOn = false
            }
        }
    }

    /// - Returns: whether there may be more to do.
    private mutating func readHead(_ client: Int, _ input: inout ByteBuffer, _ scratch: inout Scratch) -> Bool {
        // An answer that the client does not take stops the next request, or its answers would pile up here.
        guard clients[client].output.isEmpty else { return false }
        if clients[client].headBegun {
            guard clients[client].scan.isDue(input.readable, limits: settings.headLimits) else { return false }
        } else {
            guard skipEmptyLines(client, &input) else {
                input.removeAll()
                faulted(client, HTTPFault(.requestLine), &scratch)
                return true
            }
            guard RequestHead.isBegun(by: input.readable) else { return false }
        }
        let isSampled = telemetry.samples()
        let start = isSampled ? EventLoop.now().monotonic : now.monotonic
        switch scratch.request.parse(input.readable, limits: settings.headLimits) {
        case .incomplete:
            if !clients[client].headBegun {
                clients[client].headBegun = true
                clients[client].scan = HeadScan()
                clientTimers.set(client, deadline: now.monotonic.advanced(milliseconds: settings.headTimeout))
            }
            return false
        case .invalid(let fault):
            input.removeAll()
            faulted(client, fault, &scratch)
        case .complete:
            clients[client].headBegun = false
            if isSampled {
                telemetry.metrics.overhead(.parse, nanoseconds: EventLoop.now().monotonic.nanoseconds(since: start))
            }
            begin(client, isSampled: isSampled, &input, &scratch)
        }
        return true
    }

    /// Drops empty lines before a head. They begin none: the clock of the idle connection runs on.
    ///
    /// - Returns: whether they were no more than may come.
    private mutating func skipEmptyLines(_ client: Int, _ input: inout ByteBuffer) -> Bool {
        while RequestHead.isEmptyLine(input.readable) {
            guard clients[client].emptyLines < RequestHead.mostEmptyLines else { return false }
            clients[client].emptyLines += 1
            input.discard(2)
        }
        return true
    }

    /// Decides about the request whose head is in `scratch.request`, and starts what was decided.
    private mutating func begin(_ client: Int, isSampled: Bool, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        clients[client].reading = .nothing
        clients[client].wasUsed = true
        clients[client].emptyLines = 0
        clients[client].room = ReceiveRoom()
        clients[client].body = BodyDecoder(scratch.request.framing)
        let action = clients[client].messages.headReceived(
            hasBody: scratch.request.framing.hasContent, keepAlive: scratch.request.keepAlive,
            minorVersion: scratch.request.minorVersion, expectsContinue: scratch.request.expectsContinue)
        apply(action, client, &scratch)
        if listeners[clients[client].listener].isAdmin {
            scratch.decision = Decision()
            return beginLocal(client, services.admin, &input, &scratch)
        }
        decide(client, isSampled: isSampled, &input, &scratch)
    }

    /// Decides about a request that the connection's machine knows of, and starts what was decided.
    mutating func decide(_ client: Int, isSampled: Bool, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        let start = isSampled ? EventLoop.now().monotonic : now.monotonic
        let isCharged = admission.admit(
            scratch.request, input.readable, peer: clients[client].peer, at: now, refresh: clients[client].refresh,
            &scratch.decision)
        let wait = isCharged ? charge(client, &scratch) : nil
        if isSampled {
            telemetry.metrics.overhead(.auth, nanoseconds: EventLoop.now().monotonic.nanoseconds(since: start))
        }
        if let sighting = scratch.decision.sighting { services.sawToken(sighting) }
        if let wait { return hold(client, wait, &input, &scratch) }
        switch scratch.decision.verdict {
        case .refuse(let refusal): refuse(client, refusal, &input, &scratch)
        case .local(let service): beginLocal(client, services.local[Int(service)], &input, &scratch)
        case .forward(let upstream): forward(client, upstream: upstream, &input, &scratch)
        case .lookUp: park(client, scratch.decision)
        case .refresh: awaitRefresh(client, &input, &scratch)
        }
    }

    /// Hands the request's body on to whoever wants it.
    ///
    /// - Returns: whether there may be more to do.
    private mutating func readBody(_ client: Int, _ input: inout ByteBuffer, _ scratch: inout Scratch) -> Bool {
        let exchange = Int(clients[client].exchange.index)
        let before = input.count
        if exchanges[exchange].isLocal {
            collectBody(exchange, client, &input, &scratch)
        } else {
            relayBody(exchange, client, &input, &scratch)
        }
        guard clients[client].reading == .body, before != input.count else { return clients[client].reading != .body }
        clients[client].arrival.moved(before - input.count)
        setBodyDeadline(client)
        return true
    }

    /// Reads the rest of a body that nobody wants any more, so that the connection can be kept.
    private mutating func discardBody(_ client: Int, _ input: inout ByteBuffer, _ scratch: inout Scratch) -> Bool {
        switch clients[client].body.next(input.readable) {
        case .data(let skip, let count):
            input.discard(skip + count)
            clients[client].arrival.moved(count)
            apply(clients[client].messages.discarded(count), client, &scratch)
            if clients[client].reading == .discard, clients[client].body.isAtEnd { endDiscarding(client, &scratch) }
        case .needMore(let consumed):
            input.discard(consumed)
            return false
        case .trailers(let slice, let consumed):
            if let fault = parseTrailers(input.readable, slice, into: &scratch.trailers) {
                input.removeAll()
                faulted(client, fault, &scratch)
            } else {
                input.discard(consumed)
                endDiscarding(client, &scratch)
            }
        case .end(let consumed):
            input.discard(consumed)
            endDiscarding(client, &scratch)
        case .fault(let fault):
            input.removeAll()
            faulted(client, fault, &scratch)
        }
        return true
    }

    private mutating func endDiscarding(_ client: Int, _ scratch: inout Scratch) {
        let handle = clientHandle(client)
        apply(clients[client].messages.bodyReceived(), client, &scratch)
        if clients.isCurrent(handle), clients[client].phase == .open { startIdling(client) }
    }

    /// The request is malformed or late.
    mutating func faulted(_ client: Int, _ fault: HTTPFault, _ scratch: inout Scratch) {
        apply(clients[client].messages.requestFaulted(), client, fault, &scratch)
    }

    // MARK: reading on

    /// Takes up what was received while the connection was busy, and reads on.
    mutating func continueReading(_ client: Int, _ scratch: inout Scratch) {
        let handle = clientHandle(client)
        if !clients[client].input.isEmpty {
            var input = ByteBuffer()
            swap(&input, &clients[client].input)
            advance(client, &input, &scratch)
            guard clients.isCurrent(handle) else { return }
            if !input.isEmpty { swap(&input, &clients[client].input) }
        }
        if wantsRead(client), clients[client].channel.hasPending { receive(client, &scratch) }
        if clients.isCurrent(handle) { refreshInterest(client) }
    }

    // MARK: interest

    /// Whether what the client sends now can be used now; otherwise it waits in the kernel, and the client feels it.
    func wantsRead(_ client: Int) -> Bool {
        guard !clients[client].inputEnded else { return false }
        switch clients[client].phase {
        case .free, .handshaking, .flushing: return false
        case .announcing, .lingering: return true
        case .open: break
        }
        switch clients[client].reading {
        case .head: return clients[client].output.isEmpty
        case .body: return takesBody(Int(clients[client].exchange.index))
        case .discard: return true
        // One read ahead: it finds out that the client has gone.
        case .nothing: return clients[client].input.isEmpty
        }
    }

    mutating func refreshInterest(_ client: Int) {
        guard clients[client].phase != .free, clients[client].phase != .handshaking else { return }
        var interest = Interest()
        if wantsRead(client) { interest.insert(.read) }
        if clients[client].hasUnsent { interest.insert(.write) }
        setInterest(client, interest)
    }

    mutating func setInterest(_ client: Int, _ interest: Interest) {
        guard clients[client].interest != interest else { return }
        clients[client].interest = interest
        watch(clients[client].channel.socket, Token(.client, clientHandle(client)), interest)
    }

    func clientHandle(_ client: Int) -> Handle {
        Handle(index: UInt32(client), generation: clients.generation(client))
    }
}
