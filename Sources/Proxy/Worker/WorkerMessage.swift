package import Credentials
package import Gate
package import HTTP
package import Limits
package import Redis
package import System
package import Telemetry
package import Transport
package import Wire

/// Messages of other threads to a worker. Payloads are immutable; the worker swaps a field between two events.
package enum WorkerMessage: Sendable {
    /// A new configuration. Requests under way keep what was decided for them.
    case adopt(Policy, [UpstreamSnapshot], WorkerSettings, MetricLabels)
    /// New rules or keys alone.
    case adoptPolicy(Policy)
    /// The gateway's own sessions that have ended.
    case revoked([RevokedSession])
    /// The API keys in force.
    case adoptKeys(APIKeyTable)
    /// These sessions have proven the second factor; `isWhole`: no others have.
    case proven([ProvenSession], isWhole: Bool)
    /// Asks whether tokens of a session, or an outside token, are refused, by its id. The closure is called on the loop and must not
    /// block it.
    case askEnded(UUID, @Sendable (Bool) -> Void)
    /// Users' entitlements: the answer to `lookUpUser`, or a change.
    case learnedUsers([UserTier])
    /// The entitlements of these users may be out of date and must be looked up again; nil for every user's.
    case forgotUsers([TokenUser]?)
    /// The answer to `catchUp`, by its number.
    case caughtUp(MissedNews, UInt64)
    /// The answer to `sessionExpiry`, for the stream that asked.
    case sessionExpires(Handle<Exchange>, Int64?)
    /// The answer to `lookUpSubject`.
    case learnedSubjects([KnownSubject])
    /// The outcome of a refresh that a request waits for.
    case refreshed(Handle<Exchange>, RefreshAnswer)
    /// Charges an attempt at an account on these counts; see `AwaitedReply`.
    case take([LimitCharge.Item], TakeReply)
    /// Returns what was charged at this time of Redis's clock.
    case refund([LimitCharge.Item], chargedAt: UInt64)
    /// A lease for the control plane; see `AwaitedReply`.
    case lease(LeaseCall, LeaseReply)
    /// New certificates, for new connections.
    case adoptCertificates(TLSServerContext)
    /// The responses to challenges of certificate authorities that are under way.
    case adoptChallenges(ChallengeResponses)
    /// The addresses that an upstream's name resolves to now.
    case resolved(upstream: String, [UpstreamAddress])
    /// The Redis server to use from now on.
    case redisMoved(RedisServer)
    /// The nodes of the Redis Cluster, and which of them has which keys.
    case redisMapped(RedisClusterMap)
    /// The verdict of the worker that probes.
    case learned(upstream: String, UpstreamAddress, healthy: Bool)
    /// Another worker has seen something of an address; for the worker that judges.
    case sighted(upstream: String, UpstreamAddress, AddressReport)
    /// The verdict of the worker that judges.
    case left(upstream: String, UpstreamAddress, Absence)
    /// Asks for the condition of the upstreams. The closure as in `report`.
    case reportUpstreams(@Sendable ([UpstreamStatus]) -> Void)
    /// Another worker needs connections to an upstream: `RoomRequest.answered` must follow.
    case makeRoom(RoomRequest)
    /// All other workers have answered this worker's `makeRoom` for the upstream of this name.
    case roomMade(upstream: String)
    /// The answer of a local handler, and the slot of `maxLocalRequests` that it held.
    case answered(Handle<Exchange>, LocalResponse, LocalSlot?)
    /// About stored answers.
    case cache(CacheMessage)
    /// Asks for a call once every earlier message is handled. The closure is called on the loop and must not block it.
    case confirm(@Sendable () -> Void)
    /// Asks for this worker's metrics. The closure is called on the loop and must not block it.
    case report(@Sendable (MetricsSnapshot) -> Void)
    /// Asks for the newest refusals that fit. The closure as in `report`.
    case reportRefusals(RefusalQuery, @Sendable ([ExplainedRefusal]) -> Void)
    /// Asks for at most `limit` refusals since there were `since`; nil: only how many there are. The closure as in `report`.
    case reportNewRefusals(since: Int?, limit: Int, @Sendable (NewRefusals) -> Void)
    /// Asks for the keys that limits refused most often. The closure as in `report`.
    case reportHottestKeys(@Sendable ([HotKey]) -> Void)
    /// Asks for the counts of apps since the last time. The closure as in `report`.
    case takeApps(@Sendable ([AppCensus.Tally]) -> Void)
    /// A part of a streamed local answer.
    case content(Handle<Exchange>, LocalStream.Part)
    /// Drain: no new connections, each answer is the last of its connection, the end after so many milliseconds at the latest.
    /// Idle connections are kept for half of that time, so that a request that a client sends meanwhile is answered instead of meeting a
    /// close. `handsOver`: another process has the listeners, those of admins too.
    case drain(within: UInt64, handsOver: Bool = false)
    /// All other workers have ended: the one with the admin listeners may too.
    case othersEnded
}

