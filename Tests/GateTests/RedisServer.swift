import Glibc
@testable import Limits
import Testing
import Wire

@testable import Gate

/// A failure of the test's environment.
struct ServerFault: Error, CustomStringConvertible {
    let description: String
}

/// A redis-server of a test's own, on a unix socket in a folder of its own; both end with their owner.
final class RedisServer: Sendable {
    let socketPath: String
    private let folder: String
    private let pid: pid_t

    init() throws {
        var template = Array("/tmp/tollgate-redis-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw ServerFault(description: "no folder in /tmp") }
        folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        socketPath = folder + "/redis.sock"
        let words = [
            "redis-server", "--port", "0", "--unixsocket", socketPath, "--dir", folder, "--save", "", "--appendonly", "no",
            "--logfile", folder + "/log",
        ]
        var arguments = words.map { strdup($0) } + [nil]
        defer { arguments.forEach { free($0) } }
        var pid: pid_t = 0
        guard posix_spawnp(&pid, words[0], nil, nil, &arguments, environ) == 0 else {
            throw ServerFault(description: "redis-server cannot be started; is it installed?")
        }
        self.pid = pid
        try waitUntilItListens()
    }

    deinit {
        kill(pid, SIGKILL)
        var status: Int32 = 0
        waitpid(pid, &status, 0)
        for name in ["/redis.sock", "/log"] { unlink(folder + name) }
        rmdir(folder)
    }

    /// Without a bound in time: `deploy/test` runs these tests only while others wait.
    private func waitUntilItListens() throws {
        while !hasEnded {
            if let link = try? RedisLink(socketPath), (try? link.ask("PING")) == .status("PONG") { return }
            usleep(10_000)
        }
        throw ServerFault(description: "redis-server has ended")
    }

    /// Whether it has, by itself.
    private var hasEnded: Bool {
        var info = siginfo_t()
        return waitid(P_PID, id_t(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_signo == SIGCHLD
    }

    func connect() throws -> RedisLink { try RedisLink(socketPath) }
}

extension LimitKey {
    /// One of a test's keys.
    init(_ number: UInt64) { self.init(high: number, low: ~number) }

    /// Its name in Redis.
    var name: String {
        var out = ByteBuffer()
        GCRAScript.writeKey(self, into: &out)
        return out.readable.text
    }
}

/// A reply, as a test compares it.
enum RedisValue: Equatable {
    case status(String)
    case error(String)
    case integer(Int64)
    case text(String)
    case null
    case array([RedisValue])

    var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
    var text: String? { if case .text(let value) = self { value } else { nil } }
    var elements: [RedisValue] { if case .array(let values) = self { values } else { [] } }
}

/// A connection that asks one thing after the other and waits for the answer.
final class RedisLink {
    private let descriptor: Int32
    private var input: [UInt8] = []
    private var offset = 0

    init(_ path: String) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
        let connected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard connected == 0 else {
            close(descriptor)
            throw ServerFault(description: "nobody listens on \(path)")
        }
    }

    deinit { close(descriptor) }

    @discardableResult
    func ask(_ words: String...) throws -> RedisValue { try ask(words) }

    @discardableResult
    func ask(_ words: [String]) throws -> RedisValue {
        var out = "*\(words.count)\r\n"
        for word in words { out += "$\(word.utf8.count)\r\n\(word)\r\n" }
        let bytes = Array(out.utf8)
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { send(descriptor, $0.baseAddress! + sent, bytes.count - sent, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { throw ServerFault(description: "the server has gone") }
            sent += count
        }
        return try readValue()
    }

    /// Evaluates a script by the server's own clock; with `now`, in microseconds, its `timed` variant, which reads the time from its
    /// last two arguments.
    func run(_ source: String, timed: String, keys: [LimitKey], _ arguments: [String], now: UInt64? = nil) throws -> RedisValue {
        let time = now.map { ["\($0 / 1_000_000)", "\($0 % 1_000_000)"] } ?? []
        return try ask(["EVAL", now == nil ? source : timed, "\(keys.count)"] + keys.map(\.name) + arguments + time)
    }

    /// The server's clock, in microseconds since 1970.
    func time() throws -> UInt64 {
        let parts = try ask("TIME").elements.compactMap { $0.text.flatMap { UInt64($0) } }
        return try #require(parts.count == 2 ? parts[0] * 1_000_000 + parts[1] : nil)
    }

    private func readValue() throws -> RedisValue {
        let line = try readLine()
        let rest = String(line.dropFirst())
        switch line.first {
        case "+": return .status(rest)
        case "-": return .error(rest)
        case ":": return .integer(Int64(rest) ?? 0)
        case "$":
            guard let count = Int(rest), count >= 0 else { return .null }
            while input.count - offset < count + 2 { try receive() }
            defer { offset += count + 2 }
            return .text(String(decoding: input[offset..<offset + count], as: UTF8.self))
        case "*": return .array(try (0..<(Int(rest) ?? 0)).map { _ in try readValue() })
        default: throw ServerFault(description: "\(line) is no reply")
        }
    }

    private func readLine() throws -> String {
        while true {
            if let end = input[offset...].firstIndex(of: 13), end + 1 < input.count {
                defer { offset = end + 2 }
                return String(decoding: input[offset..<end], as: UTF8.self)
            }
            try receive()
        }
    }

    private func receive() throws {
        input.removeFirst(offset)
        offset = 0
        var room = [UInt8](repeating: 0, count: 65_536)
        var count = 0
        repeat { count = recv(descriptor, &room, room.count, 0) } while count < 0 && errno == EINTR
        guard count > 0 else { throw ServerFault(description: "the server has gone (\(count), errno \(errno))") }
        input += room[..<count]
    }
}
