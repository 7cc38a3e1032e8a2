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
            connected(idle, &scratch)
        } else if takeRoom(pool) {
            connect(exchange, &scratch)
        } else if !mayWait || !awaitRoom(exchange) {
            failed(exchange, .tooManyConnections, wasUsed: false, &scratch)
        }
    }

    /// Takes room for a connection, closing an idle one of this worker to another address if need be.
    private mutating func takeRoom(_ pool: Int) -> Bool {
        while !directory.pools[pool].takeRoom() {
            guard directory.pools[pool].connections.hasIdle, let idle = longestIdle(pool) else { return false }
            closeUpstream(idle)
        }
        return true
    }

    /// The connection of the pool that has been idle for longest.
    private func longestIdle(_ pool: Int) -> Int? {
        var longest: Int?
        for upstream in upstreams.indices where upstreams[upstream].phase == .idle && upstreams[upstream].pool == pool {
            if longest == nil || upstreams[upstream].idleSince < upstreams[longest!].idleSince { longest = upstream }
        }
        return longest
    }

    /// Lets the exchange wait until other workers have been asked; false where that is in vain.
    private mutating func awaitRoom(_ exchange: Int) -> Bool {
        let pool = exchanges[exchange].pool
        guard directory.pools[pool].connections.hasIdle else { return false }
        exchanges[exchange].awaitsRoom = true
        directory.pools[pool].room.waiting.append(exchangeHandle(exchange))
        directory.roomIsWanted = true
        return true
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
