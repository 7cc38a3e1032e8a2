import Foundation
import Glibc

/// A DNS server for tests, over UDP and TCP, whose zone the test changes while it runs. Answers longer than 512 bytes are truncated
/// over UDP, so that clients ask again over TCP. Ends with its owner.
public final class NameServer: Sendable {
    public struct Service: Sendable {
        let priority: UInt16, weight: UInt16, port: UInt16, target: String

        public init(_ target: String, _ port: Int, priority: UInt16 = 0, weight: UInt16 = 0) {
            (self.target, self.port, self.priority, self.weight) = (target, UInt16(port), priority, weight)
        }
    }

    public enum Record: Sendable {
        case service(Service)
        case address(String)
        /// A name server of the name.
        case server(String)
        case text(String)
        /// These bytes in place of the answer section, counted as one record.
        case raw([UInt8])
    }

    /// The records by name, in lower case; a name without an entry does not exist.
    public struct Zone: Sendable {
        public var names: [String: [Record]] = [:]
        /// Answers nothing at all.
        public var isSilent = false
        /// Milliseconds before each byte of an answer over TCP; 0 sends them at once.
        public var pause: UInt32 = 0
        public var questions = 0

        public init() {}
    }

    /// IPv4, in host order.
    public let address: UInt32
    public let port: UInt16
    private let lock = NSLock()
    // Accessed under `lock` alone.
    private nonisolated(unsafe) var state = Zone()
    private let datagrams: Int32
    private let listener: Int32

    /// Binds `port`, by default a free one, at a loopback address.
    public init(address: UInt32 = 0x7F00_0001, port: UInt16 = 0) throws {
        self.address = address
        (datagrams, listener, self.port) = try Self.bindBoth(address, port)
        listen(listener, 16)
        Thread.detachNewThread { [weak self, datagrams] in Self.answerDatagrams(datagrams) { self?.answer($0, limit: 512) } }
        Thread.detachNewThread { [weak self, listener] in
            Self.answerStreams(listener, { self?.pause ?? 0 }) { self?.answer($0, limit: 65_535) }
        }
    }

    deinit {
        shutdown(datagrams, Int32(SHUT_RDWR))
        shutdown(listener, Int32(SHUT_RDWR))
    }

    public struct Fault: Error { public let description: String }

    public func change(_ body: (inout Zone) -> Void) { lock.withLock { body(&state) } }

    public var questions: Int { lock.withLock { state.questions } }

    private var pause: UInt32 { lock.withLock { state.pause } }

    /// A port that is free for UDP may be taken for TCP: then another is tried, unless one is asked for.
    private static func bindBoth(_ address: UInt32, _ port: UInt16) throws -> (Int32, Int32, UInt16) {
        for attempt in 1... {
            let (datagrams, bound) = try bind(SOCK_DGRAM, address, port)
            do {
                return (datagrams, try bind(SOCK_STREAM, address, bound).descriptor, bound)
            } catch {
                close(datagrams)
                if port != 0 || attempt == 50 { throw error }
            }
        }
        fatalError("the loop ends by itself")
    }

    private static func bind(_ type: __socket_type, _ address: UInt32, _ port: UInt16) throws -> (descriptor: Int32, port: UInt16) {
        let descriptor = socket(AF_INET, Int32(type.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var place = sockaddr_in()
        place.sin_family = sa_family_t(AF_INET)
        place.sin_port = port.bigEndian
        place.sin_addr.s_addr = address.bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let outcome = withUnsafeMutablePointer(to: &place) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                Glibc.bind(descriptor, pointer, size) == 0 && getsockname(descriptor, pointer, &size) == 0
            }
        }
        guard outcome else {
            close(descriptor)
            throw Fault(description: "no name server: \(String(cString: strerror(errno)))")
        }
        return (descriptor, UInt16(bigEndian: place.sin_port))
    }

