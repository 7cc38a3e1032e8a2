package import Wire

/// A connected socket, plain or with TLS spoken over it: the two look alike from here on. One thread at a time.
package struct Channel: ~Copyable {
    /// The connection itself, to watch it in a loop.
    package private(set) var socket: Socket
    /// Set once the socket is connected and TLS is to be spoken: then `handshake` comes first.
    package var session: TLSSession?

    /// Takes over the socket: whoever holds the channel closes it.
    package init(socket: Socket, session: consuming TLSSession? = nil) {
        self.socket = socket
        self.session = session
    }

    /// Whether what goes over the socket is what is sent and received.
    package var isPlain: Bool { session == nil }

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

    /// Appends what has arrived, at most `room` bytes.
    package mutating func receive(
        into buffer: inout ByteBuffer, upTo room: Int, _ workspace: inout TLSWorkspace
    ) -> IOOutcome {
        if session == nil { return socket.receive(into: &buffer, upTo: room) }
        return session!.receive(into: &buffer, upTo: room, using: &workspace)
    }

    /// Sends as much as fits now.
    package mutating func send(_ bytes: RawSpan, _ workspace: inout TLSWorkspace) -> IOOutcome {
        if session == nil { return socket.send(bytes) }
        return session!.send(bytes, using: &workspace)
    }

    /// Sends as much as fits now of what `buffer` holds from `offset` on.
    package mutating func send(
        _ buffer: borrowing ByteBuffer, from offset: Int = 0, _ workspace: inout TLSWorkspace
    ) -> IOOutcome {
        send(buffer.readable.dropping(offset), &workspace)
    }

    /// Goes on with the handshake of a TLS session, which there must be.
    package mutating func handshake(_ workspace: inout TLSWorkspace) -> TLSOutcome {
        session!.handshake(using: &workspace)
    }

    /// Whether the handshake was a short one, with a session of before.
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
    package var version: StaticString {
        switch session {
        case .none: ""
        case .some(let session): session.version
        }
    }

    /// Sends as much as fits now of both, together.
    package mutating func send(_ first: RawSpan, _ second: RawSpan, _ workspace: inout TLSWorkspace) -> IOOutcome {
        if session == nil { return socket.send(first, second) }
        return session!.send(first, second, using: &workspace)
    }

    /// Tells the peer that nothing more will be sent.
    package mutating func finishSending(_ workspace: inout TLSWorkspace) {
        notifyClose(&workspace)
        socket.shutdownWrite()
    }

    /// Gives back memory that a connection at rest does not need; what comes next takes it again.
    package mutating func rest() {
        if session != nil { session!.rest() }
    }

    /// Says goodbye where TLS has a word for it.
    package mutating func notifyClose(_ workspace: inout TLSWorkspace) {
        if session != nil { session!.closeNotify(using: &workspace) }
    }

    /// Makes the coming end an error for the peer.
    package func resetOnClose() { socket.resetOnClose() }

    /// Ends the connection with a reset, so that what was sent cannot be taken for all there is.
    package mutating func abort() {
        session = nil
        socket.abort()
    }

    /// Ends the connection: what was sent still arrives, if nothing unread is left here.
    package mutating func close() {
        session = nil
        socket.close()
    }
}
