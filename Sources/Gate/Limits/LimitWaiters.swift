import Wire

/// Names a request that waits for a limit's answer; kept by its driver for `SharedLimitClient.cancel`.
package struct LimitWait: Equatable, Sendable {
    let index: Int32
    let generation: UInt32
}

/// A request that waits for Redis, or whose verdict waits to be fetched.
struct LimitWaiter {
    enum State { case free, waiting, settled, cancelled }

    fileprivate(set) var state = State.free
    fileprivate(set) var generation: UInt32 = 0
    /// The driver's name for it.
    fileprivate var ticket: UInt64 = 0
    /// On the worker's clock, in microseconds.
    fileprivate(set) var arrivedAt: UInt64 = 0
    fileprivate(set) var queue: Int32 = -1
    /// The number of its queue's command that it goes with.
    fileprivate(set) var command: UInt32 = 0

    fileprivate mutating func begin(_ ticket: UInt64, queue: Int32, command: UInt32, _ clock: UInt64) {
        state = .waiting
        self.ticket = ticket
        arrivedAt = clock
        self.queue = queue
        self.command = command
    }

    fileprivate mutating func end() {
        state = .free
        generation &+= 1
    }
}

/// Waiters one behind the other; they are linked to each other, so each can leave from where it stands.
struct LimitWaiterList {
    /// The neighbours of one; -1 for none.
    struct Link {
        var previous: Int32 = -1
        var next: Int32 = -1
    }

    private(set) var first: Int32 = -1
    private var last: Int32 = -1
    private(set) var count: UInt32 = 0

    /// `links` holds the links of all waiters that are in lists of this kind.
    mutating func append(_ index: Int32, _ links: inout UniqueArray<Link>) {
        links[Int(index)] = Link(previous: last, next: -1)
        if last >= 0 { links[Int(last)].next = index } else { first = index }
        last = index
        count += 1
    }

    mutating func remove(_ index: Int32, _ links: inout UniqueArray<Link>) {
        let link = links[Int(index)]
        if link.previous >= 0 { links[Int(link.previous)].next = link.next } else { first = link.next }
        if link.next >= 0 { links[Int(link.next)].previous = link.previous } else { last = link.previous }
        count -= 1
    }
}

/// All waiters of a worker, in memory that grows up to a bound and is used again.
struct LimitWaiters: ~Copyable {
    private var items = UniqueArray<LimitWaiter>()
    private var verdicts = UniqueArray<LimitVerdict>()
    /// In the list of a queue, or in that of the settled.
    private var inQueue = UniqueArray<LimitWaiterList.Link>()
    private var byAge = UniqueArray<LimitWaiterList.Link>()
    private let capacity: Int
    private var free = UniqueArray<Int32>()
    /// Those without a verdict, the oldest first.
    private var outstanding = LimitWaiterList()
    private var settled = LimitWaiterList()

    init(capacity: Int) { self.capacity = capacity }

    /// Who has waited longest without a verdict; -1 for nobody.
    var oldest: Int32 { outstanding.first }

    func arrival(_ index: Int32) -> UInt64 { items[Int(index)].arrivedAt }
    func queue(_ index: Int32) -> Int { Int(items[Int(index)].queue) }
    func command(_ index: Int32) -> UInt32 { items[Int(index)].command }

    /// A waiter at the end of its queue's `list`; nil if there is no room.
    mutating func take(
        _ ticket: UInt64, queue: Int32, command: UInt32, _ list: inout LimitWaiterList, _ clock: UInt64
    ) -> LimitWait? {
        guard let index = place() else { return nil }
        items[Int(index)].begin(ticket, queue: queue, command: command, clock)
        list.append(index, &inQueue)
        outstanding.append(index, &byAge)
        return LimitWait(index: index, generation: items[Int(index)].generation)
    }

    private mutating func place() -> Int32? {
        if let index = free.popLast() { return index }
        guard items.count < capacity else { return nil }
        items.append(LimitWaiter())
        verdicts.append(LimitVerdict())
        inQueue.append(LimitWaiterList.Link())
        byAge.append(LimitWaiterList.Link())
        return Int32(items.count - 1)
    }

    /// Gives a waiter its verdict: it leaves `list`, its queue's, and waits to be fetched.
    mutating func settle(_ index: Int32, _ verdict: inout LimitVerdict, from list: inout LimitWaiterList) {
        list.remove(index, &inQueue)
        outstanding.remove(index, &byAge)
        items[Int(index)].state = .settled
        verdicts[Int(index)].becomes(&verdict)
        settled.append(index, &inQueue)
    }

    /// The waiter that `wait` names, while it has no verdict; otherwise it will get none, and nil.
    mutating func outstanding(_ wait: LimitWait) -> Int32? {
        guard items[Int(wait.index)].generation == wait.generation else { return nil }
        switch items[Int(wait.index)].state {
        case .waiting: return wait.index
        case .settled: items[Int(wait.index)].state = .cancelled
        case .free, .cancelled: break
        }
        return nil
    }

    /// Forgets one that has no verdict.
    mutating func drop(_ index: Int32, from list: inout LimitWaiterList) {
        list.remove(index, &inQueue)
        outstanding.remove(index, &byAge)
        release(index)
    }

    /// Whether somebody may have a verdict to fetch.
    var hasVerdicts: Bool { settled.first >= 0 }

    /// Fetches the next verdict, in the order in which they were given, and answers its ticket; nil if there is none.
    mutating func next(into verdict: inout LimitVerdict) -> UInt64? {
        while settled.first >= 0 {
            let index = settled.first
            settled.remove(index, &inQueue)
            let isWanted = items[Int(index)].state == .settled
            release(index)
            guard isWanted else { continue }
            verdict.becomes(&verdicts[Int(index)])
            return items[Int(index)].ticket
        }
        return nil
    }

    private mutating func release(_ index: Int32) {
        items[Int(index)].end()
        free.append(index)
    }
}
