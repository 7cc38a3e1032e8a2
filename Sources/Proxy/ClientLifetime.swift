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
            switch listeners[listener].socket.accept() {
            case .accepted(let socket, let address): open(socket, address, listener, &scratch)
            case .wouldBlock: return false
            case .failed(let number):
                if number == EMFILE || number == ENFILE || number == ENOMEM || number == ENOBUFS {
                    services.shortage(SystemFault("accept a connection", errno: number))
                    pauseAccepting()
                }
                return false
            }
        }
        return true
    }

    private mutating func open(_ socket: Socket, _ address: SocketAddress, _ listener: Int, _ scratch: inout Scratch) {
        // Those who look after a gateway that is full still get in.
        guard listeners[listener].isAdmin || clients.count - adminClients < settings.maxClients else {
            return socket.close()
        }
        let handle = clients.take()
        let client = Int(handle.index)
        clients[client].channel = Channel(socket: socket)
        clients[client].peer = Peer(
            address: address.ip ?? IPAddress(v4: 0x7F00_0001), port: address.port ?? 0, isTLS: listeners[listener].tls != nil,
            isUnix: address.ip == nil)
        clients[client].listener = listener
        if listeners[listener].isAdmin { adminClients += 1 }
        clients[client].phase = listeners[listener].announces ? .announcing : .open
        clients[client].interest = .read
        clientTimers.set(client, deadline: now.monotonic.advanced(milliseconds: settings.headTimeout))
        telemetry.metrics.connectionAccepted()
        guard watchNew(socket, Token(.client, handle), .read) else { return closeClient(client) }
        if !listeners[listener].announces { startTLS(client) }
    }

    /// Reads the PROXY protocol header, which is mandatory where it is spoken at all.
    mutating func readAnnouncement(_ client: Int, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        switch ProxyProtocol.parse(input.readable) {
        case .incomplete: return
        case .invalid: return closeClient(client)
        case .complete(let source, let consumed):
            input.discard(consumed)
            if case .address(let address, let port) = source {
                clients[client].peer.address = address
                clients[client].peer.port = port
            }
            clients[client].phase = .open
        }
        guard listeners[clients[client].listener].tls != nil else { return advance(client, &input, &scratch) }
        let handle = clientHandle(client)
        startTLS(client, received: input.readable)
        input.removeAll()
        // What was read behind the header is with the session now, where the kernel does not announce it.
        if clients.isCurrent(handle) { continueHandshake(client, &scratch) }
    }

    private mutating func startTLS(_ client: Int, received: RawSpan = RawSpan()) {
        guard let context = listeners[clients[client].listener].tls else { return }
        do {
            clients[client].channel.session = try TLSSession(
                context, clients[client].channel.socket, received: received)
            clients[client].phase = .handshaking
        } catch {
            closeClient(client)
        }
    }

    mutating func continueHandshake(_ client: Int, _ scratch: inout Scratch) {
        switch clients[client].channel.handshake(&workspace) {
        case .done:
            noteHandshake(client)
            clients[client].peer.certificateNames = clients[client].channel.clientNames
            clients[client].phase = .open
            let handle = clientHandle(client)
            receive(client, &scratch)
            if clients.isCurrent(handle) { refreshInterest(client) }
        case .wantRead: setInterest(client, .read)
        case .wantWrite: setInterest(client, .write)
        case .closed: closeClient(client)
        case .failed:
            telemetry.metrics.tlsHandshake(.failed, .none)
            closeClient(client)
        }
    }

    private mutating func noteHandshake(_ client: Int) {
        let version: HandshakeVersion = clients[client].channel.version.rawBytes.equals("TLSv1.3") ? .tls13 : .tls12
        telemetry.metrics.tlsHandshake(clients[client].channel.wasResumed ? .resumed : .full, version)
    }

    private mutating func pauseAccepting() {
        for index in listeners.indices where listens(index) {
            watch(listeners[index].socket, listenerToken(index), Interest())
        }
        acceptPausedUntil = now.monotonic.advanced(milliseconds: 100)
    }

    mutating func resumeAccepting() {
        acceptPausedUntil = nil
        for index in listeners.indices where listens(index) {
            watch(listeners[index].socket, listenerToken(index), .read)
        }
    }

    /// Whether the listener is open; while draining its descriptor may be anybody's.
    private func listens(_ listener: Int) -> Bool { phase == .serving || listeners[listener].isAdmin }

    func listenerToken(_ index: Int) -> Token { Token(.listener, Handle(index: UInt32(index), generation: 0)) }

    // MARK: time

    /// Between two requests. A TLS session that is not used for a moment comes to rest: at once, and busy connections would
    /// take and give back memory for each request.
    mutating func startIdling(_ client: Int) {
        let end = now.monotonic.advanced(milliseconds: settings.idleTimeout)
        guard clients[client].channel.session != nil, settings.idleTimeout > Self.restAfter else {
            return clientTimers.set(client, deadline: end)
        }
        clients[client].idlesUntil = end
        clientTimers.set(client, deadline: now.monotonic.advanced(milliseconds: Self.restAfter))
    }

    private static var restAfter: UInt64 { 50 }

    /// A body may take the body timeout, and then must have come at 1 KiB a second on average.
    mutating func setBodyDeadline(_ client: Int) {
        clientTimers.set(client, deadline: clients[client].arrival.deadline(allowance: settings.bodyTimeout))
    }

    /// Of what waits, the client must take something within the send timeout, and in the long run 1 KiB a second.
    mutating func setTakingDeadline(_ client: Int) {
        let next = now.monotonic.advanced(milliseconds: settings.sendTimeout)
        clientTimers.set(client, deadline: min(next, clients[client].taking.deadline(allowance: settings.sendTimeout)))
    }

    mutating func clientTimedOut(_ client: Int, _ scratch: inout Scratch) {
        let handle = clientHandle(client)
        switch clients[client].phase {
        case .free: return
        case .announcing, .handshaking, .flushing, .lingering: return closeClient(client)
        case .open: break
        }
        guard !clients[client].hasUnsent else { return abandon(client, &scratch) }
        switch clients[client].reading {
        case .head:
            if clients[client].headBegun {
                faulted(client, HTTPFault(.late), &scratch)
            } else if let end = clients[client].idlesUntil {
                clients[client].idlesUntil = nil
                clients[client].channel.rest()
                clientTimers.set(client, deadline: end)
            } else {
                apply(clients[client].messages.idledOut(), client, &scratch)
            }
        case .body where wantsRead(client): faulted(client, HTTPFault(.late), &scratch)
        case .discard: faulted(client, HTTPFault(.late), &scratch)
        case .body, .nothing: awaitAnswer(client, &scratch)
        }
        if clients.isCurrent(handle) { refreshInterest(client) }
    }

    /// It is not the client that is waited for: an upstream's own clock runs, and a handler of ours has its deadline.
    private mutating func awaitAnswer(_ client: Int, _ scratch: inout Scratch) {
        let exchange = clients[client].exchange
        if case .refresh = clients[client].parking { return refreshTimedOut(client, &scratch) }
        guard !exchange.isNone, let deadline = exchanges[Int(exchange.index)].localDeadline else {
            return clientTimers.set(client, deadline: now.monotonic.advanced(milliseconds: settings.idleTimeout))
        }
        guard now.monotonic >= deadline else { return clientTimers.set(client, deadline: deadline) }
        localTimedOut(Int(exchange.index), &scratch)
    }

    // MARK: end

    /// Everything has gone out: closes, or waits for the client to have read it.
    mutating func finishClosing(_ client: Int) {
        guard clients[client].phase == .flushing(lingering: true), !clients[client].inputEnded else {
            // Without it, a client cannot tell an answer that ends with the connection from one that was cut.
            clients[client].channel.notifyClose(&workspace)
            return closeClient(client)
        }
        clients[client].channel.finishSending(&workspace)
        clients[client].phase = .lingering
        clients[client].arrival.begin(at: now.monotonic)
        clients[client].input = ByteBuffer()
        clientTimers.set(client, deadline: now.monotonic.advanced(milliseconds: 2_000))
        refreshInterest(client)
    }

    /// Ends the connection and whatever was under way for it.
    mutating func abandon(_ client: Int, _ scratch: inout Scratch) {
        let exchange = clients[client].exchange
        if !exchange.isNone { cancel(Int(exchange.index), status: 499) }
        closeClient(client)
    }

    /// The answer under way cannot be completed, and must not look whole. Where its length says so the connection ends in
    /// order, so that answers before it still arrive; where only the end of the connection would, it ends with a reset.
    mutating func cut(_ client: Int) {
        let exchange = clients[client].exchange
        var looksWhole = false
        if !exchange.isNone {
            let index = Int(exchange.index)
            looksWhole = exchanges[index].answerStarted && exchanges[index].delimiting == .untilClose
            cancel(index, status: 499)
        }
        guard !looksWhole else { return closeClient(client, resets: true) }
        clients[client].phase = .flushing(lingering: true)
        clients[client].reading = .nothing
        if clients[client].output.isEmpty { finishClosing(client) }
    }

    /// Gives the place back. The request under way, if any, must have ended.
    mutating func closeClient(_ client: Int, resets: Bool = false) {
        clientTimers.clear(client)
        if listeners[clients[client].listener].isAdmin { adminClients -= 1 }
        if resets { clients[client].channel.abort() } else { clients[client].channel.close() }
        clients[client].phase = .free
        clients[client].reading = .head
        clients[client].headBegun = false
        clients[client].emptyLines = 0
        clients[client].idlesUntil = nil
        clients[client].inputEnded = false
        clients[client].awaitsPipe = false
        if case .refresh = clients[client].parking { awaitedRefreshes -= 1 }
        clients[client].parking = .none
        clients[client].parkedAt = nil
        clients[client].refresh = nil
        clients[client].wasUsed = false
        clients[client].interest = Interest()
        clients[client].messages = ServerMessageState()
        clients[client].room = ReceiveRoom()
        clients[client].exchange = .none
        clients[client].input = ByteBuffer()
        clients[client].output = ByteBuffer()
        clients.release(client)
    }
}
