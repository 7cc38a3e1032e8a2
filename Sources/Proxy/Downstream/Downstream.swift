import HTTP
import System
import Transport
import Wire

/// The clients' side of one worker: its listeners, the connections of clients, and their clocks.
struct Downstream: ~Copyable {
    private let pin = AddressPin()
    var listeners: [Listener]
    var challenges = ChallengeResponses()
    var clients = Slab<Client> { Client() }
    /// The HTTP/2 connections' machines.
    var sessions = Slab<HTTP2Carrier> { HTTP2Carrier() }
    /// Sessions with something to send or to settle at the end of this turn.
    var unsettled: [Handle<Client>] = []
    /// Streams under way; their clients are no connections.
    var streams = 0
    /// Fetches under way; their clients are none either.
    var fetches = 0
    var timers: TimerWheel
    /// The clients, with what each holds of what they share.
    var shares: ClientShares
    /// Long answers that do not count as requests any more.
    var longAnswers = 0
    /// When idle connections of a client beyond its share were closed last.
    var madeRoomAt: MonotonicTime?
    /// Connections of the admin listeners, for which a drain does not wait.
    var adminClients = 0
    /// When accepting is tried again after the process ran out of descriptors, or while there are as many clients as may be.
    var acceptPausedUntil: MonotonicTime?
    /// Whether it pauses because there are as many clients as may be, and more wait.
    var clientsWait = false

    /// Milliseconds until accepting is tried again.
    static var acceptPause: UInt64 { 100 }

    init(_ listeners: [Listener], _ holdings: ClientHoldings, now: MonotonicTime) {
        self.listeners = listeners
        shares = ClientShares(holdings)
        timers = TimerWheel(now: now)
    }

    /// Connections of clients, but for those of the admin listeners.
    var connections: Int { clients.count - streams - fetches - adminClients }

    // MARK: listening

    func watchListeners(in loop: borrowing EventLoop) throws(SystemFault) {
        for index in listeners.indices {
            try loop.add(listeners[index].socket, token: Token(listener: index).bits, .read)
        }
    }

    /// Stops accepting until then, or resumes it.
    mutating func pauseAccepting(until end: MonotonicTime?, sparingAdmin: Bool = false, in loop: borrowing EventLoop) {
        acceptPausedUntil = end
        for index in listeners.indices where !listeners[index].isClosed && !(sparingAdmin && listeners[index].isAdmin) {
            do throws(SystemFault) {
                try loop.modify(listeners[index].socket, token: Token(listener: index).bits, end == nil ? .read : Interest())
            } catch {
                // The kernel has no reason to refuse this for a socket that it watches.
            }
        }
    }

    /// Closes this process's descriptor of a listener.
    mutating func closeListener(_ index: Int, in loop: borrowing EventLoop) {
        guard !listeners[index].isClosed else { return }
        listeners[index].isClosed = true
        loop.remove(listeners[index].socket)
        listeners[index].socket.close()
    }

    /// Adopts new certificates, for new connections.
    mutating func adopt(_ context: TLSServerContext) {
        for index in listeners.indices where listeners[index].tls != nil { listeners[index].tls = context }
    }

    /// Whether the client's certificate is on a list that its listener has now.
    func isRevoked(_ client: ClientIndex) -> Bool {
        guard let context = listeners[clients[client].listener].tls else { return false }
        return clients[client].connection.isRevoked(by: context)
    }

    /// Whether the client is still connected, and no request of its is under way or has begun to arrive.
    func isAtRest(_ client: Handle<Client>) -> Bool {
        clients.isCurrent(client) && clients[client.index].phase == .open && clients[client.index].http.isAtRest
    }

    /// Whether nothing of a first request has come: the connection was perhaps just made, and may still have to say who the client is
    /// (`;proxy`), what it speaks (`;h2c`), or be secured.
    func isUnused(_ client: ClientIndex) -> Bool {
        switch clients[client].phase {
        case .announcing, .handshaking, .greeting: true
        case .open: !clients[client].wasUsed && clients[client].http.isAtRest
        case .free, .tunnel, .multiplexed, .flushing, .lingering: false
        }
    }

    // MARK: clocks

    /// Milliseconds for which a connection with TLS or HTTP/2 is idle before its buffers are freed. At once would cost a busy connection an
    /// allocation for each request.
    private static var restAfter: UInt64 { 50 }

    /// Starts the idle timeout between two requests of HTTP/1, unless some of the answer still waits for the client: until it has gone,
    /// the send timeout runs.
    mutating func startIdling(_ client: ClientIndex, at now: MonotonicTime, timeout: UInt64) {
        guard !clients[client].hasUnsent else { return }
        startIdling(client, at: now, until: now.advanced(milliseconds: timeout))
    }

