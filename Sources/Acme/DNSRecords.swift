internal import Glibc
internal import System
internal import Threads
package import Wire

/// Where the TXT records of `dns` challenges are put.
package enum DNSRecords: Hashable, Sendable {
    case server(DNSUpdateServer)
    /// A program that is called with `present` or `cleanup`, the name and the text.
    case program(String)

    /// Milliseconds from the connection to the whole answer.
    private static let updateMilliseconds: UInt64 = 10_000
    private static let questionMilliseconds: UInt64 = 3_000
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

    /// Why a record is not at all name servers of its zone.
    package struct Lateness: Equatable, Sendable {
        package let text: String
        /// Nothing but servers that do not answer at all, as where TCP to port 53 is closed: waiting hardly helps.
        package let isSilence: Bool

        package init(_ text: String, isSilence: Bool = false) { (self.text, self.isSilence) = (text, isSilence) }
    }

    /// Why a name server of the zone does not answer with a record that was added; nil if all do, and for a program, which waits
    /// itself. They are asked at port 53, or at the port of the server that takes updates, until so many milliseconds are over. Blocks.
    package func problem(findingAll record: (name: String, text: String), random: UInt16, within milliseconds: UInt64) -> Lateness? {
        guard case .server(let server) = self else { return nil }
        let end = SystemClock.now().monotonic.advanced(milliseconds: milliseconds)
        let updated: [SocketAddress]
        do throws(SystemFault) { updated = try Resolver.resolve(host: server.host, port: server.port) } catch {
            return Lateness(error.description)
        }
        let (names, isDown) = Self.ask(server.zone, .ns, at: updated, random, until: end, DNSAnswer.servers)
        guard let names, !names.isEmpty else {
            return Lateness("the DNS server \(server.host) does not name the name servers of \(server.zone)", isSilence: isDown)
        }
        var silence: Lateness?
        for name in names {
            let own = [QuestionType.a, .aaaa].flatMap {
                Self.ask(name, $0, at: updated, random, until: end, DNSAnswer.addresses).records ?? []
            }
            let ports = server.port == 53 ? [53] : [53, server.port]
            var addresses = ports.flatMap { port in own.map { SocketAddress.ip($0, port: port) } }
            // The resolver takes its own time. A server without an address does not answer.
            if own.isEmpty, SystemClock.now().monotonic < end { addresses = (try? Resolver.resolve(host: name, port: 53)) ?? [] }
            let (texts, isSilent) = Self.ask(record.name, .txt, at: addresses, random, until: end, DNSAnswer.texts)
            if isSilent {
                // Another one that answers without the record is worth a wait.
                silence = silence ?? Lateness("the name server \(name) does not answer", isSilence: true)
            } else if texts?.contains(Array(record.text.utf8)) != true {
                return Lateness("the name server \(name) does not have the record \(record.name)")
            }
        }
        return silence
    }

    private enum QuestionType: UInt16 {
        case a = 1
        case ns = 2
        case txt = 16
        case aaaa = 28
    }

    /// The answer of the first of these addresses that gives a good one, and whether none answers at all.
    private static func ask<Records>(
        _ name: String, _ type: QuestionType, at addresses: [SocketAddress], _ id: UInt16, until end: MonotonicTime,
        _ read: ([UInt8]) throws(DNSAnswer.Fault) -> Records
    ) -> (records: Records?, isSilent: Bool) {
        guard let question = DNSUpdate.question(name, type.rawValue, id: id) else { return (nil, false) }
        var isSilent = true
        for address in addresses {
            let last = min(end, SystemClock.now().monotonic.advanced(milliseconds: questionMilliseconds))
            // One that cannot be asked, or answers something else, is passed over.
            guard let answer = try? ask(address, question, until: last), answer.starts(with: question.prefix(2)) else { continue }
            isSilent = false
            // An error, such as that the name does not exist, is none of its records.
            if let records = try? read(answer) { return (records, false) }
        }
        return (nil, isSilent)
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
            let end = SystemClock.now().monotonic.advanced(milliseconds: updateMilliseconds)
            guard let answer = try ask(address, update.message, until: end) else {
                return "closes the connection without an answer"
            }
            return update.problem(in: answer)
        } catch {
            return "cannot be asked: \(error.description)"
        }
    }

    private static func ask(_ address: SocketAddress, _ message: [UInt8], until end: MonotonicTime) throws(SystemFault) -> [UInt8]? {
        let descriptor = try open(address, end)
        defer { close(descriptor) }
        let framed = [UInt8(message.count >> 8), UInt8(message.count & 255)] + message
        var sent = 0
        while sent < framed.count {
            try bound(descriptor, end)
            let count = unsafe framed[sent...].withUnsafeBytes { unsafe send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { throw SystemFault("send a DNS message") }
            sent += count
        }
        guard let size = try read(descriptor, 2, end) else { return nil }
        return try read(descriptor, Int(size[0]) << 8 | Int(size[1]), end)
    }

    private static func open(_ address: SocketAddress, _ end: MonotonicTime) throws(SystemFault) -> Int32 {
        let family = unsafe address.withSystemAddress { address, _ in unsafe Int32(address.pointee.sa_family) }
        let descriptor = socket(family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw SystemFault("open a socket") }
        do throws(SystemFault) {
            try bound(descriptor, end)
            guard unsafe address.withSystemAddress({ unsafe connect(descriptor, $0, $1) }) == 0 else {
                throw SystemFault("connect to \(address)")
            }
        } catch {
            close(descriptor)
            throw error
        }
        return descriptor
    }

    /// Lets the next call block until `end` at most: a bound for each call alone is none for a peer that sends a byte at a time.
    private static func bound(_ descriptor: Int32, _ end: MonotonicTime) throws(SystemFault) {
        let left = Int(end.nanoseconds(since: SystemClock.now().monotonic) / 1_000)
        // A socket timeout of zero would mean no timeout.
        guard left > 0 else { throw SystemFault("receive the answer to a DNS message", errno: ETIMEDOUT) }
        var timeout = timeval(tv_sec: left / 1_000_000, tv_usec: left % 1_000_000)
        for option in [SO_SNDTIMEO, SO_RCVTIMEO] {
            unsafe setsockopt(descriptor, SOL_SOCKET, option, &timeout, socklen_t(MemoryLayout<timeval>.size))
        }
    }

    /// nil at the end of the stream.
    private static func read(_ descriptor: Int32, _ count: Int, _ end: MonotonicTime) throws(SystemFault) -> [UInt8]? {
        var bytes: [UInt8] = []
        while bytes.count < count {
            try bound(descriptor, end)
            var room = [UInt8](repeating: 0, count: count - bytes.count)
            let got = unsafe recv(descriptor, &room, room.count, 0)
            if got < 0 { throw SystemFault("receive the answer to a DNS message") }
            if got == 0 { return nil }
            bytes += room[..<got]
        }
        return bytes
    }
}
