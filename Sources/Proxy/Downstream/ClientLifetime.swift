import Gate
import Glibc
import HTTP
import Telemetry
import Transport
import Wire

/// Where a client's connection begins and ends, and what its clock does in between.
extension Worker {
    // MARK: beginning

    /// - Returns: whether more may be waiting.
    @discardableResult
    mutating func accept(_ listener: Int, _ scratch: inout Scratch) -> Bool {
        // A bound per turn, so that a flood of connections does not starve those that are here.
        for _ in 0..<64 {
            switch downstream.listeners[listener].socket.accept() {
            case .accepted(let socket, let address): open(socket, address, listener, &scratch)
            case .wouldBlock: return false
            case .failed(let number):
                if number == EMFILE || number == ENFILE || number == ENOMEM || number == ENOBUFS {
                    services.shortage(SystemFault("accept a connection", errno: number))
                    downstream.pauseAccepting(at: now.monotonic, isServing: phase == .serving, in: loop)
                }
                return false
            }
        }
        return true
    }

    private mutating func open(_ socket: Socket, _ address: SocketAddress, _ listener: Int, _ scratch: inout Scratch) {
        // Those who look after a gateway that is full still get in.
        guard downstream.listeners[listener].isAdmin || downstream.clients.count - downstream.adminClients < settings.maxClients else {
            return socket.close()
        }
        let handle = downstream.clients.take()
        let client = handle.index
        downstream.clients[client].peer = Peer(
            address: address.ip ?? IPAddress(v4: 0x7F00_0001), port: address.port ?? 0, isTLS: downstream.listeners[listener].tls != nil,
            isUnix: address.ip == nil)
        downstream.clients[client].listener = listener
        if downstream.listeners[listener].isAdmin { downstream.adminClients += 1 }
        downstream.clients[client].phase = downstream.listeners[listener].announces ? .announcing : .open
        downstream.timers.set(client.id, deadline: now.monotonic.advanced(milliseconds: settings.headTimeout))
        telemetry.metrics.connectionAccepted()
        do {
            try downstream.clients[client].connection.open(socket, token: Token(.client, handle).bits, .read, in: loop)
        } catch {
            // What cannot be watched cannot be served.
            return downstream.close(client)
        }
        if !downstream.listeners[listener].announces { startTLS(client) }
    }

    /// Reads the PROXY protocol header, which is mandatory where it is spoken at all.
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
            downstream.clients[client].phase = .open
        }
        guard downstream.listeners[downstream.clients[client].listener].tls != nil else { return advance(client, &input, &scratch) }
        let handle = downstream.clients.handle(client)
        startTLS(client, received: input.readable)
        input.removeAll()
        // What was read behind the header is with the session now, where the kernel does not announce it.
        if downstream.clients.isCurrent(handle) { continueHandshake(client, &scratch) }
    }

    private mutating func startTLS(_ client: ClientIndex, received: RawSpan = RawSpan()) {
        guard let context = downstream.listeners[downstream.clients[client].listener].tls else { return }
        do {
            try downstream.clients[client].connection.startTLS(context, received: received)
            downstream.clients[client].phase = .handshaking
        } catch {
            downstream.close(client)
        }
    }

    mutating func continueHandshake(_ client: ClientIndex, _ scratch: inout Scratch) {
        switch downstream.clients[client].connection.handshake(token: Token(.client, downstream.clients.handle(client)).bits, in: loop) {
        case .done:
            noteHandshake(client)
            downstream.clients[client].peer.certificateNames = downstream.clients[client].connection.clientNames
            downstream.clients[client].phase = .open
            let handle = downstream.clients.handle(client)
            receive(client, &scratch)
            if downstream.clients.isCurrent(handle) { refreshInterest(client) }
        case .pending: break
        case .closed: downstream.close(client)
        case .failed:
            telemetry.metrics.tlsHandshake(.failed, .none)
            downstream.close(client)
        }
    }

    private mutating func noteHandshake(_ client: ClientIndex) {
        let version: HandshakeVersion = downstream.clients[client].connection.tlsVersion.rawBytes.equals("TLSv1.3") ? .tls13 : .tls12
        telemetry.metrics.tlsHandshake(downstream.clients[client].connection.wasResumed ? .resumed : .full, version)
    }

    // MARK: time

    mutating func clientTimedOut(_ client: ClientIndex, _ scratch: inout Scratch) {
        let handle = downstream.clients.handle(client)
        switch downstream.clients[client].phase {
        case .free: return
        case .announcing, .handshaking, .flushing, .lingering: return downstream.close(client)
        case .open: break
        }
        guard !downstream.clients[client].hasUnsent else { return abandon(client, &scratch) }
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
        case .body where wantsRead(client): faulted(client, HTTPFault(.late), &scratch)
        case .discard: faulted(client, HTTPFault(.late), &scratch)
        case .body, .nothing: awaitAnswer(client, &scratch)
        }
        if downstream.clients.isCurrent(handle) { refreshInterest(client) }
    }

    /// It is not the client that is waited for: an upstream's own clock runs, and a wait has its deadline.
    private mutating func awaitAnswer(_ client: ClientIndex, _ scratch: inout Scratch) {
        let exchange = downstream.clients[client].exchange
        guard !exchange.isNone, let deadline = exchanges[exchange.index].waitsUntil else {
            return downstream.timers.set(client.id, deadline: now.monotonic.advanced(milliseconds: settings.idleTimeout))
        }
        guard now.monotonic >= deadline else { return downstream.timers.set(client.id, deadline: deadline) }
        waitTimedOut(exchange.index, &scratch)
    }

    // MARK: end

    /// Everything has gone out: closes, or waits for the client to have read it.
    mutating func finishClosing(_ client: ClientIndex) {
        guard downstream.clients[client].phase == .flushing(lingering: true), !downstream.clients[client].inputEnded else {
            // Without it, a client cannot tell an answer that ends with the connection from one that was cut.
            downstream.clients[client].connection.notifyClose()
            return downstream.close(client)
        }
        downstream.clients[client].connection.finishSending()
        downstream.clients[client].phase = .lingering
        downstream.clients[client].arrival.begin(at: now.monotonic)
        downstream.clients[client].input = ByteBuffer()
        downstream.timers.set(client.id, deadline: now.monotonic.advanced(milliseconds: 2_000))
        refreshInterest(client)
    }

    /// Ends the connection and whatever was under way for it.
    mutating func abandon(_ client: ClientIndex, _ scratch: inout Scratch) {
        let exchange = downstream.clients[client].exchange
        if !exchange.isNone { cancel(exchange.index, status: 499) }
        downstream.close(client)
    }

    /// The answer under way cannot be completed, and must not look whole. Where its length says so the connection ends in
    /// order, so that answers before it still arrive; where only the end of the connection would, it ends with a reset.
    mutating func cut(_ client: ClientIndex) {
        let exchange = downstream.clients[client].exchange
        var looksWhole = false
        if !exchange.isNone {
            looksWhole = exchanges[exchange.index].state.answer == .started && downstream.clients[client].http.endsWithConnection
            cancel(exchange.index, status: 499)
        }
        guard !looksWhole else { return downstream.close(client, resets: true) }
        closeAfterFlush(client, lingering: true)
    }
}
