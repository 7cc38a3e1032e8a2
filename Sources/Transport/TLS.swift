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

/// One TLS connection over a non-blocking socket that it does not own. The same results as a `Socket`, but
/// `.wouldBlock` of a receive can mean "wait for writing" and the reverse: see `wantsWrite`.
package struct TLSSession: ~Copyable {
    package init?(_ context: TLSServerContext, _ socket: Socket) { return nil }
    package init?(_ context: TLSClientContext, _ socket: Socket, serverName: String) { return nil }
    package mutating func handshake() -> TLSOutcome { .closed }
    package mutating func receive(into buffer: inout ByteBuffer, upTo limit: Int) -> IOOutcome { .closed }
    /// After `.wouldBlock` or a short count, offer the same bytes again (they may have moved, more may follow).
    package mutating func send(_ bytes: RawSpan) -> IOOutcome { .closed }
    package mutating func send(_ first: RawSpan, _ second: RawSpan) -> IOOutcome { .closed }
    /// Received bytes that epoll will not announce again: call `receive` before waiting.
    package var hasPending: Bool { false }
    /// Sends the close-notify alert; once, without waiting.
    package mutating func closeNotify() {}
    /// `TLSv1.3`.
    package var version: StaticString { "" }
    package var alpn: String? { nil }
    package var wasResumed: Bool { false }
}
