import Gate
import Glibc
import HTTP
import System
import Telemetry
import Transport
import Wire

/// The beginning and the end of client connections, and their timeouts.
extension Worker {
    // MARK: beginning

    /// - Returns: whether more may be waiting.
    @discardableResult
    mutating func accept(_ listener: Int, _ scratch: inout Scratch) -> Bool {
        // Bounded per turn, so that a flood of new connections does not starve the others.
        // Operators still reach the admin listeners of a full gateway.
        let isBounded = !downstream.listeners[listener].isAdmin
        if isBounded, pauseWhenFull(&scratch) { return false }
        for _ in 0..<64 {
            // Whether another client waits is known when the loop reports the listener again.
            if isBounded, isFull { return true }
            switch downstream.listeners[listener].socket.accept() {
            case .accepted(let socket, let address): open(socket, address, listener, &scratch)
            case .wouldBlock: return false
            case .failed(let number):
                if number == EMFILE || number == ENFILE || number == ENOMEM || number == ENOBUFS {
                    services.shortage(SystemFault("accept a connection", errno: number))
                    let end = now.monotonic.advanced(milliseconds: Downstream.acceptPause)
                    downstream.pauseAccepting(until: end, in: loop)
                }
                return false
            }
        }
        return true
    }

    private mutating func open(_ socket: Socket, _ address: SocketAddress, _ listener: Int, _ scratch: inout Scratch) {
        let handle = downstream.clients.acquire()
        let client = handle.index
        downstream.clients[client].peer = Peer(
            address: address.ip ?? IPAddress(v4: 0x7F00_0001), port: address.port ?? 0, isTLS: downstream.listeners[listener].tls != nil,
            isUnix: address.ip == nil)
        downstream.clients[client].listener = listener
        if downstream.listeners[listener].isAdmin { downstream.adminClients += 1 }
        downstream.clients[client].phase = downstream.listeners[listener].announces ? .announcing : downstream.openingPhase(listener)
        let deadline = now.monotonic.advanced(milliseconds: settings.headTimeout)
        downstream.timers.set(client.id, deadline: deadline)
        if downstream.listeners[listener].tls != nil { downstream.clients[client].idlesUntil = deadline }
        telemetry.metrics.connectionAccepted()
        // Who announces its clients is one of the operator's own.
        guard downstream.listeners[listener].announces || countConnection(client, &scratch) else {
            socket.close()
            return downstream.close(client)
        }
        do {
            try downstream.clients[client].connection.open(socket, token: Token(.client, handle).bits, .read, in: loop)
        } catch {
            // A socket that the loop cannot watch cannot be served.
            return downstream.close(client)
        }
        if !downstream.listeners[listener].announces { downstream.startTLS(client) }
    }

    /// Reads the PROXY protocol header, which is mandatory on a listener that announces.
    mutating func readAnnouncement(_ client: ClientIndex, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        switch ProxyProtocol.parse(input.readable) {
        case .incomplete: return
        case .invalid: return downstream.close(client)
        case .complete(let source, let consumed):
            input.discard(consumed)
            if case .address(let address, let port) = source {
                downstream.clients[client].peer.address = address
                downstream.clients[client].peer.port = port
            }
            downstream.clients[client].phase = downstream.openingPhase(downstream.clients[client].listener)
            guard countConnection(client, &scratch) else { return downstream.close(client) }
        }
        guard downstream.listeners[downstream.clients[client].listener].tls != nil else { return received(client, &input, &scratch) }
        let handle = downstream.clients.handle(client)
        downstream.startTLS(client, received: input.readable)
        input.removeAll()
        // Bytes read behind the header are in the TLS session now: the kernel does not report them.
        if downstream.clients.isCurrent(handle) { continueHandshake(client, &scratch) }
    }

