import Foundation
import Glibc
import Synchronization

/// A listening socket on a port of the loopback that the system chose.
final class Listener: Sendable {
    let port: Int
    let descriptor: Int32

    init() throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = descriptor
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && listen(descriptor, 64) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        port = Int(UInt16(bigEndian: address.sin_port))
        guard isBound else { throw POSIXError(.EADDRINUSE) }
    }

    deinit { close(descriptor) }
}

/// A server that accepts connections and never responds, but for a greeting of the first one.
final class SilentServer: Sendable {
    private let listener = Result { try Listener() }
    let port: Int

    init(greeting: String? = nil) throws {
        port = try listener.get().port
        guard let greeting else { return }
        let descriptor = try listener.get().descriptor
        Thread.detachNewThread {
            let connection = accept(descriptor, nil, nil)
            // Open until the client leaves.
            var room = [UInt8](repeating: 0, count: 1_024)
            guard send(connection, greeting, greeting.utf8.count, Int32(MSG_NOSIGNAL)) > 0 else { return }
            while recv(connection, &room, room.count, 0) > 0 {}
            close(connection)
        }
    }

    /// The commands of all clients that have disconnected.
    func heard() throws -> [String] {
        let descriptor = try listener.get().descriptor
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        var said: [String] = []
        while true {
            let connection = accept(descriptor, nil, nil)
            guard connection >= 0 else { return said }
            defer { close(connection) }
            var room = [UInt8](repeating: 0, count: 1_024)
            let count = recv(connection, &room, room.count, 0)
            if count > 0 { said.append(String(decoding: room[..<count], as: UTF8.self)) }
        }
    }
}

/// A webhook that answers its requests with these statuses in turn.
final class WebhookStub: Sendable {
    struct Request: Sendable {
        let head: String
        let body: Data
    }

    private let listener: Listener
    private let received = Mutex<[Request]>([])

    init(_ statuses: [Int]) throws {
        listener = try Listener()
        let descriptor = listener.descriptor
        Thread.detachNewThread { [weak self] in
            for status in statuses {
                let connection = accept(descriptor, nil, nil)
                guard connection >= 0 else { return }
                if let request = Self.read(connection) { self?.received.withLock { $0.append(request) } }
                let answer = Array("HTTP/1.1 \(status) X\r\nLocation: /elsewhere\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8)
                _ = send(connection, answer, answer.count, Int32(MSG_NOSIGNAL))
                close(connection)
            }
        }
    }

    var url: String { "http://127.0.0.1:\(listener.port)/sms?key=k" }
    var requests: [Request] { received.withLock { $0 } }

    private static func read(_ connection: Int32) -> Request? {
        var bytes = Data()
        var room = [UInt8](repeating: 0, count: 8_192)
        while true {
            if let end = bytes.firstRange(of: Data("\r\n\r\n".utf8)) {
                let head = String(decoding: bytes[..<end.upperBound], as: UTF8.self)
                let length = head.firstMatch(of: /Content-Length: (\d+)/).flatMap { Int($0.1) } ?? 0
                if bytes.count >= end.upperBound + length { return Request(head: head, body: Data(bytes[end.upperBound...])) }
            }
            let count = recv(connection, &room, room.count, 0)
            guard count > 0 else { return nil }
            bytes += room[..<count]
        }
    }
}
