import Glibc

/// One end of a blocking stream socket. Belongs to the thread that uses it.
final class Connection {
    private(set) var descriptor: Int32
    /// Received and not yet taken.
    private var waiting: [UInt8] = []
    private var taken = 0
    private lazy var room = [UInt8](repeating: 0, count: 65_536)

    init(descriptor: Int32) {
        self.descriptor = descriptor
        var on: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, 4)
        setTimeout(seconds: 40)
    }

    /// Waits at most `patience` seconds for the other side, if given. The client is 127.0.0.`host`.
    convenience init(port: Int, receiveBuffer: Int32? = nil, patience: Int? = nil, host: UInt8 = 1) throws {
        let descriptor = try makeSocket(AF_INET)
        if host != 1 {
            var source = loopback(0, host: host)
            guard withSocketAddress(&source, { bind(descriptor, $0, $1) }) == 0 else { throw Fault("cannot bind 127.0.0.\(host)") }
        }
        if let patience {
            var limit = timeval(tv_sec: patience, tv_usec: 0)
            setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        }
        if var size = receiveBuffer { setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, 4) }
        var address = loopback(port)
        let outcome = withSocketAddress(&address) { connect(descriptor, $0, $1) }
        self.init(descriptor: descriptor)
        guard outcome == 0 else { throw Fault("no connection to port \(port): \(String(cString: strerror(errno)))") }
    }

    convenience init(path: String) throws {
        let descriptor = try makeSocket(AF_UNIX)
        var address = unixAddress(path)
        let outcome = withSocketAddress(&address) { connect(descriptor, $0, $1) }
        self.init(descriptor: descriptor)
        guard outcome == 0 else { throw Fault("no connection to \(path): \(String(cString: strerror(errno)))") }
    }

    deinit { close() }

    func close() {
        if descriptor >= 0 { Glibc.close(descriptor) }
        descriptor = -1
    }

    /// Closes with a reset in place of an orderly end.
    func reset() {
        var off = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &off, socklen_t(MemoryLayout<linger>.size))
        close()
    }

    func finishSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    func setTimeout(seconds: Int) {
        var limit = timeval(tv_sec: seconds, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    }

    // MARK: sending

    func send(_ text: String) throws { try send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress! + sent, $0.count - sent, Int32(MSG_NOSIGNAL))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw Fault("cannot send: \(String(cString: strerror(errno)))") }
            sent += count
        }
    }

    // MARK: receiving

    /// Why no more bytes come.
    enum End: Equatable { case orderly, reset, silence }

    /// Receives once; nil if something came.
    func receive() -> End? {
        if taken == waiting.count {
            waiting.removeAll(keepingCapacity: true)
            taken = 0
        }
        while true {
            let count = room.withUnsafeMutableBytes { recv(descriptor, $0.baseAddress!, $0.count, 0) }
            if count < 0, errno == EINTR { continue }
            if count > 0 {
                waiting += room[..<count]
                return nil
            }
            if count == 0 { return .orderly }
            return errno == EAGAIN ? .silence : .reset
        }
    }

    private var available: Int { waiting.count - taken }

    private func more(_ what: String) throws {
        guard let end = receive() else { return }
        throw Fault("\(end) while waiting for \(what); there is \(text(of: Array(waiting[taken...].prefix(2_000))))")
    }

    /// Whatever comes next, at least a byte.
    func takeSome() throws -> [UInt8] {
        while available == 0 { try more("anything") }
        defer { taken = waiting.count }
        return Array(waiting[taken...])
    }

    /// Exactly so many bytes.
    func take(_ count: Int) throws -> [UInt8] {
        while available < count { try more("\(count) bytes") }
        defer { taken += count }
        return Array(waiting[taken..<taken + count])
    }

    /// All up to the end of `mark`.
    func take(through mark: String) throws -> [UInt8] {
        let mark = Array(mark.utf8)
        while true {
            if let end = position(after: mark) { return try take(end) }
            try more(text(of: mark))
        }
    }

    private func position(after mark: [UInt8]) -> Int? {
        waiting.withUnsafeBytes { bytes in
            guard let last = mark.last, available >= mark.count else { return nil }
            var at = taken + mark.count - 1
            while at < bytes.count, let found = memchr(bytes.baseAddress! + at, Int32(last), bytes.count - at) {
                let end = bytes.baseAddress!.distance(to: UnsafeRawPointer(found)) + 1
                if memcmp(bytes.baseAddress! + end - mark.count, mark, mark.count) == 0 { return end - taken }
                at = end
            }
            return nil
        }
    }

    /// All until the peer ends, and how it ended.
    func takeRest() -> (bytes: [UInt8], end: End) {
        while true {
            if let end = receive() { return (Array(waiting[taken...]), end) }
        }
    }

    /// Whether the peer ends in order and sends nothing before.
    func expectEnd() throws {
        let (bytes, end) = takeRest()
        guard bytes.isEmpty, end != .silence else { throw Fault("expected the end: \(end) after \(text(of: bytes))") }
    }

    /// Whether nothing at all has come, without waiting.
    var isQuiet: Bool {
        guard available == 0 else { return false }
        var byte: UInt8 = 0
        return recv(descriptor, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) < 0 && errno == EAGAIN
    }
}

/// Whether both are the same, byte for byte; fast for large ones too.
func isSame(_ left: [UInt8], _ right: [UInt8]) -> Bool { left.count == right.count && memcmp(left, right, left.count) == 0 }

/// Bytes as text for messages and comparisons.
func text(of bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

func makeSocket(_ family: Int32) throws -> Int32 {
    let descriptor = socket(family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw Fault("no socket: \(String(cString: strerror(errno)))") }
    return descriptor
}

func loopback(_ port: Int, host: UInt8 = 1) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = UInt16(port).bigEndian
    address.sin_addr.s_addr = (0x7F00_0000 | UInt32(host)).bigEndian
    return address
}

func unixAddress(_ path: String) -> sockaddr_un {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    return address
}

func withSocketAddress<Address, Result>(
    _ address: inout Address, _ body: (UnsafeMutablePointer<sockaddr>, socklen_t) -> Result
) -> Result {
    withUnsafeMutableBytes(of: &address) {
        body($0.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count))
    }
}
