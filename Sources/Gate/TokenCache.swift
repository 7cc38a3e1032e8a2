import HTTP
import Wire

/// The tokens that one worker has verified, so that to see one again costs a hash and a comparison in place of crypto.
///
/// A hit is certain: the whole token is compared. The hash covers only the token's end, its signature, which differs
/// between any two tokens that were ever verified; to steer it, one would have to sign. It is keyed all the same.
///
/// Fully associative: an index of open addressing, at most half full, over a table of entries. A full table gives up
/// what has expired, else what was not used since the hand last came by (second chance). So 50,000 users in turn
/// all stay in 65,536 entries.
struct TokenCache: ~Copyable {
    private struct Entry {
        var hash: UInt64
        var identity: Identity
        /// Where in `bytes` the key id and the rendered fields begin, behind the token.
        var keyStart: Int32
        var fieldsStart: Int32
        var wasUsed: Bool
        var isLive: Bool
    }

    let capacity: Int
    private(set) var count = 0
    /// Entries that were given up for others.
    private(set) var evictions: UInt64 = 0

    private let hash: KeyedHash
    private let hashMask: UInt64
    /// 0, or the high half of the hash above the entry's number plus one. Linear probing.
    private var index: [UInt64]
    private var entries: [Entry] = []
    /// Token, key id and rendered fields of each entry.
    private var bytes: [[UInt8]] = []
    private var free: [Int32] = []
    private var hand = 0

    private static let hashedBytes = 64

    /// `hashMask` is for tests that want collisions.
    init(capacity: Int, hash: KeyedHash, hashMask: UInt64 = .max) {
        self.capacity = max(1, min(capacity, Int(Int32.max) / 2))
        self.hash = hash
        self.hashMask = hashMask
        index = Array(repeating: 0, count: 64)
    }

    private func hashed(_ token: RawSpan) -> UInt64 {
        hash.hash64(token.dropping(max(0, token.byteCount &- Self.hashedBytes))) & hashMask
    }

    /// The entry of exactly this token that has not expired at `now` (seconds since 1970); -1 if there is none.
    mutating func lookup(_ token: RawSpan, at now: Int64) -> Int {
        let hash = hashed(token)
        let place = find(hash, token)
        guard place >= 0 else { return -1 }
        let entry = Int(index[place] & 0xFFFF_FFFF) &- 1
        guard entries[entry].identity.expiresAt > now else {
            remove(entry, at: place)
            return -1
        }
        if !entries[entry].wasUsed { entries[entry].wasUsed = true }
        return entry
    }

    func identity(_ entry: Int) -> Identity { entries[entry].identity }

    /// Appends the rendered fields of `entry`, and the id of its key.
    @inline(__always)
    func append(_ entry: Int, to edits: inout FieldEdits, key: inout ByteBuffer) {
        let stored = bytes[entry]
        let start = Int(entries[entry].keyStart)
        let fields = Int(entries[entry].fieldsStart)
        key.append(stored.rawBytes.extracting(start..<fields))
        edits.append(rendered: stored.rawBytes.dropping(fields))
    }

    /// The place in the index of the entry of `token`; -1 if there is none.
    @inline(__always)
    private func find(_ hash: UInt64, _ token: RawSpan) -> Int {
        let mask = index.count &- 1
        var place = Int(truncatingIfNeeded: hash) & mask
        while true {
            let word = index[place]
            if word == 0 { return -1 }
            if word >> 32 == hash >> 32, holds(Int(word & 0xFFFF_FFFF) &- 1, token) { return place }
            place = (place &+ 1) & mask
        }
    }

    @inline(__always)
    private func holds(_ entry: Int, _ token: RawSpan) -> Bool {
        let count = Int(entries[entry].keyStart)
        guard count == token.byteCount else { return false }
        let stored = bytes[entry]
        return stored.rawBytes.extracting(0..<count).equals(token)
    }

    /// Keeps what the verifier just accepted. `now` is in seconds since 1970.
    mutating func insert(_ token: RawSpan, _ identity: Identity, key: RawSpan, fields: RawSpan, at now: Int64) {
        guard identity.expiresAt > now else { return }
        let hash = hashed(token)
        let known = find(hash, token)
        if known >= 0 { remove(Int(index[known] & 0xFFFF_FFFF) &- 1, at: known) }
        let stored = token.array + key.array + fields.array
        let entry = Entry(
            hash: hash, identity: identity, keyStart: Int32(token.byteCount),
            fieldsStart: Int32(token.byteCount + key.byteCount), wasUsed: false, isLive: true)
        let number = room(at: now)
        if number == entries.count {
            entries.append(entry)
            bytes.append(stored)
        } else {
            entries[number] = entry
            bytes[number] = stored
        }
        count += 1
        if count * 2 > index.count { growIndex() } else { place(number) }
    }

    /// The number of an entry to fill: a freed one, a new one, or one that is given up.
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
            remove(number, at: placeOf(number))
            _ = free.popLast()
            return number
        }
    }

    private mutating func growIndex() {
        index = Array(repeating: 0, count: index.count * 2)
        for number in entries.indices where entries[number].isLive { place(number) }
    }

    private mutating func place(_ number: Int) {
        let hash = entries[number].hash
        let mask = index.count - 1
        var place = Int(truncatingIfNeeded: hash) & mask
        while index[place] != 0 { place = (place + 1) & mask }
        index[place] = (hash & ~0xFFFF_FFFF) | UInt64(number + 1)
    }

    private func placeOf(_ number: Int) -> Int {
        let mask = index.count - 1
        var place = Int(truncatingIfNeeded: entries[number].hash) & mask
        while index[place] & 0xFFFF_FFFF != UInt64(number + 1) { place = (place + 1) & mask }
        return place
    }

    /// Frees the entry and closes the gap in the index: later places move up as far as their hash lets them.
    private mutating func remove(_ number: Int, at place: Int) {
        entries[number].isLive = false
        bytes[number] = []
        free.append(Int32(number))
        count -= 1
        let mask = index.count - 1
        var gap = place
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

    /// Drops what was verified by a key that is not in `live`.
    mutating func retain(_ live: Set<IssuerKey>) {
        for number in entries.indices where entries[number].isLive {
            let identity = entries[number].identity
            let key = IssuerKey(issuer: identity.issuerIndex, serial: identity.keySerial)
            if !live.contains(key) { remove(number, at: placeOf(number)) }
        }
    }

    mutating func removeAll() {
        index = Array(repeating: 0, count: 64)
        entries = []
        bytes = []
        free = []
        hand = 0
        count = 0
    }
}

/// A key as a key of one issuer: the same material under another issuer vouches for nothing.
struct IssuerKey: Hashable, Sendable {
    var issuer: Int32
    var serial: UInt32
}
