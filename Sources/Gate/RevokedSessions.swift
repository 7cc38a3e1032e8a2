internal import Synchronization

/// A session of the gateway whose unexpired access tokens are refused.
package struct RevokedSession: Sendable, Hashable {
    /// `sid` of its tokens.
    package var id: String
    /// Expiry of its last token, in seconds since 1970.
    package var until: Int64
    /// When it ended, in seconds since 1970; nil if unknown.
    package var endedAt: Int64?

    package init(id: String, until: Int64, endedAt: Int64? = nil) {
        self.id = id
        self.until = until
        self.endedAt = endedAt
    }
}

/// The ended sessions with tokens that may not have expired, once for all workers of a process. An entry is removed when the session's
/// last token has expired, which bounds the list.
///
/// Its clock is the workers', or the newest end that it knows if that is earlier: a worker whose clock is days ahead removes nothing
/// that still counts when the clock has been put right.
package final class RevocationList: Sendable {
    private struct Kept {
        var table = EndTable(size: 64)
        var count = 0
        /// The latest `endedAt`, by the clock of the store.
        var newest = Int64.min
    }

    private let kept = Mutex(Kept())

    package init() {}

    var count: Int { kept.withLock { $0.count } }
    fileprivate var table: EndTable { kept.withLock { $0.table } }

    /// Returns the table that has it, unless its last token has expired.
    fileprivate func insert(_ session: LimitKey, _ end: EndTable.End, at now: Int64) -> EndTable {
        kept.withLock { kept in
            if let endedAt = end.endedAt { kept.newest = max(kept.newest, endedAt) }
            let now = kept.newest == .min ? now : min(now, kept.newest)
            guard end.until > now else { return kept.table }
            let known = kept.table[session]
            if known == nil, kept.count * 2 >= kept.table.size { (kept.table, kept.count) = kept.table.grown { $0.until > now } }
            if known == nil { kept.count += 1 }
            kept.table.set(known?.joined(end) ?? end, for: session)
            return kept.table
        }
    }
}

/// A worker's view of the ended sessions. It looks them up without a lock, and takes one to add.
struct RevokedSessions {
    private let list: RevocationList
    /// The list's, or a former one; it has all that this worker has added.
    private var table: EndTable

    init(_ list: RevocationList = RevocationList()) {
        self.list = list
        table = list.table
    }

    var count: Int { list.count }

    func contains(_ session: LimitKey) -> Bool { table[session] != nil }

    /// When it ended, in seconds since 1970; nil if unknown.
    func endedAt(_ session: LimitKey) -> Int64? { table[session]?.endedAt }

    /// `now` is in seconds since 1970.
    mutating func insert(_ session: LimitKey, until: Int64, endedAt: Int64? = nil, at now: Int64) {
        let end = EndTable.End(until: until, endedAt: endedAt)
        // Mostly another worker has added it before.
        if let known = table[session], known.joined(end) == known { return }
        table = list.insert(session, end, at: now)
    }
}

/// A hash table with any number of readers beside one that writes, which never moves or removes an entry. Its keys are outputs of a keyed
/// hash, so that clients cannot cause collisions. Open addressing, at most half full.
@safe
// Unchecked, for the compiler cannot see through the pointer: it is written once, its memory lives as long as `owner`, and all access to
// that is atomic.
private struct EndTable: @unchecked Sendable {
    struct End: Equatable {
        var until: Int64
        var endedAt: Int64?

        init(until: Int64, endedAt: Int64?) {
            self.until = until
            self.endedAt = endedAt
        }

        /// Two words of 32 bits, which reach to 2106.
        fileprivate init(word: UInt64) {
            let endedAt = Int64(UInt32(truncatingIfNeeded: word))
            self.init(until: Int64(word >> 32), endedAt: endedAt == 0 ? nil : endedAt)
        }

        fileprivate var word: UInt64 { UInt64(UInt32(clamping: until)) << 32 | UInt64(UInt32(clamping: endedAt ?? 0)) }

        /// The later expiry, and the first end that is known.
        func joined(_ other: End) -> End { End(until: max(until, other.until), endedAt: endedAt ?? other.endedAt) }
    }

    @safe private final class Memory: Sendable {
        /// Of an entry: the low half of its key, which is 0 while it is free, the high half, and the word of its end. All access is atomic.
        nonisolated(unsafe) let words: UnsafeMutablePointer<Atomic<UInt64>>
        private let count: Int

        init(_ count: Int) {
            self.count = count
            unsafe words = .allocate(capacity: count)
            for index in 0..<count { unsafe (words + index).initialize(to: Atomic(0)) }
        }

        deinit {
            unsafe words.deinitialize(count: count)
            unsafe words.deallocate()
        }
    }

    private let owner: Memory
    /// Those of `owner`, which is not retained for a look-up.
    private let words: UnsafeMutablePointer<Atomic<UInt64>>
    let size: Int

    init(size: Int) {
        self.size = size
        owner = Memory(size * 3)
        unsafe words = owner.words
    }

    subscript(session: LimitKey) -> End? {
        let (entry, isFound) = entry(of: session)
        return isFound ? End(word: unsafe words[entry + 2].load(ordering: .relaxed)) : nil
    }

    /// Needs a free entry.
    func set(_ end: End, for session: LimitKey) {
        let (entry, _) = entry(of: session)
        unsafe words[entry + 1].store(session.high, ordering: .relaxed)
        unsafe words[entry + 2].store(end.word, ordering: .relaxed)
        unsafe words[entry].store(Self.low(session), ordering: .releasing)
    }

    /// A table with the entries that `isKept` holds of, at most a quarter full, and how many they are.
    func grown(_ isKept: (End) -> Bool) -> (EndTable, count: Int) {
        var kept: [(LimitKey, End)] = []
        for entry in stride(from: 0, to: size * 3, by: 3) {
            let key = unsafe LimitKey(high: words[entry + 1].load(ordering: .relaxed), low: words[entry].load(ordering: .relaxed))
            let end = End(word: unsafe words[entry + 2].load(ordering: .relaxed))
            if key.low != 0, isKept(end) { kept.append((key, end)) }
        }
        var size = 64
        while size < kept.count * 4 { size *= 2 }
        let table = EndTable(size: size)
        for (key, end) in kept { table.set(end, for: key) }
        return (table, kept.count)
    }

    private static func low(_ session: LimitKey) -> UInt64 { max(session.low, 1) }

    /// Where the entry of the session is, or the free one for it, which may be another's by the next look. There is always a free one.
    private func entry(of session: LimitKey) -> (Int, isFound: Bool) {
        var index = Int(truncatingIfNeeded: Self.low(session)) & (size &- 1)
        while true {
            let low = unsafe words[index &* 3].load(ordering: .acquiring)
            if low == 0 { return (index &* 3, false) }
            if low == Self.low(session), unsafe words[index &* 3 + 1].load(ordering: .relaxed) == session.high { return (index &* 3, true) }
            index = (index &+ 1) & (size &- 1)
        }
    }
}
