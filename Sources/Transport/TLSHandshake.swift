import COpenSSL
import Glibc

extension TLSSession {
    /// Continues the handshake as far as possible. Call it again when the socket is ready, until `.done`; then check
    /// `hasPending`.
    package mutating func handshake() -> TLSOutcome {
        guard flush() else { return waitToWrite() }
        if isEstablished { return .done }
        unsafe port.pointee.isDrained = false
        TLSErrors.clear()
        let result = unsafe SSL_do_handshake(session)
        if result == 1, unsafe port.pointee.server != nil, unsafe SSL_version(session) == TLS1_3_VERSION {
            establish()
            holdTickets()
            return .done
        }
        let isWaiting = unsafe SSL_get_error(session, result) == SSL_ERROR_WANT_READ
        // A flight leaves with one send; alerts too.
        let isFlushed = unsafe port.pointee.flush()
        if result == 1 { establish() }
        if isFlushed { return isEstablished ? .done : unfinished(result) }
        return isEstablished || isWaiting ? waitToWrite() : unfinished(result)
    }

    private mutating func establish() {
        isEstablished = true
        unsafe port.pointee.server = nil
        unsafe port.pointee.collectsOutput = false
        hasMore = holdsBytes
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
}

// Negotiated parameters.
extension TLSSession {
    /// `TLSv1.3` or `TLSv1.2`; during the handshake the highest offered.
    package var version: StaticString {
        unsafe SSL_version(session) == TLS1_2_VERSION ? "TLSv1.2" : "TLSv1.3"
    }

    /// The negotiated application protocol, if any.
    package var alpn: String? {
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        unsafe SSL_get0_alpn_selected(session, &name, &count)
        guard let name = unsafe name, count > 0 else { return nil }
        return unsafe String(decoding: UnsafeBufferPointer(start: name, count: Int(count)), as: UTF8.self)
    }

    /// Whether the handshake was the response to a challenge (RFC 8737).
    package var isChallenge: Bool { unsafe tls_is_challenge(session) == 1 }

    /// Whether the handshake resumed a session.
    package var wasResumed: Bool { unsafe SSL_session_reused(session) == 1 }

    /// Why the session failed, for the log.
    package var faultText: String? {
        guard fault != 0 else { return nil }
        let verified = unsafe SSL_get_verify_result(session)
        guard verified != X509_V_OK, let reason = unsafe X509_verify_cert_error_string(verified) else {
            return TLSErrors.text(fault)
        }
        return unsafe "the certificate is refused: \(String(cString: reason))"
    }
}