/// A worker's calls to the rest of the process. The closures must not block. None has a default: a call that is not wired up does not
/// compile.
package struct WorkerServices: Sendable {
    /// Answers everything on the admin listeners.
    package var admin: LocalHandler
    /// Answer the routes whose target is local, by number.
    package var local: [LocalHandler]
    /// The kinds of these, by the same number; those that it leaves out are `other`.
    package var localKinds: [Int: LocalKind]
    /// The threads on which their tasks run, by the same number; those that it leaves out run on the threads of all tasks.
    package var localExecutors: [Int: LocalExecutor]
    /// An issuer, by its number in the policy's trust, signed with an unknown key.
    package var unknownKey: @Sendable (Int) -> Void
    /// Brings news that this process may have missed; the closure is called, once or twice, after they were posted, or when that takes too
    /// long. nil where there are none.
    package var catchUp: (@Sendable (MissedNews, @escaping @Sendable () -> Void) -> Void)?
    /// Looks up a user's entitlement; `.learnedUsers` must follow soon.
    package var lookUpUser: @Sendable (TokenUser) -> Void
    /// Looks up the account of a trust line's subject; `.learnedSubjects` must follow soon.
    package var lookUpSubject: @Sendable (TokenUser) -> Void
    /// Asks until when the newest access token of a session is valid, in seconds since 1970; the closure receives nil if it has
    /// ended or cannot be asked about. Any thread.
    package var sessionExpiry: @Sendable (UUID, @escaping @Sendable (Int64?) -> Void) -> Void
    /// Refreshes an expired token; the closure receives the answer, on any thread.
    package var refresh: @Sendable (RefreshOrder, @escaping @Sendable (RefreshAnswer) -> Void) -> Void
    /// A token of an own session was used for the first time, or the first time in a while.
    package var sawToken: @Sendable (TokenDelivery) -> Void
    /// An API key was used for the first time in a while.
    package var sawKey: @Sendable (UUID) -> Void
    /// An upstream has confirmed the merge of the first account into the second, which it was told of. The closure may be called again for
    /// the same.
    package var mergeDone: @Sendable (UUID, UUID) -> Void
    /// A probe's verdict changed; broadcasts it to the other workers.
    package var healthChanged: @Sendable (String, UpstreamAddress, Bool) -> Void
    /// Hands what this worker has seen of an address to the worker that judges; nil in that one.
    package var reportSighting: (@Sendable (String, UpstreamAddress, AddressReport) -> Void)?
    /// This worker, which judges, has ejected an address, or its absence is over; tells the other workers.
    package var addressChanged: @Sendable (String, UpstreamAddress, AddressChange) -> Void
    /// The panic of an upstream has begun or ended, with so many of so many addresses available.
    package var panicChanged: @Sendable (String, Bool, Int, Int) -> Void
    /// The `Date` of an upstream's answer to a probe, and our time then.
    package var sawClock: @Sendable (String, WallTime, WallTime) -> Void
    /// ALPN of an address with `http2=on` has chosen HTTP/1.1. Called for the first such connection, and again if one spoke HTTP/2 in
    /// between.
    package var choseHTTP1: @Sendable (String, UpstreamAddress) -> Void
    /// The process has no descriptor, port or memory left for a connection. Called each time.
    package var shortage: @Sendable (SystemFault) -> Void
    /// Reports that the worker sheds load at this bound, at most once a second for each bound.
    package var shed: @Sendable (OverloadReason) -> Void
    /// The counts of the bounds on load, which all workers share.
    package var bounds: LoadBounds
    /// Counts the turns of this worker's loop.
    package var pulse: LoopPulse
    /// Asks all other workers for so many connections to the upstream of this name; `.roomMade` must follow. False if there is no
    /// other worker.
    package var makeRoom: @Sendable (String, Int) -> Bool
    /// The mailboxes of all workers, by number; empty for one that is alone.
    package var peers: [Mailbox<WorkerMessage>]
    /// Answers on a filtered route, by name and number, were not JSON and were refused, or would have been outside shadow mode.
    /// Called at most once a minute for each route.
    package var answerNotJSON: @Sendable (String, Int, Bool) -> Void
    /// The answers on a filtered route have no label: the route's name, the path of one, and the number of answers. Called at most once a
    /// minute for each route.
    package var answerUnlabelled: @Sendable (String, String, Int) -> Void
    /// The condition of Redis, or of a node of it, for the worker of this number.
    package var redisChanged: @Sendable (Int, RedisNodes.Change) -> Void
    /// The nodes of the Redis Cluster may have changed; `.redisMapped` follows if they have. Called each time.
    package var redisMapWanted: @Sendable () -> Void
    /// Whether this worker probes upstreams for all.
    package var probes: Bool
    /// Whether this worker keeps serving the admin listeners while it drains, until `.othersEnded`.
    package var outlastsOthers: Bool

    package init(
        admin: @escaping LocalHandler, local: [LocalHandler], localKinds: [Int: LocalKind], localExecutors: [Int: LocalExecutor],
        unknownKey: @escaping @Sendable (Int) -> Void, catchUp: (@Sendable (MissedNews, @escaping @Sendable () -> Void) -> Void)?,
        lookUpUser: @escaping @Sendable (TokenUser) -> Void, lookUpSubject: @escaping @Sendable (TokenUser) -> Void,
        sessionExpiry: @escaping @Sendable (UUID, @escaping @Sendable (Int64?) -> Void) -> Void,
        refresh: @escaping @Sendable (RefreshOrder, @escaping @Sendable (RefreshAnswer) -> Void) -> Void,
        sawToken: @escaping @Sendable (TokenDelivery) -> Void, sawKey: @escaping @Sendable (UUID) -> Void,
        mergeDone: @escaping @Sendable (UUID, UUID) -> Void,
        healthChanged: @escaping @Sendable (String, UpstreamAddress, Bool) -> Void,
        reportSighting: (@Sendable (String, UpstreamAddress, AddressReport) -> Void)?,
        addressChanged: @escaping @Sendable (String, UpstreamAddress, AddressChange) -> Void,
        panicChanged: @escaping @Sendable (String, Bool, Int, Int) -> Void,
        sawClock: @escaping @Sendable (String, WallTime, WallTime) -> Void,
        choseHTTP1: @escaping @Sendable (String, UpstreamAddress) -> Void, shortage: @escaping @Sendable (SystemFault) -> Void,
        shed: @escaping @Sendable (OverloadReason) -> Void, bounds: LoadBounds, pulse: LoopPulse,
        makeRoom: @escaping @Sendable (String, Int) -> Bool, peers: [Mailbox<WorkerMessage>],
        answerNotJSON: @escaping @Sendable (String, Int, Bool) -> Void,
        answerUnlabelled: @escaping @Sendable (String, String, Int) -> Void,
        redisChanged: @escaping @Sendable (Int, RedisNodes.Change) -> Void, redisMapWanted: @escaping @Sendable () -> Void,
        probes: Bool, outlastsOthers: Bool
    ) {
        self.admin = admin
        self.local = local
        self.localKinds = localKinds
        self.localExecutors = localExecutors
        self.unknownKey = unknownKey
        self.catchUp = catchUp
        self.lookUpUser = lookUpUser
        self.lookUpSubject = lookUpSubject
        self.sessionExpiry = sessionExpiry
        self.refresh = refresh
        self.sawToken = sawToken
        self.sawKey = sawKey
        self.mergeDone = mergeDone
        self.healthChanged = healthChanged
        self.reportSighting = reportSighting
        self.addressChanged = addressChanged
        self.panicChanged = panicChanged
        self.sawClock = sawClock
        self.choseHTTP1 = choseHTTP1
        self.shortage = shortage
        self.shed = shed
        self.bounds = bounds
        self.pulse = pulse
        self.makeRoom = makeRoom
        self.peers = peers
        self.answerNotJSON = answerNotJSON
        self.answerUnlabelled = answerUnlabelled
        self.redisChanged = redisChanged
        self.redisMapWanted = redisMapWanted
        self.probes = probes
        self.outlastsOthers = outlastsOthers
    }

    /// The calls of a worker that is alone, such as that of `tollgate echo`: it only answers requests.
    package init(admin: @escaping LocalHandler, local: [LocalHandler] = []) {
        self.init(
            admin: admin, local: local, localKinds: [:], localExecutors: [:], unknownKey: { _ in }, catchUp: nil,
            lookUpUser: { _ in }, lookUpSubject: { _ in }, sessionExpiry: { _, answer in answer(nil) },
            refresh: { _, answer in answer(RefreshAnswer(.unavailable(retryAfterSeconds: 1), .leader)) }, sawToken: { _ in },
            sawKey: { _ in },
            mergeDone: { _, _ in }, healthChanged: { _, _, _ in }, reportSighting: nil, addressChanged: { _, _, _ in },
            panicChanged: { _, _, _, _ in },
            sawClock: { _, _, _ in }, choseHTTP1: { _, _ in }, shortage: { _ in }, shed: { _ in }, bounds: LoadBounds(), pulse: LoopPulse(),
            makeRoom: { _, _ in false }, peers: [], answerNotJSON: { _, _, _ in }, answerUnlabelled: { _, _, _ in },
            redisChanged: { _, _ in },
            redisMapWanted: {}, probes: false, outlastsOthers: false)
    }

    func kind(ofLocal number: Int) -> LocalKind { localKinds[number] ?? .other }
}

