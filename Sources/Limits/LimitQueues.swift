import Gate
import Wire

/// Requests of one worker for one set of counts: those that wait, the command in flight, and the lease.
struct LimitQueue {
    var charge = LimitCharge()
    /// Maximum age of a lease in microseconds; 0 for no leases.
    var leaseTime: UInt64 = 0
    /// Requests: at `waiting` those without a command, at `asked` those of the command in flight.
    var lists: InlineArray<2, LimitWaiterList> = [.init(), .init()]
    /// Whether a command is in flight; at most one at a time.
    var isAsking = false
    /// Number of the next command; the one in flight has the number before it.
    var command: UInt32 = 0
    /// Grants that the command in flight asks for, and those of them that pay debts.
    var want: UInt32 = 0
    var debt: UInt32 = 0
    /// Id of the next command in the same Redis call; nil for the last.
    var nextInCall: UInt64?
    /// Send time of the command in flight, in microseconds on the worker's clock.
    var sentAt: UInt64 = 0

    var lease = LimitLease()
    var demand = LimitDemand()
    /// Server time of the latest reply, in microseconds since 1970; the stamp of leased grants.
    var answeredAt: UInt64 = 0
    /// `remaining` of the latest reply.
    var remaining: UInt32 = 0
    /// TATs of the latest reply, on the worker's clock.
    var tats: PerCount<UInt64> = InlineArray(repeating: 0)

    static let waiting = 0
    static let asked = 1

    // Links of `LimitQueues`: the hash chain, and the lists of ready and idle queues.
    fileprivate var nextInChain: Int32 = -1
    fileprivate var nextReady: Int32 = -1
    fileprivate var nextIdle: Int32 = -1
    fileprivate var isReady = false
    fileprivate var isIdle = false

    /// Whether no request waits and no command is in flight. Requests of a command leave when it is answered.
    fileprivate var isDone: Bool { lists[Self.waiting].first < 0 && !isAsking && !isReady }

    /// Reuses the queue for these counts. Command numbers continue, so a late reply to an earlier command matches none.
    fileprivate mutating func begin(_ charge: inout LimitCharge, before next: Int32) {
        self.charge.copy(from: &charge)
        nextInChain = next
        leaseTime = charge.leaseTime
        remaining = 0
        lease = LimitLease()
        demand = LimitDemand()
    }

    /// False if it is ready already, or a command is in flight.
    fileprivate mutating func becomeReady() -> Bool {
        guard !isReady, !isAsking else { return false }
        isReady = true
        nextReady = -1
        return true
    }

    /// Returns the next ready queue.
    fileprivate mutating func leaveReady() -> Int32 {
        isReady = false
        return nextReady
    }

    /// Fills `command` with the next one: all waiting requests, the debt, and a lease if the demand is worth it. `holders` is the
    /// number of workers on all gateways.
    mutating func ask(_ clock: UInt64, holders: UInt32, debt: UInt32, _ command: inout LimitCommand) {
        command.charge.copy(from: &charge)
        command.want = lists[Self.waiting].count &+ debt
        self.debt = debt
        if leaseTime > 0 {
            command.want += demand.lease(clock, leaseTime: leaseTime, remaining: remaining, holders: holders)
        }
        want = command.want
        lists[Self.asked] = lists[Self.waiting]
        lists[Self.waiting] = LimitWaiterList()
        self.command &+= 1
        nextInCall = nil
        isAsking = true
        sentAt = clock
    }

    /// Stores the reply, and makes it the verdict of a granted request. Counts whose bit is set in `missing` are unknown.
    mutating func record(_ reply: inout GCRAReply, missing: UInt8 = 0, _ verdict: inout LimitVerdict) {
        answeredAt = reply.at
        verdict.becomes(granted: true, .redis, count: charge.count)
        verdict.countedAt = reply.at
        remaining = .max
        for index in 0..<charge.count {
            guard missing & 1 << index == 0 else {
                verdict[index] = .unknown
                continue
            }
            let reading = reply.reading(index, charge[index].rate)
            verdict[index] = reading
            // The server computed it after the send, so counting from the send time never overestimates.
            tats[index] = sentAt &+ reading.reset
            remaining = min(remaining, reading.remaining)
        }
    }

    /// Stores count `index` of the latest reply in the deny cache; `granted` are this worker's grants. Mutating only to
    /// avoid a copy of the queue.
    mutating func store(in denyCache: inout DenyCache, _ index: Int, granted: UInt32, gateways: UInt32, _ clock: UInt64) {
        denyCache.store(charge[index], tat: tats[index], granted: granted, gateways: gateways, clock)
    }

