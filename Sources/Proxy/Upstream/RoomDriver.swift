import Transport
import Wire

/// Finds room for one more connection to an upstream whose bound is reached: an idle connection gives way, of this worker at
/// once, of another when asked. Only when all are busy is a request refused.
extension Worker {
    /// How long the other workers may take to answer, in milliseconds: one that does not turn must not hold requests up.
    private static var patience: UInt64 { 1_000 }

    /// Gives the exchange its connection, or lets it wait for room if it may, or refuses it.
    mutating func findConnection(_ exchange: ExchangeIndex, mayWait: Bool, _ scratch: inout Scratch) {
        let endpoint = exchanges[exchange].endpoint
        if let idle = upstreams.takeIdle(endpoint, at: now.monotonic, trust: settings.upstreamTrust) {
            attach(idle, exchange)
            return connected(idle, &scratch)
        }
        switch upstreams.takeRoom(endpoint.pool) {
        case .taken: connect(exchange, &scratch)
        case .idleElsewhere where mayWait: waitForRoom(exchange)
        case .idleElsewhere, .none: failed(exchange, .tooManyConnections, wasUsed: false, &scratch)
        }
    }

    /// Lets the exchange wait until the other workers have been asked.
    private mutating func waitForRoom(_ exchange: ExchangeIndex) {
        exchanges[exchange].state.wait(for: .room)
        upstreams.directory.pools[exchanges[exchange].endpoint.pool].room.waiting.append(exchanges.handle(exchange))
        upstreams.directory.roomIsWanted = true
    }

    /// Asks the other workers for what this turn found wanting, once for all of it; called once a turn.
    mutating func askForRoomIfDue(_ scratch: inout Scratch) {
        guard upstreams.directory.roomIsWanted else { return }
        upstreams.directory.roomIsWanted = false
        for pool in upstreams.directory.pools.indices where !upstreams.directory.pools[pool].room.waiting.isEmpty {
            upstreams.directory.roomIsWanted = true
            if let until = upstreams.directory.pools[pool].room.askedUntil {
                if now.monotonic >= until { roomMade(pool, &scratch) }
                continue
            }
            let count = upstreams.directory.pools[pool].room.waiting.count
            upstreams.directory.pools[pool].room.asked = count
            upstreams.directory.pools[pool].room.askedUntil = now.monotonic.advanced(milliseconds: Self.patience)
            if !services.makeRoom(upstreams.directory.pools[pool].settings.name, count) { roomMade(pool, &scratch) }
        }
    }

    /// The other workers have closed what they could: the exchanges for which they were asked go on or are refused, those
    /// that came since go on or are asked for in their turn.
    mutating func roomMade(_ pool: Int, _ scratch: inout Scratch) {
        var room = RoomQueue()
        swap(&room, &upstreams.directory.pools[pool].room)
        for (number, handle) in room.waiting.enumerated() {
            roomFound(handle, mayWait: number >= room.asked, &scratch)
        }
    }
}

/// The exchanges of one worker that wait for room at one upstream.
struct RoomQueue {
    var waiting: [Handle<Exchange>] = []
    /// For how many of them, from the first on, the other workers have been asked.
    var asked = 0
    /// When the answer is no longer waited for; nil while they have not been asked.
    var askedUntil: MonotonicTime?
}
