package import Wire

/// Nodes of a cluster and the slots that each primary serves, as one of them tells it.
package struct RedisClusterMap: Equatable, Sendable {
    package struct Node: Equatable, Hashable, Sendable {
        /// The address that the cluster announces, which gateways must reach.
        package let host: String
        package let port: UInt16
        package let isPrimary: Bool
        /// Whether the cluster has found that it does not answer, or that it still loads its data.
        package let isAway: Bool
        /// Of `host`; set by the watch, which resolves names.
        package var addresses: [SocketAddress] = []

        /// `redis-1:6379`, `[::1]:6379`.
        package var name: String { address.description }
        package var address: RedisEndpoint.Address { .host(host, port: port) }
    }

    package private(set) var nodes: [Node] = []
    /// Index of the primary in `nodes` by slot; -1 for a slot without one.
    private var owners = [Int16](repeating: -1, count: RedisSlot.count)

    private init() {}

    /// Index of the node of this slot in `nodes`; nil if no node serves it.
    package func owner(ofSlot slot: UInt16) -> Int? {
        let owner = owners[Int(slot)]
        return owner < 0 ? nil : Int(owner)
    }

    /// Whether keys are, or may come to be, on this node: a primary with slots, or one that waits for some.
    func isNeeded(_ node: Int) -> Bool {
        nodes[node].isPrimary && (!nodes[node].isAway || owners.contains(Int16(node)))
    }

    /// Whether each slot has a primary that is not known to be away.
    package var isWhole: Bool {
        owners.allSatisfy { $0 >= 0 && !nodes[Int($0)].isAway }
    }

    /// Slots that no node serves.
    package var uncovered: Int { owners.count { $0 < 0 } }

    /// Puts the nodes into an order of their own: each node of a cluster tells them in another one.
    private mutating func sort() {
        let order = nodes.indices.sorted { (nodes[$0].host, nodes[$0].port) < (nodes[$1].host, nodes[$1].port) }
        var places = [Int16](repeating: 0, count: nodes.count)
        for (place, index) in order.enumerated() { places[index] = Int16(place) }
        nodes = order.map { nodes[$0] }
        for slot in owners.indices where owners[slot] >= 0 { owners[slot] = places[Int(owners[slot])] }
    }

    /// Sets what the node names resolve to.
    package mutating func resolve(_ look: (Node) -> [SocketAddress]) {
        for index in nodes.indices { nodes[index].addresses = look(nodes[index]) }
    }

    /// Whether it is a name or an address that can be connected to.
    static func isHost(_ bytes: ArraySlice<UInt8>) -> Bool {
        (1...253).contains(bytes.count) && bytes.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || ".-_:%".utf8.contains($0) }
    }

    private static let maxNodes = 10_000

    /// The index of `node`, appended if it is new; nil if there are too many.
    private mutating func add(_ node: Node) -> Int? {
        if let index = nodes.firstIndex(where: { $0.host == node.host && $0.port == node.port }) { return index }
        guard nodes.count < Self.maxNodes else { return nil }
        nodes.append(node)
        return nodes.count - 1
    }

    /// False for a range that is none.
    private mutating func own(_ first: RedisValue, _ last: RedisValue, by owner: Int) -> Bool {
        guard let first = first.integer, let last = last.integer, first >= 0, first <= last, last < RedisSlot.count else { return false }
        for slot in Int(first)...Int(last) { owners[slot] = Int16(owner) }
        return true
    }
}

// Replies. A malformed one is refused as a whole, so that no half of it becomes a map.
extension RedisClusterMap {
    /// The reply to CLUSTER SHARDS (Redis 7 and later).
    ///
    /// - Parameters:
    ///   - host: of the node that replied: a node without an address of its own has this one.
    ///   - usesTLS: whether to take the ports for TLS.
    package init?(shards reply: borrowing RedisReply, askedAt host: String, usesTLS: Bool) {
        guard let shards = RedisValue(reply)?.elements else { return nil }
        self.init()
        for shard in shards {
            guard let fields = shard.fields, let slots = fields["slots"]?.elements, slots.count.isMultiple(of: 2),
                let members = fields["nodes"]?.elements
            else { return nil }
            var primary: Int?
            for member in members {
                guard let fields = member.fields, let node = Node(fields, askedAt: host, usesTLS: usesTLS) else { return nil }
                guard let index = add(node) else { return nil }
                // While a failover is not yet known everywhere a shard may show two: the one that answers counts.
                if node.isPrimary, primary.map({ nodes[$0].isAway }) ?? true { primary = index }
            }
            for range in stride(from: 0, to: slots.count, by: 2) {
                guard let primary else { break }
                guard own(slots[range], slots[range + 1], by: primary) else { return nil }
            }
        }
        sort()
    }

