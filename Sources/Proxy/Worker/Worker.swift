package import Gate
import HTTP
package import Limits
import Redis
package import System
import Telemetry
import Threads
package import Transport
import Wire

/// One core's share of the gateway: listeners, clients, upstream connections, and the loop that drives them.
///
/// Built and run on one thread. It shares nothing; other threads reach it only through its mailbox.
///
/// A method stands here if it touches several of its tables. Those of one table stand on that table's type.
package struct Worker: ~Copyable {
    let id: Int
    var settings: WorkerSettings
    var loop: EventLoop
    let mailbox: Mailbox<WorkerMessage>
    let services: WorkerServices
    var downstream: Downstream
    var exchanges = Slab<Exchange> { Exchange() }
    var deadlines: Deadlines
    /// Requests that wait for their user's entitlement, by user.
    var waitingForUser: [TokenUser: [Handle<Exchange>]] = [:]
    var missedChanges = CatchUp()
    var missedKeys = CatchUp()
    /// Copies of requests, those under way and those that still gather content.
    var copies = 0
    /// Requests that wait for a refresh.
    var refreshesUnderWay = 0
    /// Pipes that exchanges hold; nil once the system has refused to splice.
    var pipes: Int? = 0
    var streams: StreamTable
    let encoders = EncoderPool()
    var unflushed = UnflushedAnswers()
    var upstreams: Upstreams
    var cache: WorkerCache
    var admission: Admission
    /// Counts requests, in this process or together with other gateways.
    var limits: LimitCounter
    var load: WorkerLoad
    var telemetry: WorkerTelemetry
    var refusals = RecentRefusals()
    var hottestKeys = HottestKeys()
    var apps = AppCensus()
    var now: Moment
    /// When the turn under way began on the machine's clock; nil where a test has the clock.
    var turnBegan: MonotonicTime?
    var phase = Phase.serving
    /// Whether this worker keeps serving the admin listeners after its last client has left, until `.othersEnded`.
    var outlastsOthers: Bool
    /// Whether the mailbox was posted to since it was last read.
    var hasMessages = true

    enum Phase: Equatable {
        case serving
        /// No new connections; each answer is the last of its connection. Ends at the deadline at the latest.
        case draining(until: MonotonicTime)
        case ended
    }

    /// Whether this worker drains because another process has its listeners.
    var handsOver = false
    /// In a drain: until when idle HTTP/1 connections stay open.
    var keepsIdleUntil: MonotonicTime?
}

extension Worker {
    /// Serves until it has drained after `.drain`.
    package mutating func run() {
        var scratch = Scratch()
        while phase != .ended {
            services.pulse.turned()
            turn(&scratch)
        }
        services.pulse.ended()
    }

    /// One turn: waits for events and handles them.
    mutating func turn(_ scratch: inout Scratch) {
        let longest = waitTime()
        let ready = loop.wait(milliseconds: longest)
        let moment = EventLoop.now()
        if moment.monotonic > now.monotonic.advanced(milliseconds: UInt64(longest) + Self.maxDelay) { turnIsLate() }
        turnBegan = moment.monotonic
        work(on: ready, at: moment, &scratch)
    }

    /// A turn without the wait: handles `ready` reports of the loop, and what is due at `moment`.
    mutating func work(on ready: Int, at moment: Moment, _ scratch: inout Scratch) {
        now = moment
        upstreams.closeUnasked(ready, in: loop)
        // Before requests: a client may send one because of what it was told after a message was posted.
        for index in 0..<ready where loop.ready(index).token == EventLoop.wakeToken { hasMessages = true }
        if hasMessages || loop.mayHaveMore(than: ready) { handleMessages(&scratch) }
        for index in 0..<ready { dispatch(loop.ready(index), &scratch) }
        expireTimers(&scratch)
        sweepStreamsIfDue(&scratch)
        flushAnswersIfDue(&scratch)
        countLimits(&scratch)
        if upstreams.areAnyUnsettled { settleUpstreams(&scratch) }
        settleSessions(&scratch)
        finishTurn(&scratch)
    }

    /// The longest wait, in milliseconds. With `maxDelay` it stays below the second after which a purchase is answered that this gateway has
    /// not acknowledged: a stop that made it so late is noticed.
    private static var longestWait: Int32 { 500 }

    private mutating func waitTime() -> Int32 {
        if !downstream.unsettled.isEmpty || !upstreams.unsettled.isEmpty { return 0 }
        // Health probes are started once a turn. Log lines and the end of a drain need shorter waits.
        var shortest: Int32 = telemetry.hasLines || phase != .serving ? 100 : Self.longestWait
        if downstream.acceptPausedUntil != nil { shortest = min(shortest, 100) }
        if load.isCounting { shortest = min(shortest, 10) }
        if upstreams.directory.roomIsWanted { shortest = min(shortest, 100) }
        if exchanges.count > 0 { shortest = streams.millisecondsToNext(now.monotonic, longest: shortest) }
        shortest = unflushed.millisecondsToNext(now.monotonic, longest: shortest)
        shortest = downstream.timers.millisecondsToNext(now.monotonic, longest: shortest)
        shortest = upstreams.timers.millisecondsToNext(now.monotonic, longest: shortest)
        shortest = deadlines.millisecondsToNext(now.monotonic, longest: shortest)
        if let deadline = limits.nextDeadline() {
            // Rounded up: a turn that is too early would find nothing to do.
            let wait = (deadline.nanoseconds(since: now.monotonic) + 999_999) / 1_000_000
            shortest = min(shortest, Int32(truncatingIfNeeded: min(wait, 1_000)))
        }
        return shortest
    }

