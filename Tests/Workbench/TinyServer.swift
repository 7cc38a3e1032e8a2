import Glibc
import Synchronization
import System
import Threads
import Transport
import Wire

/// An HTTP server of one thread that answers each connection with what it was told for the path, and closes.
package final class TinyServer: Sendable {
    /// The port of 127.0.0.1 where it listens.
    package let port: UInt16
    private let listener: Int32
    private let answers: Mutex<[String: [UInt8]]>
    private let hits = Mutex<[String]>([])
    private let thread: WorkerThread

    /// `answers`: whole responses by path. A path without one is answered 404.
    package init(_ answers: [String: [UInt8]]) throws {
        let (listener, port) = try Self.listen()
        self.listener = listener
        self.port = port
        self.answers = Mutex(answers)
        let box = Box()
        thread = try WorkerThread(name: "tiny") {
            while true {
                let connection = accept(listener, nil, nil)
                if connection < 0 { return }
                box.server.withLock { $0 }?.serve(connection)
                close(connection)
            }
        }
        box.server.withLock { $0 = self }
    }

    /// The URL of a path.
    package func url(_ path: String) -> String { "http://127.0.0.1:\(port)\(path)" }
    /// Changes the answer to a path.
    package func set(_ path: String, _ answer: [UInt8]) { answers.withLock { $0[path] = answer } }
    /// How often a path was asked for.
    package func count(_ path: String) -> Int { hits.withLock { $0.count { $0 == path } } }

    /// Closes the listening socket.
    package func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        thread.join()
        close(listener)
    }

    /// A response with this body.
    package static func answer(_ body: [UInt8], status: String = "200 OK", fields: String = "") -> [UInt8] {
        Array("HTTP/1.1 \(status)\r\nContent-Length: \(body.count)\r\n\(fields)Connection: close\r\n\r\n".utf8) + body
    }

    private func serve(_ connection: Int32) {
        var bytes = [UInt8](repeating: 0, count: 8192)
        var head = ""
        while !head.contains("\r\n\r\n") {
            let count = read(connection, &bytes, bytes.count)
            guard count > 0 else { return }
            head += String(decoding: bytes.prefix(count), as: UTF8.self)
        }
        let path = String(head.split(separator: " ").dropFirst().first ?? "")
        hits.withLock { $0.append(path) }
        let answer = answers.withLock { $0[path] } ?? Self.answer([], status: "404 Not Found")
        var rest = answer[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    private final class Box: Sendable {
        let server = Mutex<TinyServer?>(nil)
    }

    private static func listen() throws -> (Int32, UInt16) {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && Glibc.listen(listener, 16) == 0 && getsockname(listener, $0, &length) == 0
            }
        }
        guard isBound else { throw SystemFault("listen") }
        return (listener, UInt16(bigEndian: address.sin_port))
    }
}

/// Whether `condition` holds within a minute.
package func eventually(_ condition: () -> Bool) -> Bool {
    let deadline = EventLoop.now().monotonic.advanced(milliseconds: 60_000)
    while EventLoop.now().monotonic < deadline {
        if condition() { return true }
        _ = poll(nil, 0, 5)
    }
    return condition()
}
