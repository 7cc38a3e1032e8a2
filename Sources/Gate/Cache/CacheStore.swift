import Wire

/// The entries of one worker's keys, bounded in bytes. S3-FIFO (Yang and others, SOSP 2023): a new entry goes into a small queue, and from
/// there into the main one only if it was used again, or had been dropped a short time before. So a scan of many keys, each asked for
/// once, passes through a tenth of the memory and leaves the rest alone; and a use sets a number, and moves nothing.
package struct CacheStore {
    private struct Item {
        let entry: CacheEntry
        var isMain: Bool
    }

    package var capacity: Int
    package private(set) var bytes = 0
    private var smallBytes = 0
    /// By serial. The queues may hold serials of entries that were removed.
    private var items: [UInt64: Item] = [:]
    private var small = Queue<UInt64>()
    private var main = Queue<UInt64>()
    /// The keys that the small queue dropped last.
    private var ghosts: Set<LimitKey> = []
    private var ghostQueue = Queue<LimitKey>()
    private var byTarget: [UInt64: Set<UInt64>] = [:]

    package init(capacity: Int) { self.capacity = capacity }

    package var count: Int { items.count }
    /// Bytes that one entry may take.
    package var largest: Int { min(capacity / 8, 8 << 20) }

    /// Adds an entry, whose size is at most `largest`, in the place of `former` if it is here; returns those that made room.
    package mutating func insert(_ entry: CacheEntry, insteadOf former: CacheEntry? = nil) -> [CacheEntry] {
        let wasMain = former.map { remove($0) } ?? false
        let isMain = wasMain || ghosts.remove(entry.key.hash) != nil
        items[entry.serial] = Item(entry: entry, isMain: isMain)
        byTarget[entry.key.target, default: []].insert(entry.serial)
        bytes += entry.size
        if isMain {
            main.append(entry.serial)
        } else {
            small.append(entry.serial)
            smallBytes += entry.size
        }
        compact()
        var evicted: [CacheEntry] = []
        while bytes > capacity, let next = evict() { evicted.append(next) }
        return evicted
    }

    /// Removes an entry; returns whether it was in the main queue.
    @discardableResult
    package mutating func remove(_ entry: CacheEntry) -> Bool {
        guard let item = items.removeValue(forKey: entry.serial) else { return false }
        entry.drop()
        bytes -= entry.size
        if !item.isMain { smallBytes -= entry.size }
        byTarget[entry.key.target]?.remove(entry.serial)
        if byTarget[entry.key.target]?.isEmpty == true { byTarget[entry.key.target] = nil }
        return item.isMain
    }

    package mutating func removeAll() {
        for item in items.values { item.entry.drop() }
        self = CacheStore(capacity: capacity)
    }

    package func entries(where isWanted: (CacheEntry) -> Bool) -> [CacheEntry] {
        items.values.lazy.map(\.entry).filter(isWanted)
    }

    package func entries(of target: UInt64) -> [CacheEntry] { byTarget[target]?.compactMap { items[$0]?.entry } ?? [] }

    /// Drops the entry whose turn it is.
    private mutating func evict() -> CacheEntry? {
        while !items.isEmpty {
            if smallBytes > capacity / 10 || main.isEmpty, let serial = small.popFirst() {
                guard let entry = items[serial]?.entry else { continue }
                guard entry.useCount < 2 else {
                    items[serial]?.isMain = true
                    smallBytes -= entry.size
                    main.append(serial)
                    continue
                }
                remember(entry.key.hash)
                remove(entry)
                return entry
            }
            guard let serial = main.popFirst() else { continue }
            guard let entry = items[serial]?.entry else { continue }
            guard entry.useCount == 0 else {
                entry.forgetUse()
                main.append(serial)
                continue
            }
            remove(entry)
            return entry
        }
        return nil
    }

    /// Remembers as many keys as there are entries.
    private mutating func remember(_ key: LimitKey) {
        if ghosts.insert(key).inserted { ghostQueue.append(key) }
        while ghostQueue.count > max(items.count, 64), let oldest = ghostQueue.popFirst() { ghosts.remove(oldest) }
    }

    /// Forgets serials of removed entries, once they are half of the queues.
    private mutating func compact() {
        guard small.count + main.count > 2 * items.count + 64 else { return }
        small.keep { items[$0] != nil }
        main.keep { items[$0] != nil }
    }
}

/// First in, first out.
private struct Queue<Element> {
    private var elements: [Element] = []
    private var start = 0

    var count: Int { elements.count - start }
    var isEmpty: Bool { count == 0 }

    mutating func append(_ element: Element) { elements.append(element) }

    mutating func popFirst() -> Element? {
        guard !isEmpty else { return nil }
        defer {
            start += 1
            if start * 2 > elements.count {
                elements.removeFirst(start)
                start = 0
            }
        }
        return elements[start]
    }

    mutating func keep(_ isKept: (Element) -> Bool) {
        elements = elements[start...].filter(isKept)
        start = 0
    }
}
