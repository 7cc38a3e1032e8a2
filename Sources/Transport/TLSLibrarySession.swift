import COpenSSL
import Glibc
import Wire

/// A TLS connection that OpenSSL carries: every handshake, and after it TLS 1.2 and the client's side.
@safe
struct TLSLibrarySession: ~Copyable {
    private let session: OpaquePointer
    private let port: UnsafeMutablePointer<TLSPort>
    /// Kept until the handshake is over, for the callbacks; nil at a client.
    private var server: TLSServerContext?
    /// OpenSSL's handshake is over; the last of it may wait in the port.
    private(set) var isEstablished = false
    /// How many records the keys of the application data have sealed in the handshake, if that is known.
    private var sealed: UInt64?
    /// Bytes of the caller's that are sealed and wait in the port: the caller still offers them.
    private var owed = 0
    /// An end that came behind bytes, for the next `receive`.
    private var end: IOOutcome?
    private var hasMore = false
    /// OpenSSL's code of the error that ended the session.
    private var fault: UInt = 0

    init(_ context: TLSServerContext, _ socket: Socket) throws(TLSFault) {
        unsafe (session, port) = try unsafe Self.open(context.first, socket)
        server = context
        unsafe SSL_set_accept_state(session)
    }

    init(_ context: TLSClientContext, _ socket: Socket, serverName: String) throws(TLSFault) {
        let (session, port) = try unsafe Self.open(context.context, socket)
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
        _ context: OpaquePointer, _ socket: Socket
    ) throws(TLSFault) -> (OpaquePointer, UnsafeMutablePointer<TLSPort>) {
        guard let session = unsafe SSL_new(context) else { throw TLSFault(TLSErrors.takeText()) }
        let port = UnsafeMutablePointer<TLSPort>.allocate(capacity: 1)
        unsafe port.initialize(to: TLSPort(socket: socket))
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
        unsafe OPENSSL_cleanse(port, MemoryLayout<TLSPort>.size)
        unsafe port.deallocate()
    }

    /// Received bytes, or an end, that epoll will not announce: call `receive` before waiting.
    var hasPending: Bool { hasMore || end != nil }
    /// Bytes wait for the socket to become writable.
    var wantsWrite: Bool { unsafe !port.pointee.output.isEmpty }
}

// MARK: Handshake

extension TLSLibrarySession {
    mutating func handshake() -> TLSOutcome {
        guard unsafe port.pointee.flush() else { return waitToWrite() }
        if isEstablished { return .done }
        unsafe port.pointee.isDrained = false
        ERR_clear_error()
        let result = unsafe SSL_do_handshake(session)
        if result == 1 { establish() }
        // An alert goes out as well.
        let isFlushed = unsafe port.pointee.flush()
        if result == 1 { return isFlushed ? .done : waitToWrite() }
        let isWaiting = unsafe SSL_get_error(session, result) == SSL_ERROR_WANT_READ
        return isWaiting && !isFlushed ? waitToWrite() : unfinished(result)
    }

    private mutating func establish() {
        isEstablished = true
        server = nil
        // A server's last step seals nothing but session tickets.
        sealed = unsafe TLSRecord.countProtected(port.pointee.output.readable)
        unsafe port.pointee.stagesInput = false
        unsafe port.pointee.collectsOutput = false
        hasMore = unsafe !port.pointee.input.isEmpty
        // From here on one call receives a whole record.
        unsafe tls_set_read_ahead(session, 1)
    }

    /// What goes on without OpenSSL's session; nil where that has to stay: in TLS 1.2, at a client, with a limit on
    /// records that was agreed on, or with bytes of the connection inside OpenSSL.
    mutating func takeOver() -> TLSRecordSession? {
        guard isEstablished, let sealed, let suite = unsafe SSL_get_current_cipher(session).flatMap({ unsafe TLSSuite(rawValue: SSL_CIPHER_get_protocol_id($0)) }),
            unsafe port.pointee.clientSecret.count == suite.secretLength,
            unsafe port.pointee.serverSecret.count == suite.secretLength,
            unsafe SSL_version(session) == TLS1_3_VERSION, unsafe SSL_has_pending(session) == 0,
            unsafe SSL_SESSION_get_max_fragment_length(SSL_get_session(session)) == 0
        else { return nil }
        return unsafe TLSRecordSession(
            port.pointee.socket, reading: TLSTrafficKeys(suite, port.pointee.clientSecret),
            writing: TLSTrafficKeys(suite, port.pointee.serverSecret, sequence: sealed),
            incoming: exchange(&port.pointee.input, with: ByteBuffer()),
            outgoing: exchange(&port.pointee.output, with: ByteBuffer()), alpn: alpn, wasResumed: wasResumed)
    }

    private func waitToWrite() -> TLSOutcome {
        unsafe port.pointee.failure == 0 ? .wantWrite : .closed
    }

    private mutating func unfinished(_ result: Int32) -> TLSOutcome {
        switch outcome(of: result) {
        case .wouldBlock: .wantRead
        case .done, .closed: .closed
        case .failed(let number): number == EPROTO ? .failed(faultText ?? "") : .closed
        }
    }

