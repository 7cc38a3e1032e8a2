package import System
package import Wire

/// A connected socket of a loop, plain or with TLS, which look alike from here on. One thread at a time.
///
/// Serves clients, upstreams, probes and Redis: its owner decides when to connect and what to send, the connection keeps the
/// socket's interest and the handshake's progress.
package struct Connection: ~Copyable {
    private let pin = AddressPin()
    /// Valid while it is open.
    package private(set) var socket = Socket(descriptor: -1)
    private var session: TLSSession?
    /// Events that the loop watches.
    package private(set) var interest = Interest()

    /// Closed.
    package init() {}

    /// Takes ownership of `socket` and registers it with the loop; its events carry `token`. Closes the socket on failure.
    package mutating func open(
        _ socket: Socket, token: UInt64, _ interest: Interest, in loop: borrowing EventLoop
    ) throws(SystemFault) {
        self.socket = socket
        self.interest = interest
        do throws(SystemFault) {
            try loop.add(socket, token: token, interest)
        } catch {
            close()
            throw error
        }
    }

    // MARK: readiness

    /// Changes the interest, unless it is the same.
    package mutating func watch(_ wanted: Interest, token: UInt64, in loop: borrowing EventLoop) {
        guard interest != wanted else { return }
        interest = wanted
        do throws(SystemFault) {
            try loop.modify(socket, token: token, wanted)
        } catch {
            // The kernel has no reason to refuse this for a socket that it watches. If it did, the holder's timer would end
            // the connection.
        }
    }

    // MARK: TLS

    /// Whether TLS is off.
    package var isPlain: Bool { session == nil }

    /// Starts TLS as the server; `received` are bytes already read from the socket.
    package mutating func startTLS(_ context: TLSServerContext, received: RawSpan = RawSpan()) throws(TLSFault) {
        session = try TLSSession(context, socket, received: received)
    }

    /// Starts TLS as the client. The certificate must be valid for `serverName`, a name or an address.
    package mutating func startTLS(_ context: TLSClientContext, serverName: String) throws(TLSFault) {
        session = try TLSSession(context, socket, serverName: serverName)
    }

    /// Continues the handshake, and watches for the event it needs. TLS must have been started.
    package mutating func handshake(token: UInt64, in loop: borrowing EventLoop) -> HandshakeOutcome {
        switch session!.handshake() {
        case .done: return .done
        case .wantRead:
            watch(.read, token: token, in: loop)
            return .pending
        case .wantWrite:
            watch(.write, token: token, in: loop)
            return .pending
        case .closed: return .closed
        case .failed(let reason): return .failed(reason)
        }
    }

    /// Whether decrypted bytes are buffered, for which epoll reports nothing.
    package var hasPending: Bool {
        switch session {
        case .none: false
        case .some(let session): session.hasPending
        }
    }

    /// Whether TLS records wait for the socket to become writable; the next call of any kind sends them.
    package var wantsWrite: Bool {
        switch session {
        case .none: false
        case .some(let session): session.wantsWrite
        }
    }

    /// Why TLS failed, if it did.
    package var faultText: String? {
        switch session {
        case .none: nil
        case .some(let session): session.faultText
        }
    }

    /// Whether the handshake resumed a session.
    package var wasResumed: Bool {
        switch session {
        case .none: false
        case .some(let session): session.wasResumed
        }
    }

    /// DNS names and URIs of the client's certificate; empty without one, and without TLS.
    package var clientNames: [String] {
        switch session {
        case .none: []
        case .some(let session): session.clientNames
        }
    }

    /// Whether the lists of revoked certificates of `context` have the client's.
    package func isRevoked(by context: TLSServerContext) -> Bool {
        switch session {
        case .none: false
        case .some(let session): session.isRevoked(by: context)
        }
    }

    /// Whether the handshake chose HTTP/2 (ALPN `h2`, RFC 9113 §3.2).
    package var speaksHTTP2: Bool {
        switch session {
        case .none: false
        case .some(let session): session.alpn == "h2"
        }
    }

    /// Whether the handshake was the response to a challenge of a certificate authority (ALPN `acme-tls/1`): nothing follows it.
    package var isChallenge: Bool {
        switch session {
        case .none: false
        case .some(let session): session.isChallenge
        }
    }

    /// `TLSv1.3`; empty without TLS.
    package var tlsVersion: StaticString {
        switch session {
        case .none: ""
        case .some(let session): session.version
        }
    }

    /// Frees buffers that an idle TLS session does not need; the next use allocates them again.
    package mutating func rest() {
        if session != nil { session!.rest() }
    }

    // MARK: bytes

    /// Appends available bytes, at most `room`.
    package mutating func receive(into buffer: inout ByteBuffer, upTo room: Int) -> IOOutcome {
        if session == nil { return socket.receive(into: &buffer, upTo: room) }
        return session!.receive(into: &buffer, upTo: room)
    }

    /// Sends as much as the socket accepts. After `.wouldBlock` offer the same bytes again; more may follow them.
    package mutating func send(_ bytes: RawSpan) -> IOOutcome {
        if session == nil { return socket.send(bytes) }
        return session!.send(bytes)
    }

    /// Sends as much as the socket accepts of `buffer` from `offset`.
    package mutating func send(_ buffer: borrowing ByteBuffer, from offset: Int = 0) -> IOOutcome {
        send(buffer.readable.dropping(offset))
    }

    // MARK: the end

    /// Half-closes the connection: no more bytes will be sent.
    package mutating func finishSending() {
        notifyClose()
        socket.shutdownWrite()
    }

    /// Sends a close-notify alert, with TLS.
    package mutating func notifyClose() {
        if session != nil { session!.closeNotify() }
    }

    /// Makes `close` send a reset.
    package func resetOnClose() { socket.resetOnClose() }

    /// Closes with a reset, so that the peer cannot take a partial message for a complete one.
    package mutating func abort() {
        session = nil
        socket.abort()
        socket = Socket(descriptor: -1)
        interest = Interest()
    }

    /// Closes. Sent bytes still arrive, unless unread bytes are left here. No effect on a closed connection.
    package mutating func close() {
        session = nil
        socket.close()
        socket = Socket(descriptor: -1)
        interest = Interest()
    }
}

/// Progress of a TLS handshake.
package enum HandshakeOutcome: Equatable, Sendable {
    case done
    /// The loop reports when it can continue.
    case pending
    case closed
    case failed(String)
}
