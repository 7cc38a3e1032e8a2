package import Gate
package import Wire

/// One charge to send to `GCRAScript`. Filled and read in place.
package struct LimitCommand: Sendable {
    /// Identifies the command in `answered` and `failed`.
    package fileprivate(set) var id: UInt64 = 0
    /// Grants to ask for; at least 1 from a limit client.
    var want: UInt32 = 0
    var charge = LimitCharge()

    /// Empty; `nextCommand` fills it.
    package init() {}

    /// Number of counts.
    package var count: Int { mutating get { charge.count } }

    /// Appends the Redis key of count `index`, of `GCRAScript.keyLength` bytes.
    package mutating func writeKey(_ index: Int, into out: inout ByteBuffer) {
        GCRAScript.writeKey(charge[index].key, into: &out)
    }

    /// Appends the key of count `index` in a Redis Cluster, of `keyLength(index)` bytes.
    package mutating func writeTaggedKey(_ index: Int, into out: inout ByteBuffer) {
        GCRAScript.writeKey(charge[index].key, charge.tag(index), into: &out)
    }

    package mutating func keyLength(_ index: Int) -> Int { GCRAScript.keyLength(charge.tag(index)) }

    /// Hash tag of count `index`.
    package mutating func tag(_ index: Int) -> HashTag { charge.tag(index) }

    /// Sets `numbers` to this command's numbers, in the order in which they are sent; false if they were the same already.
    package mutating func update(_ numbers: inout LimitNumbers) -> Bool {
        var isNew = numbers[0] != UInt64(want) || numbers[1] != UInt64(charge.count)
        (numbers[0], numbers[1]) = (UInt64(want), UInt64(charge.count))
        for index in 0..<charge.count {
            let (interval, tolerance) = charge.terms(index)
            isNew = isNew || numbers[2 * index + 2] != interval || numbers[2 * index + 3] != tolerance
            (numbers[2 * index + 2], numbers[2 * index + 3]) = (interval, tolerance)
        }
        return isNew
    }

    /// Makes it a charge of one unit on each of at most four counts, outside of any limit client.
    package mutating func ask(_ items: [LimitCharge.Item]) {
        want = 1
        charge.removeAll()
        for item in items { charge.append(item) }
    }
}

/// The numeric arguments of a charge: want, number of counts, then interval and tolerance per count. Consecutive charges
/// mostly share them.
package typealias LimitNumbers = InlineArray<10, UInt64>

/// Commands and replies.
extension SharedLimitClient {
    /// Whether `nextCommand` may return one. It may still return none, if every waiting request was cancelled.
    package var hasCommands: Bool { queues.hasReady }

    /// Fills `command` with the next one to send; false if there is none. `previous` is the id of the command that precedes
    /// it in the same Redis call.
    package mutating func nextCommand(
        _ now: MonotonicTime, behind previous: UInt64? = nil, into command: inout LimitCommand
    ) -> Bool {
        while queues.hasReady {
            let queue = queues.nextReady()
            // Every waiting request may have been cancelled.
            guard queues.items[queue].lists[LimitQueue.waiting].count > 0 else {
                queues.releaseIfDone(queue)
                continue
            }
            ask(queue, Self.clock(now), &command)
            if let previous { queues.items[Int(previous & 0xFFFF_FFFF)].nextInCall = command.id }
            return true
        }
        return false
    }

    private mutating func ask(_ queue: Int, _ clock: UInt64, _ command: inout LimitCommand) {
        command.id = UInt64(queues.items[queue].command) << 32 | UInt64(queue)
        let debt = denyCache.debt(of: &queues.items[queue].charge, gateways: gateways)
        queues.items[queue].ask(clock, holders: gateways &* settings.workers, debt: debt, &command)
    }

    /// A command in flight: its number of counts, its send time, and the id of the next command in the same Redis call. nil if it has
    /// ended.
    package mutating func inFlight(_ id: UInt64) -> (counts: Int, at: MonotonicTime, next: UInt64?)? {
        guard let queue = queue(asking: id) else { return nil }
        return (
            counts: queues.items[queue].charge.count, at: MonotonicTime(nanoseconds: queues.items[queue].sentAt * 1_000),
            next: queues.items[queue].nextInCall
        )
    }

    /// Fills `command` with those counts of command `id`, which is in flight, whose bit is set in `counts`.
    package mutating func inFlight(_ id: UInt64, counts: UInt8, into command: inout LimitCommand) {
        guard let queue = queue(asking: id) else { preconditionFailure("a command that has ended") }
        command.id = id
        command.want = queues.items[queue].want
        command.charge.copy(from: &queues.items[queue].charge, only: counts)
    }

    /// The rate of count `index` of command `id`, in flight: its interval in microseconds.
    package mutating func interval(_ id: UInt64, _ index: Int) -> UInt64 {
        guard let queue = queue(asking: id) else { preconditionFailure("a command that has ended") }
        return queues.items[queue].charge.terms(index).interval
    }

