package import Gate
package import Redis
import Synchronization
import Transport
package import Wire

/// How many gateways count together, as last heard: one worker asks for all of a process.
package final class GatewayCount: Sendable {
    /// What this gateway announces itself by.
    package let id: UInt64
    private let count = Atomic<UInt32>(1)

    /// `id` is random, so that no two gateways share it.
    package init(id: UInt64) { self.id = id }

    /// Of all gateways that are alive, this one included; 1 until something was heard.
    package var value: UInt32 {
        get { count.load(ordering: .relaxed) }
        set { count.store(newValue, ordering: .relaxed) }
    }
}

/// One worker's part in counting limits together with every gateway that uses the same Redis: what to ask, and the
/// connection over which it is asked. The scripts belong together with both.
package struct SharedCounting: ~Copyable {
    var limitClient: SharedLimitClient
    var redis: RedisConnection
    let gateways: GatewayCount
    let take: RedisScriptID
    let heartbeat: RedisScriptID
    let lease: RedisScriptID
    let refundScript: RedisScriptID
    /// When this worker asks next how many gateways there are; nil where another worker does.
    var heartbeatDue: MonotonicTime?
    /// Whether the limit client has been told that Redis does not answer.
    var isAway = true
    /// The call being put together, and what it is put together from.
    var call = RedisCall()
    var limitCommand = LimitCommand()
    private var charges = ChargeRuns()
    /// What the control plane has asked and not heard of, by tag, and the number of the latest.
    var awaited: [UInt64: AwaitedReply] = [:]
    var lastAsked: UInt32 = 0

    /// The tag of a heartbeat; those of takes are the limit client's or an `AwaitedReply`'s, which never reach it.
    static let heartbeatTag = UInt64.max

    /// - Parameters:
    ///   - counts: whether this worker is the one that asks how many gateways there are.
    ///   - connect: makes the connection with these scripts, which carries this token in the loop.
    package init(
        _ settings: SharedLimitClient.Settings, limiter: SharedLimiter, gateways: GatewayCount, counts: Bool,
        now: MonotonicTime, connect: (RedisScripts, UInt64) -> RedisConnection
    ) {
        var scripts = RedisScripts()
        take = scripts.register(RedisScript(name: GCRAScript.name, source: GCRAScript.source))
        heartbeat = scripts.register(RedisScript(name: GatewayHeartbeat.name, source: GatewayHeartbeat.source))
        lease = scripts.register(RedisScript(name: RefreshLease.name, source: "\(RefreshLease.source)"))
        refundScript = scripts.register(RedisScript(name: RefundScript.name, source: RefundScript.source))
        limitClient = SharedLimitClient(settings, limiter: limiter)
        redis = connect(scripts, Token.redis.bits)
        self.gateways = gateways
        heartbeatDue = counts ? now : nil
        limitClient.storeFailed(now)
    }

    /// When it has something to do next though nothing happens; nil if never.
    mutating func nextDeadline() -> MonotonicTime? {
        var next = MonotonicTime(nanoseconds: .max)
        if let deadline = limitClient.nextDeadline { next = min(next, deadline) }
        if let deadline = redis.nextDeadline() { next = min(next, deadline) }
        if limitClient.hasCommands { next = min(next, redis.batchDeadline) }
        if redis.isReady {
            if let due = heartbeatDue { next = min(next, due) }
            if case .open(let probeAt) = redis.breaker.state { next = min(next, probeAt) }
        }
        return next.nanoseconds == .max ? nil : next
    }

    /// Puts what the limit client asks for on the connection, unless that would let it wait: many charges in one call, which share
    /// its fate. Answers how many went.
    mutating func sendCommands(_ now: MonotonicTime) -> Int {
        guard limitClient.hasCommands, !redis.isBatching(now) else { return 0 }
        var sent = 0
        while limitClient.nextCommand(now, into: &limitCommand) {
            let first = limitCommand.id
            beginTake()
            var count = 1
            while count < GCRAScript.mostCharges, limitClient.nextCommand(now, behind: limitCommand.id, into: &limitCommand) {
                charges.append(&limitCommand, to: &call)
                count += 1
            }
            charges.end(&call)
            if case .accepted = redis.append(call, tag: first, now) { sent += count } else { takeFailed(first, now) }
        }
        return sent
    }

    /// Begins a call with the charge of `limitCommand`.
    private mutating func beginTake() {
        call.begin(take)
        charges.append(&limitCommand, to: &call)
    }

    /// Puts the call together that asks for the charge of `limitCommand` alone.
    mutating func writeTake() {
        beginTake()
        charges.end(&call)
    }

    /// No answer will come to command `id` and to those behind it in the same call.
    mutating func takeFailed(_ id: UInt64, _ now: MonotonicTime) {
        var next: UInt64? = id
        while let id = next {
            next = limitClient.inFlight(id)?.next
            limitClient.failed(id, now: now)
        }
    }

    /// Announces this gateway when it is time; while the breaker keeps requests back, that is what tries whether Redis
    /// answers again.
    mutating func sendHeartbeat(_ now: MonotonicTime) {
        guard redis.isReady else { return }
        var isDue = false
        if let due = heartbeatDue { isDue = now >= due }
        if case .open(let probeAt) = redis.breaker.state { isDue = isDue || now >= probeAt }
        guard isDue else { return }
        if heartbeatDue != nil { heartbeatDue = now.advanced(milliseconds: GatewayHeartbeat.interval) }
        call.begin(heartbeat, keys: 1)
        for index in 0..<GatewayHeartbeat.argumentCount {
            var argument = ByteBuffer()
            GatewayHeartbeat.write(index, id: gateways.id, into: &argument)
            call.arguments.append(argument.readable)
        }
        // Not taken: then it is tried again an interval later, as Redis is away.
        _ = redis.append(call, tag: Self.heartbeatTag, now)
    }

    /// Tells the limit client whether Redis can be asked, as far as is known.
    mutating func lookAfterStore(_ now: MonotonicTime) {
        limitClient.gatewayCountChanged(gateways.value)
        let isAway = !redis.isReady || !redis.breaker.isClosed
        guard isAway != self.isAway else { return }
        self.isAway = isAway
        if isAway { limitClient.storeFailed(now) } else { limitClient.storeRecovered() }
    }
}
