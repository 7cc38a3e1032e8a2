package import Gate
package import HTTP
package import Redis
package import Telemetry
package import Transport
package import Wire

/// What other threads tell a worker. Every payload is immutable; the worker swaps a field between two events.
package enum WorkerMessage: Sendable {
    /// A new configuration: rules, upstreams, certificates. Requests under way keep what was decided for them.
    case adopt(Policy, [UpstreamSnapshot], WorkerSettings, MetricLabels)
    /// New rules or keys alone.
    case adoptPolicy(Policy)
    /// Sessions of the gateway's own that have ended.
    case revoked([RevokedSession])
    /// What the accounts say of users: the answer to `lookUpUser`, or a change.
    case learnedUsers([UserTier])
    /// What the accounts said of users before may be out of date: they are to be asked again.
    case forgotUsers
    /// The outcome of a refresh that a request waits for.
    case refreshed(Handle<Exchange>, RefreshAnswer)
    /// An attempt at accounts that is to be charged on these counts; see `AwaitedReply`.
    case take([LimitCharge.Item], TakeReply)
    /// The same charged at this time by the clock of Redis, to be given back.
    case refund([LimitCharge.Item], chargedAt: UInt64)
    /// A lease that the control plane asks for; see `AwaitedReply`.
    case lease(LeaseCall, LeaseReply)
    /// New certificates for connections to come.
    case adoptCertificates(TLSServerContext)
    /// The addresses that an upstream's name resolves to now.
    case resolved(upstream: String, [UpstreamAddress])
    /// The addresses that the name of the Redis resolves to now.
    case redisResolved([SocketAddress])
    /// A probe's verdict, reached by the worker that probes.
    case learned(upstream: String, UpstreamAddress, healthy: Bool)
    /// Another worker wants room for connections to an upstream: `RoomRequest.answered` must follow.
    case makeRoom(RoomRequest)
    /// All others have answered what this worker asked for by `makeRoom`, for the upstream of this name.
    case roomMade(upstream: String)
    /// The answer of a local service.
    case answered(Handle<Exchange>, LocalResponse)
    /// A request for this worker's figures; the closure is called on the loop and must only hand them on.
    case report(@Sendable (MetricsSnapshot) -> Void)
    /// A request for the newest refusals, at most so many, or those of one request; the closure as with `report`.
    case tellRefusals(of: String?, limit: Int, @Sendable ([ExplainedRefusal]) -> Void)
    /// No new connections; every answer is the last of its connection; ends after so many milliseconds at the latest.
    case drain(within: UInt64)
    /// All other workers have ended: the one with the admin listeners may end too.
    case othersEnded
}

/// What a worker needs of the rest of the process: closures that do not block.
package struct WorkerServices: Sendable {
    /// Answers everything on the admin listeners.
    package var admin: LocalHandler
    /// Answers the routes whose target is local, by their number.
    package var local: [LocalHandler]
    /// An issuer, by its number in the policy's trust, signed with a key that is not known here.
    package var unknownKey: @Sendable (Int) -> Void
    /// The tier of a user is wanted; `.learnedUsers` must bring it, and soon.
    package var lookUpUser: @Sendable (String) -> Void
    /// An expired token is to be refreshed; the closure takes the answer, on any thread.
    package var refresh: @Sendable (RefreshOrder, @escaping @Sendable (RefreshAnswer) -> Void) -> Void
    /// A token of an own session came by for the first time, or for the first time in a while.
    package var sawToken: @Sendable (TokenDelivery) -> Void
    /// A probe's verdict changed; the other workers are to be told.
    package var healthChanged: @Sendable (String, UpstreamAddress, Bool) -> Void
    /// The clock of an upstream of this name, as it told a probe, and ours at that moment.
    package var sawClock: @Sendable (String, WallTime, WallTime) -> Void
    /// The process has no descriptor, port or memory left for a connection. Called as often as that is met.
    package var shortage: @Sendable (SystemFault) -> Void
    /// Asks all other workers for so many connections to the upstream of this name; `.roomMade` must follow. False where there
    /// is no other worker.
    package var makeRoom: @Sendable (String, Int) -> Bool
    /// Answers to a filtered route of this name, so many, had a body that is not JSON and were refused, or would have been but
    /// for its shadow. Called once a minute and route at most.
    package var answerNotJSON: @Sendable (String, Int, Bool) -> Void
    /// How things stand with Redis, as the worker of this number sees it.
    package var redisChanged: @Sendable (Int, RedisCondition) -> Void
    /// Whether this worker probes upstreams for all.
    package var probes: Bool
    /// Whether this worker, which answers for all on the admin listeners, drains on until `.othersEnded`.
    package var outlastsOthers: Bool

    package init(
        admin: @escaping LocalHandler, local: [LocalHandler] = [], unknownKey: @escaping @Sendable (Int) -> Void = { _ in },
        lookUpUser: @escaping @Sendable (String) -> Void = { _ in },
        refresh: @escaping @Sendable (RefreshOrder, @escaping @Sendable (RefreshAnswer) -> Void) -> Void = { _, answer in
            answer(RefreshAnswer(.unavailable(retryAfterSeconds: 1), .leader))
        },
        sawToken: @escaping @Sendable (TokenDelivery) -> Void = { _ in },
        healthChanged: @escaping @Sendable (String, UpstreamAddress, Bool) -> Void = { _, _, _ in },
        sawClock: @escaping @Sendable (String, WallTime, WallTime) -> Void = { _, _, _ in },
        shortage: @escaping @Sendable (SystemFault) -> Void = { _ in },
        makeRoom: @escaping @Sendable (String, Int) -> Bool = { _, _ in false },
        answerNotJSON: @escaping @Sendable (String, Int, Bool) -> Void = { _, _, _ in },
        redisChanged: @escaping @Sendable (Int, RedisCondition) -> Void = { _, _ in }, probes: Bool = false,
        outlastsOthers: Bool = false
    ) {
        self.admin = admin
        self.local = local
        self.unknownKey = unknownKey
        self.lookUpUser = lookUpUser
        self.refresh = refresh
        self.sawToken = sawToken
        self.healthChanged = healthChanged
        self.sawClock = sawClock
        self.shortage = shortage
        self.makeRoom = makeRoom
        self.answerNotJSON = answerNotJSON
        self.redisChanged = redisChanged
        self.probes = probes
        self.outlastsOthers = outlastsOthers
    }
}