    /// The reply to command `id` arrived without the counts whose bit is set in `missing`: the failure mode, which is not `closed`,
    /// decides about those alone.
    package mutating func answered(_ id: UInt64, _ reply: inout GCRAReply, missing: UInt8, now: MonotonicTime) {
        guard let queue = end(id) else { return }
        let clock = Self.clock(now)
        queues.items[queue].record(&reply, missing: missing, &verdict)
        for index in 0..<verdict.count where missing & 1 << index == 0 {
            let granted = settings.failureMode == .local ? reply.granted : 0
            queues.items[queue].store(in: &denyCache, index, granted: granted, gateways: gateways, clock)
        }
        var passing = reply.granted
        var charge = LimitCharge()
        charge.copy(from: &queues.items[queue].charge, only: missing)
        while queues.items[queue].lists[LimitQueue.asked].first >= 0 {
            var own = verdict
            if passing == 0 {
                own.becomes(granted: false, .redis, count: verdict.count)
            } else if settings.failureMode == .local {
                var local = LimitVerdict()
                fallBack(&charge, now, &local)
                var next = 0
                for index in 0..<own.count where missing & 1 << index != 0 {
                    own[index] = local[next]
                    next += 1
                }
                if local.kind == .granted { passing -= 1 } else { own.becomes(granted: false, .fallback, count: own.count) }
            } else {
                // The counts without an answer let it pass; those with one have granted only so many.
                passing -= 1
            }
            waiters.settle(
                queues.items[queue].lists[LimitQueue.asked].first, &own, from: &queues.items[queue].lists[LimitQueue.asked])
        }
        denyCache.pay(&queues.items[queue].charge, grants: passing, missing: missing, gateways: gateways)
        serveWaiting(queue, now)
    }

    /// The reply to command `id` arrived. Distributes its grants in order of arrival; the surplus pays debts, and becomes a lease.
    ///
    /// - Returns: the grants of the lease.
    @discardableResult
    package mutating func answered(_ id: UInt64, _ reply: inout GCRAReply, now: MonotonicTime) -> UInt32 {
        guard let queue = end(id) else { return 0 }
        let passing = min(queues.items[queue].lists[LimitQueue.asked].count, reply.granted)
        let left = reply.granted - passing
        let lease = queues.items[queue].leaseTime
        let held = lease > 0 ? left - min(left, queues.items[queue].debt) : 0
        record(queue, &reply, granted: passing + held, Self.clock(now))
        distribute(queue, passing: passing, held: held)
        denyCache.pay(&queues.items[queue].charge, grants: left - held, gateways: gateways)
        if lease > 0 { queues.items[queue].lease.hold(held, until: queues.items[queue].sentAt + lease) }
        serveWaiting(queue, now)
        return held
    }

    /// Command `id` got no valid reply. The failure mode decides for the requests it was sent for.
    package mutating func failed(_ id: UInt64, now: MonotonicTime) {
        guard let queue = end(id) else { return }
        while queues.items[queue].lists[LimitQueue.asked].first >= 0 {
            abandon(queues.items[queue].lists[LimitQueue.asked].first, now)
        }
        serveWaiting(queue, now)
    }

    /// The queue whose command in flight is `id`, which ends here; nil if it has ended before.
    private mutating func end(_ id: UInt64) -> Int? {
        guard let queue = queue(asking: id) else { return nil }
        queues.items[queue].isAsking = false
        return queue
    }

    /// The queue whose command in flight is `id`; nil if it has ended.
    private mutating func queue(asking id: UInt64) -> Int? {
        let queue = Int(id & 0xFFFF_FFFF)
        guard queue < queues.items.count, queues.items[queue].isAsking else { return nil }
        return queues.items[queue].command &- 1 == UInt32(id >> 32) ? queue : nil
    }

    /// Stores the reply in the deny cache, and makes it the verdict of the granted requests.
    private mutating func record(_ queue: Int, _ reply: inout GCRAReply, granted: UInt32, _ clock: UInt64) {
        let granted = settings.failureMode == .local ? granted : 0
        queues.items[queue].record(&reply, &verdict)
        for index in 0..<verdict.count { queues.items[queue].store(in: &denyCache, index, granted: granted, gateways: gateways, clock) }
    }

    /// Distributes grants to the requests of the command; `held` are those of the lease.
    private mutating func distribute(_ queue: Int, passing: UInt32, held: UInt32) {
        let count = verdict.count
        var passing = passing
        verdict.add(held)
        while queues.items[queue].lists[LimitQueue.asked].first >= 0 {
            if passing == 0 { verdict.becomes(granted: false, .redis, count: count) } else { passing -= 1 }
            waiters.settle(
                queues.items[queue].lists[LimitQueue.asked].first, &verdict,
                from: &queues.items[queue].lists[LimitQueue.asked])
        }
    }

    /// Serves the requests that arrived while a command was in flight: from the lease or the deny cache, or with the next
    /// command.
    private mutating func serveWaiting(_ queue: Int, _ now: MonotonicTime) {
        let clock = Self.clock(now)
        while queues.items[queue].lists[LimitQueue.waiting].first >= 0 {
            let isAnswered =
                queues.items[queue].spendLease(clock, &verdict) || denyCache.refuses(&queues.items[queue].charge, clock, &verdict)
            guard isAnswered else { return queues.makeReady(queue) }
            waiters.settle(
                queues.items[queue].lists[LimitQueue.waiting].first, &verdict,
                from: &queues.items[queue].lists[LimitQueue.waiting])
        }
        queues.releaseIfDone(queue)
    }
}
