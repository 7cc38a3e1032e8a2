import Wire

/// Those who have a share of their own: a client address (of IPv6 its /64), or an internal caller by its number.
struct ClientKey: Equatable, Sendable {
    let high: UInt64
    let low: UInt64

    init(_ address: IPAddress) {
        let counted = address.limitPrefix
        (high, low) = (counted.high, counted.low)
    }

    /// No address begins with so many ones.
    init(caller: Int) { (high, low) = (.max, UInt64(truncatingIfNeeded: caller)) }
}

/// The holdings of one client in this worker.
struct ClientShare {
    fileprivate(set) var key = ClientKey(caller: 0)
    /// Stands for it in `ClientHoldings`.
    fileprivate(set) var hash: UInt64 = 0
    /// Its connections, and exchanges and handlers that count for it.
    fileprivate var references = 0
    var connections = 0
    /// Long answers that do not count as requests any more.
    var streams = 0
    /// Requests that wait for a refresh.
    var refreshes = 0
    fileprivate(set) var requests = SlotReserve()
    fileprivate(set) var buffers = ClientBuffers()
}

/// The memory that heads and bodies of one client take in this worker.
struct ClientBuffers {
    /// The unit of the counts, in bytes.
    static let unit = 4_096

    /// Bytes of the count under way.
    fileprivate var counting = 0
    /// Units of the last count.
    fileprivate(set) var counted = 0
    /// Whether the client holds its share of all workers' memory.
    fileprivate(set) var areBeyondShare = false
    /// Bytes that its requests have to give back, as there is too little memory and it holds much of it.
    fileprivate(set) var excess = 0
}

typealias ShareIndex = SlabIndex<ClientShare>

/// The clients of one worker, each with what it holds of the bounds that all share. One that has neither a connection nor a request has
/// no entry. A direct connection keeps its client's index, so that its requests need no look-up.
struct ClientShares: ~Copyable {
    private let pin = AddressPin()
    private var entries = Slab<ClientShare> { ClientShare() }
    /// Open addressing with linear probing: indices of entries, `.max` where there is none. Never more than half full.
    private var table = UniqueArray<UInt32>(repeating: .max, count: 64)
    /// The holdings of each client in all workers.
    let holdings: ClientHoldings

    init(_ holdings: ClientHoldings) { self.holdings = holdings }

    /// Clients with an entry.
    var count: Int { entries.count }

    /// The client at an index that was acquired.
    subscript(index: ShareIndex) -> ClientShare {
        _read { yield entries[index] }
        _modify { yield &entries[index] }
    }

    // MARK: entries

    /// The entry of a client, which is kept until `release`.
    mutating func acquire(_ key: ClientKey) -> ShareIndex {
        let hash = holdings.hash(key)
        var place = Int(truncatingIfNeeded: hash) & (table.count - 1)
        while table[place] != .max {
            let index = ShareIndex(number: table[place])
            if entries[index].key == key {
                retain(index)
                return index
            }
            place = (place + 1) & (table.count - 1)
        }
        return insert(key, hash)
    }

    /// Keeps an entry once more.
    @inline(__always)
    mutating func retain(_ index: ShareIndex) { entries[index].references += 1 }

    /// Undoes one `acquire` or `retain`. The last one removes the entry, which must hold nothing any more.
    @inline(__always)
    mutating func release(_ index: ShareIndex) {
        entries[index].references -= 1
        if entries[index].references == 0 { removeHolder(index) }
    }

    private mutating func removeHolder(_ index: ShareIndex) {
        precondition(entries[index].requests.used == 0 && entries[index].connections == 0, "a client that still holds something")
        refund(entries[index].requests.releaseSpare(), index)
        let counted = entries[index].buffers.counted
        if counted > 0 { holdings.add(-counted, of: .buffers, by: entries[index].hash) }
        remove(index)
        entries.release(index)
    }

    private mutating func insert(_ key: ClientKey, _ hash: UInt64) -> ShareIndex {
        let index = entries.acquire().index
        entries[index] = ClientShare()
        entries[index].key = key
        entries[index].hash = hash
        entries[index].references = 1
        if 2 * entries.count > table.count { grow() } else { place(index) }
        return index
    }

    /// Puts an entry into the first free place from its own on.
    private mutating func place(_ index: ShareIndex) {
        var place = home(index)
        while table[place] != .max { place = (place + 1) & (table.count - 1) }
        table[place] = index.number
    }

    private mutating func grow() {
        table = UniqueArray(repeating: .max, count: 2 * table.count)
        for index in entries.indices where entries[index].references > 0 { place(index) }
    }

