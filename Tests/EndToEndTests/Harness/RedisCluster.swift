import Foundation
import Glibc
import TestServers

/// A Redis Cluster of the test's own: three primaries with a replica each, ended with their owner.
final class RedisCluster {
    /// How the nodes are reached.
    struct Access {
        /// TLS for gateways, for replicas, and between the nodes, with the certificate `redis` of this authority.
        var authority: CertificateAuthority?
        /// The nodes do not know CLUSTER SHARDS, which came with Redis 7.
        var isBeforeSeven = false

        fileprivate var options: [String] {
            guard let authority else { return [] }
            return [
                "--tls-cluster", "yes", "--tls-replication", "yes", "--tls-auth-clients", "no", "--tls-ca-cert-file", authority.file,
                "--tls-cert-file", authority.folder.file("redis.crt"), "--tls-key-file", authority.folder.file("redis.key"),
            ]
        }

        /// Of `redis-cli`.
        fileprivate var login: [String] { authority.map { ["--tls", "--cacert", $0.file] } ?? [] }
    }

    final class Node {
        /// Held, so that a node that is killed finds its own free again.
        private let held: HeldPort
        private let heldForBus: HeldPort
        private let folder: Folder
        private let access: Access
        /// The port that it announces, if that is another one.
        private let before: ServerBeforeSeven?
        private(set) var process: Subprocess

        fileprivate init(_ access: Access) throws {
            folder = try Folder()
            self.access = access
            (held, heldForBus) = (try HeldPort(), try HeldPort())
            before = access.isBeforeSeven ? try ServerBeforeSeven(Int(held.number)) : nil
            process = try Self.start(folder, Int(held.number), Int(heldForBus.number), announcing: before?.port, access)
        }

        var port: Int { Int(held.number) }
        private var busPort: Int { Int(heldForBus.number) }

        /// The port for gateways.
        var announcedPort: Int { before?.port ?? port }

        private static func start(
            _ folder: Folder, _ port: Int, _ busPort: Int, announcing announced: Int?, _ access: Access
        ) throws -> Subprocess {
            let listening = access.authority == nil ? ["--port", "\(port)"] : ["--port", "0", "--tls-port", "\(port)"]
            let process = try Subprocess(
                "redis-server",
                listening + access.options + (announced.map { ["--cluster-announce-port", "\($0)"] } ?? []) + [
                    "--bind", "127.0.0.1", "--cluster-port", "\(busPort)", "--cluster-enabled", "yes",
                    "--cluster-node-timeout", "3000", "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0",
                    "--save", "", "--appendonly", "no", "--dir", folder.path,
                ])
            try process.output.wait(for: "redis-server") { $0.contains { $0.contains("eady to accept connections") } }
            return process
        }

        /// What it answers to a command.
        @discardableResult
        func ask(_ words: String...) throws -> String { try ask(words) }

        @discardableResult
        func ask(_ words: [String]) throws -> String {
            try mustRun("redis-cli", access.login + ["-p", "\(port)"] + words).trimmingCharacters(in: .whitespacesAndNewlines)
        }

        func kill() { process.kill() }

        /// Holds it in the middle of whatever it does.
        func pause() { process.pause() }

        /// Starts it anew, with what it knew of the cluster and without its keys.
        func start() throws { process = try Self.start(folder, port, busPort, announcing: before?.port, access) }

        fileprivate func meet(_ other: Node) throws { try ask("CLUSTER", "MEET", "127.0.0.1", "\(other.port)", "\(other.busPort)") }

        var id: String { get throws { try ask("CLUSTER", "MYID") } }

        /// All keys that it has.
        var keys: [String] { get throws { try ask("KEYS", "tollgate:*").split(separator: "\n").map(String.init) } }
    }

    /// The first three are the primaries at first, and each has its replica three places behind it.
    let nodes: [Node]
    static let ranges = [(0, 5460), (5461, 10922), (10923, 16383)]

    private let access: Access

