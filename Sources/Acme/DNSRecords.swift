internal import Glibc
internal import System
package import Wire

/// Where the TXT records of `dns` challenges are put.
package enum DNSRecords: Hashable, Sendable {
    case server(DNSUpdateServer)
    /// A program that is called with `present` or `cleanup`, the name and the text.
    case program(String)

    /// For a connection, or for an answer, in seconds.
    private static let serverSeconds = 10
    private static let programMilliseconds = 120_000

    /// Adds or removes a record; returns why it could not. `variables` are those of the program. Blocks.
    package func set(
        _ record: (name: String, text: String), adds: Bool, now: WallTime, random: UInt16, variables: [(name: String, value: String)]
    ) -> String? {
        switch self {
        case .server(let server):
            guard let update = DNSUpdate(record, adds: adds, at: server, id: random, now: now) else {
                return "\(record.name), \(server.zone) or \(server.keyName) is no domain name"
            }
            return Self.ask(server, update).map { "the DNS server \(server.host) \($0)" }
        case .program(let path): return Self.run(path, [adds ? "present" : "cleanup", record.name, record.text], variables)
        }
    }

    private static func run(_ path: String, _ arguments: [String], _ variables: [(name: String, value: String)]) -> String? {
        do throws(SystemFault) {
            let child = try ChildProcess(path, arguments: arguments, variables: variables, giving: 2)
            let code = child.exitCode(within: programMilliseconds)
            guard let code else { return "\(path) \(arguments[0]) has not ended within \(programMilliseconds / 1_000) s" }
            return code == 0 ? nil : "\(path) \(arguments[0]) has ended with \(code)"
        } catch {
            return error.description
        }
    }

    // MARK: a server, over TCP

    private static func ask(_ server: DNSUpdateServer, _ update: DNSUpdate) -> String? {
        do throws(SystemFault) {
            guard let address = try Resolver.resolve(host: server.host, port: server.port).first else { return "has no address" }
            guard let answer = try ask(address, update.message) else { return "closes the connection without an answer" }
            return update.problem(in: answer)
        } catch {
            return "cannot be asked: \(error.description)"
        }
    }

    private static func ask(_ address: SocketAddress, _ message: [UInt8]) throws(SystemFault) -> [UInt8]? {
        let descriptor = try open(address)
        defer { close(descriptor) }
        let framed = [UInt8(message.count >> 8), UInt8(message.count & 255)] + message
        var sent = 0
        while sent < framed.count {
            let count = unsafe framed[sent...].withUnsafeBytes { unsafe send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { throw SystemFault("send an update") }
            sent += count
        }
        guard let size = try read(descriptor, 2) else { return nil }
        // A longer one than names and a signature make is cut, and then it is none.
        return try read(descriptor, min(1_024, Int(size[0]) << 8 | Int(size[1])))
    }

    /// A connection whose calls block for a bounded time.
    private static func open(_ address: SocketAddress) throws(SystemFault) -> Int32 {
        let family = unsafe address.withSystemAddress { address, _ in unsafe Int32(address.pointee.sa_family) }
        let descriptor = socket(family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw SystemFault("open a socket") }
        var timeout = timeval(tv_sec: serverSeconds, tv_usec: 0)
        for option in [SO_SNDTIMEO, SO_RCVTIMEO] {
            unsafe setsockopt(descriptor, SOL_SOCKET, option, &timeout, socklen_t(MemoryLayout<timeval>.size))
        }
        guard unsafe address.withSystemAddress({ unsafe connect(descriptor, $0, $1) }) == 0 else {
            let fault = SystemFault("connect to \(address)")
            close(descriptor)
            throw fault
        }
        return descriptor
    }

    /// nil at the end of the stream.
    private static func read(_ descriptor: Int32, _ count: Int) throws(SystemFault) -> [UInt8]? {
        var bytes: [UInt8] = []
        while bytes.count < count {
            var room = [UInt8](repeating: 0, count: count - bytes.count)
            let got = unsafe recv(descriptor, &room, room.count, 0)
            if got < 0 { throw SystemFault("receive the answer to an update") }
            if got == 0 { return nil }
            bytes += room[..<got]
        }
        return bytes
    }
}
