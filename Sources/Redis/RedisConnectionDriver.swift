internal import System
package import Transport
package import Wire

/// I/O of the connection: connects, handshakes, sends, receives, closes.
extension RedisConnection {
    private static let receiveRoom = 64 * 1_024

    // MARK: events

    /// An event of the loop with the connection's token.
    package mutating func ready(
        _ ready: Ready, _ now: MonotonicTime, _ loop: borrowing EventLoop
    ) {
        switch state.phase {
        case .waiting, .ended: return
        case .connecting: finishConnecting(now, loop)
        case .handshaking: continueHandshake(now, loop)
        case .greeting, .serving:
            if ready.writable { output.isBlocked = false }
            // Output of TLS itself is sent by the next call of any kind.
            hasInput = hasInput || ready.readable || ready.error || ready.hangup || connection.wantsWrite
        }
    }

    /// Checks the deadlines. Not between two events of one wait: an event could then reach a new connection instead of its
    /// own. Replies that have come and wait to be read count first: it was this process that stood still, and not the server.
    package mutating func timedOut(_ now: MonotonicTime, _ loop: borrowing EventLoop) {
        guard !hasInput else { return }
        if state.deadline != nil {
            let lateness = lateness
            switch state.timePassed(now, random: random.next()) {
            case .connect: connect(now, loop)
            case .close: closed(lateness, now)
            case .carryOn, .handshake, .greet, .serve: break
            }
        } else if isReady, let oldest = oldestInFlight, now >= oldest.advanced(milliseconds: settings.responseTimeout) {
            lose(.silent(settings.responseTimeout), now)
        }
    }

    /// The fault of an attempt that does not end in time.
    private var lateness: RedisFault {
        if case .handshaking = state.phase { return .handshakeNotInTime(settings.connectTimeout) }
        return .notReadyInTime(settings.connectTimeout)
    }

    /// Sets the server, or several of which each will do.
    package mutating func replace(by servers: [RedisServer], _ now: MonotonicTime) {
        replace(
            addresses: servers.flatMap(\.addresses), names: servers.flatMap { server in server.addresses.map { _ in server.name } }, now)
    }

    /// Sets the addresses of the server's name, or of servers of which each will do. A connection to a removed address is closed,
    /// and its commands are lost. Another server has neither backoff nor circuit breaker of the last.
    ///
    /// - Parameter names: of the certificates at the addresses; empty: the endpoint's.
    package mutating func replace(addresses: [SocketAddress], names: [String] = [], _ now: MonotonicTime) {
        let isOther = !addresses.isEmpty && self.addresses.allSatisfy { !addresses.contains($0) }
        self.addresses = addresses
        self.names = names
        if let address, !addresses.contains(address) {
            lose(endpoint.reasonOfMove(hasServers: !addresses.isEmpty), now)
        }
        if isOther {
            state.retryNow(now)
            breaker = RedisBreaker()
        }
    }

    /// Closes the connection for good. `next` reports its commands as lost.
    package mutating func close(_ now: MonotonicTime) {
        if state.ended() == .close { closed(.ended, now) }
    }

    // MARK: connecting

    private mutating func connect(_ now: MonotonicTime, _ loop: borrowing EventLoop) {
        guard !addresses.isEmpty else { return lose(endpoint.reasonWithoutServers, now) }
        let address = addresses[attempts % addresses.count]
        attempts += 1
        switch Socket.connect(to: address) {
        case .failed(let fault): lose(.notReached(fault.description), now)
        case .connected(let socket), .inProgress(let socket):
            self.address = address
            reader = RedisReplyReader(limits: settings.replyLimits)
            do {
                try connection.open(socket, token: token, .write, in: loop)
            } catch {
                lose(.notReached("\(error)"), now)
            }
        }
    }

    private mutating func finishConnecting(
        _ now: MonotonicTime, _ loop: borrowing EventLoop
    ) {
        let number = connection.socket.takeError()
        guard number == 0 else {
            let peer = address.map { "\($0)" } ?? "the server"
            return lose(.notReached(SystemFault("connect to \(peer)", errno: number).description), now)
        }
        switch state.connected(now) {
        case .handshake: beginHandshake(now, loop)
        case let action: begin(action, now, loop)
        }
    }

