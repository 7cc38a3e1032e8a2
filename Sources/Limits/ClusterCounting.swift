import Gate
import Redis
import Telemetry
import Wire

/// Charges over the nodes of a Redis Cluster. A call goes to the node of its hash tag; a node that redirects it is believed at once,
/// and the map is read again. The failure mode decides about the keys that no node has answered for, and about no others.
extension SharedCounting {
    /// Milliseconds from the first sending of a call during which it is sent again.
    private var repeatTime: UInt64 { limitClient.settings.deadline }

    /// Sends the limit client's commands. Returns how many were sent.
    mutating func sendToCluster(_ now: MonotonicTime) -> Int {
        var sent = 0
        while limitClient.nextCommand(now, into: &limitCommand) {
            cluster.add(&limitCommand, now)
            sent += 1
        }
        sendCalls(now)
        return sent
    }

    /// Sends the calls that are ready.
    private mutating func sendCalls(_ now: MonotonicTime) {
        while true {
            let index = cluster.nextToSend()
            guard index >= 0 else { return }
            guard let node = nodes.owner(cluster.calls[index].tag) else {
                nodes.missed()
                callFailed(index, now)
                continue
            }
            send(index, to: node, asking: false, now)
        }
    }

    private mutating func send(_ index: Int, to node: Int, asking: Bool, _ now: MonotonicTime) {
        write(index)
        let admission =
            cluster.calls[index].repeats == 0
            ? nodes.append(call, to: node, tag: UInt64(index), now)
            : nodes.append(
                call, redirectedTo: node, at: cluster.calls[index].sentAt, asking: asking, tag: UInt64(index), now)
        switch admission {
        case .accepted: break
        case .notReady where nodes.isOpening(node) && isInTime(index, now): cluster.park(index, for: node, isAsking: asking)
        case .notReady:
            nodes.missed()
            callFailed(index, now)
        case .breakerOpen, .full: callFailed(index, now)
        }
    }

    private func isInTime(_ index: Int, _ now: MonotonicTime) -> Bool {
        now < cluster.calls[index].sentAt.advanced(milliseconds: repeatTime)
    }

    /// Builds the call.
    private mutating func write(_ index: Int) {
        call.begin(take)
        var next = cluster.calls[index].first
        while next >= 0 {
            let part = cluster.parts[Int(next)]
            limitClient.inFlight(part.id, counts: part.counts, into: &limitCommand)
            charges.append(&limitCommand, isTagged: true, to: &call)
            next = part.next
        }
        charges.end(&call)
    }

    /// Calls that waited for a node: sent if it is there, and given up if it is not in time.
    mutating func sendParked(_ now: MonotonicTime) {
        guard cluster.parked.count > 0 else { return }
        cluster.unpark()
        while true {
            let index = cluster.nextUnparked()
            guard index >= 0 else { return }
            send(index, to: cluster.calls[index].parkedFor, asking: cluster.calls[index].isAsking, now)
        }
    }

    /// When the next parked call is given up; nil if there is none.
    func parkedDeadline() -> MonotonicTime? {
        guard cluster.parked.count > 0 else { return nil }
        return cluster.calls[Int(cluster.parked[0])].sentAt.advanced(milliseconds: repeatTime)
    }

    // MARK: results

    /// The result of a call of charges.
    mutating func callEnded(_ result: RedisResult, _ now: MonotonicTime, _ metrics: inout WorkerMetrics) {
        let index = Int(result.tag)
        switch result.outcome {
        case .answered:
            let age = now.nanoseconds(since: cluster.calls[index].sentAt)
            metrics.redisCommand(.take, .ok, nanoseconds: age)
            callAnswered(index, now, &metrics)
        case .refused(.cluster):
            if redirect(index, now, &metrics) { return }
            metrics.redisCommand(.take, .error, nanoseconds: nil)
            nodes.saw(result.outcome)
            callFailed(index, now)
        case .refused, .late, .lost:
            metrics.redisCommand(.take, result.outcome.metric, nanoseconds: nil)
            nodes.saw(result.outcome)
            callFailed(index, now)
        }
    }

    private mutating func callAnswered(_ index: Int, _ now: MonotonicTime, _ metrics: inout WorkerMetrics) {
        guard var replies = GCRAReplies(nodes.bytes(0)) else { return callFailed(index, now) }
        var next = cluster.calls[index].first
        var isBroken = false
        while next >= 0 {
            let part = cluster.parts[Int(next)]
            next = part.next
            var reply = isBroken ? nil : replies.next(counts: part.counts.nonzeroBitCount, nodes.bytes(0))
            // A reply of another length than the call belongs to no charge of it from here on.
            if replies.isAtEnd != (next < 0) { reply = nil }
            isBroken = reply == nil
            partEnded(part, reply, now, &metrics)
        }
        cluster.end(index)
    }

