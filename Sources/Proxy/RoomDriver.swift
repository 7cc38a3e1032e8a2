import Transport
import Wire

/// Finds room for one more connection to an upstream whose bound is reached: an idle connection gives way, of this worker at
/// once, of another when asked. Only when all are busy is a request refused.
extension Worker {
    /// How long the other workers may take to answer, in milliseconds: one that does not turn must not hold requests up.
    private static var patience: UInt64 { 1_000 }

    /// Gives the exchange its connection, or lets it wait for room if it may, or refuses it.
    mutating func resume(_ exchange: Int, mayWait: Bool, _ scratch: inout Scratch) {
        let pool = exchanges[exchange].pool
        if let idle = takeIdle(pool, exchanges[exchange].endpoint) {
            attach(idle, exchange)
            return connected(idle, &scratch)
        }
        switch takeRoom(pool) {
        case .taken: connect(exchange, &scratch)
        case .idleElsewhere where mayWait: awaitRoom(exchange)
        case .idleElsewhere, .none: failed(exchange, .tooManyConnections, wasUsed: false, &scratch)
        }
    }

    private enum Room {
        case taken
        /// Other workers hold connections that they could close.
        case idleElsewhere
        case none
    }

    /// Takes room for a connection, closing an idle one of this worker to another address if need be.
    private mutating func takeRoom(_ pool: Int) -> Room {
        while !directory.pools[pool].takeRoom() {
            // A connection that was closed meanwhile gave its room back before it ceased to count as idle.
            guard directory.pools[pool].connections.hasIdle else { return directory.pools[pool].takeRoom() ? .taken : .none }
            guard let idle = longestIdle(pool) else { return .idleElsewhere }
            closeUpstream(idle)
        }
        return .taken
    }

    /// The connection of the pool that has been idle for longest.
    private func longestIdle(_ pool: Int) -> Int? {
        var longest: (upstream: Int, since: MonotonicTime)?
        for upstream in upstreams.indices where upstreams[upstream].phase == .idle && upstreams[upstream].pool == pool {
            let since = upstreams[upstream].idleSince
            if longest.map({ since < $0.since }) ?? true { longest = (upstream, since) }
        }
        return longest?.upstream
    }

    /// Lets the exchange wait until the other workers have been asked.
    private mutating func awaitRoom(_ exchange: Int) {
        exchanges[exchange].awaitsRoom = true
        directory.pools[exchanges[exchange].pool].room.waiting.append(exchangeHandle(exchange))
        directory.roomIsWanted = true
    }

    /// Asks the other workers for what this turn found wanting, once for all of it; called once a turn.
    mutating func askForRoomIfDue(_ scratch: inout Scratch) {
        guard directory.roomIsWanted else { return }
        directory.roomIsWanted = false
        for pool in directory.pools.indices where !directory.pools[pool].room.waiting.isEmpty {
            directory.roomIsWanted = true
            if let until = directory.pools[pool].room.askedUntil {
                if now.monotonic >= until { roomMade(pool, &scratch) }
                continue
            }
            let count = directory.pools[pool].room.waiting.count
            directory.pools[pool].room.asked = count
            directory.pools[pool].room.askedUntil = now.monotonic.advanced(milliseconds: Self.patience)
            if !services.makeRoom(directory.pools[pool].settings.name, count) { roomMade(pool, &scratch) }
        }
    }

    /// The other workers have closed what they could: the exchanges for which they were asked go on or are refused, those
    /// that came since go on or are asked for in their turn.
    mutating func roomMade(_ pool: Int, _ scratch: inout Scratch) {
        var room = RoomQueue()
        swap(&room, &directory.pools[pool].room)
        for (index, handle) in room.waiting.enumerated() {
            guard exchanges.isCurrent(handle), exchanges[Int(handle.index)].awaitsRoom else { continue }
            let exchange = Int(handle.index)
            let client = exchanges[exchange].client
            exchanges[exchange].awaitsRoom = false
            resume(exchange, mayWait: index >= room.asked, &scratch)
            if clients.isCurrent(client) { continueReading(Int(client.index), &scratch) }
        }
    }

    /// Other workers look for idle connections where the number is bounded, and only there is it worth counting them.
    mutating func restBegan(_ upstream: Int) {
        guard !upstreams[upstream].isCountedIdle, directory.pools[upstreams[upstream].pool].isBounded else { return }
        upstreams[upstream].isCountedIdle = true
        directory.pools[upstreams[upstream].pool].connections.restBegan()
    }

    /// The connection is used again, or closed.
    mutating func restEnded(_ upstream: Int) {
        guard upstreams[upstream].isCountedIdle else { return }
        upstreams[upstream].isCountedIdle = false
        directory.pools[upstreams[upstream].pool].connections.restEnded()
    }

    /// Another worker's requests want room: closes idle connections for them.
    mutating func yieldRoom(_ request: RoomRequest) {
        if let pool = directory.pools.firstIndex(where: { $0.settings.name == request.upstream }) {
            while let idle = longestIdle(pool), request.claim() { closeUpstream(idle) }
        }
        request.answered()
    }
}

/// The exchanges of one worker that wait for room at one upstream.
struct RoomQueue {
    var waiting: [Handle] = []
    /// For how many of them, from the first on, the other workers have been asked.
    var asked = 0
    /// When the answer is no longer waited for; nil while they have not been asked.
    var askedUntil: MonotonicTime?
}
