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
    private static let questionSeconds = 3
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

    /// Why a name server of the zone does not answer with a record that was added; nil if all do, and for a program, which waits
    /// itself. They are asked at port 53, or at the port of the server that takes updates. Blocks.
    package func problem(findingAll record: (name: String, text: String), random: UInt16) -> String? {
        guard case .server(let server) = self else { return nil }
        let updated: [SocketAddress]
        do throws(SystemFault) { updated = try Resolver.resolve(host: server.host, port: server.port) } catch { return error.description }
        let names = Self.ask(server.zone, .ns, at: updated, random, DNSAnswer.servers) ?? []
        guard !names.isEmpty else { return "the DNS server \(server.host) does not name the name servers of \(server.zone)" }
        for name in names {
            let own = [QuestionType.a, .aaaa].flatMap { Self.ask(name, $0, at: updated, random, DNSAnswer.addresses) ?? [] }
            let ports = server.port == 53 ? [53] : [53, server.port]
            var addresses = ports.flatMap { port in own.map { SocketAddress.ip($0, port: port) } }
            // A server without an address does not answer.
            if own.isEmpty { addresses = (try? Resolver.resolve(host: name, port: 53)) ?? [] }
            let texts = Self.ask(record.name, .txt, at: addresses, random, DNSAnswer.texts)
            guard let texts else { return "the name server \(name) does not answer" }
            guard texts.contains(Array(record.text.utf8)) else { return "the name server \(name) does not have the record \(record.name)" }
        }
        return nil
    }

    private enum QuestionType: UInt16 {
        case a = 1
        case ns = 2
        case txt = 16
        case aaaa = 28
    }

    /// The answer of the first of these addresses that gives a good one.
    private static func ask<Records>(
        _ name: String, _ type: QuestionType, at addresses: [SocketAddress], _ id: UInt16,
        _ read: ([UInt8]) throws(DNSAnswer.Fault) -> Records
    ) -> Records? {
        guard let question = DNSUpdate.question(name, type.rawValue, id: id) else { return nil }
        for address in addresses {
            // One that cannot be asked, or answers something else, is passed over.
            if let answer = try? ask(address, question, seconds: questionSeconds), answer.starts(with: question.prefix(2)),
                let records = try? read(answer)
            {
                return records
            }
        }
        return nil
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
            guard let answer = try ask(address, update.message, seconds: serverSeconds) else {
                return "closes the connection without an answer"
            }
            return update.problem(in: answer)
        } catch {
            return "cannot be asked: \(error.description)"
        }
    }

    private static func ask(_ address: SocketAddress, _ message: [UInt8], seconds: Int) throws(SystemFault) -> [UInt8]? {
        let descriptor = try open(address, seconds)
        defer { close(descriptor) }
        let framed = [UInt8(message.count >> 8), UInt8(message.count & 255)] + message
        var sent = 0
        while sent < framed.count {
            let count = unsafe framed[sent...].withUnsafeBytes { unsafe send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { throw SystemFault("send a DNS message") }
            sent += count
        }
        guard let size = try read(descriptor, 2) else { return nil }
        return try read(descriptor, Int(size[0]) << 8 | Int(size[1]))
    }

    /// A connection whose calls block for a bounded time.
    private static func open(_ address: SocketAddress, _ seconds: Int) throws(SystemFault) -> Int32 {
        let family = unsafe address.withSystemAddress { address, _ in unsafe Int32(address.pointee.sa_family) }
        let descriptor = socket(family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw SystemFault("open a socket") }
        var timeout = timeval(tv_sec: seconds, tv_usec: 0)
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
            if got < 0 { throw SystemFault("receive the answer to a DNS message") }
            if got == 0 { return nil }
            bytes += room[..<got]
        }
        return bytes
    }
}
