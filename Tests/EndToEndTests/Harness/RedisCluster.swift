import Foundation
import Glibc

/// A Redis Cluster of the test's own: three primaries with a replica each, ended with their owner.
final class RedisCluster {
    final class Node {
        let port: Int
        private let busPort: Int
        private let folder: Folder
        private(set) var process: Subprocess

        init() throws {
            folder = try Folder()
            (port, busPort) = try Self.freePorts()
            process = try Self.start(folder, port, busPort)
        }

        private static func start(_ folder: Folder, _ port: Int, _ busPort: Int) throws -> Subprocess {
            let process = try Subprocess(
                "redis-server",
                [
                    "--bind", "127.0.0.1", "--port", "\(port)", "--cluster-port", "\(busPort)", "--cluster-enabled", "yes",
                    "--cluster-node-timeout", "1500", "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0",
                    "--save", "", "--appendonly", "no", "--dir", folder.path,
                ])
            try process.output.wait(for: "redis-server") { $0.contains { $0.contains("eady to accept connections") } }
            return process
        }

        /// Two ports that the kernel has just had free.
        private static func freePorts() throws -> (Int, Int) {
            let (one, other) = (try Listening(backlog: 1), try Listening(backlog: 1))
            return (one.port, other.port)
        }

        /// What it answers to a command.
        @discardableResult
        func ask(_ words: String...) throws -> String { try ask(words) }

        @discardableResult
        func ask(_ words: [String]) throws -> String {
            try mustRun("redis-cli", ["-p", "\(port)"] + words).trimmingCharacters(in: .whitespacesAndNewlines)
        }

        func kill() { process.kill() }

        /// Starts it anew, with what it knew of the cluster and without its keys.
        func start() throws { process = try Self.start(folder, port, busPort) }

        fileprivate func meet(_ other: Node) throws { try ask("CLUSTER", "MEET", "127.0.0.1", "\(other.port)", "\(other.busPort)") }

        var id: String { get throws { try ask("CLUSTER", "MYID") } }

        /// All keys that it has.
        var keys: [String] { get throws { try ask("KEYS", "tollgate:*").split(separator: "\n").map(String.init) } }
    }

    /// The first three are the primaries at first, and each has its replica three places behind it.
    let nodes: [Node]
    static let ranges = [(0, 5460), (5461, 10922), (10923, 16383)]

    /// `joining`: further primaries without slots.
    init(joining: Int = 0) throws {
        nodes = try (0..<6 + joining).map { _ in try Node() }
        for (number, node) in nodes.enumerated() { try node.ask("CLUSTER", "SET-CONFIG-EPOCH", "\(number + 1)") }
        for node in nodes.dropFirst() { try nodes[0].meet(node) }
        for (node, range) in zip(nodes, Self.ranges) { try node.ask("CLUSTER", "ADDSLOTSRANGE", "\(range.0)", "\(range.1)") }
        let count = nodes.count
        try eventually("all nodes know each other", seconds: 60) {
            try nodes.allSatisfy { try $0.ask("CLUSTER", "INFO").contains("cluster_known_nodes:\(count)") && !$0.ask("CLUSTER", "NODES").contains("handshake") }
        }
        for number in 0..<3 { try nodes[number + 3].ask("CLUSTER", "REPLICATE", nodes[number].id) }
        try eventually("the cluster serves all slots", seconds: 60) {
            try nodes.allSatisfy { try $0.ask("CLUSTER", "INFO").contains("cluster_state:ok") }
                && nodes[3..<6].allSatisfy { try $0.ask("INFO", "replication").contains("master_link_status:up") }
        }
    }

    /// As a setting.
    var setting: String { "REDIS_URL=redis+cluster://" + nodes[..<3].map { "127.0.0.1:\($0.port)" }.joined(separator: ",") }

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