    /// Spends one leased grant and writes its verdict; false if there is none.
    mutating func spendLease(_ clock: UInt64, _ verdict: inout LimitVerdict) -> Bool {
        guard lease.spend(clock) else { return false }
        verdict.becomes(granted: true, .lease, count: charge.count)
        verdict.countedAt = answeredAt
        for index in 0..<charge.count { verdict[index] = LimitReading(tat: tats[index], charge[index].rate, at: clock) }
        verdict.add(lease.grants)
        return true
    }
}

/// The queues of a worker, found by their counts. Memory grows up to a bound and is reused.
///
/// A queue that is done is freed at once, unless its counts may be leased: then it is idle and keeps its lease, and the
/// longest idle one is freed when another set of counts needs the room.
struct LimitQueues: ~Copyable {
    /// In place, so that a field changes without a move of the rest.
    var items = UniqueArray<LimitQueue>()
    private let capacity: Int
    private var free = UniqueArray<Int32>()
    /// Heads of the hash chains: a power of two, grown with the number of queues so that few queues touch little memory.
    private var chains = UniqueArray<Int32>(repeating: -1, count: 64)
    private var ready = List()
    private var idle = List()

    /// A linked list through the queues.
    private struct List {
        var first: Int32 = -1
        var last: Int32 = -1
    }

    init(capacity: Int) {
        self.capacity = capacity
    }

    // MARK: by counts

    /// The chain of these counts; `chains` is a power of two.
    private static func chain(_ charge: inout LimitCharge, _ chains: Int) -> Int {
        // Rotated, so that two equal keys do not cancel out.
        var hash: UInt64 = 0
        for index in 0..<charge.count { hash = (hash << 1 | hash >> 63) ^ charge[index].key.high }
        return Int(truncatingIfNeeded: hash) & (chains - 1)
    }

    /// The queue of these counts; -1 if there is none.
    mutating func find(_ charge: inout LimitCharge) -> Int32 {
        var index = chains[Self.chain(&charge, chains.count)]
        while index >= 0, !items[Int(index)].charge.hasSameCounts(as: &charge) { index = items[Int(index)].nextInChain }
        return index
    }

    /// A new queue for these counts; -1 if there is no room.
    mutating func open(_ charge: inout LimitCharge) -> Int32 {
        let index = allocate()
        guard index >= 0 else { return -1 }
        let chain = Self.chain(&charge, chains.count)
        items[Int(index)].begin(&charge, before: chains[chain])
        chains[chain] = index
        return index
    }

    private mutating func allocate() -> Int32 {
        if let index = free.popLast() { return index }
        if items.count < capacity {
            items.append(LimitQueue())
            if items.count > chains.count { lengthenChains() }
            return Int32(items.count - 1)
        }
        while idle.first >= 0 {
            let index = idle.first
            idle.first = items[Int(index)].nextIdle
            items[Int(index)].isIdle = false
            // A busy queue returns to the idle list when it is done.
            guard items[Int(index)].isDone else { continue }
            close(index)
            return free.popLast() ?? -1
        }
        return -1
    }

    private mutating func lengthenChains() {
        var longer = UniqueArray<Int32>(repeating: -1, count: 2 * chains.count)
        for chain in 0..<chains.count {
            var index = chains[chain]
            while index >= 0 {
                let next = items[Int(index)].nextInChain
                let chain = Self.chain(&items[Int(index)].charge, longer.count)
                items[Int(index)].nextInChain = longer[chain]
                longer[chain] = index
                index = next
            }
        }
        chains = longer
    }

    private mutating func close(_ index: Int32) {
        let chain = Self.chain(&items[Int(index)].charge, chains.count)
        if chains[chain] == index {
            chains[chain] = items[Int(index)].nextInChain
        } else {
            var before = chains[chain]
            while items[Int(before)].nextInChain != index { before = items[Int(before)].nextInChain }
            items[Int(before)].nextInChain = items[Int(index)].nextInChain
        }
        free.append(index)
    }

    // MARK: by state

    /// Schedules the queue's next command, once.
    mutating func makeReady(_ queue: Int) {
        let index = Int32(queue)
        guard items[Int(index)].becomeReady() else { return }
        if ready.first < 0 { ready.first = index } else { items[Int(ready.last)].nextReady = index }
        ready.last = index
    }

    /// The next scheduled queue; -1 if there is none.
    mutating func nextReady() -> Int {
        let index = Int(ready.first)
        guard index >= 0 else { return -1 }
        ready.first = items[index].leaveReady()
        return index
    }

    var hasReady: Bool { ready.first >= 0 }

    /// Frees the queue if it is done.
    mutating func releaseIfDone(_ queue: Int) {
        let index = Int32(queue)
        guard items[Int(index)].isDone else { return }
        guard items[Int(index)].leaseTime > 0 else { return close(index) }
        guard !items[Int(index)].isIdle else { return }
        items[Int(index)].isIdle = true
        items[Int(index)].nextIdle = -1
        if idle.first < 0 { idle.first = index } else { items[Int(idle.last)].nextIdle = index }
        idle.last = index
    }
}
