package import Gate
package import HTTP
import Redis
import Telemetry
package import Transport
import Wire

/// Bounds and time limits of every connection; milliseconds and bytes.
package struct WorkerSettings: Sendable {
    package var headLimits = HeadLimits()
    /// From the first byte of a head (or from the connection, for TLS and PROXY protocol) to its last.
    package var headTimeout: UInt64 = 10_000
    /// Between two requests on a kept connection.
    package var idleTimeout: UInt64 = 75_000
    /// What a request body may take before it must have come at 1 KiB a second on average.
    package var bodyTimeout: UInt64 = 30_000
    /// For the client to take something of what waits for it; in the long run it must take 1 KiB a second.
    package var sendTimeout: UInt64 = 60_000
    /// For a handler of the gateway's own to answer.
    package var localTimeout: UInt64 = 30_000
    /// For an expired token to be refreshed.
    package var refreshTimeout: UInt64 = 12_000
    /// An idle upstream connection is closed after this.
    package var upstreamIdleTimeout: UInt64 = 60_000
    /// An idle upstream connection is closed when the loop tells that something came on it. One that was idle for longer
    /// than this is also looked at just before it is used again; on a fresher one that call is spared, and an answer that
    /// nobody asked for could still be taken for the next one's if it came after the loop last looked, in the same turn.
    package var upstreamTrust: UInt64 = 1_000
    /// Client connections of this worker; past it a new one is closed at once.
    package var maxClients = 100_000

    package init() {}
}

/// One core's share of the gateway: its listeners, its clients, its upstream connections, and the loop that drives them.
///
/// Built and run on one thread. Nothing of it is shared; other threads reach it through its mailbox alone.
package struct Worker: ~Copyable {
    let id: Int
    var settings: WorkerSettings
    var loop: EventLoop
    let mailbox: Mailbox<WorkerMessage>
    let services: WorkerServices
    var listeners: [Listener] = []

    var clients = Slab<ClientConnection> { ClientConnection() }
    var clientTimers: TimerWheel
    var exchanges = Slab<Exchange> { Exchange() }
    /// By user: the connections whose request waits for the user's standing.
    var parked: [String: [Handle]] = [:]
    /// How many requests wait for a refresh, and the number of the latest.
    var awaitedRefreshes = 0
    var lastRefresh: UInt64 = 0
    /// The second in which answers under way were last looked at.
    var streamsSeenAt: Int64 = 0
    var upstreams = Slab<UpstreamConnection> { UpstreamConnection() }
    var upstreamTimers: TimerWheel
    var directory: UpstreamDirectory
    var admission: Admission
    /// Counts limits together with other gateways; nil where this process counts alone.
    var shared: SharedCounting?
    var telemetry: WorkerTelemetry
    var refusals = RecentRefusals()
    /// Pipes that exchanges have; nil where the system has no use for them.
    var pipes: Int? = 0

    /// What TLS sessions work in; one of them at a time.
    var workspace = TLSWorkspace()
    var now: Moment
    var phase = Phase.serving
    /// Drains on for the admin listeners although none of its own clients is left.
    var outlastsOthers: Bool
    /// Woken by the mailbox since it was last emptied.
    var hasMessages = true
    /// Connections of the admin listeners: a drain does not wait for them.
    var adminClients = 0
    /// When listening is tried again after the process had no descriptor left.
    var acceptPausedUntil: MonotonicTime?

    enum Phase: Equatable {
        case serving
        /// No new connections; every answer is the last of its connection. Ends at the deadline at the latest.
        case draining(until: MonotonicTime)
        case ended
    }
}

/// What one turn of the loop works in: buffers and parsed heads that belong to no connection.
struct Scratch: ~Copyable {
    /// Where bytes are received; moved out while a connection works on them.
    var input = ByteBuffer(capacity: ReceiveRoom.most + 64 * 1_024)
    var output = ByteBuffer(capacity: 64 * 1_024)
    var request = RequestHead()
    var response = ResponseHead()
    var trailers = FieldTable()
    var decision = Decision()
    var due: [Int] = []
    /// A large buffer that nobody works in: for when a connection has kept the one it was working in.
    private var spare = ByteBuffer()

