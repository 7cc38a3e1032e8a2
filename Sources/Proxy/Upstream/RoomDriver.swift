import Gate
import Transport
import Wire

/// Finds a connection to an upstream whose `max-connections` is reached: an idle connection of this worker to another address is
/// closed at once, one of another worker on request. A request is refused only if all connections are busy.
extension Worker {
    /// Gives the exchange a connection, makes it wait for one if `mayWait`, or refuses it.
    mutating func findConnection(_ exchange: ExchangeIndex, mayWait: Bool, _ scratch: inout Scratch) {
        let endpoint = exchanges[exchange].attempt.endpoint
        let needsNew = exchanges[exchange].attempt.needsNewConnection
        if let loss = countCarried(exchange) { return failed(exchange, loss, wasUsed: false, &scratch) }
        if !needsNew, let idle = upstreams.popIdle(endpoint, at: now.monotonic, trust: settings.upstreamTrust) {
            attach(idle, exchange)
            return connected(idle, &scratch)
        }
        let speaksHTTP2 = upstreams.directory.address(endpoint).speaksHTTP2
        if speaksHTTP2, findStream(exchange, onNew: needsNew, &scratch) { return }
        switch upstreams.reserveConnection(endpoint.pool) {
        case .reserved: connect(exchange, &scratch)
        // An idle connection that was used before its worker could close it may be followed by another.
        case .idleElsewhere where mayWait || exchanges[exchange].attempt.mayWaitForRoom(at: now.monotonic):
            if let loss = countPending(exchange) { return failed(exchange, loss, wasUsed: false, &scratch) }
            waitForRoom(exchange)
        case .idleElsewhere, .none:
            // Without room for another connection, one that is shared has to do.
            if needsNew, speaksHTTP2, findStream(exchange, onNew: false, &scratch) { return }
            failed(exchange, .tooManyConnections, wasUsed: false, &scratch)
        }
    }

    /// Makes the exchange wait until the other workers have answered.
    private mutating func waitForRoom(_ exchange: ExchangeIndex) {
        exchanges[exchange].attempt.wantsRoomSince = exchanges[exchange].attempt.wantsRoomSince ?? now.monotonic
        exchanges[exchange].wait(for: .room)
        upstreams.directory.pools[exchanges[exchange].attempt.endpoint.pool].room.waiting.append(exchanges.handle(exchange))
        upstreams.directory.roomIsWanted = true
    }

    /// Asks the other workers for all the connections that requests wait for; called once a turn.
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
            upstreams.directory.pools[pool].room.askedUntil = now.monotonic.advanced(milliseconds: RoomQueue.patience)
            if !services.makeRoom(upstreams.directory.pools[pool].settings.name, count) { roomMade(pool, &scratch) }
        }
    }

    /// The other workers have closed what they could: the exchanges for which they were asked go on or are refused; later ones go
    /// on or wait for the next round.
    mutating func roomMade(_ pool: Int, _ scratch: inout Scratch) {
        var room = RoomQueue()
        swap(&room, &upstreams.directory.pools[pool].room)
        for (number, handle) in room.waiting.enumerated() {
            connectionFreed(handle, mayWait: number >= room.asked, &scratch)
        }
    }
}

/// The exchanges of one worker that wait for a connection to one upstream.
struct RoomQueue {
    /// Milliseconds that the other workers have to answer: one that is blocked must not block requests here.
    static let patience: UInt64 = 1_000

    var waiting: [Handle<Exchange>] = []
    /// The first so many of them are those that the other workers were asked for.
    var asked = 0
    /// Deadline of the other workers' answer; nil while they have not been asked.
    var askedUntil: MonotonicTime?
}

extension Attempt {
    /// Whether it began to wait for a connection so recently that it may wait again.
    fileprivate func mayWaitForRoom(at now: MonotonicTime) -> Bool {
        wantsRoomSince.map { now < $0.advanced(milliseconds: RoomQueue.patience) } ?? false
    }
}
