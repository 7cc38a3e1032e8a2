package import Gate
import HTTP
import Redis
import Telemetry
package import Transport
import Wire

/// One core's share of the gateway: its listeners, its clients, its upstream connections, and the loop that drives them.
///
/// Built and run on one thread. Nothing of it is shared; other threads reach it through its mailbox alone.
package struct Worker: ~Copyable {
    let id: Int
    var settings: WorkerSettings
    var loop: EventLoop
    let mailbox: Mailbox<WorkerMessage>
    let services: WorkerServices
    var downstream: Downstream
    var exchanges = Slab<Exchange> { Exchange() }
    /// By user: the requests that wait for the user's entitlement.
    var waitingForUser: [String: [Handle<Exchange>]] = [:]
    /// Requests that wait for a refresh.
    var refreshesUnderWay = 0
    /// Pipes that exchanges have; nil where the system has no use for them.
    var pipes: Int? = 0
    /// The second in which answers under way were last checked for their end.
    var streamsCheckedAt: Int64 = 0
    var upstreams: Upstreams
    var admission: Admission
    /// Counts limits together with other gateways; nil where this process counts alone.
    var shared: SharedCounting?
    var telemetry: WorkerTelemetry
    var refusals = RecentRefusals()
    var now: Moment
    var phase = Phase.serving
    /// Drains on for the admin listeners although none of its own clients is left.
    var outlastsOthers: Bool
    /// Woken by the mailbox since it was last emptied.
    var hasMessages = true

    enum Phase: Equatable {
        case serving
        /// No new connections; every answer is the last of its connection. Ends at the deadline at the latest.
        case draining(until: MonotonicTime)
        case ended
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
            guard token.kind == .upstream, let upstream = token.element(of: upstreams.connections) else { continue }
            if upstreams.connections[upstream].phase == .idle { upstreams.close(upstream) }
        }
    }

    private mutating func waitTime() -> Int32 {
        // Probes are looked at once a turn; lines and the end of a drain should not wait so long.
        var shortest: Int32 = telemetry.hasLines || phase != .serving ? 100 : 1_000
        if upstreams.directory.roomIsWanted { shortest = min(shortest, 100) }
        shortest = downstream.timers.millisecondsToNext(now.monotonic, longest: shortest)
        shortest = upstreams.timers.millisecondsToNext(now.monotonic, longest: shortest)
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
        case .listener: accept(token.listener, &scratch)
        case .client:
            guard let client = token.element(of: downstream.clients) else { return }
            clientReady(client, ready, &scratch)
        case .upstream:
            guard let upstream = token.element(of: upstreams.connections) else { return }
            upstreamReady(upstream, ready, &scratch)
        case .redis:
            if shared != nil { shared!.redis.ready(ready, now.monotonic, loop) }
        }
    }

    private mutating func expireTimers(_ scratch: inout Scratch) {
        scratch.due.removeAll(keepingCapacity: true)
        downstream.timers.expire(now.monotonic, into: &scratch.due)
        // What the timeout of one sets for another is a new deadline, and the old one is none any more.
        for index in scratch.due.indices where !downstream.timers.isSet(scratch.due[index]) {
            clientTimedOut(SlabIndex(number: UInt32(scratch.due[index])), &scratch)
        }
        scratch.due.removeAll(keepingCapacity: true)
        upstreams.timers.expire(now.monotonic, into: &scratch.due)
        for index in scratch.due.indices where !upstreams.timers.isSet(scratch.due[index]) {
            upstreamTimedOut(SlabIndex(number: UInt32(scratch.due[index])), &scratch)
        }
    }

    private mutating func finishTurn(_ scratch: inout Scratch) {
        if let until = downstream.acceptPausedUntil, now.monotonic >= until { downstream.resumeAccepting(isServing: phase == .serving, in: loop) }
        probeIfDue()
        askForRoomIfDue(&scratch)
        endStreamsIfDue(&scratch)
        telemetry.flushIfDue(now.monotonic)
        guard case .draining(let until) = phase else { return }
        let isDone = downstream.clients.count == downstream.adminClients && !outlastsOthers
        if isDone || now.monotonic >= until { end(&scratch) }
    }

    /// Nobody is served any more: what is left is cut, logged and closed.
    private mutating func end(_ scratch: inout Scratch) {
        if shared != nil {
            shared!.forgetAsked()
        }
        for index in downstream.clients.indices where downstream.clients[index].phase != .free { abandon(index, &scratch) }
        for index in upstreams.connections.indices where upstreams.connections[index].phase != .free { upstreams.close(index) }
        for index in downstream.listeners.indices where downstream.listeners[index].isAdmin { downstream.listeners[index].socket.close() }
        telemetry.flush()
        phase = .ended
        for message in mailbox.close() {
            if case .report(let reply) = message { reply(telemetry.metrics.snapshot()) }
            if case .makeRoom(let request) = message { request.answered() }
            if case .tellRefusals(let requestID, let limit, let reply) = message { reply(refusals.stories(requestID, limit: limit)) }
        }
    }
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
        self.now = now
        downstream = Downstream(listeners, now: now.monotonic)
        self.upstreams = Upstreams(upstreams, now: now.monotonic)
        self.admission = admission
        self.shared = shared
        self.telemetry = telemetry
        try downstream.watchListeners(in: self.loop)
    }
}
