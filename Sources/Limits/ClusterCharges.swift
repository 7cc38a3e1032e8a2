import Gate
import Redis
import Wire

/// A worker's charges on a Redis Cluster: which counts go with which call, and how the replies of one charge's calls become one.
///
/// A call has keys of one hash tag, up to 32 charges that arrived together. A charge whose counts have several tags is divided into
/// parts, each with a call of its own; it is granted what its strictest part allows, and the surplus of the others is given back.
/// While a slot moves between nodes, calls for it have a single key, because a call with several is answered only where all of
/// them are.
///
/// A value without sockets and clocks; its memory is reused.
struct ClusterCharges: ~Copyable {
    /// Some counts of one charge, in one call.
    struct Part {
        /// The limit client's command.
        var id: UInt64 = 0
        /// Bit by count of the charge.
        var counts: UInt8 = 0
        /// The entry of its charge in `joins`; -1 if this is all of it.
        var join: Int32 = -1
        /// The next part in the call; -1 for the last.
        var next: Int32 = -1
    }

    struct Call {
        var tag = HashTag(0)
        var first: Int32 = -1
        var last: Int32 = -1
        var parts = 0
        var keys = 0
        /// When it was first sent.
        var sentAt = MonotonicTime(nanoseconds: 0)
        /// How often it was sent again.
        var repeats = 0
        /// The node that it waits for to be connected to, and whether that must be asked with ASKING; -1 for none.
        var parkedFor = -1
        var isAsking = false
    }

    /// A charge in several parts.
    struct Join {
        var id: UInt64 = 0
        /// Parts without a result.
        var left = 0
        /// Counts that were answered, bit by count.
        var answered: UInt8 = 0
        /// By count.
        var granted = PerCount<UInt32>(repeating: 0)
        var stamps = PerCount<UInt64>(repeating: 0)
        var tats = PerCount<UInt64>(repeating: 0)
    }

    private(set) var parts = UniqueArray<Part>()
    private(set) var calls = UniqueArray<Call>()
    private(set) var joins = UniqueArray<Join>()
    private var freeParts = UniqueArray<Int32>()
    private var freeCalls = UniqueArray<Int32>()
    private var freeJoins = UniqueArray<Int32>()
    /// The call that gathers charges, by hash tag; -1 for none.
    private var gathering = UniqueArray<Int32>(repeating: -1, count: HashTag.count)
    /// Calls to be sent, in the order in which they were begun.
    private var ready = UniqueArray<Int32>()
    private var nextReady = 0
    /// Until when calls with this tag have single keys.
    private var dividedUntil = UniqueArray<MonotonicTime>(repeating: MonotonicTime(nanoseconds: 0), count: HashTag.count)
    private(set) var parked = UniqueArray<Int32>()
    /// Those that are being looked at.
    private var unparked = UniqueArray<Int32>()

    /// How long after the latest sign of it a slot is taken to be moving, in milliseconds.
    private static let movingTime: UInt64 = 1_000
    /// A moved slot, then a call divided, then ASK.
    static let maxRepeats = 3

    // MARK: gathering

    /// Adds the charge of `command`, which is in flight from here on.
    mutating func add(_ command: inout LimitCommand, _ now: MonotonicTime) {
        var left = UInt8(truncatingIfNeeded: 1 << command.count - 1)
        let first = counts(of: &command, with: command.tag(0), among: left)
        if first == left, command.count == 1 || !isDivided(command.tag(0), now) {
            gather(Part(id: command.id, counts: left), command.tag(0), keys: command.count, now)
            return
        }
        let join = begin(command.id)
        while left != 0 {
            let tag = command.tag(left.trailingZeroBitCount)
            var counts = counts(of: &command, with: tag, among: left)
            if isDivided(tag, now) { counts = 1 << UInt8(left.trailingZeroBitCount) }
            joins[Int(join)].left += 1
            gather(Part(id: command.id, counts: counts, join: join), tag, keys: counts.nonzeroBitCount, now)
            left &= ~counts
        }
    }

    private func counts(of command: inout LimitCommand, with tag: HashTag, among left: UInt8) -> UInt8 {
        var counts: UInt8 = 0
        for index in 0..<command.count where left & 1 << index != 0 && command.tag(index) == tag { counts |= 1 << index }
        return counts
    }

    private func isDivided(_ tag: HashTag, _ now: MonotonicTime) -> Bool { now < dividedUntil[Int(tag.number)] }

    private mutating func gather(_ part: Part, _ tag: HashTag, keys: Int, _ now: MonotonicTime) {
        var call = gathering[Int(tag.number)]
        if call < 0 || calls[Int(call)].parts == GCRAScript.maxCharges || isDivided(tag, now) {
            call = beginCall(tag, now)
            gathering[Int(tag.number)] = call
        }
        append(part, to: call, keys: keys)
    }

    private mutating func append(_ part: Part, to call: Int32, keys: Int) {
        let index = freeParts.popLast() ?? Int32(parts.count)
        if Int(index) == parts.count { parts.append(part) } else { parts[Int(index)] = part }
        if calls[Int(call)].last >= 0 { parts[Int(calls[Int(call)].last)].next = index } else { calls[Int(call)].first = index }
        calls[Int(call)].last = index
        calls[Int(call)].parts += 1
        calls[Int(call)].keys += keys
    }

