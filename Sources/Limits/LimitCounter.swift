package import Gate
package import HTTP
package import Redis
package import Telemetry
package import Transport
package import Wire

/// Counts the charges of requests: in this process, or in Redis together with other gateways. One per worker, on its thread.
///
/// `charge` decides at once or gives a wait. In each turn of the loop `poll` reads replies, then `nextVerdict` and `send` take turns
/// until neither has anything, since a verdict may let another request be charged. The failure mode, leases, the deny cache and
/// the nodes of a cluster are the business of this target alone.
package struct LimitCounter: ~Copyable {
    private let limiter: SharedLimiter
    private var shared: SharedCounting?

    /// Counts in this process, unless there is `shared`. `limiter` is that of all workers.
    package init(_ limiter: SharedLimiter, shared: consuming SharedCounting? = nil) {
        self.limiter = limiter
        self.shared = shared
    }

    // MARK: charges

    /// Charges one unit to all counts of `charge`. Writes `verdict` and returns nil, or returns a wait: `nextVerdict` then has the
    /// verdict under `ticket`, at the deadline at the latest.
    package mutating func charge(
        _ charge: inout LimitCharge, ticket: UInt64, now: MonotonicTime, into verdict: inout LimitVerdict
    ) -> LimitWait? {
        guard shared != nil else {
            limiter.take(&charge, now: now, into: &verdict)
            return nil
        }
        return shared!.limitClient.charge(&charge, ticket: ticket, now: now, into: &verdict)
    }

    /// Counts the attestation of a request in shadow mode, if it has one that counts once.
    package func watch(_ decision: inout Decision, now: MonotonicTime) { limiter.watch(&decision, now: now) }

    /// Gives back the single uses of a request, after its limits have admitted it in this process.
    package func refundSingleUses(_ charge: inout LimitCharge, now: MonotonicTime) {
        while let use = charge.takeSingleUse() { limiter.refund(use, credit: use.rate.interval, now: now) }
    }

    /// The request has gone, and gets no verdict.
    package mutating func cancel(_ wait: LimitWait) { if shared != nil { shared!.limitClient.cancel(wait) } }

    // MARK: a turn of the loop

    /// Whether other gateways count too: without them no request waits, and nothing is due.
    package var isShared: Bool { shared != nil }

    /// When `poll` is due; nil if no time is set.
    package mutating func nextDeadline() -> MonotonicTime? { shared == nil ? nil : shared!.nextDeadline() }

    /// Events of the loop for the connections to Redis.
    package mutating func ready(_ ready: Ready, _ now: MonotonicTime, _ loop: borrowing EventLoop) {
        if shared != nil { shared!.nodes.ready(ready, now, loop) }
    }

    /// Reads replies, and does what is due.
    package mutating func poll(_ now: MonotonicTime, _ loop: borrowing EventLoop, _ metrics: inout WorkerMetrics) {
        guard shared != nil else { return }
        shared!.nodes.timedOut(now, loop)
        shared!.readResults(now, &metrics)
        shared!.limitClient.expire(now)
        shared!.lookAfterStore(now)
        shared!.sendHeartbeat(now)
        shared!.sendParked(now)
    }

    /// The next verdict of a waiting request, and its ticket; nil if there is none.
    package mutating func nextVerdict(into verdict: inout LimitVerdict) -> UInt64? {
        shared == nil ? nil : shared!.limitClient.nextVerdict(into: &verdict)
    }

    /// Sends the commands of new charges. Returns whether that gave verdicts: a command that cannot be sent is decided at once.
    package mutating func send(_ now: MonotonicTime, _ metrics: inout WorkerMetrics) -> Bool {
        guard shared != nil else { return false }
        let sent = shared!.sendCommands(now)
        if sent > 0 { metrics.redisBatch(sent) }
        return shared!.limitClient.hasVerdicts
    }

    /// Writes what `send` and the questions of the control plane have queued.
    package mutating func flush(_ now: MonotonicTime, _ loop: borrowing EventLoop) { if shared != nil { shared!.nodes.flush(now, loop) } }

    /// The next change of a connection to Redis, for the log and readiness; nil if there is none.
    package mutating func takeChange() -> RedisNodes.Change? { shared == nil ? nil : shared!.nodes.takeChange() }

    /// Whether a reply has shown that the map of the cluster is out of date. Once for each time that it is wanted.
    package mutating func takeMapWanted(_ now: MonotonicTime) -> Bool { shared == nil ? false : shared!.nodes.takeMapWanted(now) }

    // MARK: the control plane

    /// Charges one on each of these counts in Redis, or on none. The reply is nil without Redis.
    package mutating func take(_ items: [LimitCharge.Item], _ reply: @escaping TakeReply, _ now: MonotonicTime) {
        if shared == nil { reply(nil) } else { shared!.ask(items, reply, now) }
    }

    /// Returns in Redis what was charged at `chargedAt` on its clock.
    package mutating func refund(_ items: [LimitCharge.Item], chargedAt: UInt64, _ now: MonotonicTime) {
        if shared != nil { shared!.refund(items, chargedAt: chargedAt, now) }
    }

    /// Calls the script of leases. The reply is nil without Redis.
    package mutating func lease(_ call: LeaseCall, _ reply: @escaping LeaseReply, _ now: MonotonicTime) {
        if shared == nil { reply(nil) } else { shared!.ask(call, reply, now) }
    }

    /// The primary is another server by now.
    package mutating func adopt(_ server: RedisServer, _ now: MonotonicTime) { if shared != nil { shared!.nodes.replace(by: server, now) } }

    /// The cluster has this map by now.
    package mutating func adopt(_ map: RedisClusterMap, _ now: MonotonicTime) { if shared != nil { shared!.nodes.adopt(map, now) } }

    /// The worker ends: every open question of the control plane gets no reply.
    package mutating func end(_ now: MonotonicTime) { if shared != nil { shared!.forgetAsked(now) } }

    /// Sets the gauges of Redis.
    package mutating func gauge(_ metrics: inout WorkerMetrics) {
        guard shared != nil else { return }
        metrics.rateLimitFallback(shared!.nodes.isCluster ? !shared!.nodes.areAllUsable : shared!.isAway)
        var (breaker, ready, away) = (0, 0, 0)
        for node in 0..<shared!.nodes.count where shared!.nodes.isInUse(node) {
            breaker = max(breaker, shared!.nodes.breaker(node).metric)
            if shared!.nodes.isUsable(node) { ready += 1 } else { away += 1 }
        }
        metrics.redisBreaker(breaker)
        metrics.redisNodes(ready: ready, away: away)
    }
}

extension RedisBreaker.State {
    /// The value of `tollgate_redis_breaker_state`.
    fileprivate var metric: Int {
        switch self {
        case .closed: 0
        case .halfOpen: 1
        case .open: 2
        }
    }
}

extension Admission {
    /// An admission whose keys, WebSockets and ended sessions are those of `limiter`.
    package init(policy: Policy, limiter: SharedLimiter, cacheCapacity: Int = 65_536) {
        self.init(
            policy: policy, hash: limiter.hash, sockets: limiter.sockets, revoked: limiter.revoked, cacheCapacity: cacheCapacity)
    }

    /// Decides one request, with limits counted in this process.
    package mutating func decide(
        _ head: borrowing RequestHead, _ bytes: RawSpan, peer: Peer, at now: Moment, refresh: RefreshAnswer? = nil,
        check: CheckEndpoint? = nil, limiter: SharedLimiter, _ decision: inout Decision
    ) {
        let isCharged = admit(head, bytes, peer: peer, at: now, refresh: refresh, check: check, &decision)
        limiter.watch(&decision, now: now.monotonic)
        guard isCharged else { return }
        limiter.take(&decision.charge, now: now.monotonic, into: &decision.limitVerdict)
        charged(&decision)
    }
}