extension Worker {
    mutating func handleMessages(_ scratch: inout Scratch) {
        hasMessages = false
        for message in mailbox.take() {
            switch message {
            case .adopt(let policy, let declarations, let settings, let labels):
                self.settings = settings
                upstreams.directory.adopt(declarations)
                upstreams.closeRetired()
                telemetry.adopt(labels)
                adopt(policy)
            case .adoptPolicy(let policy): adopt(policy)
            case .revoked(let sessions):
                admission.revoke(sessions, at: now.wall.seconds)
                endStreams(&scratch)
            case .learnedUsers(let users): learned(users, &scratch)
            case .forgotUsers: admission.forgetUsers()
            case .refreshed(let exchange, let answer): refreshed(exchange, answer, &scratch)
            case .take(let items, let reply): take(items, reply)
            case .refund(let items, let chargedAt): refund(items, chargedAt: chargedAt)
            case .lease(let call, let reply): callLease(call, reply)
            case .adoptCertificates(let context):
                for index in downstream.listeners.indices where downstream.listeners[index].tls != nil { downstream.listeners[index].tls = context }
            case .resolved(let upstream, let addresses):
                upstreams.directory.resolved(upstream: upstream, to: addresses)
                upstreams.closeRetired()
            case .redisResolved(let addresses):
                if shared != nil { shared!.redis.replace(addresses: addresses, now.monotonic) }
            case .learned(let upstream, let address, let healthy):
                upstreams.directory.learned(upstream: upstream, at: address, healthy: healthy)
            case .makeRoom(let request): upstreams.yieldRoom(request)
            case .roomMade(let upstream):
                if let pool = upstreams.directory.pools.firstIndex(where: { $0.settings.name == upstream }) { roomMade(pool, &scratch) }
            case .answered(let exchange, let response): answered(exchange, response, &scratch)
            case .report(let reply):
                refreshGauges()
                reply(telemetry.metrics.snapshot())
            case .tellRefusals(let requestID, let limit, let reply): reply(refusals.stories(requestID, limit: limit))
            case .drain(let milliseconds): drain(within: milliseconds, &scratch)
            case .othersEnded: outlastsOthers = false
            }
        }
    }

    private mutating func adopt(_ policy: Policy) {
        refusals.adopted(formerly: admission.policy)
        admission.adopt(policy)
    }

    /// How long a connection may take to its first request when the gateway ends.
    private static var firstRequestGrace: UInt64 { 1_000 }

    /// Accepts what the kernel already holds, closes the listeners, and makes every answer the last of its connection.
    private mutating func drain(within milliseconds: UInt64, _ scratch: inout Scratch) {
        if case .draining(let until) = phase {
            // Asked once more: it may only get shorter.
            phase = .draining(until: min(until, now.monotonic.advanced(milliseconds: milliseconds)))
        }
        guard phase == .serving else { return }
        for index in downstream.listeners.indices where !downstream.listeners[index].isAdmin {
            while accept(index, &scratch) {}
            downstream.listeners[index].socket.close()
        }
        phase = .draining(until: now.monotonic.advanced(milliseconds: milliseconds))
        for client in downstream.clients.indices where downstream.clients[client].phase != .free && !downstream.listeners[downstream.clients[client].listener].isAdmin {
            drainClient(client, &scratch)
        }
    }

    /// A request that has arrived, or is on its way on a connection just made, is still answered; a connection at rest ends.
    private mutating func drainClient(_ client: ClientIndex, _ scratch: inout Scratch) {
        let handle = downstream.clients.handle(client)
        apply(downstream.clients[client].http.drainRequested(headBegun: true), client, &scratch)
        if isAtRest(handle), wantsRead(client) { receive(client, &scratch) }
        if isAtRest(handle) {
            if downstream.clients[client].wasUsed {
                apply(downstream.clients[client].http.drainRequested(headBegun: false), client, &scratch)
            } else {
                downstream.timers.set(client.id, deadline: now.monotonic.advanced(milliseconds: Self.firstRequestGrace))
            }
        }
        if downstream.clients.isCurrent(handle) { refreshInterest(client) }
    }

    private func isAtRest(_ client: Handle<Client>) -> Bool {
        downstream.clients.isCurrent(client) && downstream.clients[client.index].phase == .open && downstream.clients[client.index].http.isAtRest
    }
}
