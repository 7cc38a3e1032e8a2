import Wire

/// What one worker has to do with one set of counts: who waits for them, what was asked, what is held in advance.
struct LimitQueue {
    var charge = LimitCharge()
    /// How long grants of this charge may be held, in microseconds; 0 for not at all.
    var leaseTime: UInt64 = 0
    /// Who waits: at `waiting` those that no command was sent for, at `asked` those of the command under way.
    var lists: InlineArray<2, LimitWaiterList> = [.init(), .init()]
    /// Whether a command is under way: one at a time.
    var isAsking = false
    /// The number of the next command; of the one under way it is one less.
    var command: UInt32 = 0
    /// The id of the command that went to the server behind the one under way, in the same call; nil behind the last.
    var nextInCall: UInt64?
    /// When the command under way was handed out, on the worker's clock.
    var sentAt: UInt64 = 0

    var lease = LimitLease()
    var pace = LimitDemand()
    /// When the server last answered, by its own clock: what a lease is held since.
    var answeredAt: UInt64 = 0
    /// What the server had left when it last answered.
    var remaining: UInt32 = 0
    /// The TATs that it told then, on the worker's clock.
    var tats: InlineArray<4, UInt64> = InlineArray(repeating: 0)

    static let waiting = 0
    static let asked = 1

    // The table's: the next in its chain, and in the two lists that it may be in.
    fileprivate var nextInChain: Int32 = -1
    fileprivate var nextReady: Int32 = -1
    fileprivate var nextIdle: Int32 = -1
    fileprivate var isReady = false
    fileprivate var isIdle = false

    /// Whether nobody waits and nothing is under way. Who was asked for has left when a command is answered.
    fileprivate var isDone: Bool { lists[Self.waiting].first < 0 && !isAsking && !isReady }

    /// Serves these counts from now on; it was done with others. The numbers of its commands go on, so that an answer to
    /// the one before is nobody's.
    fileprivate mutating func begin(_ charge: inout LimitCharge, before next: Int32) {
        self.charge.becomes(&charge)
        nextInChain = next
        leaseTime = charge.leaseTime
        remaining = 0
        lease = LimitLease()
        pace = LimitDemand()
    }

    /// False if it is ready already, or its next command must wait.
    fileprivate mutating func becomeReady() -> Bool {
        guard !isReady, !isAsking else { return false }
        isReady = true
        nextReady = -1
        return true
    }

    /// Answers which is the next one that is ready.
    fileprivate mutating func leaveReady() -> Int32 {
        isReady = false
        return nextReady
    }

    /// Hands out the next command: who waits goes with it, and a lease among so many `holders` where one is worth it.
    mutating func ask(_ clock: UInt64, holders: UInt32, _ command: inout LimitCommand) {
        command.charge.becomes(&charge)
        command.want = lists[Self.waiting].count
        if leaseTime > 0 {
            command.want += pace.lease(clock, leaseTime: leaseTime, remaining: remaining, holders: holders)
        }
        lists[Self.asked] = lists[Self.waiting]
        lists[Self.waiting] = LimitWaiterList()
        self.command &+= 1
        nextInCall = nil
        isAsking = true
        sentAt = clock
    }

    /// Takes over the server's answer to the command under way, and makes it the verdict of a request that it granted.
    mutating func hear(_ reply: inout GCRAReply, _ verdict: inout LimitVerdict) {
        answeredAt = reply.at
        verdict.becomes(granted: true, .redis, count: charge.count)
        verdict.countedAt = reply.at
        remaining = .max
        for index in 0..<charge.count {
            let reading = reply.reading(index, charge[index].rate)
            verdict[index] = reading
            // It told it after it was asked: reckoned from the asking, a TAT is not too late.
            tats[index] = sentAt &+ reading.reset
            remaining = min(remaining, reading.remaining)
        }
    }

    /// Has `heard` remember what the server told of count `index`, and that it `granted` so much to this worker. Changes nothing
    /// here; mutating, so that the queue is not copied for it.
    mutating func tell(_ heard: inout DenyCache, _ index: Int, granted: UInt32, gateways: UInt32, _ clock: UInt64) {
        heard.hear(charge[index], tat: tats[index], granted: granted, gateways: gateways, clock)
    }

    /// Whether there was a grant in hand for a request of this queue; then `verdict` is it.
    mutating func spendLease(_ clock: UInt64, _ verdict: inout LimitVerdict) -> Bool {
        guard lease.spend(clock) else { return false }
        verdict.becomes(granted: true, .lease, count: charge.count)
        verdict.countedAt = answeredAt
        for index in 0..<charge.count { verdict[index] = LimitReading(tat: tats[index], charge[index].rate, at: clock) }
        verdict.add(lease.grants)
        return true
    }
}

/// The queues of a worker, found by their counts. Memory grows up to a bound and is used again.
///
/// A queue that is done is given back at once, unless its counts may be leased: then it is idle, and given back when
/// another needs the room, the longest idle first.
struct LimitQueues: ~Copyable {
    /// In place, so that a field can be changed without moving the rest.
    var items = UniqueArray<LimitQueue>()
    private let capacity: Int
    private var free = UniqueArray<Int32>()
    /// First of each chain: a power of two, as many as queues were ever in use at once, so that few are few places in memory.
    private var chains = UniqueArray<Int32>(repeating: -1, count: 64)
    private var ready = List()
    private var idle = List()

    /// First and last of a list that goes through the queues.
    private struct List {
        var first: Int32 = -1
        var last: Int32 = -1
    }

    init(capacity: Int) {
        self.capacity = capacity
    }

    // MARK: by counts

    /// The chain of these counts among `chains`, a power of two.
    private static func chain(_ charge: inout LimitCharge, _ chains: Int) -> Int {
        // Turned, so that two equal keys do not take each other away.
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

    /// A new queue of these counts; -1 if there is no room.
    mutating func open(_ charge: inout LimitCharge) -> Int32 {
        let index = place()
        guard index >= 0 else { return -1 }
        let chain = Self.chain(&charge, chains.count)
        items[Int(index)].begin(&charge, before: chains[chain])
        chains[chain] = index
        return index
    }

    private mutating func place() -> Int32 {
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
            // One that has become busy again will come back to the list when it is done.
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

    /// Has the queue's next command sent, once.
    mutating func makeReady(_ queue: Int) {
        let index = Int32(queue)
        guard items[Int(index)].becomeReady() else { return }
        if ready.first < 0 { ready.first = index } else { items[Int(ready.last)].nextReady = index }
        ready.last = index
    }

    /// The next queue whose command is to be sent; -1 if there is none.
    mutating func nextReady() -> Int {
        let index = Int(ready.first)
        guard index >= 0 else { return -1 }
        ready.first = items[index].leaveReady()
        return index
    }

    var hasReady: Bool { ready.first >= 0 }

    /// Gives the queue back if it is done.
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
