package import Wire

package struct TLSFault: Error, Equatable, Sendable, CustomStringConvertible {
    package let description: String
}

package struct TLSCertificatePair: Sendable {
    package let certificate: String
    package let key: String
    package init(certificate: String, key: String) { self.certificate = certificate; self.key = key }
}

/// What a server offers; made once, shared by all threads.
package final class TLSServerContext: Sendable {
    /// Sentences about what works but should not stay, such as an expired certificate.
    package let warnings: [String] = []
    /// The first pair answers where no other's names fit.
    package init(pairs: [TLSCertificatePair], protocols: [String] = ["http/1.1"], now: WallTime) throws(TLSFault) {
        throw TLSFault(description: "")
    }
}

package final class TLSClientContext: Sendable {
    /// Verifies by the system's roots, or only by those in the file.
    package init(authorityFile: String? = nil, protocols: [String] = ["http/1.1"]) throws(TLSFault) {
        throw TLSFault(description: "")
    }
}

package enum TLSOutcome: Equatable, Sendable {
    case done
    case wantRead
    case wantWrite
    /// The peer went away.
    case closed
    /// For the log.
    case failed(String)
}

/// What the TLS sessions of one thread share: buffers for ciphertext on its way. One per worker, handed to each call.
package struct TLSWorkspace: ~Copyable {
    package init() {}
}

/// One TLS connection over a non-blocking socket that it does not own; the same outcomes as a `Socket`.
///
/// After `.done` and `.wouldBlock` look at `hasPending` (call `receive` before waiting) and `wantsWrite` (watch for
/// writing too: protocol bytes wait to be sent, the next call of any kind sends them).
package struct TLSSession: ~Copyable {
    package init(_ context: TLSServerContext, _ socket: Socket) throws(TLSFault) { throw TLSFault(description: "") }
    /// `serverName` is the host that the certificate must be for, a name or an address.
    package init(_ context: TLSClientContext, _ socket: Socket, serverName: String) throws(TLSFault) { throw TLSFault(description: "") }
    package mutating func handshake(using workspace: inout TLSWorkspace) -> TLSOutcome { .closed }
    /// `.closed` is the peer's close-notify; an end of stream without it is `.failed(ECONNRESET)`, bytes that are not
    /// TLS `.failed(EPROTO)`.
    package mutating func receive(into buffer: inout ByteBuffer, upTo limit: Int, using workspace: inout TLSWorkspace) -> IOOutcome { .closed }
    /// `.done(n)`: the system has taken all ciphertext of the first n bytes. After `.wouldBlock` offer the same bytes
    /// again (they may have moved, more may follow).
    package mutating func send(_ bytes: RawSpan, using workspace: inout TLSWorkspace) -> IOOutcome { .closed }
    package mutating func send(_ first: RawSpan, _ second: RawSpan, using workspace: inout TLSWorkspace) -> IOOutcome { .closed }
    /// Received bytes that epoll will not announce again: call `receive` before waiting.
    package var hasPending: Bool { false }
    /// Protocol bytes wait for the socket to become writable.
    package var wantsWrite: Bool { false }
    /// Sends the close-notify alert, if it can go at once.
    package mutating func closeNotify(using workspace: inout TLSWorkspace) {}
    /// `TLSv1.3`.
    package var version: StaticString { "" }
    package var alpn: String? { nil }
    package var wasResumed: Bool { false }
    /// For the log, after `.failed`.
    package var faultText: String? { nil }
}