    mutating func continueHandshake(_ client: ClientIndex, _ scratch: inout Scratch) {
        switch downstream.clients[client].connection.handshake(token: Token(.client, downstream.clients.handle(client)).bits, in: loop) {
        // A certificate authority has what it asked for.
        case .done where downstream.clients[client].connection.isChallenge: downstream.closeChallenge(client)
        // It was revoked during the handshake.
        case .done where downstream.isRevoked(client): downstream.close(client)
        case .done:
            let version = downstream.clients[client].connection.tlsVersion.rawBytes.equals("TLSv1.3") ? HandshakeVersion.tls13 : .tls12
            telemetry.metrics.tlsHandshake(downstream.clients[client].connection.wasResumed ? .resumed : .full, version)
            downstream.clients[client].peer.certificateNames = downstream.clients[client].connection.clientNames
            downstream.clients[client].phase = .open
            if downstream.clients[client].connection.speaksHTTP2 {
                startSession(client)
            } else {
                downstream.restIfSilent(client, at: now.monotonic)
            }
            let handle = downstream.clients.handle(client)
            if downstream.clients[client].connection.hasPending { receive(client, &scratch) }
            if downstream.clients.isCurrent(handle) { refreshInterest(client) }
        case .pending: break
        case .closed: downstream.close(client)
        case .failed:
            telemetry.metrics.tlsHandshake(.failed, .none)
            downstream.close(client)
        }
    }

    // MARK: time

    mutating func clientTimedOut(_ client: ClientIndex, _ scratch: inout Scratch) {
        let handle = downstream.clients.handle(client)
        switch downstream.clients[client].phase {
        case .free: return
        case .announcing, .handshaking, .greeting, .lingering: return downstream.close(client)
        case .flushing: return abandon(client, cause: .sendTimeout, &scratch)
        case .multiplexed: return sessionTimedOut(client, &scratch)
        case .tunnel: return tunnelTimedOut(client, &scratch)
        case .open: break
        }
        guard !downstream.clients[client].hasUnsent else { return abandon(client, cause: .sendTimeout, &scratch) }
        if downstream.lacksWindow(client), isUpstreamPaused(client) { return windowTimedOut(client, &scratch) }
        switch downstream.clients[client].http.reading {
        case .head:
            if downstream.clients[client].http.isHeadBegun {
                faulted(client, HTTPFault(.late), &scratch)
            } else if let end = downstream.clients[client].idlesUntil {
                downstream.clients[client].idlesUntil = nil
                downstream.clients[client].connection.rest()
                downstream.timers.set(client.id, deadline: end)
            } else {
                apply(downstream.clients[client].http.idledOut(), client, &scratch)
            }
        case .body where wantsRead(client):
            if !mayBeSilent(client), !hasLackedWindow(client) { faulted(client, HTTPFault(.late), &scratch) }
        case .discard: faulted(client, HTTPFault(.late), &scratch)
        case .body, .nothing: awaitAnswer(client, &scratch)
        }
        if downstream.clients.isCurrent(handle) { refreshInterest(client) }
    }

    /// Milliseconds for which the client of a gRPC call that has not been answered may send nothing.
    private static var callSilence: UInt64 { 300_000 }

    /// Whether the client may send less than the least rate: its request is a gRPC call under way, whose messages come when there is
    /// something to say, or its answer has begun. Then sets its next deadline: the body timeout; and for a call the silence that is allowed
    /// once it was answered, or some of it has come since its clock was started.
    private mutating func mayBeSilent(_ client: ClientIndex) -> Bool {
        let exchange = downstream.clients[client].exchange
        guard !exchange.isNone, exchanges[exchange.index].state.phase == .relaying else { return false }
        let isCall = exchanges[exchange.index].request.dialect == .grpc
        let isAnswered = exchanges[exchange.index].state.answer != .none
        guard isCall || isAnswered else { return false }
        if isCall, isAnswered || downstream.clients[client].arrival.bytes > 0 {
            downstream.clients[client].arrival.begin(at: now.monotonic)
            let silence = max(settings.bodyTimeout, Self.callSilence)
            downstream.timers.set(client.id, deadline: now.monotonic.advanced(milliseconds: silence))
            return true
        }
        let late = downstream.clients[client].arrival.deadline(allowance: settings.bodyTimeout)
        guard now.monotonic < late else { return false }
        downstream.timers.set(client.id, deadline: late)
        return true
    }

