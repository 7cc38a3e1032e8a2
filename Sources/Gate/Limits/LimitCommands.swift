package import Wire

/// A charge that `GCRAScript` is to be asked for. Filled and read where it lies.
package struct LimitCommand: Sendable {
    /// What `answered` or `failed` must name.
    package fileprivate(set) var id: UInt64 = 0
    /// Grants that are asked for; of a limit client at least 1.
    var want: UInt32 = 0
    /// From which counts.
    var charge = LimitCharge()

    /// None yet.
    package init() {}

    /// How many counts it asks for.
    package var count: Int { mutating get { charge.count } }

    /// Appends the key of count `index`, of `GCRAScript.keyLength` bytes.
    package mutating func writeKey(_ index: Int, into out: inout ByteBuffer) {
        GCRAScript.writeKey(charge[index].key, into: &out)
    }

    /// Makes `numbers` those by which it is counted, in the order in which they are written; false if they were it before.
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

    /// Becomes a charge of one on each of these counts, at most four, past every limit client.
    package mutating func ask(_ items: [LimitCharge.Item]) {
        want = 1
        charge.removeAll()
        for item in items { charge.append(item) }
    }
}

/// How many are asked for, of how many counts, then the interval and the tolerance of each: most charges have those of the
/// charge before.
package typealias LimitNumbers = InlineArray<10, UInt64>

/// Commands and what comes of them.
extension SharedLimitClient {
    /// Whether `nextCommand` may have one; it has none if all who waited have left.
    package var hasCommands: Bool { queues.hasReady }

    /// The next command to be sent, now; false if there is none. If it goes in one call with one that was handed out just
    /// before, `previous` is the id of that.
    package mutating func nextCommand(
        _ now: MonotonicTime, behind previous: UInt64? = nil, into command: inout LimitCommand
    ) -> Bool {
        while queues.hasReady {
            let queue = queues.nextReady()
            // They may all have left.
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
        queues.items[queue].ask(clock, holders: gateways &* settings.workers, &command)
    }

    /// A command that is under way: how many counts it asks about, how many requests it was sent for, when, and which one
    /// went behind it in the same call; nil for one that has ended.
    package mutating func asked(_ id: UInt64) -> (counts: Int, waiting: UInt32, at: MonotonicTime, next: UInt64?)? {
        guard let queue = queue(asking: id) else { return nil }
        return (
            counts: queues.items[queue].charge.count, waiting: queues.items[queue].lists[LimitQueue.asked].count,
            at: MonotonicTime(nanoseconds: queues.items[queue].sentAt * 1_000), next: queues.items[queue].nextInCall
        )
    }

    /// The answer to command `id` has come. Grants go to who asked for them, in the order of their coming.
    package mutating func answered(_ id: UInt64, _ reply: inout GCRAReply, now: MonotonicTime) {
        guard let queue = end(id) else { return }
        hear(queue, &reply, Self.clock(now))
        let left = distribute(queue, reply.granted)
        let lease = queues.items[queue].leaseTime
        if lease > 0 { queues.items[queue].lease.hold(left, until: queues.items[queue].sentAt + lease) }
        goOn(queue, now)
    }

    /// No answer to command `id` will come, or none that is one: those it was sent for are judged by the failure mode.
    package mutating func failed(_ id: UInt64, now: MonotonicTime) {
        guard let queue = end(id) else { return }
        while queues.items[queue].lists[LimitQueue.asked].first >= 0 {
            abandon(queues.items[queue].lists[LimitQueue.asked].first, now)
        }
        goOn(queue, now)
    }

    /// The queue whose command under way is `id`, which ends here; nil if it has ended before.
    private mutating func end(_ id: UInt64) -> Int? {
        guard let queue = queue(asking: id) else { return nil }
        queues.items[queue].isAsking = false
        return queue
    }

    /// The queue whose command under way is `id`; nil if that has ended.
    private mutating func queue(asking id: UInt64) -> Int? {
        let queue = Int(id & 0xFFFF_FFFF)
        guard queue < queues.items.count, queues.items[queue].isAsking else { return nil }
        return queues.items[queue].command &- 1 == UInt32(id >> 32) ? queue : nil
    }

    /// Remembers what the server told, and makes it the verdict of those whom it granted something.
    private mutating func hear(_ queue: Int, _ reply: inout GCRAReply, _ clock: UInt64) {
        let granted = settings.failureMode == .local ? reply.granted : 0
        queues.items[queue].hear(&reply, &verdict)
        for index in 0..<verdict.count { queues.items[queue].tell(&heard, index, granted: granted, gateways: gateways, clock) }
    }

    /// Gives those who were asked for what was granted, and answers how much nobody took.
    private mutating func distribute(_ queue: Int, _ granted: UInt32) -> UInt32 {
        let count = verdict.count
        var passing = min(queues.items[queue].lists[LimitQueue.asked].count, granted)
        let left = granted - passing
        if queues.items[queue].leaseTime > 0 { verdict.add(left) }
        while queues.items[queue].lists[LimitQueue.asked].first >= 0 {
            if passing == 0 { verdict.becomes(granted: false, .redis, count: count) } else { passing -= 1 }
            waiters.settle(
                queues.items[queue].lists[LimitQueue.asked].first, &verdict,
                from: &queues.items[queue].lists[LimitQueue.asked])
        }
        return left
    }

    /// Serves those who came while a command was under way: from what is left, or with the next.
    private mutating func goOn(_ queue: Int, _ now: MonotonicTime) {
        let clock = Self.clock(now)
        while queues.items[queue].lists[LimitQueue.waiting].first >= 0 {
            let isAnswered =
                queues.items[queue].spendLease(clock, &verdict) || heard.refuses(&queues.items[queue].charge, clock, &verdict)
            guard isAnswered else { return queues.makeReady(queue) }
            waiters.settle(
                queues.items[queue].lists[LimitQueue.waiting].first, &verdict,
                from: &queues.items[queue].lists[LimitQueue.waiting])
        }
        queues.releaseIfDone(queue)
    }
}
