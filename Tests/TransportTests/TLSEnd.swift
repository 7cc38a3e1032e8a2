import Glibc
import System
import Testing
import Transport
import Wire

/// One end of a TLS connection, driven as a blocking one.
struct TLSEnd: ~Copyable {
    var session: TLSSession
    let socket: Socket

    init(_ context: TLSServerContext, _ socket: Socket) throws {
        session = try TLSSession(context, socket)
        self.socket = socket
    }

    init(_ context: TLSClientContext, _ socket: Socket, _ name: String) throws {
        session = try TLSSession(context, socket, serverName: name)
        self.socket = socket
    }

    init(_ session: consuming TLSSession, _ socket: Socket) {
        self.session = session
        self.socket = socket
    }

    deinit { socket.close() }

    mutating func step() -> TLSOutcome { session.handshake() }

    /// Goes on until the handshake is over one way or the other.
    mutating func handshake() throws -> TLSOutcome {
        while true {
            switch step() {
            case .wantRead: try #require(wait(socket, for: POLLIN))
            case .wantWrite: try #require(wait(socket, for: POLLOUT))
            case let outcome: return outcome
            }
        }
    }

    mutating func receive(_ buffer: inout ByteBuffer, _ limit: Int = 65536) -> IOOutcome {
        session.receive(into: &buffer, upTo: limit)
    }

    /// Reads until `count` bytes are there, up to `chunk` at a time.
    mutating func read(_ count: Int, chunk: Int = 65536) throws -> [UInt8] {
        var buffer = ByteBuffer()
        while buffer.count < count {
            switch receive(&buffer, min(chunk, count - buffer.count)) {
            case .done: continue
            case .wouldBlock:
                try #require(session.hasPending == false)
                try #require(wait(socket, for: POLLIN))
            case .closed: throw TestFault("closed after \(buffer.count) bytes")
            case .failed(let number): throw TestFault("\(systemErrorText(number)): \(session.faultText ?? "")")
            }
        }
        return buffer.readable.array
    }

    /// The end of the stream, after any `.wouldBlock`.
    mutating func end() throws -> IOOutcome {
        var buffer = ByteBuffer()
        while true {
            switch receive(&buffer) {
            case .wouldBlock: try #require(wait(socket, for: POLLIN))
            case .done: continue
            case let outcome: return outcome
            }
        }
    }

    mutating func write(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            switch session.send(bytes.rawBytes.dropping(sent)) {
            case .done(let count): sent += count
            case .wouldBlock: try #require(wait(socket, for: POLLOUT))
            case .closed, .failed: throw TestFault("lost: \(session.faultText ?? "")")
            }
        }
    }
}

/// Both ends of one connection.
struct TLSPairing: ~Copyable {
    var client: TLSEnd
    var server: TLSEnd
    var clientOutcome = TLSOutcome.wantRead
    var serverOutcome = TLSOutcome.wantRead

    private init(client: consuming TLSEnd, server: consuming TLSEnd) {
        self.client = client
        self.server = server
    }

    /// A server for `localhost`, and a client that trusts its authority.
    static func contexts() throws -> (certificates: Certificates, server: TLSServerContext, client: TLSClientContext) {
        let certificates = try Certificates.get()
        return (
            certificates, try TLSServerContext(pairs: [certificates.pair("localhost")], now: later),
            try TLSClientContext(authorityFile: certificates.authority)
        )
    }

    /// Both handshakes end, or one fails and the other waits.
    static func make(
        _ server: TLSServerContext, _ client: TLSClientContext, name: String = "localhost"
    ) throws
        -> TLSPairing
    {
        let ends = try pair()
        var pairing = TLSPairing(client: try TLSEnd(client, ends.client, name), server: try TLSEnd(server, ends.server))
        while pairing.clientOutcome == .wantRead || pairing.serverOutcome == .wantRead {
            if pairing.clientOutcome == .wantRead { pairing.clientOutcome = pairing.client.step() }
            if pairing.serverOutcome == .wantRead { pairing.serverOutcome = pairing.server.step() }
            let hasFailed = [pairing.clientOutcome, pairing.serverOutcome].contains { $0 != .done && $0 != .wantRead }
            if hasFailed { break }
        }
        // The server sends a last alert.
        if pairing.clientOutcome == .wantRead, wait(pairing.client.socket, for: POLLIN) { pairing.clientOutcome = pairing.client.step() }
        return pairing
    }
}

/// When the certificates of `Certificates` are valid, all but the expired one.
let later = EventLoop.now().wall
