package import Transport
package import Wire

/// A worker's connections to the servers that have its keys: one server, or the primaries of a cluster. Used like a
/// `RedisConnection`, on the loop's thread.
///
/// With one server node 0 is it, and has every key. With a cluster there are no nodes until `adopt` has brought a map. A node that is
/// no primary any more gets no new commands, and is closed when it has answered the old ones.
package struct RedisNodes: ~Copyable {
    private let pin = AddressPin()

    /// A node of a cluster, in the words of the cluster.
    package struct Place: Equatable, Sendable {
        package let address: RedisEndpoint.Address
        package let addresses: [SocketAddress]
    }

    /// A change for the log and readiness.
    package struct Change: Sendable {
        /// `10.0.0.1:6379`; nil for the only server.
        package let node: String?
        /// nil: the node is none of ours any more.
        package let condition: RedisCondition?
    }

    private var nodes = UniqueArray<RedisNodeConnection>()
    /// Node by hash tag; -1 where there is none.
    private var owners = UniqueArray<Int16>(repeating: -1, count: HashTag.count)
    private let firstToken: UInt64
    /// Connects to a node; the number is its token in the loop. nil for a single server.
    private let connect: ((Place, UInt64, MonotonicTime) -> RedisConnection)?
    /// The next node that `next` looks at, and the one that it looked at last.
    private var cursor = 0
    private var current = 0
    private var left: [String] = []
    /// Whether something says that the map is out of date.
    private var isMapWanted = false
    private var mapWantedFrom = MonotonicTime(nanoseconds: 0)

    /// One server.
    package init(_ connection: consuming RedisConnection) {
        firstToken = connection.token
        connect = nil
        nodes.append(RedisNodeConnection(connection: connection))
        for tag in 0..<HashTag.count { owners[tag] = 0 }
    }

    /// A cluster, without nodes yet. `firstToken` has 0 in its low 56 bits.
    package init(firstToken: UInt64, connect: @escaping (Place, UInt64, MonotonicTime) -> RedisConnection) {
        self.firstToken = firstToken
        self.connect = connect
    }

    package var isCluster: Bool { connect != nil }

    // MARK: events

    package mutating func ready(_ ready: Ready, _ now: MonotonicTime, _ loop: borrowing EventLoop) {
        let index = Int(ready.token & 0xFFFF_FFFF)
        guard index < nodes.count, !nodes[index].isFree, ready.token == token(index) else { return }
        nodes[index].connection.ready(ready, now, loop)
    }

    package mutating func timedOut(_ now: MonotonicTime, _ loop: borrowing EventLoop) {
        for index in 0..<nodes.count where !nodes[index].isFree { nodes[index].connection.timedOut(now, loop) }
    }

    /// The next result of any node; nil if there is none now. `reader` is of the same node.
    package mutating func next(_ now: MonotonicTime) -> RedisResult? {
        while cursor < nodes.count {
            current = cursor
            if !nodes[cursor].isFree, let result = nodes[cursor].connection.next(now) { return result }
            cursor += 1
        }
        cursor = 0
        return nil
    }

    /// The bytes of value `index` of the latest result, as `RedisReply.bytes`.
    @_lifetime(borrow self)
    package func bytes(_ index: Int) -> RawSpan { nodes[current].connection.reader.reply.bytes(index) }

    /// The number at value `index` of the latest result, as `RedisReply.integer`.
    package func integer(_ index: Int) -> Int64? { nodes[current].connection.reader.reply.integer(index) }

    package mutating func flush(_ now: MonotonicTime, _ loop: borrowing EventLoop) {
        for index in 0..<nodes.count where !nodes[index].isFree { nodes[index].connection.flush(now, loop) }
        if isCluster { closeUnused(now) }
    }

    package mutating func nextDeadline() -> MonotonicTime? {
        var next: MonotonicTime?
        for index in 0..<nodes.count where !nodes[index].isFree {
            guard let deadline = nodes[index].connection.nextDeadline() else { continue }
            next = min(next ?? deadline, deadline)
        }
        return next
    }

    // MARK: asking

    /// Number of nodes, of which some may be free.
    package var count: Int { nodes.count }

    /// The node of this hash tag; nil if there is none.
    package func owner(_ tag: HashTag) -> Int? {
        let owner = owners[Int(tag.number)]
        return owner < 0 ? nil : Int(owner)
    }

    package func isReady(_ node: Int) -> Bool { !nodes[node].isFree && nodes[node].connection.isReady }

    /// Whether the node's first connection is on its way.
    package func isOpening(_ node: Int) -> Bool {
        guard !nodes[node].isFree, case .connecting = nodes[node].connection.condition else { return false }
        return true
    }

    /// Whether a node has a hash tag, is connected, and its circuit breaker is closed.
    package var isAnyUsable: Bool {
        for index in 0..<nodes.count where isUsable(index) { return true }
        return false
    }

    /// Whether each hash tag has such a node.
    package var areAllUsable: Bool {
        for tag in 0..<HashTag.count {
            let owner = owners[tag]
            guard owner >= 0, isUsable(Int(owner)) else { return false }
        }
        return true
    }

    /// Whether there is such a node: one in the map, or that a redirect has named.
    package func isInUse(_ node: Int) -> Bool { !nodes[node].isFree && nodes[node].isMapped }

    package func isUsable(_ node: Int) -> Bool { isReady(node) && nodes[node].connection.breaker.isClosed }

    package func breaker(_ node: Int) -> RedisBreaker.State { nodes[node].connection.breaker.state }

    package mutating func append(_ call: borrowing RedisCall, to node: Int, tag: UInt64, _ now: MonotonicTime) -> RedisAdmission {
        noting(nodes[node].connection.append(call, tag: tag, now))
    }

    package mutating func append(_ command: borrowing RedisCommand, to node: Int, tag: UInt64, _ now: MonotonicTime) -> RedisAdmission {
        noting(nodes[node].connection.append(command, tag: tag, now))
    }

    /// A node whose circuit breaker is open may have lost its slots to its replica.
    private mutating func noting(_ admission: RedisAdmission) -> RedisAdmission {
        if admission == .breakerOpen { isMapWanted = true }
        return admission
    }

    /// As `RedisConnection.append` of the same form.
    package mutating func append(
        _ call: borrowing RedisCall, redirectedTo node: Int, at sentAt: MonotonicTime, asking: Bool, tag: UInt64, _ now: MonotonicTime
    ) -> RedisAdmission {
        noting(nodes[node].connection.append(call, redirectedAt: sentAt, asking: asking, tag: tag, now))
    }

    /// Whether commands appended now would wait for replies in flight, at one node at least.
    package func isBatching(_ now: MonotonicTime) -> Bool {
        for index in 0..<nodes.count where !nodes[index].isFree && nodes[index].connection.isBatching(now) { return true }
        return false
    }

    /// When no node is batching any more.
    package var batchDeadline: MonotonicTime {
        var last = MonotonicTime(nanoseconds: 0)
        for index in 0..<nodes.count where !nodes[index].isFree { last = max(last, nodes[index].connection.batchDeadline) }
        return last
    }

    // MARK: which nodes

    /// Sets the only server.
    package mutating func replace(by server: RedisServer, _ now: MonotonicTime) {
        precondition(!isCluster)
        nodes[0].connection.replace(by: [server], now)
    }

    /// The cluster has these nodes now.
    package mutating func adopt(_ map: RedisClusterMap, _ now: MonotonicTime) {
        for index in 0..<nodes.count { nodes[index].isMapped = false }
        var indices: [Int?] = []
        for (number, node) in map.nodes.enumerated() {
            guard map.isNeeded(number) else {
                indices.append(nil)
                continue
            }
            let index = find(Place(address: node.address, addresses: node.addresses), now)
            nodes[index].isMapped = true
            indices.append(index)
        }
        for tag in 0..<HashTag.count {
            let owner = map.owner(ofSlot: RedisSlot.ofTags[tag]).flatMap { indices[$0] }
            owners[tag] = Int16(owner ?? -1)
        }
    }

    /// The node at the address of a redirect, which the node of the latest result has sent; nil if it is not known and its address is
    /// a name.
    package mutating func node(_ redirect: RedisRedirect, _ now: MonotonicTime) -> Int? {
        isMapWanted = true
        var host = redirect.host
        if host.isEmpty, case .host(let asked, _)? = nodes[current].place?.address { host = asked }
        let address = RedisEndpoint.Address.host(host, port: redirect.port)
        for index in 0..<nodes.count where !nodes[index].isFree && nodes[index].place?.address == address { return index }
        guard let fixed = address.fixed else { return nil }
        return find(Place(address: address, addresses: [fixed]), now)
    }

    /// `node` has this hash tag from now on, until a map says otherwise.
    package mutating func moved(_ tag: HashTag, to node: Int) {
        guard owners[Int(tag.number)] != Int16(node) else { return }
        // The slot of this tag alone has moved, as far as is known.
        owners[Int(tag.number)] = Int16(node)
    }

    /// A key has no node, or its node is not connected.
    package mutating func missed() { isMapWanted = true }

    /// The outcome of a command for a key.
    package mutating func saw(_ outcome: RedisOutcome) { if outcome.isMiss { isMapWanted = true } }

    /// Whether the map should be read again; true at most every 50 ms.
    package mutating func takeMapWanted(_ now: MonotonicTime) -> Bool {
        guard isMapWanted, now >= mapWantedFrom else { return false }
        isMapWanted = false
        mapWantedFrom = now.advanced(milliseconds: 50)
        return true
    }

    private func token(_ node: Int) -> UInt64 {
        firstToken | UInt64(nodes[node].generation & 0xFF_FFFF) << 32 | UInt64(node)
    }

    /// The node of this place, connected to if it is new.
    private mutating func find(_ place: Place, _ now: MonotonicTime) -> Int {
        for index in 0..<nodes.count where !nodes[index].isFree && nodes[index].place?.address == place.address {
            if nodes[index].place != place {
                nodes[index].place = place
                nodes[index].connection.replace(addresses: place.addresses, now)
            }
            return index
        }
        guard let connect else { preconditionFailure("a single server has no other nodes") }
        for index in 0..<nodes.count where nodes[index].isFree {
            nodes[index].generation &+= 1
            nodes[index].connection = connect(place, token(index), now)
            nodes[index].place = place
            nodes[index].isFree = false
            nodes[index].isMapped = true
            nodes[index].isReported = false
            return index
        }
        nodes.append(RedisNodeConnection(connection: connect(place, firstToken | UInt64(nodes.count), now), place: place))
        return nodes.count - 1
    }

    /// Closes nodes that are not in the map, once they have answered.
    private mutating func closeUnused(_ now: MonotonicTime) {
        for index in 0..<nodes.count where !nodes[index].isFree && !nodes[index].isMapped {
            // A node with lost commands stays until `next` has returned them.
            guard nodes[index].connection.isUnused, !isOwner(index), !isOpening(index) else { continue }
            nodes[index].connection.close(now)
            nodes[index].isFree = true
            if nodes[index].isReported, let place = nodes[index].place { left.append(place.address.description) }
        }
    }

    private func isOwner(_ node: Int) -> Bool {
        for tag in 0..<HashTag.count where owners[tag] == Int16(node) { return true }
        return false
    }

    // MARK: log

    /// A node's condition if it changed since it was last asked for; nil if none has.
    package mutating func takeChange() -> Change? {
        for index in 0..<nodes.count where !nodes[index].isFree {
            let change = nodes[index].connection.takeChange()
            // A new node counts as away until it is connected to.
            let isNew = isCluster && !nodes[index].isReported
            guard change != nil || isNew else { continue }
            nodes[index].isReported = true
            return Change(node: nodes[index].place?.address.description, condition: change ?? nodes[index].connection.condition)
        }
        return left.popLast().map { Change(node: $0, condition: nil) }
    }
}

/// One of a worker's connections to Redis.
package struct RedisNodeConnection: ~Copyable {
    var connection: RedisConnection
    /// nil for the only server.
    var place: RedisNodes.Place?
    /// Of the loop's events: a closed node's event must not reach its successor.
    var generation: UInt32 = 0
    var isFree = false
    /// Whether it is in the map, or a redirect has named it since.
    var isMapped = true
    /// Whether the log knows about it.
    var isReported = false
}
