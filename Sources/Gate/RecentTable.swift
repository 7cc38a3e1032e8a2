/// Entries by key, bounded by two generations. A hit moves an entry to the young one; when that is full, it becomes the old one,
/// and the previous old one is evicted: an entry that is used before half the capacity of others were seen stays.
struct RecentTable<Entry> {
    private let generationSize: Int
    private var young = KeyTable<Entry>()
    private var old = KeyTable<Entry>()

    init(capacity: Int) { generationSize = max(32, capacity / 2) }

    var count: Int { young.count + old.count }

    mutating func find(_ key: LimitKey) -> Entry? {
        if let entry = young[key] { return entry }
        guard let entry = old[key] else { return nil }
        put(entry, key)
        return entry
    }

    mutating func put(_ entry: Entry, _ key: LimitKey) {
        if young.count >= generationSize {
            swap(&young, &old)
            young.removeAll()
        }
        young.set(entry, for: key)
    }

    mutating func removeAll() {
        young.removeAll()
        old.removeAll()
    }
}