extension Worker {
    mutating func handleMessages(_ scratch: inout Scratch) {
        hasMessages = false
        for message in mailbox.take() {
            switch message {
            case .adopt(let policy, let declarations, let settings, let labels):
                self.settings = settings
                load.requests.releaseSpare()
                upstreams.directory.adopt(declarations, at: now.monotonic)
                upstreams.closeRetired()
                telemetry.adopt(labels)
                cache.adopt(generation: policy.version, capacity: settings.cacheBytes, keepsForms: policy.cachesStagedAnswers)
                adopt(policy)
            case .adoptPolicy(let policy): adopt(policy)
            case .confirm(let reply): reply()
            case .revoked(let sessions):
                admission.revoke(sessions, at: now.wall.seconds)
                streams.sweepSoon(at: now.monotonic)
            case .proven(let proofs, let isWhole): admission.learn(proofs, isWhole: isWhole, at: now.wall.seconds)
            case .adoptKeys(let keys):
                admission.adopt(keys)
                streams.sweepSoon(at: now.monotonic)
            case .askEnded(let id, let reply): reply(admission.hasEnded(id))
            case .learnedUsers(let users): learned(users, &scratch)
            case .forgotUsers(nil): admission.forgetUsers()
            case .forgotUsers(let users?):
                admission.forget(users)
                streams.sweepSoon(at: now.monotonic)
            case .caughtUp(let news, let number): caughtUp(news, number, &scratch)
            case .sessionExpires(let exchange, let newest): learnedExpiry(exchange, newest, &scratch)
            case .learnedSubjects(let subjects): learned(subjects, &scratch)
            case .refreshed(let exchange, let answer): refreshed(exchange, answer, &scratch)
            case .take(let items, let reply): limits.take(items, reply, now.monotonic)
            case .refund(let items, let chargedAt): limits.refund(items, chargedAt: chargedAt, now.monotonic)
            case .lease(let call, let reply): limits.lease(call, reply, now.monotonic)
            case .adoptCertificates(let context): adopt(context, &scratch)
            case .adoptChallenges(let responses): downstream.challenges = responses
            case .resolved(let upstream, let addresses):
                upstreams.directory.resolved(upstream: upstream, to: addresses, at: now.monotonic)
                upstreams.closeRetired()
            case .redisMoved(let server): limits.adopt(server, now.monotonic)
            case .redisMapped(let map): limits.adopt(map, now.monotonic)
            case .learned(let upstream, let address, let healthy):
                upstreams.directory.learned(upstream: upstream, at: address, healthy: healthy, now: now.monotonic)
            case .sighted(let upstream, let address, let sighting): sighted(upstream, address, sighting)
            case .left(let upstream, let address, let absence):
                upstreams.directory.learned(upstream: upstream, at: address, absence: absence)
            case .reportUpstreams(let reply): reply(upstreamStatuses())
            case .makeRoom(let request): upstreams.yieldRoom(request)
            case .roomMade(let upstream):
                if let pool = upstreams.directory.pool(named: upstream) { roomMade(pool, &scratch) }
            case .cache(let message): handle(message, &scratch)
            case .answered(let exchange, let response, let slot):
                if let slot { releaseLocalSlot(slot) }
                answered(exchange, response, &scratch)
            case .report(let reply):
                refreshGauges()
                reply(telemetry.metrics.snapshot())
            case .reportRefusals(let query, let reply): reply(refusals.stories(query))
            case .reportNewRefusals(let since, let limit, let reply): reply(refusals.stories(since: since, limit: limit))
            case .reportHottestKeys(let reply): reply(hottestKeys.keys(at: now.wall))
            case .takeApps(let reply): reply(apps.take())
            case .content(let exchange, let part): send(part, of: exchange, &scratch)
            case .drain(let milliseconds, let handsOver): drain(within: milliseconds, handsOver: handsOver, &scratch)
            case .othersEnded: outlastsOthers = false
            }
        }
    }