    /// How often a late stream is excused because others of its connection leave it no window.
    private static var maxExcuses: Int { 3 }

    /// Whether content of other streams has used up the connection's window since the stream began or was last excused, so that the client
    /// could not send. Then the clock starts anew.
    private mutating func hasLackedWindow(_ client: ClientIndex) -> Bool {
        guard let stream = downstream.clients[client].stream, stream.excuses < Self.maxExcuses else { return false }
        let openings = downstream.sessions[stream.session].http2.windowOpenings
        guard downstream.sessions[stream.session].http2.isWindowUsedUp || openings != stream.windowOpenings else { return false }
        downstream.clients[client].stream?.windowOpenings = openings
        downstream.clients[client].stream?.excuses += 1
        downstream.startBodyClock(client, at: now.monotonic, settings)
        return true
    }

    /// The gateway waits for something else than the client: an upstream, which has a timer of its own, or a wait with a deadline.
    private mutating func awaitAnswer(_ client: ClientIndex, _ scratch: inout Scratch) {
        let exchange = downstream.clients[client].exchange
        guard !exchange.isNone, let deadline = exchanges[exchange.index].wait.deadline else {
            return downstream.timers.set(client.id, deadline: now.monotonic.advanced(milliseconds: settings.idleTimeout))
        }
        guard now.monotonic >= deadline else { return downstream.timers.set(client.id, deadline: deadline) }
        waitTimedOut(exchange.index, &scratch)
    }

    // MARK: end

    /// Ends the connection and its exchange.
    mutating func abandon(_ client: ClientIndex, cause: CutCause = .client, _ scratch: inout Scratch) {
        if downstream.clients[client].session != nil { endSession(client, cause: cause, &scratch) }
        let looksWhole = cutLooksWhole(client)
        let exchange = downstream.clients[client].exchange
        if !exchange.isNone {
            noteHeld(exchange.index, &scratch)
            cancel(exchange.index, status: 499, cause: cause)
        }
        // Bytes that the kernel holds for a client which does not take them go at once: after a close they would stay for minutes.
        downstream.close(client, resets: looksWhole || cause == .sendTimeout)
    }

    /// Whether a close would make an answer look complete that is not: the end of the connection ends it.
    private func cutLooksWhole(_ client: ClientIndex) -> Bool {
        guard downstream.clients[client].http.endsWithConnection else { return false }
        let exchange = downstream.clients[client].exchange
        guard !exchange.isNone else { return downstream.clients[client].hasUnsent }
        // The frames of a tunnel have lengths.
        return exchanges[exchange.index].state.answer == .started && exchanges[exchange.index].state.phase != .tunnel
    }

    /// Ends an answer that cannot be completed so that the client notices. If the head gave a length, or chunks are missing, an
    /// orderly close does, and earlier answers still arrive; if the end of the connection ends the answer, only a reset does.
    mutating func cut(_ client: ClientIndex, _ scratch: inout Scratch) {
        let exchange = downstream.clients[client].exchange
        var looksWhole = false
        if !exchange.isNone {
            looksWhole = exchanges[exchange.index].state.answer == .started && downstream.clients[client].http.endsWithConnection
            noteHeld(exchange.index, &scratch)
            cancel(exchange.index, status: 499)
        }
        // The reset of a stream tells enough.
        guard !looksWhole, !downstream.clients[client].isStream else { return downstream.close(client, resets: true) }
        downstream.closeAfterFlush(client, lingering: true, at: now.monotonic, in: loop)
    }
}

/// Who ends an exchange whose answer is not complete.
enum CutCause {
    /// The client has gone, or the exchange has an error of its own.
    case client
    /// The client took nothing for `TOLLGATE_SEND_TIMEOUT`, or too little.
    case sendTimeout
    /// The time of the drain is over.
    case drain

    /// The access log's `error`; empty for none.
    var text: StaticString {
        switch self {
        case .client: ""
        case .sendTimeout: "send_timeout"
        case .drain: "drain"
        }
    }
}
