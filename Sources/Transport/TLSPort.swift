import CLinux
import COpenSSL
import Glibc
import Wire

/// OpenSSL's I/O over one socket (a BIO): receives everything available with one call, collects output to send it with one
/// call, and does not write to a socket that would block.
@safe
struct TLSPort: ~Copyable {
    let socket: Socket
    /// For the handshake's callbacks, nil after it and on the client side.
    var server: TLSServerContext?
    /// Whether the client asks for the response to a challenge.
    var wantsChallenge = false
    /// Bytes read before the session began, not yet taken by OpenSSL.
    private(set) var received = ByteBuffer()
    /// Encrypted bytes not yet sent.
    var output = ByteBuffer()
    /// Whether output is collected until `flush`.
    var collectsOutput = true
    /// Whether the last receive returned less than it had room for: another would return nothing.
    var isDrained = false
    /// The peer ended the stream.
    var hasEnded = false
    /// The errno that ended the connection, otherwise 0.
    var failure: Int32 = 0

    init(socket: Socket, server: TLSServerContext? = nil, received: RawSpan = RawSpan()) {
        self.socket = socket
        self.server = server
        self.received.append(received)
    }

    /// Sends collected output; true if none is left.
    mutating func flush() -> Bool {
        guard !output.isEmpty else { return true }
        switch socket.send(output.readable) {
        case .done(let count): output.discard(count)
        case .wouldBlock, .closed: break
        case .failed(let number): failure = number
        }
        guard output.isEmpty else { return false }
        output = ByteBuffer()
        return true
    }

    /// OpenSSL's read: bytes written to `room`; 0 with the reason in the properties.
    mutating func read(_ room: UnsafeMutableRawBufferPointer) -> Int {
        if !received.isEmpty { return unsafe takeReceived(room) }
        if isDrained || hasEnded || failure != 0 { return 0 }
        let count = unsafe clinux_receive(socket.descriptor, room.baseAddress, room.count)
        note(count, of: room.count)
        return max(0, count)
    }

    /// OpenSSL's write, which always takes everything; false if the connection failed.
    mutating func write(_ bytes: RawSpan) -> Bool {
        var sent = 0
        if !collectsOutput, output.isEmpty {
            switch socket.send(bytes) {
            case .done(let count): sent = count
            case .wouldBlock, .closed: break
            case .failed(let number): failure = number
            }
        }
        if sent < bytes.byteCount { output.append(bytes.dropping(sent)) }
        return failure == 0
    }

    private mutating func takeReceived(_ room: UnsafeMutableRawBufferPointer) -> Int {
        let count = min(room.count, received.count)
        unsafe received.readable.extracting(first: count).withUnsafeBytes { unsafe room.copyMemory(from: $0) }
        received.discard(count)
        if received.isEmpty { received = ByteBuffer() }
        return count
    }

    private mutating func note(_ count: Int, of room: Int) {
        if count > 0 {
            isDrained = count < room
        } else if count == 0 {
            hasEnded = true
        } else if errno == EAGAIN || errno == EINTR {
            isDrained = true
        } else {
            failure = errno
        }
    }
}

extension TLSPort {
    /// A BIO over `port`, which must outlive it.
    static func bio(_ port: UnsafeMutablePointer<TLSPort>) -> OpaquePointer? {
        guard let bio = unsafe BIO_new(method) else { return nil }
        unsafe BIO_set_data(bio, port)
        unsafe BIO_set_init(bio, 1)
        return unsafe bio
    }

    /// The server context of a session during its handshake.
    static func server(of session: OpaquePointer) -> TLSServerContext? { unsafe port(SSL_get_rbio(session))?.pointee.server }

    /// The client's hello has come.
    static func readHello(of session: OpaquePointer) {
        guard unsafe tls_offers_only_challenge(session) == 1 else { return }
        unsafe port(SSL_get_rbio(session))?.pointee.wantsChallenge = true
    }

    /// Whether the client of a session asks for the response to a challenge.
    static func wantsChallenge(of session: OpaquePointer) -> Bool {
        unsafe port(SSL_get_rbio(session))?.pointee.wantsChallenge ?? false
    }

    /// Immutable once made; OpenSSL only reads it.
    private nonisolated(unsafe) static let method: OpaquePointer? = {
        guard let method = unsafe BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tollgate") else {
            return nil
        }
        unsafe BIO_meth_set_read(method) { unsafe TLSPort.read($0, $1, $2) }
        unsafe BIO_meth_set_write(method) { unsafe TLSPort.write($0, $1, $2) }
        unsafe BIO_meth_set_ctrl(method) { bio, command, _, _ in unsafe TLSPort.control(bio, command) }
        return unsafe method
    }()

    private static func port(_ bio: OpaquePointer?) -> UnsafeMutablePointer<TLSPort>? {
        unsafe BIO_get_data(bio)?.assumingMemoryBound(to: TLSPort.self)
    }

    private static func read(_ bio: OpaquePointer?, _ room: UnsafeMutablePointer<CChar>?, _ count: Int32) -> Int32 {
        guard let port = unsafe port(bio), let room = unsafe room, count > 0 else { return -1 }
        unsafe BIO_clear_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_WRITE | BIO_FLAGS_SHOULD_RETRY)
        let got = unsafe port.pointee.read(UnsafeMutableRawBufferPointer(start: room, count: Int(count)))
        if got > 0 { return Int32(got) }
        if unsafe port.pointee.hasEnded { return 0 }
        if unsafe port.pointee.failure == 0 { unsafe BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY) }
        return -1
    }

    private static func write(_ bio: OpaquePointer?, _ bytes: UnsafePointer<CChar>?, _ count: Int32) -> Int32 {
        guard let port = unsafe port(bio), let bytes = unsafe bytes, count > 0 else { return -1 }
        unsafe BIO_clear_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_WRITE | BIO_FLAGS_SHOULD_RETRY)
        let span = unsafe RawSpan(_unsafeStart: bytes, byteCount: Int(count))
        return unsafe port.pointee.write(span) ? count : -1
    }

    private static func control(_ bio: OpaquePointer?, _ command: Int32) -> Int {
        switch command {
        case BIO_CTRL_FLUSH: 1
        case BIO_CTRL_EOF: unsafe port(bio)?.pointee.hasEnded == true ? 1 : 0
        default: 0
        }
    }
}
