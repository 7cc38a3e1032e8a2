package import Wire

/// One connected socket of a loop, plain or with TLS spoken over it: from here on the two look alike. One thread at a time.
///
/// It serves clients, upstreams, probes and Redis: who holds it says when to connect and what to send, this says what the
/// socket is watched for and how a handshake goes on.
package struct Connection: ~Copyable {
    /// Meaningful while it is open.
    package private(set) var socket = Socket(descriptor: -1)
    private var session: TLSSession?
    /// What the loop watches it for.
    package private(set) var interest = Interest()

    /// A closed one.
    package init() {}

    /// Takes over `socket` and has the loop watch it; its reports carry `token`. On failure the socket is closed.
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

    /// Changes what the socket is watched for, unless it is watched for that already.
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

    /// Whether the bytes on the socket are the bytes sent and received.
    package var isPlain: Bool { session == nil }

    /// Begins the server's side of TLS; `received` are bytes that were read from the socket already.
    package mutating func startTLS(_ context: TLSServerContext, received: RawSpan = RawSpan()) throws(TLSFault) {
        session = try TLSSession(context, socket, received: received)
    }

    /// Begins the client's side of TLS. The certificate must be for `serverName`, a name or an address.
    package mutating func startTLS(_ context: TLSClientContext, serverName: String) throws(TLSFault) {
        session = try TLSSession(context, socket, serverName: serverName)
    }

    /// Goes on with the handshake of the TLS session, which there must be, and has the loop watch for what it waits for.
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

    /// Whether bytes wait inside the TLS session, where the kernel does not announce them.
    package var hasPending: Bool {
        switch session {
        case .none: false
        case .some(let session): session.hasPending
        }
    }

    /// Whether bytes of TLS itself wait for the socket to become writable; the next call of any kind sends them.
    package var wantsWrite: Bool {
        switch session {
        case .none: false
        case .some(let session): session.wantsWrite
        }
    }

    /// Why TLS ended the connection, if it did.
    package var faultText: String? {
        switch session {
        case .none: nil
        case .some(let session): session.faultText
        }
    }

    /// Whether the handshake resumed an earlier session.
    package var wasResumed: Bool {
        switch session {
        case .none: false
        case .some(let session): session.wasResumed
        }
    }

    /// The names in the certificate that a client sent; empty without one, and without TLS.
    package var clientNames: [String] {
        switch session {
        case .none: []
        case .some(let session): session.clientNames
        }
    }

    /// `TLSv1.3`; empty without TLS.
    package var tlsVersion: StaticString {
        switch session {
        case .none: ""
        case .some(let session): session.version
        }
    }

    /// Gives back memory that a session at rest does not need; the next use takes it again.
    package mutating func rest() {
        if session != nil { session!.rest() }
    }

    // MARK: bytes

    /// Appends what has arrived, at most `room` bytes.
    package mutating func receive(into buffer: inout ByteBuffer, upTo room: Int) -> IOOutcome {
        if session == nil { return socket.receive(into: &buffer, upTo: room) }
        return session!.receive(into: &buffer, upTo: room)
    }

    /// Sends as much as fits now. After `.wouldBlock` the same bytes must be offered again; more may follow them.
    package mutating func send(_ bytes: RawSpan) -> IOOutcome {
        if session == nil { return socket.send(bytes) }
        return session!.send(bytes)
    }

    /// Sends as much as fits now of what `buffer` holds from `offset` on.
    package mutating func send(_ buffer: borrowing ByteBuffer, from offset: Int = 0) -> IOOutcome {
        send(buffer.readable.dropping(offset))
    }

    // MARK: the end

    /// Tells the peer that nothing more will be sent.
    package mutating func finishSending() {
        notifyClose()
        socket.shutdownWrite()
    }

    /// Sends TLS's close-notify, where TLS is spoken.
    package mutating func notifyClose() {
        if session != nil { session!.closeNotify() }
    }

    /// Makes the coming end an error for the peer.
    package func resetOnClose() { socket.resetOnClose() }

    /// Ends the connection with a reset, so that what was sent cannot be taken for all there is.
    package mutating func abort() {
        session = nil
        socket.abort()
        socket = Socket(descriptor: -1)
        interest = Interest()
    }

    /// Ends the connection: what was sent still arrives, unless unread bytes are left here. Does nothing to a closed one.
    package mutating func close() {
        session = nil
        socket.close()
        socket = Socket(descriptor: -1)
        interest = Interest()
    }
}

/// How far a TLS handshake has come.
package enum HandshakeOutcome: Equatable, Sendable {
    case done
    /// The loop reports when it can go on.
    case pending
    case closed
    case failed(String)
}
