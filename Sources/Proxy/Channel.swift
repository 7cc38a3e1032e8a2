import Transport
import Wire

/// A connected socket, plain or with TLS spoken over it: the two look alike from here on.
struct Channel: ~Copyable {
    private(set) var socket: Socket
    var session: TLSSession?

    init(socket: Socket, session: consuming TLSSession? = nil) {
        self.socket = socket
        self.session = session
    }

    /// Whether bytes wait inside the TLS session, where the kernel does not announce them.
    var hasPending: Bool {
        switch session {
        case .none: false
        case .some(let session): session.hasPending
        }
    }

    /// Appends what has arrived, at most `room` bytes.
    mutating func receive(into buffer: inout ByteBuffer, upTo room: Int, _ workspace: inout TLSWorkspace) -> IOOutcome {
        if session == nil { return socket.receive(into: &buffer, upTo: room) }
        return session!.receive(into: &buffer, upTo: room, using: &workspace)
    }

    /// Sends as much as fits now.
    mutating func send(_ bytes: RawSpan, _ workspace: inout TLSWorkspace) -> IOOutcome {
        if session == nil { return socket.send(bytes) }
        return session!.send(bytes, using: &workspace)
    }

    /// Sends as much as fits now of what `buffer` holds from `offset` on.
    mutating func send(_ buffer: borrowing ByteBuffer, from offset: Int = 0, _ workspace: inout TLSWorkspace) -> IOOutcome {
        send(buffer.readable.dropping(offset), &workspace)
    }

    /// Goes on with the handshake of a TLS session, which there must be.
    mutating func handshake(_ workspace: inout TLSWorkspace) -> TLSOutcome {
        session!.handshake(using: &workspace)
    }

    var wasResumed: Bool {
        switch session {
        case .none: false
        case .some(let session): session.wasResumed
        }
    }

    /// `TLSv1.3`; empty without TLS.
    var version: StaticString {
        switch session {
        case .none: ""
        case .some(let session): session.version
        }
    }

    /// Sends as much as fits now of both, together.
    mutating func send(_ first: RawSpan, _ second: RawSpan, _ workspace: inout TLSWorkspace) -> IOOutcome {
        if session == nil { return socket.send(first, second) }
        return session!.send(first, second, using: &workspace)
    }

    /// Tells the peer that nothing more will be sent.
    mutating func finishSending(_ workspace: inout TLSWorkspace) {
        notifyClose(&workspace)
        socket.shutdownWrite()
    }

    /// Says goodbye where TLS has a word for it.
    mutating func notifyClose(_ workspace: inout TLSWorkspace) {
        if session != nil { session!.closeNotify(using: &workspace) }
    }

    /// Makes the coming end an error for the peer.
    func resetOnClose() { socket.resetOnClose() }

    /// Ends the connection with a reset, so that what was sent cannot be taken for all there is.
    mutating func abort() {
        session = nil
        socket.abort()
    }

    /// Ends the connection: what was sent still arrives, if nothing unread is left here.
    mutating func close() {
        session = nil
        socket.close()
    }
}