    static var leastSpare: Int { 64 * 1_024 }

    mutating func takeInput() -> ByteBuffer {
        var taken = ByteBuffer()
        swap(&taken, &input)
        if taken.capacity == 0 { swap(&taken, &spare) }
        return taken
    }

    /// Takes the memory of a buffer that is used up.
    mutating func recycle(_ buffer: inout ByteBuffer) {
        if spare.capacity == 0, buffer.capacity >= Self.leastSpare {
            buffer.removeAll()
            swap(&spare, &buffer)
        } else {
            buffer = ByteBuffer()
        }
    }

    mutating func putBack(_ buffer: consuming ByteBuffer) {
        buffer.removeAll()
        input = buffer
    }
}

extension Worker {
    /// Serves until it has drained after `.drain`. Returns on the thread that called it.
    package mutating func run() {
        var scratch = Scratch()
        while phase != .ended { turn(&scratch) }
    }

    /// Waits for events and works on all of them once.
    mutating func turn(_ scratch: inout Scratch) {
        let ready = loop.wait(milliseconds: waitTime())
        work(on: ready, at: EventLoop.now(), &scratch)
    }

    /// A turn without its waiting: works on so many reports of the loop, and on what is due at `moment`.
    mutating func work(on ready: Int, at moment: Moment, _ scratch: inout Scratch) {
        now = moment
        closeUnasked(ready)
        for index in 0..<ready { dispatch(loop.ready(index), &scratch) }
        expireTimers(&scratch)
        if hasMessages { handleMessages(&scratch) }
        shareCounts(&scratch)
        finishTurn(&scratch)
    }

    /// Closes the idle upstream connections on which something has come before any request of this turn is put on one: it
    /// would be taken for the answer.
    private mutating func closeUnasked(_ ready: Int) {
        for index in 0..<ready {
            let token = Token(loop.ready(index).token)
            guard token.kind == .upstream, token.names(upstreams.generation(token.index)) else { continue }
            if upstreams[token.index].phase == .idle { closeUpstream(token.index) }
        }
    }

    private mutating func waitTime() -> Int32 {
        // Probes are looked at once a turn; lines and the end of a drain should not wait so long.
        var shortest: Int32 = telemetry.hasLines || phase != .serving ? 100 : 1_000
        if directory.roomIsWanted { shortest = min(shortest, 100) }
        shortest = clientTimers.millisecondsToNext(now.monotonic, longest: shortest)
        shortest = upstreamTimers.millisecondsToNext(now.monotonic, longest: shortest)
        if shared != nil, let deadline = shared!.nextDeadline() {
            // Rounded up, for a turn too early would find nothing to do.
            let wait = (deadline.nanoseconds(since: now.monotonic) + 999_999) / 1_000_000
            shortest = min(shortest, Int32(truncatingIfNeeded: min(wait, 1_000)))
        }
        return shortest
    }

    private mutating func dispatch(_ ready: Ready, _ scratch: inout Scratch) {
        let token = Token(ready.token)
        switch token.kind {
        case .waker: hasMessages = true
        case .listener: accept(token.index, &scratch)
        case .client:
            guard token.names(clients.generation(token.index)) else { return }
            clientReady(token.index, ready, &scratch)
        case .upstream:
            guard token.names(upstreams.generation(token.index)) else { return }
            upstreamReady(token.index, ready, &scratch)
        case .redis:
            if shared != nil { shared!.redis.ready(ready, now.monotonic, loop, &workspace) }
        }
    }

    private mutating func expireTimers(_ scratch: inout Scratch) {
        scratch.due.removeAll(keepingCapacity: true)
        clientTimers.expire(now.monotonic, into: &scratch.due)
        // What the timeout of one sets for another is a new deadline, and the old one is none any more.
        for index in scratch.due.indices where !clientTimers.isSet(scratch.due[index]) {
            clientTimedOut(scratch.due[index], &scratch)
        }
        scratch.due.removeAll(keepingCapacity: true)
        upstreamTimers.expire(now.monotonic, into: &scratch.due)
        for index in scratch.due.indices where !upstreamTimers.isSet(scratch.due[index]) {
            upstreamTimedOut(scratch.due[index], &scratch)
        }
    }