    private mutating func adopt(_ policy: Policy) {
        let former = admission.policy
        refusals.adopted(formerly: former)
        admission.adopt(policy)
        apps.adopt(policy.versionGates)
        for exchange in exchanges.indices { exchanges[exchange].life?.adopt(policy, insteadOf: former) }
    }

    /// Adopts certificates for new connections. One whose client's certificate is revoked now ends after the answers under way, and no further
    /// request of it is that caller's.
    private mutating func adopt(_ context: TLSServerContext, _ scratch: inout Scratch) {
        downstream.adopt(context)
        guard !context.revocationLists.isEmpty else { return }
        for client in downstream.clients.indices where [.open, .multiplexed].contains(downstream.clients[client].phase) {
            guard downstream.clients[client].hasSocket, downstream.clients[client].connection.isRevoked(by: context) else { continue }
            downstream.clients[client].peer.certificateNames = []
            guard downstream.clients[client].session == nil else {
                drainClient(client, &scratch)
                continue
            }
            let handle = downstream.clients.handle(client)
            apply(downstream.clients[client].http.drainRequested(headBegun: false), client, &scratch)
            if downstream.clients.isCurrent(handle) { refreshInterest(client) }
        }
    }

    /// Milliseconds that a new connection has for its first request during a drain.
    private static var firstRequestGrace: UInt64 { 1_000 }