    private mutating func beginHandshake(
        _ now: MonotonicTime, _ loop: borrowing EventLoop
    ) {
        guard let tls else { preconditionFailure("an endpoint with TLS has a context") }
        do {
            try connection.startTLS(tls, serverName: serverName)
        } catch {
            return lose(.handshakeFailed("\(error)"), now)
        }
        continueHandshake(now, loop)
    }

    /// The name that the certificate must have.
    private var serverName: String {
        guard let address, let index = addresses.firstIndex(of: address), index < names.count else { return endpoint.serverName }
        return names[index]
    }

    private mutating func continueHandshake(
        _ now: MonotonicTime, _ loop: borrowing EventLoop
    ) {
        switch connection.handshake(token: token, in: loop) {
        case .pending: break
        case .closed: lose(.handshakeFailed("it closed the connection"), now)
        case .failed(let reason): lose(.handshakeFailed(reason), now)
        case .done:
            hasInput = connection.hasPending
            begin(state.secured(now), now, loop)
        }
    }

    private mutating func begin(_ action: RedisAction, _ now: MonotonicTime, _ loop: borrowing EventLoop) {
        connection.watch(.read, token: token, in: loop)
        switch action {
        case .greet: appendGreeting(now)
        case .serve: log.becameReady()
        case .carryOn, .connect, .handshake, .close: break
        }
    }

    // MARK: bytes

    /// Sends the appended commands with one write, unless it is batching; the kernel's backpressure delays the rest. Once at
    /// the end of a turn.
    package mutating func flush(_ now: MonotonicTime, _ loop: borrowing EventLoop) {
        guard batch == 0 || !isBatching(now) else { return }
        if batch > 0 { flushedAt = now }
        batch = 0
        while isConnected, output.hasUnsent, !output.isBlocked {
            switch connection.send(output.bytes, from: output.sent) {
            case .done(let count): output.wasSent(count)
            case .wouldBlock: output.isBlocked = true
            case .closed: lose(.closed, now)
            case .failed(let number): lose(broken(number), now)
            }
        }
        guard isConnected else { return }
        let waitsToWrite = output.hasUnsent || connection.wantsWrite
        connection.watch(waitsToWrite ? [.read, .write] : .read, token: token, in: loop)
    }

    /// Whether a command appended now would wait for the replies of those in flight. A caller that merges questions into one
    /// command waits until `batchDeadline`, or until the replies arrive.
    package func isBatching(_ now: MonotonicTime) -> Bool {
        inFlight > batch && isReady && breaker.isClosed && now < batchDeadline
    }

    /// When appended commands are sent at the latest.
    package var batchDeadline: MonotonicTime {
        MonotonicTime(nanoseconds: flushedAt.nanoseconds &+ settings.batchWindow &* 1_000)
    }

    /// Reads once into the parser, which must have no complete reply left.
    mutating func receive(_ now: MonotonicTime) {
        switch connection.receive(into: &input, upTo: Self.receiveRoom) {
        case .done(let count):
            reader.feed(input)
            input.removeAll()
            hasInput = count == Self.receiveRoom || connection.hasPending
        case .wouldBlock: hasInput = connection.hasPending
        case .closed: lose(.closed, now)
        case .failed(let number): lose(broken(number), now)
        }
    }

    private func broken(_ number: Int32) -> RedisFault { .broken(connection.faultText ?? systemErrorText(number)) }

    // MARK: the end

    /// Gives up the connection, or the attempt.
    mutating func lose(_ fault: RedisFault, _ now: MonotonicTime) {
        if state.failed(now, random: random.next()) == .close { closed(fault, now) }
    }

    private mutating func closed(_ fault: RedisFault, _ now: MonotonicTime) {
        connection.close()
        address = nil
        hasInput = false
        input.removeAll()
        output.removeAll()
        batch = 0
        scripts.interrupt()
        if unanswered.oldestAwaited() != nil { breaker.missed(now, random: random.next()) }
        lost = unanswered.count
        log.lost(fault)
    }
}