    private mutating func finishTurn(_ scratch: inout Scratch) {
        if let until = acceptPausedUntil, now.monotonic >= until { resumeAccepting() }
        probeIfDue()
        askForRoomIfDue(&scratch)
        endStreamsIfDue(&scratch)
        telemetry.flushIfDue(now.monotonic)
        guard case .draining(let until) = phase else { return }
        let isDone = clients.count == adminClients && !outlastsOthers
        if isDone || now.monotonic >= until { end(&scratch) }
    }

    /// Nobody is served any more: what is left is cut, logged and closed.
    private mutating func end(_ scratch: inout Scratch) {
        if shared != nil {
            shared!.forgetAsked()
        }
        for index in clients.indices where clients[index].phase != .free { abandon(index, &scratch) }
        for index in upstreams.indices where upstreams[index].phase != .free { closeUpstream(index) }
        for index in listeners.indices where listeners[index].isAdmin { listeners[index].socket.close() }
        telemetry.flush()
        phase = .ended
        for message in mailbox.close() {
            if case .report(let reply) = message { reply(telemetry.metrics.snapshot()) }
            if case .makeRoom(let request) = message { request.answered() }
            if case .tellRefusals(let requestID, let limit, let reply) = message { reply(refusals.stories(requestID, limit: limit)) }
        }
    }
}

/// What an epoll event is about, in 64 bits: a kind, the low 24 bits of a generation, an index.
struct Token {
    enum Kind: UInt8 { case waker = 0, listener, client, upstream, redis }

    let kind: Kind
    let index: Int
    private let generation: UInt32

    init(_ kind: Kind, _ handle: Handle) {
        self.kind = kind
        index = Int(handle.index)
        generation = handle.generation & 0xff_ffff
    }

    init(_ bits: UInt64) {
        kind = Kind(rawValue: UInt8(truncatingIfNeeded: bits >> 56)) ?? .waker
        index = Int(UInt32(truncatingIfNeeded: bits))
        generation = UInt32(truncatingIfNeeded: bits >> 32) & 0xff_ffff
    }

    var bits: UInt64 { UInt64(kind.rawValue) << 56 | UInt64(generation) << 32 | UInt64(index) }

    /// Whether the event is of the element that lives there now, not of one that was closed earlier in the same turn.
    func names(_ current: UInt32) -> Bool { current & 0xff_ffff == generation }
}

extension Worker {
    /// Builds a worker on the thread that will run it.
    package init(
        id: Int, settings: WorkerSettings, loop: consuming EventLoop, mailbox: Mailbox<WorkerMessage>,
        services: WorkerServices, listeners: [Listener], upstreams: [UpstreamSnapshot], admission: consuming Admission,
        shared: consuming SharedCounting? = nil, telemetry: consuming WorkerTelemetry
    ) throws(SystemFault) {
        let now = EventLoop.now()
        self.id = id
        self.settings = settings
        self.loop = loop
        self.mailbox = mailbox
        self.services = services
        outlastsOthers = services.outlastsOthers
        self.listeners = listeners
        self.now = now
        clientTimers = TimerWheel(now: now.monotonic)
        upstreamTimers = TimerWheel(now: now.monotonic)
        directory = UpstreamDirectory(upstreams)
        self.admission = admission
        self.shared = shared
        self.telemetry = telemetry
        for index in listeners.indices {
            try self.loop.add(listeners[index].socket, token: listenerToken(index).bits, .read)
        }
    }

    /// Watches a new socket. What cannot be watched cannot be served: the caller closes it.
    func watchNew(_ socket: Socket, _ token: Token, _ interest: Interest) -> Bool {
        do {
            try loop.add(socket, token: token.bits, interest)
            return true
        } catch {
            return false
        }
    }

    /// Changes what a watched socket is watched for. The kernel has no reason to refuse it for a socket that is
    /// watched; should it all the same, the connection's timer ends it.
    func watch(_ socket: Socket, _ token: Token, _ interest: Interest) {
        do {
            try loop.modify(socket, token: token.bits, interest)
        } catch {}
    }
}
