import Credentials
import HTTP
import Wire

/// Cache of verified tokens, one per worker: a hit costs a hash and a comparison instead of a signature check.
///
/// A hit compares the whole token. The hash covers its last 64 bytes, the signature, which differ between any two verified
/// tokens; causing collisions would need signatures. It is keyed as well.
///
/// An index with open addressing, at most half full, over a table of entries. A full table evicts an expired entry, or one
/// that was not used since the clock hand last passed it (second chance), so 50,000 users in turn all stay in 65,536
/// entries.
struct TokenCache: ~Copyable {
    private struct Entry {
        var hash: UInt64
        /// Differs from that of every other entry that there ever was.
        var serial: UInt64
        var identity: Identity
        /// Offsets in `bytes` of the key id and of the rendered fields, behind the token.
        var keyStart: Int32
        var fieldsStart: Int32
        var wasUsed: Bool
        var isLive: Bool
        /// When a use was last noted (`notesUse`), in seconds since 1970: at first as it was verified.
        var notedAt: Int64
    }

    let capacity: Int
    private(set) var count = 0
    /// Number of evicted entries.
    private(set) var evictions: UInt64 = 0

    private let hash: KeyedHash
    private let hashMask: UInt64
    /// 0, or the high half of the hash and below it the entry's number plus one. Linear probing.
    private var index: [UInt64]
    private var entries: [Entry] = []
    /// Token, key id and rendered fields of each entry.
    private var bytes: [[UInt8]] = []
    /// The keys that tokens are bound to, by the entry's number.
    private var owners: [Int: KeyThumbprint] = [:]
    private var free: [Int32] = []
    private var hand = 0
    /// The serial of the entry made last.
    private var lastSerial: UInt64 = 0

    private static let hashedBytes = 64
    private static let noteSeconds: UInt64 = 30

    /// Tests pass a `hashMask` to cause collisions.
    init(capacity: Int, hash: KeyedHash, hashMask: UInt64 = .max) {
        self.capacity = max(1, min(capacity, Int(Int32.max) / 2))
        self.hash = hash
        self.hashMask = hashMask
        index = Array(repeating: 0, count: 64)
    }

    private func hashed(_ token: RawSpan) -> UInt64 {
        hash.hash64(token.dropping(max(0, token.byteCount &- Self.hashedBytes))) & hashMask
    }

    /// The entry of exactly this token, unexpired at `now` (seconds since 1970); -1 if there is none.
    mutating func lookup(_ token: RawSpan, at now: Int64) -> Int {
        let hash = hashed(token)
        let position = find(hash, token)
        guard position >= 0 else { return -1 }
        let entry = Int(index[position] & 0xFFFF_FFFF) &- 1
        guard entries[entry].identity.expiresAt > now else {
            remove(entry, at: position)
            return -1
        }
        if !entries[entry].wasUsed { entries[entry].wasUsed = true }
        return entry
    }

    /// Whether a use of the entry is to be told of: none was in the last half minute. Then it counts as told.
    mutating func notesUse(_ entry: Int, at now: Int64) -> Bool {
        // Also if the clock was set back.
        guard UInt64(bitPattern: now &- entries[entry].notedAt) >= Self.noteSeconds else { return false }
        entries[entry].notedAt = now
        return true
    }

    func identity(_ entry: Int) -> Identity { entries[entry].identity }

    /// The key that a bound token's entry is bound to.
    func owner(_ entry: Int) -> KeyThumbprint? { owners[entry] }

    /// A number that stands for the entry's token, and never for another; not 0.
    func serial(_ entry: Int) -> UInt64 { entries[entry].serial }

    /// Appends an entry's rendered fields and its key id.
    @inline(__always)
    func append(_ entry: Int, to edits: inout FieldEdits, key: inout ByteBuffer) {
        let stored = bytes[entry]
        let start = Int(entries[entry].keyStart)
        let fields = Int(entries[entry].fieldsStart)
        key.append(stored.rawBytes.extracting(start..<fields))
        edits.append(rendered: stored.rawBytes.dropping(fields))
    }

    /// Position in the index of the entry of `token`; -1 if there is none.
    @inline(__always)
    private func find(_ hash: UInt64, _ token: RawSpan) -> Int {
        let mask = index.count &- 1
        var position = Int(truncatingIfNeeded: hash) & mask
        while true {
            let word = index[position]
            if word == 0 { return -1 }
            if word >> 32 == hash >> 32, holds(Int(word & 0xFFFF_FFFF) &- 1, token) { return position }
            position = (position &+ 1) & mask
        }
    }

