import Foundation
import Glibc
import TestServers

/// The servers of a family: Debian's Redis, or another that speaks its protocol.
struct RedisProgram: CustomStringConvertible, Sendable {
    let path: String
    let description: String

    static let redis = RedisProgram(path: "redis-server", description: "redis")

    /// Valkey, where `deploy/test` could install it.
    static let valkey = isThere(PythonTools.valkey) ? RedisProgram(path: PythonTools.valkey, description: "valkey") : nil

    static let all = [redis, valkey].compactMap { $0 }
}

/// A redis-server or sentinel of the test's own on a port, ended with its owner.
final class RedisNode {
    var port: Int { Int(held.number) }
    /// A server that is killed finds its own free again.
    private let held: HeldPort
    private let folder: Folder
    private let program: RedisProgram
    private let arguments: [String]
    /// Of `redis-cli`.
    private let login: [String]
    private var process: Subprocess?

    /// `configuration` becomes a file that the program may rewrite.
    fileprivate init(_ program: RedisProgram, port held: HeldPort, _ configuration: [String], isSentinel: Bool, login: [String]) throws {
        (self.held, self.program, self.login) = (held, program, login)
        folder = try Folder()
        let listening =
            configuration.contains { $0.hasPrefix("tls-cert-file") } ? ["port 0", "tls-port \(held.number)"] : ["port \(held.number)"]
        let lines = listening + ["bind 127.0.0.1", "dir \(folder.path)", "protected-mode no"] + configuration
        let file = try folder.write("node.conf", lines.joined(separator: "\n") + "\n")
        arguments = [file] + (isSentinel ? ["--sentinel"] : [])
        try start()
    }

    /// A server without others.
    static func alone(_ program: RedisProgram, _ configuration: [String], login: [String]) throws -> RedisNode {
        try RedisNode(
            program, port: try HeldPort(), ["save \"\"", "appendonly no"] + configuration, isSentinel: false, login: login)
    }

    /// Starts it, again after `kill`.
    func start() throws {
        let process = try Subprocess(program.path, arguments)
        self.process = process
        try process.output.wait(for: "\(program) on \(port)") { lines in
            lines.contains { $0.contains("eady to accept connections") || $0.contains("+monitor") }
        }
    }

    /// Ends it at once (SIGKILL).
    func kill() { process?.kill() }

    /// Holds it in the middle of whatever it does (SIGSTOP).
    func pause() { process?.pause() }
    func resume() { process?.resume() }

    /// Its answer to a command, line by line.
    @discardableResult
    func ask(_ words: String...) throws -> String { try mustRun("redis-cli", login + ["-p", "\(port)"] + words) }

    /// A field of its INFO; empty if it has none.
    func info(_ name: String) throws -> String {
        let line = try ask("INFO", "all").split(whereSeparator: \.isNewline).first { $0.hasPrefix("\(name):") }
        return line.map { String($0.dropFirst(name.count + 1)) } ?? ""
    }

    /// How many gateways' connections it has; sentinels, which name theirs, publish and subscribe, too.
    func gatewayConnections() throws -> Int {
        try ask("CLIENT", "LIST").split(whereSeparator: \.isNewline).count { line in
            !line.contains("name=sentinel-") && ["evalsha", "publish", "subscribe"].contains { line.contains("cmd=\($0)") }
        }
    }
}

/// A primary with a replica, and three sentinels that watch them.
final class SentinelSet {
    /// The name by which the sentinels know the primary.
    static let master = "tollgate-main"

    private(set) var servers: [RedisNode] = []
    private(set) var sentinels: [RedisNode] = []

    /// Lines of configuration for servers and sentinels, and the login of `redis-cli` there.
    struct Access {
        var server: [String] = []
        var sentinel: [String] = []
        var login: [String] = []
        /// Before a URL's hosts, and behind it.
        var scheme = "redis+sentinel"
        var user = ""
        var options = ""
    }

    init(_ program: RedisProgram = .redis, _ access: Access = Access()) throws {
        let ports = try (0..<5).map { _ in try HeldPort() }
        let plain = ["save \"\"", "appendonly no", "repl-diskless-sync-delay 0", "repl-timeout 5"] + access.server
        self.access = access
        servers.append(try RedisNode(program, port: ports[0], plain, isSentinel: false, login: access.login))
        servers.append(
            try RedisNode(
                program, port: ports[1], plain + ["replicaof 127.0.0.1 \(servers[0].port)"], isSentinel: false, login: access.login))
        try eventually("the replica is in step") {
            try servers[0].ask("ROLE").contains("\(servers[1].port)") && servers[1].ask("ROLE").contains("connected")
        }
        let watching = [
            "sentinel monitor \(Self.master) 127.0.0.1 \(servers[0].port) 2",
            // Longer than a busy machine keeps a server from its processor.
            "sentinel down-after-milliseconds \(Self.master) 2000",
            "sentinel failover-timeout \(Self.master) 3000",
        ]
        for port in ports[2...] {
            sentinels.append(
                try RedisNode(program, port: port, watching + access.sentinel, isSentinel: true, login: access.login))
        }
        try waitUntilWatched()
    }

    private let access: Access

    /// Waits until the sentinels know each other and a replica that could take over.
    func waitUntilWatched() throws {
        try eventually("the sentinels know each other and the replica", seconds: 60) {
            try sentinels.allSatisfy { sentinel in
                let text = try sentinel.ask("SENTINEL", "MASTER", Self.master).split(whereSeparator: \.isNewline).map(String.init)
                func field(_ name: String) -> String? { text.firstIndex(of: name).map { text[$0 + 1] } }
                guard field("num-other-sentinels") == "2", field("num-slaves") == "1" else { return false }
                let replica = try sentinel.ask("SENTINEL", "REPLICAS", Self.master).split(whereSeparator: \.isNewline).map(String.init)
                return replica.firstIndex(of: "flags").map { replica[$0 + 1] == "slave" } == true
                    && replica.firstIndex(of: "master-link-status").map { replica[$0 + 1] == "ok" } == true
            }
        }
    }

    /// As a setting.
    var setting: String { setting(master: Self.master) }

    func setting(master: String) -> String {
        let hosts = sentinels.map { "127.0.0.1:\($0.port)" }.joined(separator: ",")
        return "REDIS_URL=\"\(access.scheme)://\(access.user)\(hosts)/\(master)\(access.options)\""
    }

    /// The server that a sentinel names now.
    func primary() throws -> RedisNode {
        let answer = try sentinels[0].ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self.master).split(whereSeparator: \.isNewline)
        guard let named = servers.first(where: { answer.last.map(String.init) == "\($0.port)" }) else {
            throw Fault("no primary: \(answer)")
        }
        return named
    }

    /// Waits until all that the primary has is at the replica.
    func replicate() throws {
        try eventually("the replica has all") { try servers[0].ask("WAIT", "1", "5000").hasPrefix("1") }
    }
}