    /// `joining`: further primaries without slots.
    init(joining: Int = 0, _ access: Access = Access()) throws {
        self.access = access
        nodes = try (0..<6 + joining).map { _ in try Node(access) }
        for (number, node) in nodes.enumerated() { try node.ask("CLUSTER", "SET-CONFIG-EPOCH", "\(number + 1)") }
        for node in nodes.dropFirst() { try nodes[0].meet(node) }
        for (node, range) in zip(nodes, Self.ranges) { try node.ask("CLUSTER", "ADDSLOTSRANGE", "\(range.0)", "\(range.1)") }
        let count = nodes.count
        try eventually("all nodes know each other", seconds: 60) {
            try nodes.allSatisfy {
                try $0.ask("CLUSTER", "INFO").contains("cluster_known_nodes:\(count)") && !$0.ask("CLUSTER", "NODES").contains("handshake")
            }
        }
        for number in 0..<3 { try nodes[number + 3].ask("CLUSTER", "REPLICATE", nodes[number].id) }
        try eventually("the cluster serves all slots", seconds: 60) {
            try nodes.allSatisfy { try $0.ask("CLUSTER", "INFO").contains("cluster_state:ok") }
                && nodes[3..<6].allSatisfy { try $0.ask("INFO", "replication").contains("master_link_status:up") }
        }
    }

    /// As a setting.
    var setting: String { setting(host: "127.0.0.1") }

    func setting(host: String) -> String {
        let scheme = access.authority == nil ? "redis+cluster" : "rediss+cluster"
        return "REDIS_URL=\(scheme)://" + nodes[..<3].map { "\(host):\($0.announcedPort)" }.joined(separator: ",")
    }

    /// The slot of a key, or of its hash tag.
    func slot(_ key: String) throws -> Int { Int(try nodes[3].ask("CLUSTER", "KEYSLOT", key)) ?? -1 }

    /// Moves a slot with its keys, as `redis-cli --cluster reshard` does; `between` is called while it is on its way.
    func move(_ slot: Int, from: Node, to: Node, between: () throws -> Void = {}) throws {
        let (source, target) = (try from.id, try to.id)
        try to.ask("CLUSTER", "SETSLOT", "\(slot)", "IMPORTING", source)
        try from.ask("CLUSTER", "SETSLOT", "\(slot)", "MIGRATING", target)
        try between()
        while true {
            let keys = try from.ask("CLUSTER", "GETKEYSINSLOT", "\(slot)", "10").split(separator: "\n").map(String.init)
            guard !keys.isEmpty else { break }
            for key in keys { try from.ask("MIGRATE", "127.0.0.1", "\(to.port)", key, "0", "5000") }
        }
        for node in [to, from] + nodes { try node.ask("CLUSTER", "SETSLOT", "\(slot)", "NODE", target) }
    }
}

/// Stands in front of a redis-server, which then answers CLUSTER SHARDS as one that does not know it.
private final class ServerBeforeSeven {
    private let relay: Upstream

    init(_ port: Int) throws {
        relay = try Upstream.raw { client, _ in
            let redis = try Connection(port: port)
            let (answering, asking) = (fcntl(redis.descriptor, F_DUPFD_CLOEXEC, 0), fcntl(client.descriptor, F_DUPFD_CLOEXEC, 0))
            let answers = Background {
                let (redis, client) = (Connection(descriptor: answering), Connection(descriptor: asking))
                // Ended by the end of the other direction, or ends it.
                defer { shutdown(client.descriptor, Int32(SHUT_RDWR)) }
                redis.setTimeout(seconds: 60)
                while true { try client.send(redis.takeSome()) }
            }
            defer { shutdown(redis.descriptor, Int32(SHUT_RDWR)) }
            client.setTimeout(seconds: 60)
            while true { try redis.send(Self.older(client.takeSome())) }
            withExtendedLifetime(answers) {}
        }
    }

    var port: Int { relay.port }

    /// Asks for an unknown subcommand of the same length in place of SHARDS.
    private static func older(_ commands: [UInt8]) -> [UInt8] {
        var commands = commands
        let name = Array("SHARDS".utf8)
        for start in commands.indices.dropLast(name.count - 1) where commands[start..<start + name.count].elementsEqual(name) {
            commands[start + name.count - 1] = UInt8(ascii: "Z")
        }
        return commands
    }
}