    @inline(__always)
    private func holds(_ entry: Int, _ token: RawSpan) -> Bool {
        let count = Int(entries[entry].keyStart)
        guard count == token.byteCount else { return false }
        let stored = bytes[entry]
        return stored.rawBytes.extracting(0..<count).equals(token)
    }

    /// Caches a token that was just verified, and returns its serial; 0 if it is not cached. `now` is in seconds since 1970.
    @discardableResult
    mutating func insert(
        _ token: RawSpan, _ identity: Identity, key: RawSpan, fields: RawSpan, owner: KeyThumbprint? = nil, at now: Int64
    ) -> UInt64 {
        guard identity.expiresAt > now else { return 0 }
        let hash = hashed(token)
        let known = find(hash, token)
        if known >= 0 { remove(Int(index[known] & 0xFFFF_FFFF) &- 1, at: known) }
        let stored = token.array + key.array + fields.array
        lastSerial += 1
        let entry = Entry(
            hash: hash, serial: lastSerial, identity: identity, keyStart: Int32(token.byteCount),
            fieldsStart: Int32(token.byteCount + key.byteCount), wasUsed: false, isLive: true,
            notedAt: now)
        let number = room(at: now)
        if number == entries.count {
            entries.append(entry)
            bytes.append(stored)
        } else {
            entries[number] = entry
            bytes[number] = stored
        }
        if let owner { owners[number] = owner }
        count += 1
        if count * 2 > index.count { growIndex() } else { insertIntoIndex(number) }
        return lastSerial
    }

    /// Number of the entry to fill: a freed, a new or an evicted one.
    private mutating func room(at now: Int64) -> Int {
        if let number = free.popLast() { return Int(number) }
        if entries.count < capacity { return entries.count }
        while true {
            let number = hand
            hand = hand + 1 == entries.count ? 0 : hand + 1
            if entries[number].wasUsed && entries[number].identity.expiresAt > now {
                entries[number].wasUsed = false
                continue
            }
            evictions &+= 1
            remove(number, at: position(number))
            _ = free.popLast()
            return number
        }
    }

    private mutating func growIndex() {
        index = Array(repeating: 0, count: index.count * 2)
        for number in entries.indices where entries[number].isLive { insertIntoIndex(number) }
    }

    private mutating func insertIntoIndex(_ number: Int) {
        let hash = entries[number].hash
        let mask = index.count - 1
        var position = Int(truncatingIfNeeded: hash) & mask
        while index[position] != 0 { position = (position + 1) & mask }
        index[position] = (hash & ~0xFFFF_FFFF) | UInt64(number + 1)
    }

    private func position(_ number: Int) -> Int {
        let mask = index.count - 1
        var position = Int(truncatingIfNeeded: entries[number].hash) & mask
        while index[position] & 0xFFFF_FFFF != UInt64(number + 1) { position = (position + 1) & mask }
        return position
    }

    /// Frees an entry and closes its gap in the index by moving later entries up (backward shift deletion).
    private mutating func remove(_ number: Int, at position: Int) {
        entries[number].isLive = false
        bytes[number] = []
        if entries[number].identity.isBound { owners[number] = nil }
        free.append(Int32(number))
        count -= 1
        let mask = index.count - 1
        var gap = position
        var next = (gap + 1) & mask
        while index[next] != 0 {
            let home = Int(truncatingIfNeeded: entries[Int(index[next] & 0xFFFF_FFFF) - 1].hash) & mask
            if (next - home) & mask >= (next - gap) & mask {
                index[gap] = index[next]
                gap = next
            }
            next = (next + 1) & mask
        }
        index[gap] = 0
    }

    /// Removes tokens that were verified by one of these keys. A rotation ends none, and then no entry is looked at.
    mutating func drop(_ ended: Set<IssuerKey>) {
        guard !ended.isEmpty else { return }
        for number in entries.indices where entries[number].isLive {
            let identity = entries[number].identity
            let key = IssuerKey(issuer: identity.issuerIndex, serial: identity.keySerial)
            if ended.contains(key) { remove(number, at: position(number)) }
        }
    }

    mutating func removeAll() {
        index = Array(repeating: 0, count: 64)
        entries = []
        bytes = []
        owners = [:]
        free = []
        hand = 0
        count = 0
    }
}

/// A key and its issuer: the same key under another issuer proves nothing.
struct IssuerKey: Hashable, Sendable {
    var issuer: Int32
    var serial: UInt32
}
