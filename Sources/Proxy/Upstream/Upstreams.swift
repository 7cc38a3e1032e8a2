import Gate
import HTTP
import System
import Telemetry
import Transport
import Wire

/// The upstream side of one worker: addresses, connections, the idle ones in a list for each address, and their timers.
struct Upstreams: ~Copyable {
    private let pin = AddressPin()
    var connections = Slab<UpstreamConnection> { UpstreamConnection() }
    /// The machines of HTTP/2 connections.
    var sessions = Slab<UpstreamCarrier> { UpstreamCarrier() }
    /// Connections with something to send or to settle at the end of this turn.
    var unsettled: [Handle<UpstreamConnection>] = []
    /// Clients whose exchange has moved on a stream, or has ended there.
    var resumable: [Handle<Client>] = []

    /// Empty memory for the answer that a stream gets next.
    var spareInput = ByteBuffer()

    /// Whether connections over HTTP/2, or clients of their streams, have work left at the end of a turn.
    var areAnyUnsettled: Bool { !unsettled.isEmpty || !resumable.isEmpty }
    var timers: TimerWheel
    /// When abandoned streams are reset next.
    var resetsNext = MonotonicTime(nanoseconds: 0)
    /// Abandoned streams that are over, and still count for their clients.
    var ended: [AbandonedStream] = []
    var directory: UpstreamDirectory

    init(_ declarations: [UpstreamSnapshot], now: MonotonicTime) {
        directory = UpstreamDirectory(declarations)
        timers = TimerWheel(now: now)
    }

    // MARK: connections

    /// Starts a connection, for an exchange or a probe.
    mutating func open(_ endpoint: EndpointIndex, at now: MonotonicTime, in loop: borrowing EventLoop) throws(SystemFault) -> UpstreamIndex
    {
        let socket: Socket
        switch Socket.connect(to: directory.address(endpoint).address) {
        case .connected(let made), .inProgress(let made): socket = made
        case .failed(let fault): throw fault
        }
        let handle = connections.acquire()
        let upstream = handle.index
        connections[upstream].endpoint = endpoint
        connections[upstream].phase = .connecting
        directory[endpoint].connections += 1
        timers.set(upstream.id, deadline: now.advanced(milliseconds: directory.pools[endpoint.pool].settings.connectTimeout))
        do throws(SystemFault) {
            try connections[upstream].connection.open(socket, token: Token(.upstream, handle).bits, .write, in: loop)
        } catch {
            close(upstream)
            throw error
        }
        return upstream
    }

    /// Keeps bytes of an answer that were not consumed, if the connection still exists.
    mutating func keepInput(_ input: borrowing ByteBuffer, of upstream: Handle<UpstreamConnection>) {
        if !input.isEmpty, connections.isCurrent(upstream) { connections[upstream.index].input.append(input.readable) }
    }

    // MARK: idle connections

    /// Closes idle connections that have received something, before a request of this turn is sent on one of them: the bytes would
    /// be read as its answer.
    mutating func closeUnasked(_ ready: Int, in loop: borrowing EventLoop) {
        for index in 0..<ready {
            let token = Token(loop.ready(index).token)
            guard token.kind == .upstream, let upstream = token.element(of: connections) else { continue }
            if connections[upstream].phase == .idle { close(upstream) }
        }
    }

    /// Removes the most recently used idle connection from its list. One that was idle for longer than `trust`, in milliseconds, is
    /// probed first, and closed if the upstream has closed it or sent something.
    mutating func popIdle(_ endpoint: EndpointIndex, at now: MonotonicTime, trust: UInt64) -> UpstreamIndex? {
        while let idle = directory[endpoint].idleHead {
            let rested = now.nanoseconds(since: connections[idle].idleSince)
            guard rested > trust * 1_000_000, connections[idle].connection.socket.isReadable else {
                directory[endpoint].idleHead = connections[idle].nextIdle
                idleEnded(idle)
                return idle
            }
            close(idle)
        }
        return nil
    }

    /// Keeps the connection of an exchange that has ended well for the next one, for so many milliseconds.
    mutating func keep(_ upstream: UpstreamIndex, at now: MonotonicTime, for milliseconds: UInt64) {
        let endpoint = connections[upstream].endpoint
        connections[upstream].phase = .idle
        connections[upstream].wasUsed = true
        connections[upstream].idleSince = now
        idleBegan(upstream)
        connections[upstream].nextIdle = directory[endpoint].idleHead
        directory[endpoint].idleHead = upstream
        timers.set(upstream.id, deadline: now.advanced(milliseconds: milliseconds))
    }