    /// Removes an entry, and moves those behind it that would not be found any more into the gap.
    private mutating func remove(_ index: ShareIndex) {
        let mask = table.count - 1
        var gap = home(index)
        while table[gap] != index.number { gap = (gap + 1) & mask }
        var next = (gap + 1) & mask
        while table[next] != .max {
            if (next - home(ShareIndex(number: table[next]))) & mask >= (next - gap) & mask {
                table[gap] = table[next]
                gap = next
            }
            next = (next + 1) & mask
        }
        table[gap] = .max
    }

    private func home(_ index: ShareIndex) -> Int { Int(truncatingIfNeeded: entries[index].hash) & (table.count - 1) }

    // MARK: requests

    /// Counts one more request of a client that has one in reserve, as a steady client has: no memory that other workers write is touched.
    @inline(__always)
    mutating func takeReserved(_ index: ShareIndex) -> Bool { entries[index].requests.take() }

    /// Counts one more request of a client that has none in reserve, unless that is beyond its share of `limit`, of which all clients hold
    /// `taken`.
    mutating func takeRequest(_ index: ShareIndex, taken: Int, limit: Int, chunk: Int, _ rule: ShareRule) -> Bool {
        let chunk = Self.chunk(chunk)
        guard holdings.take(chunk, of: .requests, by: entries[index].hash, taken: taken, limit: limit, rule) else { return false }
        entries[index].requests.reserved += chunk
        return entries[index].requests.take()
    }

    /// One of its requests is over.
    @inline(__always)
    mutating func releaseRequest(_ index: ShareIndex, chunk: Int) {
        refund(entries[index].requests.release(chunk: Self.chunk(chunk)), index)
    }

    // MARK: memory

    /// Counts bytes that wait for or from a client.
    mutating func count(_ bytes: Int, for index: ShareIndex?) {
        if let index, bytes > 0 { entries[index].buffers.counting += bytes }
    }

    /// So many bytes of a client's excess were freed.
    mutating func freed(_ bytes: Int, of index: ShareIndex) { entries[index].buffers.excess -= bytes }

    /// Ends a count for some clients, from `start` on: adopts what each holds, and whether that is its share of `limit`, of which all hold
    /// `taken`, in bytes. If all hold more than the limit, or `isShort` and more than nine tenths, clients that hold a sixteenth of it have
    /// an excess, in proportion. Returns how many entries it looked at.
    mutating func settleBuffers(from start: Int, most: Int, taken: Int, limit: Int, isShort: Bool, _ rule: ShareRule) -> Int {
        var looked = 0
        let target = limit / 10 * 9
        let (takenUnits, limitUnits) = (taken / ClientBuffers.unit, limit / ClientBuffers.unit)
        for index in entries.indices(from: start, most: most) {
            looked += 1
            guard entries[index].references > 0, entries[index].buffers.counting > 0 || entries[index].buffers.counted > 0 else { continue }
            let units = entries[index].buffers.counting / ClientBuffers.unit
            let change = units - entries[index].buffers.counted
            let held = holdings.add(change, of: .buffers, by: entries[index].hash) + change
            entries[index].buffers = ClientBuffers()
            entries[index].buffers.counted = units
            entries[index].buffers.areBeyondShare = units > 0 && !rule.allows(held: held, taken: takenUnits, limit: limitUnits)
            if rule != .all, taken > (isShort ? target : limit), held >= limitUnits / 16 {
                let percent = min((taken - target) / max(taken / 100, 1) + 1, 100)
                entries[index].buffers.excess = units * ClientBuffers.unit / 100 * percent
            }
        }
        return looked
    }

    // MARK: other bounds

    /// Counts one more of `bound` for a client, unless that is beyond its share of `limit`, of which all clients hold `taken`.
    func take(_ index: ShareIndex, _ bound: SharedBound, taken: Int, limit: Int, _ rule: ShareRule) -> Bool {
        holdings.take(of: bound, by: entries[index].hash, taken: taken, limit: limit, rule)
    }

    /// The client holds one less of `bound`.
    func refund(_ index: ShareIndex, _ bound: SharedBound) { holdings.add(-1, of: bound, by: entries[index].hash) }

    private func refund(_ surplus: Int, _ index: ShareIndex) {
        if surplus > 0 { holdings.add(-surplus, of: .requests, by: entries[index].hash) }
    }

    /// Requests that a client takes at once, fewer than a worker does: there are many clients.
    private static func chunk(_ chunkOfWorker: Int) -> Int { min(chunkOfWorker, 4) }
}
