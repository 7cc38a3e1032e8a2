import Glibc
import Synchronization
import Testing
import Wire

@testable import System
@testable import Transport

struct TestFault: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// How a connection came to its end, as its peer saw it.
enum LineEnd: Equatable { case closed, reset }

/// One end of a connection, for tests: blocking, and never longer than thirty seconds. Closing it again does nothing: by then its
/// descriptor may be that of another test's connection.
struct Line {
    let socket: Socket
    private let closing = Closing()

    /// Whether the line has been closed, for all copies of it.
    private final class Closing: Sendable {
        private let hasBegun = Atomic(false)

        /// Whether this is the first time.
        func begins() -> Bool { !hasBegun.exchange(true, ordering: .acquiringAndReleasing) }
    }

    init(_ socket: Socket) { self.socket = socket }

    init(to address: SocketAddress) throws {
        switch Socket.connect(to: address) {
        case .connected(let socket): self.socket = socket
        case .inProgress(let socket):
            self.socket = socket
            try wait(POLLOUT)
        case .failed(let fault): throw fault
        }
    }

    /// With a small room for what comes, so that the peer soon meets backpressure.
    init(to address: SocketAddress, receiveBuffer: Int32) throws {
        let descriptor = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var size = receiveBuffer
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        let outcome = address.withSystemAddress { Glibc.connect(descriptor, $0, $1) }
        guard outcome == 0, fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0 else { throw TestFault("cannot connect") }
        socket = Socket(descriptor: descriptor)
    }

    /// The next connection of a listener.
    init(acceptedFrom listener: Socket) throws {
        try Line(listener).wait(POLLIN)
        guard case .accepted(let socket, _) = listener.accept() else { throw TestFault("nothing to accept") }
        self.socket = socket
    }

    func wait(_ events: Int32, milliseconds: Int32 = 30_000) throws {
        guard isReady(events, milliseconds: milliseconds) else { throw TestFault("nothing happened") }
    }

    func isReady(_ events: Int32 = POLLIN, milliseconds: Int32) -> Bool {
        var entry = pollfd(fd: socket.descriptor, events: Int16(events), revents: 0)
        return poll(&entry, 1, milliseconds) == 1
    }

    /// Waits until the peer's kernel has all that was sent.
    func waitUntilDelivered() throws {
        for _ in 0..<3_000 {
            var left: Int32 = 0
            guard ioctl(socket.descriptor, UInt(TIOCOUTQ), &left) == 0 else { throw TestFault("cannot ask for what is unsent") }
            if left == 0 { return }
            usleep(10_000)
        }
        throw TestFault("not delivered")
    }

    func send(_ text: String) throws { try send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            switch socket.send(bytes.rawBytes.dropping(sent)) {
            case .done(let count): sent += count
            case .wouldBlock: try wait(POLLOUT)
            case .closed, .failed: throw TestFault("cannot send")
            }
        }
    }

    /// Sends what goes without waiting longer than so for the peer to read; answers how much.
    func sendWhatGoes(_ bytes: [UInt8], waiting milliseconds: Int32) -> Int {
        var sent = 0
        while sent < bytes.count, isReady(POLLOUT, milliseconds: milliseconds) {
            guard case .done(let count) = socket.send(bytes.rawBytes.dropping(sent)) else { break }
            sent += count
        }
        return sent
    }

    /// Receives once; nil at the end.
    func receive(_ room: Int = 65_536) throws -> [UInt8]? {
        var buffer = ByteBuffer()
        while true {
            switch socket.receive(into: &buffer, upTo: room) {
            case .done: return buffer.readable.array
            case .wouldBlock: try wait(POLLIN)
            case .closed: return nil
            case .failed(let number): throw TestFault(systemErrorText(number))
            }
        }
    }

    /// Receives until what came ends with `mark`.
    func receive(until mark: String) throws -> String {
        var text = ""
        while !text.hasSuffix(mark) {
            guard let bytes = try receive() else { throw TestFault("ended after \(text.debugDescription)") }
            text += String(decoding: bytes, as: UTF8.self)
        }
        return text
    }

    /// Receives until the end, which is answered too.
    func receiveAll() throws -> (text: String, end: LineEnd) {
        var bytes: [UInt8] = []
        while true {
            do {
                guard let more = try receive() else { return (String(decoding: bytes, as: UTF8.self), .closed) }
                bytes += more
            } catch let fault as TestFault where fault.description != "nothing happened" {
                return (String(decoding: bytes, as: UTF8.self), .reset)
            }
        }
    }

    /// Receives one request or answer whose head says how long its content is.
    func receiveMessage() throws -> String {
        var bytes: [UInt8] = []
        var length: Int?
        while length == nil || bytes.count < length! {
            guard let byte = try receive(1) else {
                throw TestFault("ended after \(String(decoding: bytes, as: UTF8.self).debugDescription)")
            }
            bytes += byte
            if length == nil, bytes.suffix(4).elementsEqual("\r\n\r\n".utf8) {
                length = bytes.count + String(decoding: bytes, as: UTF8.self).contentLength
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Segments with data that have come so far: `tcpi_data_segs_in` of the kernel's `tcp_info`, which the C library's is
    /// too old to have.
    var segmentsReceived: UInt32 {
        get throws {
            var bytes = [UInt8](repeating: 0, count: 256)
            var length = socklen_t(bytes.count)
            guard getsockopt(socket.descriptor, Int32(IPPROTO_TCP), TCP_INFO, &bytes, &length) == 0, length >= 156 else {
                throw TestFault("no tcp_info")
            }
            return bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: 152, as: UInt32.self) }
        }
    }

    func finishSending() { socket.shutdownWrite() }
    func close() { if closing.begins() { socket.close() } }
    func reset() { if closing.begins() { socket.abort() } }
}

extension String {
    /// The value of `Content-Length`, 0 without one.
    var contentLength: Int { value(of: "Content-Length").flatMap { Int($0) } ?? 0 }

    var status: Int { Int(dropFirst(9).prefix(3)) ?? 0 }

    /// The value of the first field called `name` in the head.
    func value(of name: String) -> String? {
        for line in headLines {
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2, parts[0].lowercased() == name.lowercased() {
                return String(parts[1].drop { $0 == " " })
            }
        }
        return nil
    }

    /// The lines of the head.
    var headLines: [Substring] {
        let head = firstRange(of: "\r\n\r\n").map { self[..<$0.lowerBound] } ?? self[...]
        return head.split(separator: "\r\n")
    }

    var body: String { firstRange(of: "\r\n\r\n").map { String(self[$0.upperBound...]) } ?? "" }
}