    /// Starts what is left of the idle timeout.
    mutating func startIdling(_ client: ClientIndex, at now: MonotonicTime, until end: MonotonicTime) {
        let rest = now.advanced(milliseconds: Self.restAfter)
        guard !clients[client].connection.isPlain || clients[client].session != nil, end > rest else {
            clients[client].idlesUntil = nil
            return timers.set(client.id, deadline: end)
        }
        clients[client].idlesUntil = end
        timers.set(client.id, deadline: rest)
    }

    /// The handshake is over: a client that sends no request now idles until its time for the first one is up.
    mutating func restIfSilent(_ client: ClientIndex, at now: MonotonicTime) {
        guard let end = clients[client].idlesUntil else { return }
        startIdling(client, at: now, until: end)
    }

    /// Starts the timeouts of a request's body.
    mutating func startBodyClock(_ client: ClientIndex, at now: MonotonicTime, _ settings: borrowing WorkerSettings) {
        clients[client].arrival.begin(at: now)
        bodyMoved(client, by: 0, at: now, settings)
    }

    /// Some of the body has arrived. It may take the body timeout, and from then on must have arrived at 1 KiB a second on average;
    /// before that at its least rate.
    mutating func bodyMoved(_ client: ClientIndex, by count: Int, at now: MonotonicTime, _ settings: borrowing WorkerSettings) {
        clients[client].arrival.moved(count)
        clients[client].contentAt = now
        timers.set(client.id, deadline: settings.bodyDeadline(clients[client].arrival))
    }

    /// Starts the send timeout, when bytes begin to wait for the client.
    mutating func startTakingClock(_ client: ClientIndex, at now: MonotonicTime, timeout: UInt64) {
        clients[client].taking.begin(at: now)
        taken(client, 0, at: now, timeout: timeout)
    }

    /// The client has taken some of what waits: it must take more within the send timeout, and 1 KiB a second on average.
    mutating func taken(_ client: ClientIndex, _ count: Int, at now: MonotonicTime, timeout: UInt64) {
        clients[client].taking.moved(count)
        let next = now.advanced(milliseconds: timeout)
        timers.set(client.id, deadline: min(next, clients[client].taking.deadline(allowance: timeout)))
    }

    // MARK: TLS

    /// Begins TLS on a listener that speaks it; `received` are bytes that were read already.
    mutating func startTLS(_ client: ClientIndex, received: RawSpan = RawSpan()) {
        guard let context = listeners[clients[client].listener].tls else { return }
        do {
            try clients[client].connection.startTLS(context, received: received)
            clients[client].phase = .handshaking
        } catch {
            close(client)
        }
    }

    /// Ends a handshake that was the response to a challenge: no request follows it.
    mutating func closeChallenge(_ client: ClientIndex) {
        clients[client].connection.notifyClose()
        close(client)
    }

    // MARK: the end

    /// Milliseconds for which a client may go on sending after the last answer.
    static var lingerTimeout: UInt64 { 2_000 }

    /// Bytes that are dropped at most before a lingering connection or stream is closed all the same.
    static var maxLingered: UInt64 { 1 << 20 }

    /// Closes the connection once everything written has gone out; `lingering` as in `ServerAction`.
    mutating func closeAfterFlush(_ client: ClientIndex, lingering: Bool, at now: MonotonicTime, in loop: borrowing EventLoop) {
        clients[client].phase = .flushing(lingering: lingering)
        if clients[client].isStream { return finishStreamIfSent(client, at: now) }
        if clients[client].output.isEmpty { finishClosing(client, at: now, in: loop) }
    }

    /// Everything has gone out: closes, or lingers until the client has read it.
    mutating func finishClosing(_ client: ClientIndex, at now: MonotonicTime, in loop: borrowing EventLoop) {
        // While clients wait for connections, one lingers only if it has sent more, which a close would answer with a reset.
        let mayClose = clients[client].inputEnded || clientsWait && !clients[client].connection.socket.isReadable
        guard clients[client].phase == .flushing(lingering: true), !mayClose else {
            // Without close-notify, a client cannot tell an answer that ends with the connection from one that was cut.
            clients[client].connection.notifyClose()
            return close(client)
        }
        clients[client].connection.finishSending()
        clients[client].phase = .lingering
        clients[client].arrival.begin(at: now)
        clients[client].input = ByteBuffer()
        timers.set(client.id, deadline: now.advanced(milliseconds: Self.lingerTimeout))
        clients[client].connection.watch(.read, token: Token(.client, clients.handle(client)).bits, in: loop)
    }

    /// Releases the index. The exchange under way, if any, must have ended.
    mutating func close(_ client: ClientIndex, resets: Bool = false) {
        timers.clear(client.id)
        if clients[client].isStream { releaseStream(client) }
        if clients[client].isFetch { fetches -= 1 }
        if listeners[clients[client].listener].isAdmin { adminClients -= 1 }
        if !clients[client].isStream, let share = clients[client].share {
            shares[share].connections -= 1
            shares.release(share)
        }
        clients[client].close(resets: resets)
        clients.release(client)
    }
}
