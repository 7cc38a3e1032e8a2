import Gate
package import Redis
import Synchronization
import Transport
package import Wire

/// The number of live gateways that count together; one worker updates it for the process. Any thread.
package final class GatewayCount: Sendable {
    /// This gateway's id in the heartbeat.
    package let id: UInt64
    private let count = Atomic<UInt32>(1)

    /// `id` is random, so that no two gateways share it.
    package init(id: UInt64) { self.id = id }

    /// All live gateways, this one included; 1 until Redis has answered.
    package var value: UInt32 {
        get { count.load(ordering: .relaxed) }
        set { count.store(newValue, ordering: .relaxed) }
    }
}

/// One worker's client for limits that are counted in Redis together with other gateways: the commands to send, the connections, and
/// the scripts.
package struct SharedCounting: ~Copyable {
    var limitClient: SharedLimitClient
    var nodes: RedisNodes
    let isCluster: Bool
    /// Charges under way, of a cluster.
    var cluster = ClusterCharges()
    let gateways: GatewayCount
    let take: RedisScriptID
    let heartbeat: RedisScriptID
    let lease: RedisScriptID
    let refundScript: RedisScriptID
    /// When this worker sends the next heartbeat; nil if another worker does.
    var heartbeatDue: MonotonicTime?
    /// Whether Redis cannot be asked, as last passed to the limit client.
    var isAway = true
    /// The call under construction, and its parts.
    var call = RedisCall()
    var limitCommand = LimitCommand()
    var charges = ChargeRuns()
    /// Open questions of the control plane by tag, and the number of the latest.
    var awaited: [UInt64: AwaitedReply] = [:]
    var lastAsked: UInt32 = 0

    /// The tag of a heartbeat; those of takes are the limit client's or an `AwaitedReply`'s, which never reach it.
    static let heartbeatTag = UInt64.max
    /// Of refunds of a charge in several parts, and of the probe of a node.
    static let surplusTag = UInt64.max - 1
    static let probeTag = UInt64.max - 2

    /// Whether a result with this tag is that of a limit client's command.
    static func isTake(_ tag: UInt64) -> Bool { tag < probeTag && !isAsked(tag) }

    /// - Parameters:
    ///   - lease: the control plane's script of leases.
    ///   - counts: whether this worker sends the heartbeat.
    ///   - connect: makes the connections, with these scripts.
    package init(
        _ settings: SharedLimitClient.Settings, limiter: SharedLimiter, gateways: GatewayCount, lease leaseScript: RedisScript,
        counts: Bool,
        now: MonotonicTime, connect: (RedisScripts) -> RedisNodes
    ) {
        var scripts = RedisScripts()
        take = scripts.register(RedisScript(name: GCRAScript.name, source: GCRAScript.source))
        heartbeat = scripts.register(RedisScript(name: GatewayHeartbeat.name, source: GatewayHeartbeat.source))
        lease = scripts.register(leaseScript)
        refundScript = scripts.register(RedisScript(name: RefundScript.name, source: RefundScript.source))
        limitClient = SharedLimitClient(settings, limiter: limiter)
        nodes = connect(scripts)
        isCluster = nodes.isCluster
        self.gateways = gateways
        heartbeatDue = counts ? now : nil
        limitClient.storeFailed(now)
    }

    /// Its next deadline; nil if there is none.
    mutating func nextDeadline() -> MonotonicTime? {
        var next = MonotonicTime(nanoseconds: .max)
        if let deadline = limitClient.nextDeadline { next = min(next, deadline) }
        if let deadline = nodes.nextDeadline() { next = min(next, deadline) }
        if limitClient.hasCommands { next = min(next, nodes.batchDeadline) }
        if isCluster, let deadline = parkedDeadline() { next = min(next, deadline) }
        if let node = heartbeatNode, nodes.isReady(node), let due = heartbeatDue { next = min(next, due) }
        for node in 0..<nodes.count where nodes.isReady(node) {
            if case .open(let probeAt) = nodes.breaker(node) { next = min(next, probeAt) }
        }
        return next.nanoseconds == .max ? nil : next
    }

    /// Sends the limit client's commands, unless the connection still gathers: many charges in one call, which succeed or fail together.
    /// Returns how many were sent.
    mutating func sendCommands(_ now: MonotonicTime) -> Int {
        guard limitClient.hasCommands, !nodes.isBatching(now) else { return 0 }
        guard !isCluster else { return sendToCluster(now) }
        var sent = 0
        while limitClient.nextCommand(now, into: &limitCommand) {
            let first = limitCommand.id
            beginTake()
            var count = 1
            while count < GCRAScript.maxCharges, limitClient.nextCommand(now, behind: limitCommand.id, into: &limitCommand) {
                charges.append(&limitCommand, to: &call)
                count += 1
            }
            charges.end(&call)
            if case .accepted = nodes.append(call, to: 0, tag: first, now) { sent += count } else { takeFailed(first, now) }
        }
        return sent
    }

    /// Begins a call with the charge of `limitCommand`.
    private mutating func beginTake() {
        call.begin(take)
        charges.append(&limitCommand, to: &call)
    }

    /// Command `id`, and those behind it in the same call, get no reply.
    mutating func takeFailed(_ id: UInt64, _ now: MonotonicTime) {
        var next: UInt64? = id
        while let id = next {
            next = limitClient.inFlight(id)?.next
            limitClient.failed(id, now: now)
        }
    }

    /// The node that counts the gateways; nil while it is unknown.
    private var heartbeatNode: Int? { isCluster ? nodes.owner(Self.heartbeatPlace) : 0 }

    /// Where the heartbeat lies in a cluster.
    private static let heartbeatPlace = HashTag(0)

    /// Sends the heartbeat when it is due. While the circuit breaker is open, it is the probe whether Redis answers again.
    mutating func sendHeartbeat(_ now: MonotonicTime) {
        if isCluster { probeNodes(now) }
        guard let node = heartbeatNode, nodes.isReady(node) else { return }
        var isDue = heartbeatDue.map { now >= $0 } ?? false
        if case .open(let probeAt) = nodes.breaker(node) { isDue = isDue || now >= probeAt }
        guard isDue else { return }
        if heartbeatDue != nil { heartbeatDue = now.advanced(milliseconds: GatewayHeartbeat.interval) }
        call.begin(heartbeat, keys: 1)
        for index in 0..<GatewayHeartbeat.argumentCount {
            var argument = ByteBuffer()
            GatewayHeartbeat.write(index, id: gateways.id, tag: isCluster ? Self.heartbeatPlace : nil, into: &argument)
            call.arguments.append(argument.readable)
        }
        // If it is not accepted, Redis is away, and it is sent again an interval later.
        _ = nodes.append(call, to: node, tag: Self.heartbeatTag, now)
    }

    /// Sends a PING to nodes whose circuit breaker is open, so that no request has to be the probe.
    private mutating func probeNodes(_ now: MonotonicTime) {
        for node in 0..<nodes.count where nodes.isReady(node) {
            guard case .open(let probeAt) = nodes.breaker(node), now >= probeAt else { continue }
            var command = RedisCommand()
            command.begin()
            command.append("PING")
            _ = nodes.append(command, to: node, tag: Self.probeTag, now)
        }
    }

    /// Tells the limit client whether Redis can be asked, as far as is known.
    mutating func lookAfterStore(_ now: MonotonicTime) {
        limitClient.gatewayCountChanged(gateways.value)
        let isAway = !nodes.isAnyUsable
        guard isAway != self.isAway else { return }
        self.isAway = isAway
        if isAway { limitClient.storeFailed(now) } else { limitClient.storeRecovered() }
    }
}