    private mutating func dispatch(_ ready: Ready, _ scratch: inout Scratch) {
        let token = Token(ready.token)
        switch token.kind {
        case .waker: break
        case .listener: if !downstream.listeners[token.listener].isClosed { accept(token.listener, &scratch) }
        case .client:
            guard let client = token.element(of: downstream.clients) else { return }
            clientReady(client, ready, &scratch)
        case .upstream:
            guard let upstream = token.element(of: upstreams.connections) else { return }
            upstreamReady(upstream, ready, &scratch)
        case .redis:
            limits.ready(ready, now.monotonic, loop)
        }
    }

    private mutating func expireTimers(_ scratch: inout Scratch) {
        downstream.timers.expire(now.monotonic, into: &scratch.due)
        // The timeout of one may set another that is due as well: its old deadline no longer counts.
        for index in scratch.due.indices where !downstream.timers.isSet(scratch.due[index]) {
            clientTimedOut(SlabIndex(number: UInt32(scratch.due[index])), &scratch)
        }
        if !scratch.due.isEmpty { scratch.due.removeAll(keepingCapacity: true) }
        if !streams.open.isEmpty { expireStreamTimers(&scratch) }
        upstreams.timers.expire(now.monotonic, into: &scratch.due)
        for index in scratch.due.indices where !upstreams.timers.isSet(scratch.due[index]) {
            upstreamTimedOut(SlabIndex(number: UInt32(scratch.due[index])), &scratch)
        }
        if !scratch.due.isEmpty { scratch.due.removeAll(keepingCapacity: true) }
        if deadlines.isAnySet { expireDeadlines(&scratch) }
    }

    private mutating func finishTurn(_ scratch: inout Scratch) {
        if downstream.acceptPausedUntil != nil { resumeAcceptingIfDue() }
        countBuffersIfDue(&scratch)
        probeIfDue()
        watchOutliersIfDue()
        upstreams.resetAbandonedIfDue(now.monotonic, settings.clientShare)
        if !upstreams.ended.isEmpty { releaseEnded() }
        askForRoomIfDue(&scratch)
        telemetry.flushIfDue(now.monotonic)
        guard case .draining(let until) = phase else { return }
        closeIdleConnectionsIfDue(&scratch)
        let awaited = downstream.clients.count - (handsOver ? 0 : downstream.adminClients)
        let isDone = awaited == 0 && !outlastsOthers
        if isDone || now.monotonic >= until { end(&scratch) }
    }

    /// Ends the worker: the exchanges that are left are cut and logged, and everything is closed.
    private mutating func end(_ scratch: inout Scratch) {
        limits.end(now.monotonic)
        for index in exchanges.indices { exchanges[index].rare?.live?.ends(.drain) }
        for index in downstream.clients.indices where downstream.clients[index].phase != .free { abandon(index, cause: .drain, &scratch) }
        for index in upstreams.connections.indices where upstreams.connections[index].phase != .free { upstreams.close(index) }
        releaseEnded()
        for index in downstream.listeners.indices { downstream.closeListener(index, in: loop) }
        telemetry.flushAll()
        phase = .ended
        for message in mailbox.close() {
            if case .confirm(let reply) = message { reply() }
            if case .report(let reply) = message { reply(telemetry.metrics.snapshot()) }
            if case .askEnded(let id, let reply) = message { reply(admission.hasEnded(id)) }
            if case .take(_, let reply) = message { reply(nil) }
            if case .lease(_, let reply) = message { reply(nil) }
            if case .makeRoom(let request) = message { request.answered() }
            if case .reportUpstreams(let reply) = message { reply(upstreamStatuses()) }
            if case .reportRefusals(let query, let reply) = message { reply(refusals.stories(query)) }
            if case .reportNewRefusals(let since, let limit, let reply) = message { reply(refusals.stories(since: since, limit: limit)) }
            if case .reportHottestKeys(let reply) = message { reply(hottestKeys.keys(at: now.wall)) }
            if case .takeApps(let reply) = message { reply(apps.take()) }
            if case .answered(_, let response, _) = message { response.stream?.ended() }
            if case .cache(.ask(_, let seat?)) = message { tell(seat.worker, .news(seat.exchange, .pass)) }
            if case .cache(.select(_, _, let reply)) = message { reply(CacheTotals()) }
        }
    }
}

extension Worker {
    /// Builds a worker on the thread that will run it.
    package init(
        id: Int, settings: WorkerSettings, loop: consuming EventLoop, mailbox: Mailbox<WorkerMessage>,
        services: WorkerServices, listeners: [Listener], upstreams: [UpstreamSnapshot], admission: consuming Admission,
        limits: consuming LimitCounter, telemetry: consuming WorkerTelemetry
    ) throws(SystemFault) {
        let now = EventLoop.now()
        self.id = id
        self.settings = settings
        self.loop = loop
        self.mailbox = mailbox
        self.services = services
        outlastsOthers = services.outlastsOthers
        self.now = now
        streams = StreamTable(now: now.monotonic)
        downstream = Downstream(listeners, services.bounds.clients, now: now.monotonic)
        deadlines = Deadlines(now: now.monotonic)
        self.upstreams = Upstreams(upstreams, now: now.monotonic)
        cache = WorkerCache(
            generation: admission.policy.version, capacity: settings.cacheBytes, keepsForms: admission.policy.cachesStagedAnswers)
        self.admission = admission
        self.limits = limits
        load = WorkerLoad(services.bounds)
        self.telemetry = telemetry
        try downstream.watchListeners(in: self.loop)
    }
}
