import COpenSSL
import Glibc
package import Wire

/// A TLS connection over a non-blocking socket that it does not own, with the outcomes of `Socket`.
///
/// After `.done` and `.wouldBlock` check `hasPending` (call `receive` before waiting) and `wantsWrite` (watch for writing:
/// records wait, and the next call of any kind sends them). One thread at a time.
@safe
package struct TLSSession: ~Copyable {
    let session: OpaquePointer
    let port: UnsafeMutablePointer<TLSPort>
    /// OpenSSL's handshake is done; its last flight may still be in the port.
    var isEstablished = false
    /// Buffered bytes that epoll does not report.
    var hasMore = false
    /// End of the stream, which every later `receive` returns.
    private var end: IOOutcome?
    /// Bytes that are encrypted in the port, but that the caller still offers.
    private var owed = 0
    /// Bytes of session tickets in the port's output, 0 once anything else was written.
    private var heldTickets = 0
    /// Plaintext bytes until records grow to their full size; see `firstFlight`.
    private var smallBytes = TLSSession.firstFlight
    /// OpenSSL's error code that ended the session.
    var fault: UInt = 0

    /// Server side of an accepted connection; `received` are bytes already read from it.
    package init(
        _ context: TLSServerContext, _ socket: Socket, received: RawSpan = RawSpan()
    ) throws(TLSFault) {
        unsafe (session, port) = try unsafe Self.open(
            context.first, TLSPort(socket: socket, server: context, received: received))
        unsafe SSL_set_accept_state(session)
    }

    /// Client side. `serverName` is the name or address that the certificate must be valid for.
    package init(_ context: TLSClientContext, _ socket: Socket, serverName: String) throws(TLSFault) {
        let (session, port) = try unsafe Self.open(context.context, TLSPort(socket: socket))
        guard unsafe context.expect(serverName, session) else {
            unsafe Self.close(session, port)
            throw TLSFault("\(serverName) cannot be a server's name")
        }
        unsafe self.session = unsafe session
        unsafe self.port = unsafe port
        unsafe SSL_set_connect_state(session)
    }

    deinit { unsafe Self.close(session, port) }

    private static func open(
        _ context: OpaquePointer, _ contents: consuming TLSPort
    ) throws(TLSFault) -> (OpaquePointer, UnsafeMutablePointer<TLSPort>) {
        guard let session = unsafe SSL_new(context) else { throw TLSFault(TLSErrors.takeText()) }
        let port = UnsafeMutablePointer<TLSPort>.allocate(capacity: 1)
        unsafe port.initialize(to: contents)
        guard let bio = unsafe TLSPort.bio(port) else {
            unsafe close(session, port)
            throw TLSFault(TLSErrors.takeText())
        }
        unsafe SSL_set_bio(session, bio, bio)
        return unsafe (session, port)
    }

    private static func close(_ session: OpaquePointer, _ port: UnsafeMutablePointer<TLSPort>) {
        unsafe SSL_free(session)
        unsafe port.deinitialize(count: 1)
        unsafe port.deallocate()
    }

    /// The connection is idle: sends tickets that are held, and frees OpenSSL's buffers, some 33 KiB, unless they hold bytes. They are kept
    /// between records to save allocations.
    package mutating func rest() {
        heldTickets = 0
        smallBytes = Self.firstFlight
        _ = unsafe port.pointee.flush()
        _ = unsafe SSL_free_buffers(session)
    }

    /// Bytes or an end that epoll does not report: call `receive` before waiting.
    package var hasPending: Bool { hasMore || end != nil }
    /// Bytes wait for the socket to become writable.
    package var wantsWrite: Bool { unsafe !port.pointee.output.isEmpty && !holdsTickets }

    /// Maps a failed OpenSSL result.
    mutating func outcome(of result: Int32) -> IOOutcome {
        switch unsafe SSL_get_error(session, result) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return .wouldBlock
        case SSL_ERROR_ZERO_RETURN: return .closed
        // Other failures have their reason in OpenSSL's error queue or in the port.
        default: break
        }
        let code = TLSErrors.take()
        if unsafe port.pointee.failure != 0 { return unsafe .failed(port.pointee.failure) }
        // End of stream without a close-notify: it may be truncated.
        if unsafe port.pointee.hasEnded { return .failed(ECONNRESET) }
        fault = code
        return .failed(EPROTO)
    }
}

extension TLSSession {
    /// Appends available bytes to `buffer`, at most `limit`, with one system call unless more than a record is available.
    ///
    /// `.closed` is the peer's close-notify. An end of stream without it is `.failed(ECONNRESET)`, invalid TLS is
    /// `.failed(EPROTO)`. The end repeats.
    package mutating func receive(
        into buffer: inout ByteBuffer, upTo limit: Int
    ) -> IOOutcome {
        _ = flush()
        if let end { return end }
        unsafe port.pointee.isDrained = false
        var count = 0
        while count < limit {
            let result = read(into: &buffer, upTo: limit - count)
            guard result > 0 else { return stop(result, after: count) }
            count += Int(result)
            hasMore = holdsBytes
            if !hasMore { break }
        }
        return .done(count)
    }