    private static func answerDatagrams(_ descriptor: Int32, _ answer: ([UInt8]) -> [UInt8]?) {
        var room = [UInt8](repeating: 0, count: 4_096)
        while true {
            var peer = sockaddr_storage()
            var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
            let count = withUnsafeMutablePointer(to: &peer) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { recvfrom(descriptor, &room, room.count, 0, $0, &size) }
            }
            guard count > 0 else { break }
            guard let bytes = answer(Array(room.prefix(count))) else { continue }
            _ = withUnsafeMutablePointer(to: &peer) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { sendto(descriptor, bytes, bytes.count, 0, $0, size) }
            }
        }
        close(descriptor)
    }

    private static func answerStreams(_ listener: Int32, _ pause: () -> UInt32, _ answer: ([UInt8]) -> [UInt8]?) {
        var room = [UInt8](repeating: 0, count: 4_096)
        while true {
            let connection = accept(listener, nil, nil)
            guard connection >= 0 else { break }
            // One query each, which comes in one piece.
            let count = recv(connection, &room, room.count, 0)
            if count > 2, let bytes = answer(Array(room[2..<count])) {
                let framed = [UInt8(bytes.count >> 8), UInt8(bytes.count & 255)] + bytes
                let milliseconds = pause()
                for piece in milliseconds == 0 ? [framed] : framed.map({ [$0] }) {
                    usleep(milliseconds * 1_000)
                    guard send(connection, piece, piece.count, Int32(MSG_NOSIGNAL)) > 0 else { break }
                }
            }
            close(connection)
        }
        close(listener)
    }

    /// The response to a query; nil for none.
    private func answer(_ query: [UInt8], limit: Int) -> [UInt8]? {
        let zone = lock.withLock {
            state.questions += 1
            return state
        }
        guard query.count > 16, !zone.isSilent else { return nil }
        var name: [String] = []
        var at = 12
        while at < query.count, query[at] > 0 {
            let end = at + 1 + Int(query[at])
            guard end < query.count else { return nil }
            name.append(String(decoding: query[at + 1..<end], as: UTF8.self).lowercased())
            at = end
        }
        guard at + 5 <= query.count else { return nil }
        let type = UInt16(query[at + 1]) << 8 | UInt16(query[at + 2])
        let question = Array(query[12..<at + 5])
        let found = zone.names[name.joined(separator: ".")]
        let records = (found ?? []).compactMap { Self.write($0, type) }
        let header = { (flags: UInt16, count: Int) in
            Array(query[0..<2]) + Self.word(flags) + Self.word(1) + Self.word(UInt16(count)) + [0, 0, 0, 0] + question
        }
        let whole = header(found == nil ? 0x8583 : 0x8580, records.count) + records.joined()
        return whole.count > limit ? header(0x8780, 0) : whole
    }

    private static func word(_ value: UInt16) -> [UInt8] { [UInt8(value >> 8), UInt8(value & 255)] }

    private static func write(_ name: String) -> [UInt8] {
        name.split(separator: ".").flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) } + [0]
    }

    /// A record of this type, named by a pointer to the question; nil for one of another type.
    private static func write(_ record: Record, _ type: UInt16) -> [UInt8]? {
        var data: [UInt8]
        switch record {
        case .raw(let bytes): return bytes
        case .service(let service):
            guard type == 33 else { return nil }
            data = word(service.priority) + word(service.weight) + word(service.port)
            data += write(service.target)
        case .server(let name):
            guard type == 2 else { return nil }
            data = write(name)
        case .text(let text):
            guard type == 16 else { return nil }
            data = [UInt8(text.utf8.count)] + Array(text.utf8)
        case .address(let text):
            var four = in_addr(), six = in6_addr()
            if type == 1, inet_pton(AF_INET, text, &four) == 1 {
                data = withUnsafeBytes(of: &four) { Array($0) }
            } else if type == 28, inet_pton(AF_INET6, text, &six) == 1 {
                data = withUnsafeBytes(of: &six) { Array($0) }
            } else {
                return nil
            }
        }
        return [0xC0, 12] + word(type) + word(1) + [0, 0, 0, 1] + word(UInt16(data.count)) + data
    }
}
