import Gate
import Wire

/// The stored answers as one worker has them: the index of all entries, from which it answers, and the store and the fetches of the keys
/// whose home it is.
struct WorkerCache {
    /// The version of the configuration that the entries belong to: the next one begins with none.
    private(set) var generation: Int
    private var index: [LimitKey: [CacheEntry]] = [:]
    var store: CacheStore
    /// Entries as stages have handed them on; empty where no route with stages is cached.
    var forms: PreparedForms
    /// The fetches under way, by number.
    private(set) var flights: [UInt64: CacheFlight] = [:]
    private var flightsOfKey: [LimitKey: [CacheFlight]] = [:]
    /// When this worker last asked for a fresh answer in the place of a stale one.
    private var refreshes: [LimitKey: MonotonicTime] = [:]
    /// Targets that were changed, and when: entries from before are not used, though their home may not have removed them here yet.
    private var changes: [UInt64: MonotonicTime] = [:]
    private var lastSerial: UInt64 = 0
    /// Bytes of the answers that are being fetched and kept.
    var fetchedBytes = 0
    var evictions: UInt64 = 0
    var purged: UInt64 = 0

    /// Answers to one key that differ by its `Vary`.
    private static let maxVariants = 16
    /// Milliseconds between two calls for a fresh answer, and refreshes that are remembered.
    private static let refreshPause: UInt64 = 1_000
    private static let maxRefreshes = 4_096
    private static let maxChanges = 1_024

    init(generation: Int, capacity: Int, keepsForms: Bool) {
        self.generation = generation
        forms = PreparedForms(capacity: keepsForms ? capacity / 8 : 0)
        store = CacheStore(capacity: capacity - forms.capacity)
    }

    /// A new configuration: nothing of the former is used any more.
    mutating func adopt(generation: Int, capacity: Int, keepsForms: Bool) {
        self.generation = generation
        index.removeAll()
        refreshes.removeAll()
        forms = PreparedForms(capacity: keepsForms ? capacity / 8 : 0)
        store.removeAll()
        store.capacity = capacity - forms.capacity
        for flight in flights.values { flight.mayBeStored = false }
    }

    mutating func nextSerial() -> UInt64 {
        lastSerial += 1
        return lastSerial
    }

    // MARK: the index

    /// The entries of a key.
    func entries(_ hash: LimitKey, _ key: RawSpan) -> [CacheEntry] {
        guard let found = index[hash] else { return [] }
        return found.allSatisfy { $0.key.isSame(as: key) } ? found : found.filter { $0.key.isSame(as: key) }
    }

    func entries(_ key: CacheKey) -> [CacheEntry] {
        let bytes = key.bytes
        return entries(key.hash, bytes.rawBytes)
    }

    mutating func put(_ entry: CacheEntry, insteadOf serial: UInt64?) {
        guard entry.key.generation == generation else { return }
        index[entry.key.hash, default: []].removeAll { $0.serial == serial }
        if let serial { forms.remove(PreparedForms.Answer(hash: entry.key.hash, serial: serial)) }
        index[entry.key.hash, default: []].append(entry)
    }

    mutating func drop(_ entries: [CacheEntry]) {
        for entry in entries {
            forms.remove(PreparedForms.Answer(entry))
            index[entry.key.hash]?.removeAll { $0 === entry }
            if index[entry.key.hash]?.isEmpty == true { index[entry.key.hash] = nil }
        }
    }

    /// Whether this worker is to call for a fresh answer.
    mutating func refreshes(_ hash: LimitKey, at now: MonotonicTime) -> Bool {
        if let last = refreshes[hash], now < last.advanced(milliseconds: Self.refreshPause) { return false }
        if refreshes.count >= Self.maxRefreshes { refreshes.removeAll() }
        refreshes[hash] = now
        return true
    }

    mutating func noteChange(of target: UInt64, at time: MonotonicTime) {
        if changes.count >= Self.maxChanges { changes.removeAll(keepingCapacity: true) }
        changes[target] = time
    }

    /// Whether the entry came after the latest change of its target.
    func isCurrent(_ entry: CacheEntry) -> Bool {
        guard !changes.isEmpty, let time = changes[entry.key.target] else { return true }
        return entry.receivedAt > time
    }

    // MARK: the home