    private mutating func beginCall(_ tag: HashTag, _ sentAt: MonotonicTime) -> Int32 {
        let index = freeCalls.popLast() ?? Int32(calls.count)
        if Int(index) == calls.count { calls.append(Call()) } else { calls[Int(index)] = Call() }
        calls[Int(index)].tag = tag
        calls[Int(index)].sentAt = sentAt
        ready.append(index)
        return index
    }

    private mutating func begin(_ id: UInt64) -> Int32 {
        let index = freeJoins.popLast() ?? Int32(joins.count)
        if Int(index) == joins.count { joins.append(Join()) } else { joins[Int(index)] = Join() }
        joins[Int(index)].id = id
        return index
    }

    /// The next call to send; -1 for none. It gathers no more.
    mutating func nextToSend() -> Int {
        guard nextReady < ready.count else {
            ready.removeAll()
            nextReady = 0
            return -1
        }
        let index = Int(ready[nextReady])
        nextReady += 1
        if gathering[Int(calls[index].tag.number)] == Int32(index) { gathering[Int(calls[index].tag.number)] = -1 }
        return index
    }

    // MARK: redirects

    /// Whether the call may be sent again: `deadline` milliseconds after it was first sent it may not.
    mutating func mayRepeat(_ call: Int, deadline: UInt64, _ now: MonotonicTime) -> Bool {
        calls[call].repeats += 1
        return calls[call].repeats <= Self.maxRepeats && now < calls[call].sentAt.advanced(milliseconds: deadline)
    }

    /// Replaces a call by calls with a single key each, which are next to be sent, and does the same with later calls of its tag for
    /// a while.
    mutating func divide(_ call: Int, _ now: MonotonicTime) {
        let (tag, sentAt, repeats) = (calls[call].tag, calls[call].sentAt, calls[call].repeats)
        dividedUntil[Int(tag.number)] = now.advanced(milliseconds: Self.movingTime)
        var next = calls[call].first
        while next >= 0 {
            var part = parts[Int(next)]
            if part.join < 0, part.counts.nonzeroBitCount > 1 {
                part.join = begin(part.id)
                joins[Int(part.join)].left = 1
            }
            if part.join >= 0 { joins[Int(part.join)].left += part.counts.nonzeroBitCount - 1 }
            for index in 0..<UInt8(4) where part.counts & 1 << index != 0 {
                let single = beginCall(tag, sentAt)
                calls[Int(single)].repeats = repeats
                append(Part(id: part.id, counts: 1 << index, join: part.join), to: single, keys: 1)
            }
            next = part.next
        }
        end(call)
    }

    /// The call waits for `node` to be connected to.
    mutating func park(_ call: Int, for node: Int, isAsking: Bool) {
        calls[call].parkedFor = node
        calls[call].isAsking = isAsking
        parked.append(Int32(call))
    }

    /// Takes all parked calls; `nextUnparked` returns them, and they may be parked again.
    mutating func unpark() { swap(&parked, &unparked) }

    /// The next call that `unpark` took; -1 for none.
    mutating func nextUnparked() -> Int { unparked.popLast().map { Int($0) } ?? -1 }

    // MARK: replies

    /// The call has ended, and with it its parts.
    mutating func end(_ call: Int) {
        var next = calls[call].first
        while next >= 0 {
            freeParts.append(next)
            next = parts[Int(next)].next
        }
        freeCalls.append(Int32(call))
    }

    /// A part of a charge in several has its reply, or gets none. Returns whether it was the last.
    mutating func joined(_ part: Part, _ reply: GCRAReply?) -> Bool {
        let join = Int(part.join)
        joins[join].left -= 1
        if let reply {
            var next = 0
            joins[join].answered |= part.counts
            for index in 0..<4 where part.counts & 1 << UInt8(index) != 0 {
                joins[join].granted[index] = reply.granted
                joins[join].stamps[index] = reply.at
                joins[join].tats[index] = reply.tats[next]
                next += 1
            }
        }
        return joins[join].left == 0
    }

    mutating func end(join: Int) { freeJoins.append(Int32(join)) }

    /// Grants of a joined charge: what its strictest answered count allows; nil if none was answered.
    func granted(_ join: Int) -> UInt32? {
        var granted: UInt32?
        for index in 0..<4 where joins[join].answered & 1 << UInt8(index) != 0 {
            granted = min(granted ?? .max, joins[join].granted[index])
        }
        return granted
    }

    /// The reply to a joined charge of `granted` grants, by the clock of the node of its first answered count. A surplus, which is
    /// given back, is not in the TATs; `interval` is that of each count.
    func reply(_ join: Int, _ granted: UInt32, interval: (Int) -> UInt64) -> GCRAReply {
        var reply = GCRAReply()
        reply.granted = granted
        let first = joins[join].answered.trailingZeroBitCount
        reply.at = joins[join].stamps[first]
        for index in 0..<4 where joins[join].answered & 1 << UInt8(index) != 0 {
            let left = joins[join].tats[index] - joins[join].stamps[index]
            let surplus = UInt64(joins[join].granted[index] - granted) &* interval(index)
            reply.tats[index] = reply.at + left - min(left, surplus)
        }
        return reply
    }
}