    /// Whether bytes are buffered in OpenSSL or before it, even part of a record.
    var holdsBytes: Bool { unsafe SSL_has_pending(session) == 1 || !port.pointee.received.isEmpty }

    private func read(into buffer: inout ByteBuffer, upTo limit: Int) -> Int32 {
        TLSErrors.clear()
        var result: Int32 = 0
        unsafe buffer.withUnsafeRoom(limit) { room in
            result = unsafe SSL_read(session, room.baseAddress, Int32(clamping: limit))
            return Int(max(0, result))
        }
        return result
    }

    private mutating func stop(_ result: Int32, after count: Int) -> IOOutcome {
        hasMore = false
        let outcome = outcome(of: result)
        // Key updates and alerts are answered.
        _ = flush()
        if outcome != .wouldBlock { end = outcome }
        return count > 0 ? .done(count) : outcome
    }
}

// Session tickets.
extension TLSSession {
    /// Leaves the session tickets that the handshake wrote to go out with the first bytes that are sent, in one system call and one
    /// segment: a client has no use for them before its next connection. `rest` sends them from a connection that stays silent.
    mutating func holdTickets() { heldTickets = unsafe port.pointee.output.count }

    /// Whether tickets wait and nothing else does.
    private var holdsTickets: Bool { unsafe heldTickets > 0 && port.pointee.output.count == heldTickets }

    /// Sends the port's output, unless it is tickets that are held; true if nothing waits for the socket.
    mutating func flush() -> Bool {
        if holdsTickets { return true }
        heldTickets = 0
        return unsafe port.pointee.flush()
    }
}

extension TLSSession {
    /// Sends up to 64 KiB of `bytes`. `.done(n)`: the kernel has all ciphertext of the first n bytes. After `.wouldBlock`
    /// offer the same bytes again; they may have moved, and more may follow them.
    package mutating func send(_ bytes: RawSpan) -> IOOutcome {
        guard flush() else { return unsent() }
        if owed > 0 || bytes.isEmpty { return settle(bytes.byteCount) }
        let sealed = bytes.extracting(first: Self.sendLimit)
        // Several records leave with one system call.
        unsafe port.pointee.collectsOutput = sealed.byteCount > recordSize || holdsTickets
        heldTickets = 0
        let isSealed = seal(sealed)
        unsafe port.pointee.collectsOutput = false
        guard isSealed else { return .failed(unsafe port.pointee.failure == 0 ? EPROTO : port.pointee.failure) }
        owed = sealed.byteCount
        return unsafe port.pointee.flush() ? settle(bytes.byteCount) : unsent()
    }

    /// The most plaintext in a record (RFC 8446 §5.1).
    private static var recordLimit: Int { 16384 }
    /// Bytes that are sent at the start and after an idle time before records grow to their full size. With their overhead they fit a
    /// first congestion window of 10 segments (RFC 6928), so that the client decrypts a record without waiting for a second window.
    private static var firstFlight: Int { 12_288 }
    private var recordSize: Int { smallBytes > 0 ? smallBytes : Self.recordLimit }
    /// Bytes encrypted at a time.
    private static var sendLimit: Int { 4 * recordLimit }

    /// All ciphertext was sent: reports the bytes it stands for.
    private mutating func settle(_ total: Int) -> IOOutcome {
        defer { owed = 0 }
        return .done(min(owed, total))
    }

    private func unsent() -> IOOutcome {
        unsafe port.pointee.failure == 0 ? .wouldBlock : .failed(port.pointee.failure)
    }

    /// Encrypts all of `bytes` into the port.
    private mutating func seal(_ bytes: RawSpan) -> Bool {
        var done = 0
        while done < bytes.byteCount {
            TLSErrors.clear()
            let record = bytes.dropping(done).extracting(first: recordSize)
            let result = unsafe record.withUnsafeBytes {
                unsafe SSL_write(session, $0.baseAddress, Int32(clamping: $0.count))
            }
            guard result > 0 else {
                _ = outcome(of: result)
                return false
            }
            done += Int(result)
            smallBytes = max(0, smallBytes - Int(result))
        }
        return true
    }

    /// Sends a close-notify. If it cannot leave at once, `wantsWrite` is true.
    package mutating func closeNotify() {
        guard isEstablished, fault == 0 else { return }
        TLSErrors.clear()
        _ = unsafe SSL_shutdown(session)
        TLSErrors.clear()
        // Sends the replies to key updates and alerts.
        _ = flush()
    }
}
