import COpenSSL
package import Wire

/// What the TLS sessions of one thread share: buffers that bytes pass through and ciphers, so that an idle session
/// holds none.
package struct TLSWorkspace: ~Copyable {
    /// Plain bytes brought together for one record.
    var plain = ByteBuffer()
    /// Records as they were received.
    var incoming = ByteBuffer()
    /// Records to be sent.
    var outgoing = ByteBuffer()
    var ciphers = TLSCiphers()

    package init() {}
}

/// One TLS connection over a non-blocking socket that it does not own; the same outcomes as a `Socket`.
///
/// After `.done` and `.wouldBlock` look at `hasPending` (call `receive` before waiting) and `wantsWrite` (watch for
/// writing too: protocol bytes wait to be sent, and the next call of any kind sends them). One thread at a time.
@safe
package struct TLSSession: ~Copyable {
    // One of the two is there: OpenSSL's session until the handshake is over, and then records alone where they do.
    private var library: UnsafeMutablePointer<TLSLibrarySession>?
    private var records: UnsafeMutablePointer<TLSRecordSession>?

    /// The server's side of a connection that was accepted.
    package init(_ context: TLSServerContext, _ socket: Socket) throws(TLSFault) {
        unsafe library = unsafe Self.place(try TLSLibrarySession(context, socket))
    }

    /// The client's side of a connection that is made. `serverName` is the host that the certificate must be for, a
    /// name or an address.
    package init(_ context: TLSClientContext, _ socket: Socket, serverName: String) throws(TLSFault) {
        unsafe library = unsafe Self.place(try TLSLibrarySession(context, socket, serverName: serverName))
    }

    deinit {
        unsafe Self.remove(library)
        unsafe Self.remove(records)
    }

    private static func place<Part: ~Copyable>(_ part: consuming Part) -> UnsafeMutablePointer<Part> {
        let place = UnsafeMutablePointer<Part>.allocate(capacity: 1)
        unsafe place.initialize(to: part)
        return unsafe place
    }

    /// Keys are among what is removed, and do not stay in memory.
    private static func remove<Part: ~Copyable>(_ place: UnsafeMutablePointer<Part>?) {
        guard let place = unsafe place else { return }
        unsafe place.deinitialize(count: 1)
        unsafe OPENSSL_cleanse(place, MemoryLayout<Part>.size)
        unsafe place.deallocate()
    }

    /// Goes on with the handshake as far as it gets. Call it again when the socket is ready, until `.done`; after
    /// that look at `hasPending`.
    package mutating func handshake(using workspace: inout TLSWorkspace) -> TLSOutcome {
        guard let library = unsafe library else { return finishHandshake() }
        let outcome = unsafe library.pointee.handshake()
        if let records = unsafe library.pointee.takeOver() {
            unsafe self.records = unsafe Self.place(records)
            unsafe Self.remove(library)
            unsafe self.library = nil
        }
        return outcome
    }

    private func finishHandshake() -> TLSOutcome {
        switch unsafe records?.pointee.flush() {
        case nil, .done: .done
        case .wouldBlock: .wantWrite
        case .closed, .failed: .closed
        }
    }
}

extension TLSSession {
    /// Reads what is there, up to `limit` bytes, behind the readable bytes of `buffer`, with one system call at most
    /// unless OpenSSL carries the session and more than a record is waiting.
    ///
    /// `.closed` is the peer's close-notify. An end of stream without it is `.failed(ECONNRESET)`, bytes that are not
    /// TLS are `.failed(EPROTO)`. The end repeats.
    package mutating func receive(
        into buffer: inout ByteBuffer, upTo limit: Int, using workspace: inout TLSWorkspace
    ) -> IOOutcome {
        if let records = unsafe records {
            return unsafe records.pointee.receive(into: &buffer, upTo: limit, using: &workspace)
        }
        return unsafe library?.pointee.receive(into: &buffer, upTo: limit) ?? .closed
    }

    /// Sends `bytes`, up to 64 KiB of them, with one system call. `.done(n)`: the system has taken all ciphertext of
    /// the first n bytes. After `.wouldBlock` offer the same bytes again; they may have moved, and more may follow them.
    package mutating func send(_ bytes: RawSpan, using workspace: inout TLSWorkspace) -> IOOutcome {
        send(bytes, RawSpan(), using: &workspace)
    }

    /// Sends the first span and then the second, as if they were one.
    package mutating func send(
        _ first: RawSpan, _ second: RawSpan, using workspace: inout TLSWorkspace
    ) -> IOOutcome {
        if let records = unsafe records { return unsafe records.pointee.send(first, second, using: &workspace) }
        return unsafe library?.pointee.send(first, second, using: &workspace) ?? .closed
    }

    /// Tells the peer that nothing more will be sent. What cannot go at once waits, as `wantsWrite` says.
    package mutating func closeNotify(using workspace: inout TLSWorkspace) {
        unsafe library?.pointee.closeNotify()
        unsafe records?.pointee.closeNotify(using: &workspace)
    }

    /// Received bytes, or an end, that epoll will not announce: call `receive` before waiting.
    package var hasPending: Bool {
        unsafe records?.pointee.hasPending ?? library?.pointee.hasPending ?? false
    }

    /// Bytes wait for the socket to become writable.
    package var wantsWrite: Bool {
        unsafe records?.pointee.wantsWrite ?? library?.pointee.wantsWrite ?? false
    }
}

extension TLSSession {
    /// `TLSv1.3` or `TLSv1.2`; during the handshake the highest that is offered.
    package var version: StaticString { unsafe library?.pointee.version ?? "TLSv1.3" }

    /// The application protocol that both sides agreed on, if any.
    package var alpn: String? { unsafe records?.pointee.alpn ?? library?.pointee.alpn }

    /// Whether the handshake was a short one, with a session of before.
    package var wasResumed: Bool { unsafe records?.pointee.wasResumed ?? library?.pointee.wasResumed ?? false }

    /// Why the session failed, for the log.
    package var faultText: String? { unsafe records?.pointee.faultText ?? library?.pointee.faultText }
}
