import Foundation
import Glibc
import Synchronization

/// A service behind the gateway, in this process: records every request and answers as its script says.
final class Upstream: Sendable {
    typealias Script = @Sendable (Message, Connection) throws -> Void

    let port: Int
    /// Whole requests, in the order of their ends.
    let requests: Watched<[Message]>
    let connections = Watched(0)
    private let listener: Listening

    /// Answers every request by `script`; the connection goes on until either side ends it. `path` is for a unix socket.
    convenience init(port: Int = 0, path: String? = nil, _ script: @escaping Script = Upstream.ok) throws {
        let requests = Watched<[Message]>([])
        try self.init(port: port, path: path, requests: requests) { connection, _ in
            while true {
                let request = try connection.request()
                requests.change { $0.append(request) }
                try script(request, connection)
            }
        }
    }

    /// Each connection, and its number from 0, is handled by `serve`, which reads and answers for itself.
    static func raw(_ serve: @escaping @Sendable (Connection, Int) throws -> Void) throws -> Upstream {
        try Upstream(port: 0, path: nil, requests: Watched([]), serve)
    }

    private init(
        port: Int, path: String?, requests: Watched<[Message]>,
        _ serve: @escaping @Sendable (Connection, Int) throws -> Void
    ) throws {
        listener = try Listening(port: port, path: path)
        self.port = listener.port
        self.requests = requests
        accept(serve)
    }

    /// Ends it before the tests end; until then it serves, whether a test still looks at it or not.
    func stop() { listener.stop() }

    private func accept(_ serve: @escaping @Sendable (Connection, Int) throws -> Void) {
        let (listener, connections) = (listener, connections)
        Thread.detachNewThread {
            var count = 0
            while let descriptor = listener.accept() {
                let number = count
                count += 1
                connections.change { $0 += 1 }
                Thread.detachNewThread {
                    let connection = Connection(descriptor: descriptor)
                    connection.setTimeout(seconds: 60)
                    // The end of a connection is no fault of a test; what a test expects, it waits for.
                    try? serve(connection, number)
                }
            }
        }
    }

    static let ok: Script = { _, connection in
        try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    }

    /// Answers with these bytes.
    static func saying(_ answer: String) -> Script { { _, connection in try connection.send(answer) } }

    var url: String { "http://127.0.0.1:\(port)" }
}

/// A listening socket that can be closed while another thread waits in it.
final class Listening: Sendable {
    let port: Int
    private let descriptor: Int32

    /// Ports that were chosen here. None is chosen twice, so that one whose server is away, or is yet to start, is nobody else's.
    private static let chosen = Mutex<Set<Int>>([])

    /// One below those that the kernel hands out.
    private static func choosePort() -> Int {
        chosen.withLock { ports in
            while true {
                let port = Int.random(in: 10_000..<30_000)
                if ports.insert(port).inserted { return port }
            }
        }
    }

    /// With port 0 one is chosen. A backlog below 0 does not listen at all; its port is the kernel's, which it gives to nobody else.
    init(port: Int = 0, path: String? = nil, backlog: Int32 = 4_096) throws {
        let descriptor = try makeSocket(path == nil ? AF_INET : AF_UNIX)
        var on: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, 4)
        var outcome: Int32 = -1
        var chosen = sockaddr_in()
        if let path {
            var address = unixAddress(path)
            outcome = withSocketAddress(&address) { bind(descriptor, $0, $1) }
        } else {
            let isChosen = port == 0 && backlog >= 0
            // Another process may have the one that is chosen.
            for _ in 0..<(isChosen ? 50 : 1) where outcome != 0 {
                var address = loopback(isChosen ? Self.choosePort() : port)
                outcome = withSocketAddress(&address) { bind(descriptor, $0, $1) }
            }
            var size = socklen_t(MemoryLayout<sockaddr_in>.size)
            _ = withSocketAddress(&chosen) { pointer, _ in getsockname(descriptor, pointer, &size) }
        }
        if outcome == 0, backlog >= 0 { outcome = listen(descriptor, backlog) }
        self.descriptor = descriptor
        self.port = Int(UInt16(bigEndian: chosen.sin_port))
        guard outcome == 0 else { throw Fault("cannot listen: \(String(cString: strerror(errno)))") }
    }

    deinit { Glibc.close(descriptor) }

    private typealias Accept4 = @convention(c) (Int32, UnsafeMutableRawPointer?, UnsafeMutableRawPointer?, Int32) -> Int32
    /// Marks a connection as it takes it: a command that another test starts meanwhile would keep it open. Swift imports `accept` alone.
    private static let accept4 = unsafeBitCast(dlsym(nil, "accept4"), to: Accept4.self)

    func accept() -> Int32? {
        while true {
            let accepted = Self.accept4(descriptor, nil, nil, Int32(SOCK_CLOEXEC.rawValue))
            if accepted >= 0 { return accepted }
            guard errno == EINTR || errno == ECONNABORTED else { return nil }
        }
    }

    /// Ends it for good: nothing is accepted or queued any more.
    func stop() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    /// A port that nobody listens on, and that nobody else gets while this lives.
    static func refusing() throws -> Listening { try Listening(backlog: -1) }
}