    /// The connection of the pool that has been idle for longest.
    func maxIdle(_ pool: Int) -> UpstreamIndex? {
        var longest: (upstream: UpstreamIndex, since: MonotonicTime)?
        for upstream in connections.indices
        where connections[upstream].endpoint.pool == pool && (connections[upstream].phase == .idle || isIdleSession(upstream)) {
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

    /// How many connections of a pool are in each state.
    func states(_ pool: Int) -> [UpstreamConnectionState: Int] {
        var states: [UpstreamConnectionState: Int] = [:]
        for upstream in connections.indices where connections[upstream].endpoint.pool == pool && !connections[upstream].isStream {
            switch connections[upstream].phase {
            case .free: break
            case .connecting, .handshaking, .greeting: states[.connecting, default: 0] += 1
            case .multiplexed: states[isIdleSession(upstream) ? .idle : .active, default: 0] += 1
            case .busy, .tunnel, .ending, .probing: states[.active, default: 0] += 1
            case .idle: states[.idle, default: 0] += 1
            }
        }
        return states
    }

    // MARK: room

    enum Reservation {
        case reserved
        /// Other workers hold idle connections that they could close.
        case idleElsewhere
        case none
    }

    /// Reserves a connection within the pool's bound, closing an idle one of this worker to another address if need be.
    mutating func reserveConnection(_ pool: Int) -> Reservation {
        while !directory.pools[pool].reserveConnection() {
            // A connection releases its reservation before it stops counting as idle.
            guard directory.pools[pool].connections.hasIdle else { return directory.pools[pool].reserveConnection() ? .reserved : .none }
            guard let idle = maxIdle(pool) else { return .idleElsewhere }
            close(idle)
        }
        return .reserved
    }

    /// Closes idle connections for another worker's requests.
    mutating func yieldRoom(_ request: RoomRequest) {
        if let pool = directory.pool(named: request.upstream) {
            while let idle = maxIdle(pool), request.claim() { close(idle) }
        }
        request.answered()
    }

    /// Counts an idle connection, where the number of connections is bounded: only then may other workers need its room.
    mutating func idleBegan(_ upstream: UpstreamIndex) {
        let pool = connections[upstream].endpoint.pool
        guard !connections[upstream].isCountedIdle, directory.pools[pool].isBounded else { return }
        connections[upstream].isCountedIdle = true
        directory.pools[pool].connections.idleBegan()
    }

    /// The connection is used again or closed.
    mutating func idleEnded(_ upstream: UpstreamIndex) {
        guard connections[upstream].isCountedIdle else { return }
        connections[upstream].isCountedIdle = false
        directory.pools[connections[upstream].endpoint.pool].connections.idleEnded()
    }

    // MARK: the end

    /// Releases the index. The exchange that the connection carried must have been detached.
    mutating func close(_ upstream: UpstreamIndex) {
        let endpoint = connections[upstream].endpoint
        guard !connections[upstream].isStream else {
            releaseStream(upstream)
            timers.clear(upstream.id)
            connections[upstream].close()
            return connections.release(upstream)
        }
        if connections[upstream].session != nil { endSession(upstream) }
        if connections[upstream].phase == .idle { unlinkIdle(upstream, endpoint) }
        releaseRoom(upstream)
        idleEnded(upstream)
        timers.clear(upstream.id)
        connections[upstream].close()
        connections.release(upstream)
        directory[endpoint].connections -= 1
    }

    /// Gives back the connection's reservation, if it holds one.
    mutating func releaseRoom(_ upstream: UpstreamIndex) {
        guard connections[upstream].holdsRoom else { return }
        connections[upstream].holdsRoom = false
        directory.pools[connections[upstream].endpoint.pool].connections.release()
    }

    /// Says that an HTTP/2 connection ends, if the socket takes it at once.
    private mutating func endSession(_ upstream: UpstreamIndex) {
        if let session = connections[upstream].session, connections[upstream].phase == .multiplexed, !sessions[session].isBroken {
            sessions[session].http2.close(.noError, into: &connections[upstream].output)
            _ = connections[upstream].sendWaiting()
        }
        releaseSession(upstream)
    }

    /// After a reload: closes idle connections to retired addresses or above a lowered bound, and counts the others if a bound is
    /// new. A busy connection closes with its answer, or the last of them.
    mutating func closeRetired() {
        for upstream in connections.indices where connections[upstream].phase == .idle || isIdleSession(upstream) {
            let endpoint = connections[upstream].endpoint
            if directory[endpoint].isRetired || directory.pools[endpoint.pool].isOverBound {
                close(upstream)
            } else {
                idleBegan(upstream)
            }
        }
    }
}