    /// Accepts the connections that the kernel holds, closes the listeners, and makes each answer the last of its connection.
    private mutating func drain(within milliseconds: UInt64, handsOver handedOver: Bool, _ scratch: inout Scratch) {
        if case .draining(let until) = phase {
            // A second drain can only shorten the first.
            phase = .draining(until: min(until, now.monotonic.advanced(milliseconds: milliseconds)))
            keepsIdleUntil = keepsIdleUntil.map { min($0, now.monotonic.advanced(milliseconds: milliseconds / 2)) }
        }
        guard phase == .serving else { return }
        for index in downstream.listeners.indices where handedOver || !downstream.listeners[index].isAdmin {
            while accept(index, &scratch) {}
            downstream.closeListener(index, in: loop)
        }
        phase = .draining(until: now.monotonic.advanced(milliseconds: milliseconds))
        handsOver = handedOver
        keepsIdleUntil = now.monotonic.advanced(milliseconds: milliseconds / 2)
        drainClients(&scratch)
        endStreamsForDrain(&scratch)
    }

    private mutating func drainClients(_ scratch: inout Scratch) {
        for client in downstream.clients.indices where downstream.clients[client].phase != .free {
            if !downstream.listeners[downstream.clients[client].listener].isAdmin || handsOver { drainClient(client, &scratch) }
        }
    }

    /// In a drain: the time for idle connections is over.
    mutating func closeIdleConnectionsIfDue(_ scratch: inout Scratch) {
        guard let until = keepsIdleUntil, now.monotonic >= until else { return }
        keepsIdleUntil = nil
        drainClients(&scratch)
    }

    /// The next answer of the connection is its last. Once the time for idle connections is over, one that idles closes. One that has not
    /// carried a request has a second for its first: it was perhaps just made. After a handover it has the time of the others.
    private mutating func drainClient(_ client: ClientIndex, _ scratch: inout Scratch) {
        if downstream.clients[client].phase == .tunnel { return }
        if !downstream.clients[client].hasSocket { return }
        if let session = downstream.clients[client].session {
            // At the second look its clocks go on.
            if !downstream.sessions[session].http2.isDraining { drainSession(client) }
            return
        }
        let handle = downstream.clients.handle(client)
        apply(downstream.clients[client].http.drainRequested(headBegun: true), client, &scratch)
        if downstream.isAtRest(handle), wantsRead(client) { receive(client, &scratch) }
        guard downstream.clients.isCurrent(handle) else { return }
        if downstream.isUnused(client) {
            if !handsOver || keepsIdleUntil == nil { limitFirstRequest(client) }
        } else if keepsIdleUntil == nil, downstream.isAtRest(handle) {
            apply(downstream.clients[client].http.drainRequested(headBegun: false), client, &scratch)
        }
        if downstream.clients.isCurrent(handle) { refreshInterest(client) }
    }

    /// The connection has a second for its first request, its TLS handshake included, and no longer time to rest before.
    private mutating func limitFirstRequest(_ client: ClientIndex) {
        downstream.clients[client].idlesUntil = nil
        downstream.timers.set(client.id, deadline: now.monotonic.advanced(milliseconds: Self.firstRequestGrace))
    }
}