    /// Keeps an entry; returns the serial of the one whose place it takes, and those that made room.
    mutating func keep(_ entry: CacheEntry) -> (insteadOf: UInt64?, dropped: [CacheEntry]) {
        let others = entries(entry.key)
        let former = others.first { ($0.head == nil) == (entry.head == nil) && $0.vary == entry.vary && $0.values == entry.values }
        var dropped = store.insert(entry, insteadOf: former)
        evictions += UInt64(dropped.count)
        // The newest answer says by which fields the upstream chooses (RFC 9111 §4.1).
        for other in others where entry.head != nil && other.head != nil && other.vary != entry.vary {
            store.remove(other)
            dropped.append(other)
        }
        if former == nil, others.count >= Self.maxVariants {
            let least = others.min { $0.useCount < $1.useCount } ?? others[0]
            store.remove(least)
            dropped.append(least)
        }
        put(entry, insteadOf: former?.serial)
        drop(dropped)
        return (former?.serial, dropped)
    }

    mutating func add(_ flight: CacheFlight) {
        flights[flight.number] = flight
        flightsOfKey[flight.order.key.hash, default: []].append(flight)
    }

    mutating func remove(_ flight: CacheFlight) {
        flights[flight.number] = nil
        flightsOfKey[flight.order.key.hash]?.removeAll { $0 === flight }
        if flightsOfKey[flight.order.key.hash]?.isEmpty == true { flightsOfKey[flight.order.key.hash] = nil }
    }

    func flights(of hash: LimitKey) -> [CacheFlight] { flightsOfKey[hash] ?? [] }

    /// The fetch whose answer will do for this order.
    func flight(for order: CacheOrder, besides entries: [CacheEntry]) -> CacheFlight? {
        let candidates = flights(of: order.key.hash).filter { $0.takesReaders && $0.order.key.bytes == order.key.bytes }
        guard !candidates.isEmpty else { return nil }
        // The names by which the upstream has chosen, as far as that is known.
        var names = Set(entries.flatMap(\.vary))
        for flight in candidates { names.formUnion((flight.judgement?.vary ?? []) + (flight.former?.vary ?? [])) }
        let sorted = names.sorted { $0.lexicographicallyPrecedes($1) }
        let wanted = FieldText.values(of: sorted, in: order.lines)
        return candidates.first { flight in FieldText.values(of: sorted, in: flight.order.lines) == wanted }
    }
}

/// A fetch under way at the home of its key, and the requests that wait for its answer or read along.
final class CacheFlight {
    enum Phase {
        case asking
        /// The answer is kept and passed on.
        case storing
        /// It is passed on alone, as fast as all who read along take it.
        case passing
        /// Its content is of no use.
        case ignoring
        /// The stored answer is still good.
        case confirmed
    }

    struct Reader {
        let seat: CacheSeat
        let order: CacheOrder
        var hasBegun = false
        /// Pieces that the client has not taken yet.
        var unread = 0
    }

    let number: UInt64
    let order: CacheOrder
    /// The stored answer that is not fresh any more.
    let former: CacheEntry?
    /// Whether it goes on without readers.
    let isBackground: Bool
    let beganAt: MonotonicTime
    var exchange = Handle<Exchange>.none
    var readers: [Reader] = []
    var phase = Phase.asking
    /// False once the entries were removed that it belongs to: then no other request joins it.
    var mayBeStored = true
    var head: CacheHead?
    var judgement: CacheJudgement?
    var pieces: [[UInt8]] = []
    var bytes = 0
    /// Content that has come since the last piece.
    var tail: [UInt8] = []

    /// Pieces on their way to one client at which the upstream waits.
    static let maxUnread = 8

    init(_ number: UInt64, _ order: CacheOrder, former: CacheEntry?, isBackground: Bool, at now: MonotonicTime) {
        (self.number, self.order, self.former, self.isBackground, beganAt) = (number, order, former, isBackground, now)
    }

    /// Whether others may join it.
    var takesReaders: Bool { mayBeStored && (phase == .asking || phase == .storing) }

    /// Bytes of the answer that it keeps.
    var heldBytes: Int { phase == .storing ? bytes : 0 }

    /// Whether the upstream waits for those who read along: none of them takes what it has.
    var isPaused: Bool { phase == .passing && !readers.isEmpty && readers.allSatisfy { $0.unread > Self.maxUnread } }
    /// Those that are so far behind the ones that keep up that they are cut: what they have not taken is memory.
    var lateReaders: [CacheSeat] {
        guard phase == .passing, !isPaused else { return [] }
        return readers.filter { $0.unread > 4 * Self.maxUnread }.map(\.seat)
    }
}