    /// What a result of OpenSSL's that is no success means.
    private mutating func outcome(of result: Int32) -> IOOutcome {
        switch unsafe SSL_get_error(session, result) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return .wouldBlock
        case SSL_ERROR_ZERO_RETURN: return .closed
        default: break
        }
        let code = TLSErrors.take()
        if unsafe port.pointee.failure != 0 { return unsafe .failed(port.pointee.failure) }
        // The end of the stream without a close-notify: it may have been cut.
        if unsafe port.pointee.hasEnded { return .failed(ECONNRESET) }
        fault = code
        return .failed(EPROTO)
    }
}

// MARK: Receiving

extension TLSLibrarySession {
    mutating func receive(into buffer: inout ByteBuffer, upTo limit: Int) -> IOOutcome {
        _ = unsafe port.pointee.flush()
        if let end { return end }
        unsafe port.pointee.isDrained = false
        var count = 0
        while count < limit {
            let result = read(into: &buffer, upTo: limit - count)
            guard result > 0 else { return stop(result, after: count) }
            count += Int(result)
            hasMore = unsafe SSL_has_pending(session) == 1 || !port.pointee.input.isEmpty
            if !hasMore { break }
        }
        return .done(count)
    }

    private func read(into buffer: inout ByteBuffer, upTo limit: Int) -> Int32 {
        ERR_clear_error()
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
        _ = unsafe port.pointee.flush()
        if outcome != .wouldBlock { end = outcome }
        return count > 0 ? .done(count) : outcome
    }
}

// MARK: Sending

extension TLSLibrarySession {
    mutating func send(_ first: RawSpan, _ second: RawSpan, using workspace: inout TLSWorkspace) -> IOOutcome {
        let total = first.byteCount + second.byteCount
        guard unsafe port.pointee.flush() else { return unsent() }
        if owed > 0 || total == 0 { return settle(total) }
        let wrote: Bool
        if total <= TLSRecord.contentLimit {
            wrote = writeRecord(first, second, &workspace)
        } else {
            unsafe port.pointee.collectsOutput = true
            let head = first.extracting(first: Self.sendLimit)
            wrote = write(head) && write(second.extracting(first: Self.sendLimit - head.byteCount))
            unsafe port.pointee.collectsOutput = false
        }
        guard wrote else { return .failed(unsafe port.pointee.failure == 0 ? EPROTO : port.pointee.failure) }
        owed = min(total, Self.sendLimit)
        return unsafe port.pointee.flush() ? settle(total) : unsent()
    }

    /// So many bytes are sealed at a time.
    private static var sendLimit: Int { 4 * TLSRecord.contentLimit }

    /// All that was sealed is gone: the bytes it stood for are the caller's no more.
    private mutating func settle(_ total: Int) -> IOOutcome {
        defer { owed = 0 }
        return .done(min(owed, total))
    }

    private func unsent() -> IOOutcome {
        unsafe port.pointee.failure == 0 ? .wouldBlock : .failed(port.pointee.failure)
    }

    private mutating func writeRecord(_ first: RawSpan, _ second: RawSpan, _ workspace: inout TLSWorkspace) -> Bool {
        if second.isEmpty { return write(first) }
        workspace.plain.removeAll()
        workspace.plain.append(first)
        workspace.plain.append(second)
        return write(workspace.plain.readable)
    }

    /// Seals all of it into the port, which always takes it.
    private mutating func write(_ bytes: RawSpan) -> Bool {
        var done = 0
        while done < bytes.byteCount {
            ERR_clear_error()
            let result = unsafe bytes.dropping(done).withUnsafeBytes {
                unsafe SSL_write(session, $0.baseAddress, Int32(clamping: $0.count))
            }
            guard result > 0 else {
                _ = outcome(of: result)
                return false
            }
            done += Int(result)
        }
        return true
    }

    mutating func closeNotify() {
        guard isEstablished, fault == 0 else { return }
        ERR_clear_error()
        _ = unsafe SSL_shutdown(session)
        ERR_clear_error()
        _ = unsafe port.pointee.flush()
    }
}

// MARK: What was agreed on

extension TLSLibrarySession {
    var version: StaticString {
        unsafe SSL_version(session) == TLS1_2_VERSION ? "TLSv1.2" : "TLSv1.3"
    }

    var alpn: String? {
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        unsafe SSL_get0_alpn_selected(session, &name, &count)
        guard let name = unsafe name, count > 0 else { return nil }
        return unsafe String(decoding: UnsafeBufferPointer(start: name, count: Int(count)), as: UTF8.self)
    }

    var wasResumed: Bool { unsafe SSL_session_reused(session) == 1 }

    var faultText: String? {
        guard fault != 0 else { return nil }
        let verified = unsafe SSL_get_verify_result(session)
        guard verified != X509_V_OK, let reason = unsafe X509_verify_cert_error_string(verified) else {
            return TLSErrors.text(fault)
        }
        return unsafe "the certificate is refused: \(String(cString: reason))"
    }
}
