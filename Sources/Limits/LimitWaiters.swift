import Gate
import Wire

/// Handle of a waiting request, for `SharedLimitClient.cancel`.
package struct LimitWait: Equatable, Sendable {
    let index: Int32
    let generation: UInt32
}

/// A request that waits for Redis, or whose verdict was not fetched yet.
struct LimitWaiter {
    enum State { case free, waiting, settled, cancelled }

    fileprivate(set) var state = State.free
    fileprivate(set) var generation: UInt32 = 0
    /// The driver's name for it.
    fileprivate var ticket: UInt64 = 0
    /// In microseconds on the worker's clock.
    fileprivate(set) var arrivedAt: UInt64 = 0
    fileprivate(set) var queue: Int32 = -1
    /// Number of the queue's command that it belongs to.
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

/// Doubly linked list of waiters, by index, with removal from the middle.
struct LimitWaiterList {
    /// Neighbours; -1 for none.
    struct Link {
        var previous: Int32 = -1
        var next: Int32 = -1
    }

    private(set) var first: Int32 = -1
    private var last: Int32 = -1
    private(set) var count: UInt32 = 0

    /// `links` holds the links of all waiters for lists of this kind.
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

/// All waiters of a worker, in memory that grows up to a bound and is reused.
struct LimitWaiters: ~Copyable {
    private var items = UniqueArray<LimitWaiter>()
    private var verdicts = UniqueArray<LimitVerdict>()
    /// Links within a queue's list, or within `settled`.
    private var inQueue = UniqueArray<LimitWaiterList.Link>()
    private var byAge = UniqueArray<LimitWaiterList.Link>()
    private let capacity: Int
    private var free = UniqueArray<Int32>()
    /// Waiters without a verdict, oldest first.
    private var outstanding = LimitWaiterList()
    private var settled = LimitWaiterList()

    init(capacity: Int) { self.capacity = capacity }

    /// The waiter that has waited longest without a verdict; -1 for none.
    var oldest: Int32 { outstanding.first }

    func arrival(_ index: Int32) -> UInt64 { items[Int(index)].arrivedAt }
    func queue(_ index: Int32) -> Int { Int(items[Int(index)].queue) }
    func command(_ index: Int32) -> UInt32 { items[Int(index)].command }

    /// Appends a waiter to its queue's `list`; nil if there is no room.
    mutating func add(
        _ ticket: UInt64, queue: Int32, command: UInt32, _ list: inout LimitWaiterList, _ clock: UInt64
    ) -> LimitWait? {
        guard let index = allocate() else { return nil }
        items[Int(index)].begin(ticket, queue: queue, command: command, clock)
        list.append(index, &inQueue)
        outstanding.append(index, &byAge)
        return LimitWait(index: index, generation: items[Int(index)].generation)
    }

    private mutating func allocate() -> Int32? {
        if let index = free.popLast() { return index }
        guard items.count < capacity else { return nil }
        items.append(LimitWaiter())
        verdicts.append(LimitVerdict())
        inQueue.append(LimitWaiterList.Link())
        byAge.append(LimitWaiterList.Link())
        return Int32(items.count - 1)
    }

    /// Sets a waiter's verdict: it leaves its queue's `list` and joins those to be fetched.
    mutating func settle(_ index: Int32, _ verdict: inout LimitVerdict, from list: inout LimitWaiterList) {
        list.remove(index, &inQueue)
        outstanding.remove(index, &byAge)
        items[Int(index)].state = .settled
        verdicts[Int(index)].copy(from: &verdict)
        settled.append(index, &inQueue)
    }

    /// The waiter of `wait` while it has no verdict. If it has one, marks it cancelled and returns nil.
    mutating func outstanding(_ wait: LimitWait) -> Int32? {
        guard items[Int(wait.index)].generation == wait.generation else { return nil }
        switch items[Int(wait.index)].state {
        case .waiting: return wait.index
        case .settled: items[Int(wait.index)].state = .cancelled
        case .free, .cancelled: break
        }
        return nil
    }

    /// Removes a waiter that has no verdict.
    mutating func drop(_ index: Int32, from list: inout LimitWaiterList) {
        list.remove(index, &inQueue)
        outstanding.remove(index, &byAge)
        release(index)
    }

    /// Whether there may be a verdict to fetch.
    var hasVerdicts: Bool { settled.first >= 0 }

    /// Fetches the next verdict, in the order in which they were set, and returns its ticket; nil if there is none.
    mutating func next(into verdict: inout LimitVerdict) -> UInt64? {
        while settled.first >= 0 {
            let index = settled.first
            settled.remove(index, &inQueue)
            let isWanted = items[Int(index)].state == .settled
            release(index)
            guard isWanted else { continue }
            verdict.copy(from: &verdicts[Int(index)])
            return items[Int(index)].ticket
        }
        return nil
    }

    private mutating func release(_ index: Int32) {
        items[Int(index)].end()
        free.append(index)
    }
}
