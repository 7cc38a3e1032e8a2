import Transport
import Wire

/// The upstreams' side of one worker: their addresses, the connections there, idle ones in lists by address, and their
/// clocks.
struct Upstreams: ~Copyable {
    var connections = Slab<UpstreamConnection> { UpstreamConnection() }
    var timers: TimerWheel
    var directory: UpstreamDirectory

    init(_ declarations: [UpstreamSnapshot], now: MonotonicTime) {
        directory = UpstreamDirectory(declarations)
        timers = TimerWheel(now: now)
    }

    // MARK: idle connections

    /// Takes the most recently used idle connection out of its list; closes those on which something came unasked, which
    /// are looked at if they have been idle for longer than `trust`, in milliseconds.
    mutating func takeIdle(_ endpoint: EndpointIndex, at now: MonotonicTime, trust: UInt64) -> UpstreamIndex? {
        while let idle = directory[endpoint].idleHead {
            let rested = now.nanoseconds(since: connections[idle].idleSince)
            guard rested > trust * 1_000_000, connections[idle].connection.socket.isReadable else {
                directory[endpoint].idleHead = connections[idle].nextIdle
                restEnded(idle)
                return idle
            }
            close(idle)
        }
        return nil
    }

    /// The exchange has ended well: keeps its connection for the next one, for so many milliseconds.
    mutating func keep(_ upstream: UpstreamIndex, at now: MonotonicTime, for milliseconds: UInt64) {
        let endpoint = connections[upstream].endpoint
        connections[upstream].phase = .idle
        connections[upstream].wasUsed = true
        connections[upstream].idleSince = now
        restBegan(upstream)
        connections[upstream].nextIdle = directory[endpoint].idleHead
        directory[endpoint].idleHead = upstream
        timers.set(upstream.id, deadline: now.advanced(milliseconds: milliseconds))
    }

    /// The connection of the pool that has been idle for longest.
    func longestIdle(_ pool: Int) -> UpstreamIndex? {
        var longest: (upstream: UpstreamIndex, since: MonotonicTime)?
        for upstream in connections.indices
        where connections[upstream].phase == .idle && connections[upstream].endpoint.pool == pool {
            let since = connections[upstream].idleSince
            if longest.map({ since < $0.since }) ?? true { longest = (upstream, since) }
        }
        return longest?.upstream
    }

    private mutating func unlinkIdle(_ upstream: UpstreamIndex, _ endpoint: EndpointIndex) {
        let next = connections[upstream].nextIdle
        guard directory[endpoint].idleHead != upstream else {
            directory[endpoint].idleHead = next
            return
        }
        var at = directory[endpoint].idleHead
        while let current = at {
            if connections[current].nextIdle == upstream {
                connections[current].nextIdle = next
                return
            }
            at = connections[current].nextIdle
        }
    }

    // MARK: room

    enum Room {
        case taken
        /// Other workers hold connections that they could close.
        case idleElsewhere
        case none
    }

    /// Takes room for a connection, closing an idle one of this worker to another address if need be.
    mutating func takeRoom(_ pool: Int) -> Room {
        while !directory.pools[pool].takeRoom() {
            // A connection that was closed meanwhile gave its room back before it ceased to count as idle.
            guard directory.pools[pool].connections.hasIdle else { return directory.pools[pool].takeRoom() ? .taken : .none }
            guard let idle = longestIdle(pool) else { return .idleElsewhere }
            close(idle)
        }
        return .taken
    }

    /// Another worker's requests want room: closes idle connections for them.
    mutating func yieldRoom(_ request: RoomRequest) {
        if let pool = directory.pools.firstIndex(where: { $0.settings.name == request.upstream }) {
            while let idle = longestIdle(pool), request.claim() { close(idle) }
        }
        request.answered()
    }

    /// Other workers look for idle connections where the number is bounded, and only there is it worth counting them.
    private mutating func restBegan(_ upstream: UpstreamIndex) {
        let pool = connections[upstream].endpoint.pool
        guard !connections[upstream].isCountedIdle, directory.pools[pool].isBounded else { return }
        connections[upstream].isCountedIdle = true
        directory.pools[pool].connections.restBegan()
    }

    /// The connection is used again, or closed.
    private mutating func restEnded(_ upstream: UpstreamIndex) {
        guard connections[upstream].isCountedIdle else { return }
        connections[upstream].isCountedIdle = false
        directory.pools[connections[upstream].endpoint.pool].connections.restEnded()
    }

    // MARK: the end

    /// Gives the index back. The exchange that the connection carried must have been seen to.
    mutating func close(_ upstream: UpstreamIndex) {
        let endpoint = connections[upstream].endpoint
        if connections[upstream].phase == .idle { unlinkIdle(upstream, endpoint) }
        if connections[upstream].holdsRoom { directory.pools[endpoint.pool].connections.give() }
        restEnded(upstream)
        timers.clear(upstream.id)
        connections[upstream].close()
        connections.release(upstream)
        directory[endpoint].connections -= 1
    }

    /// Closes idle connections to addresses that are gone, and counts the others if their number is bounded now; a busy one
    /// ends with its answer.
    mutating func closeRetired() {
        for upstream in connections.indices where connections[upstream].phase == .idle {
            if directory[connections[upstream].endpoint].isRetired { close(upstream) } else { restBegan(upstream) }
        }
    }
}