    /// The reply to CLUSTER SLOTS (before Redis 7). It does not name nodes without slots.
    package init?(slots reply: borrowing RedisReply, askedAt host: String) {
        guard let ranges = RedisValue(reply)?.elements else { return nil }
        self.init()
        for range in ranges {
            guard let parts = range.elements, parts.count > 2 else { return nil }
            for (number, member) in parts.dropFirst(2).enumerated() {
                guard let words = member.elements, words.count > 1, let port = words[1].port,
                    let index = add(
                        Node(host: Node.host(words[0], nil) ?? host, port: port, isPrimary: number == 0, isAway: false))
                else { return nil }
                if number == 0, !own(parts[0], parts[1], by: index) { return nil }
            }
        }
        sort()
    }
}

extension RedisClusterMap.Node {
    fileprivate init?(_ fields: [String: RedisValue], askedAt asked: String, usesTLS: Bool) {
        guard let role = fields["role"]?.text else { return nil }
        guard let port = (usesTLS ? fields["tls-port"] : nil)?.port ?? fields["port"]?.port ?? fields["tls-port"]?.port else { return nil }
        self.init(
            // An empty endpoint means the host that was asked (cluster-preferred-endpoint-type unknown-endpoint).
            host: (fields["endpoint"]?.text == "" ? nil : Self.host(fields["endpoint"], fields["ip"])) ?? asked, port: port,
            isPrimary: role == "master",
            isAway: fields["health"].map { $0.text != "online" } ?? false)
    }

    /// The preferred one of two fields that is a host: `?` and an empty one mean that the node does not know it.
    fileprivate static func host(_ endpoint: RedisValue?, _ address: RedisValue?) -> String? {
        for value in [endpoint, address] {
            if case .text(let bytes)? = value, RedisClusterMap.isHost(bytes[...]) { return String(decoding: bytes, as: UTF8.self) }
        }
        return nil
    }
}

/// A reply as a tree, for what is read seldom.
private enum RedisValue {
    case integer(Int64)
    case text([UInt8])
    case null
    case array([RedisValue])

    /// nil for an error and an incomplete reply.
    init?(_ reply: borrowing RedisReply) {
        var index = 0
        guard let value = Self.next(reply, &index), index == reply.nodes.count else { return nil }
        self = value
    }

    private static func next(_ reply: borrowing RedisReply, _ index: inout Int) -> RedisValue? {
        guard index < reply.nodes.count else { return nil }
        let node = reply.nodes[index]
        index += 1
        switch node {
        case .integer(let value): return .integer(value)
        case .status, .bulk: return .text(reply.bytes(index - 1).array)
        case .null: return .null
        case .error: return nil
        case .array(let count):
            var elements: [RedisValue] = []
            for _ in 0..<max(0, count) {
                guard let element = next(reply, &index) else { return nil }
                elements.append(element)
            }
            return .array(elements)
        }
    }

    var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
    var text: String? { if case .text(let bytes) = self { String(decoding: bytes, as: UTF8.self) } else { nil } }
    var elements: [RedisValue]? { if case .array(let values) = self { values } else { nil } }
    var port: UInt16? { integer.flatMap { UInt16(exactly: $0) }.flatMap { $0 > 0 ? $0 : nil } }

    /// An array of names and values in turn. A later value of the same name counts.
    var fields: [String: RedisValue]? {
        guard let elements, elements.count.isMultiple(of: 2) else { return nil }
        var fields: [String: RedisValue] = [:]
        for index in stride(from: 0, to: elements.count, by: 2) {
            guard let name = elements[index].text else { return nil }
            fields[name] = elements[index + 1]
        }
        return fields
    }
}