    /// The call gets no reply.
    private mutating func callFailed(_ index: Int, _ now: MonotonicTime) {
        var next = cluster.calls[index].first
        while next >= 0 {
            let part = cluster.parts[Int(next)]
            next = part.next
            partFailed(part, now)
        }
        cluster.end(index)
    }

    private mutating func partFailed(_ part: ClusterCharges.Part, _ now: MonotonicTime) {
        guard part.join >= 0 else { return limitClient.failed(part.id, now: now) }
        if cluster.joined(part, nil) { joinEnded(Int(part.join), now) }
    }

    private mutating func partEnded(
        _ part: ClusterCharges.Part, _ reply: GCRAReply?, _ now: MonotonicTime, _ metrics: inout WorkerMetrics
    ) {
        guard var reply else { return partFailed(part, now) }
        guard part.join < 0 else {
            if cluster.joined(part, reply) { joinEnded(Int(part.join), now) }
            return
        }
        metrics.rateLimitLeased(Int(limitClient.answered(part.id, &reply, now: now)))
    }

    /// Every part of a charge has a result.
    private mutating func joinEnded(_ join: Int, _ now: MonotonicTime) {
        let id = cluster.joins[join].id
        defer { cluster.end(join: join) }
        guard let counts = limitClient.inFlight(id)?.counts else { return }
        let answered = cluster.joins[join].answered
        let missing = ~answered & UInt8(truncatingIfNeeded: 1 << counts - 1)
        guard let granted = cluster.granted(join) else { return limitClient.failed(id, now: now) }
        // The failure mode `closed` refuses the request, so it has no grant of any count.
        let isClosed = missing != 0 && limitClient.settings.failureMode == .closed
        giveBackSurplus(join, beyond: isClosed ? 0 : granted, now)
        if isClosed { return limitClient.failed(id, now: now) }
        var intervals = PerCount<UInt64>(repeating: 0)
        for index in 0..<counts { intervals[index] = limitClient.interval(id, index) }
        var reply = cluster.reply(join, granted) { intervals[$0] }
        if missing == 0 { limitClient.answered(id, &reply, now: now) } else { limitClient.answered(id, &reply, missing: missing, now: now) }
    }

    /// Returns grants of counts that have given more than the charge got. If Redis does not take them, they stay charged.
    private mutating func giveBackSurplus(_ join: Int, beyond granted: UInt32, _ now: MonotonicTime) {
        let id = cluster.joins[join].id
        for index in 0..<LimitCharge.room where cluster.joins[join].answered & 1 << UInt8(index) != 0 {
            let surplus = cluster.joins[join].granted[index] - granted
            guard surplus > 0 else { continue }
            limitClient.inFlight(id, counts: 1 << UInt8(index), into: &limitCommand)
            guard let node = nodes.owner(limitCommand.tag(0)) else { continue }
            let units = Int(min(surplus, Self.maxGivenBack))
            call.begin(refundScript, keys: units)
            for _ in 0..<units {
                call.arguments.append(byteCount: limitCommand.keyLength(0)) { limitCommand.writeTaggedKey(0, into: &$0) }
            }
            call.arguments.append(decimal: cluster.joins[join].stamps[index])
            for _ in 0..<units { call.arguments.append(decimal: limitClient.interval(id, index)) }
            _ = nodes.append(call, to: node, tag: Self.surplusTag, now)
        }
    }

    /// Grants that are returned at most, of a lease that another count did not allow; the rest stays charged.
    private static var maxGivenBack: UInt32 { 64 }

    // MARK: redirects

    /// Sends a call again that a node has redirected; false if it must end.
    private mutating func redirect(_ index: Int, _ now: MonotonicTime, _ metrics: inout WorkerMetrics) -> Bool {
        guard let error = RedisClusterError(nodes.bytes(0)) else { return false }
        guard cluster.mayRepeat(index, deadline: repeatTime, now) else { return false }
        let isSingle = cluster.calls[index].keys == 1
        switch error {
        case .moved(let redirect):
            metrics.redisRedirect(.moved)
            guard let node = nodes.node(redirect, now) else { return false }
            nodes.moved(cluster.calls[index].tag, to: node)
            send(index, to: node, asking: false, now)
        case .ask(let redirect) where isSingle:
            metrics.redisRedirect(.ask)
            guard let node = nodes.node(redirect, now) else { return false }
            send(index, to: node, asking: true, now)
        case .ask, .tryAgain:
            guard !isSingle else { return false }
            metrics.redisRedirect(.tryAgain)
            cluster.divide(index, now)
            sendCalls(now)
        case .crossSlot, .notServed, .down: return false
        }
        return true
    }
}
