import HTTP
import Wire

/// Cache of a worker: the rendered `X-Tollgate-Identity` of tokens, so that a signature is made once for each token and route and
/// not for each request.
///
/// The key holds everything that the JWT depends on and that may change during a policy: a JWT of another token, tier, account or email is
/// never found. A set-associative table: it begins small and grows while it fills, up to `capacity` entries; a full set evicts the
/// entry that was signed first. It is emptied when the policy changes.
struct SignedIdentities: ~Copyable {
    struct Key: Equatable {
        /// The token's serial in the token cache, not 0.
        var token: UInt64
        var route: Int32
        /// nil if unknown.
        var tier: Tier?
        /// nil if the user is the token's own.
        var account: UUID?
        var hidesEmail = false
        /// The version of the account's details, and the number of merges that are announced; 0 for none.
        var detail: UInt64 = 0
        var merges: UInt8 = 0
    }

    /// `exp` − `iat`, in seconds.
    static let lifetimeSeconds: Int64 = 60
    /// Age in seconds at which a JWT is replaced, so that each request leaves with one that is valid for another 20 s.
    static let reuseSeconds: Int64 = 40

    private struct Slot {
        var key = Key(token: 0, route: 0)
        /// In seconds since 1970.
        var signedAt: Int64 = .min

        /// Neither too old, nor from the future after a step of the clock.
        func isFresh(at now: Int64) -> Bool { signedAt <= now && now < signedAt + SignedIdentities.reuseSeconds }
    }

    private static let slotsOfSet = 8

    /// The most slots, a power of two.
    private let maxSlots: Int
    /// Empty until the first JWT.
    private var slots: [Slot] = []
    /// The rendered field of each slot.
    private var lines: [[UInt8]] = []
    private var used = 0

    init(capacity: Int) {
        var slots = Self.slotsOfSet
        while slots < min(capacity, 1 << 24) { slots *= 2 }
        maxSlots = slots
    }

    /// Entries, stale ones included.
    var count: Int { used }

    /// Appends the field; false if it must be signed. `now` is in seconds since 1970.
    func append(_ key: Key, at now: Int64, to edits: inout FieldEdits) -> Bool {
        guard !slots.isEmpty else { return false }
        let start = firstSlot(key)
        for slot in start..<start + Self.slotsOfSet where slots[slot].key == key {
            guard slots[slot].isFresh(at: now) else { return false }
            let line = lines[slot]
            edits.append(rendered: line.rawBytes)
            return true
        }
        return false
    }

    /// Keeps a field that was just signed. `line` is the whole field, as HTTP/1 writes it.
    mutating func insert(_ key: Key, _ line: RawSpan, at now: Int64) {
        if (used + 1) * 2 > slots.count, slots.count < maxSlots { grow(at: now) }
        put(key, line.array, signedAt: now)
    }

    mutating func removeAll() {
        slots = []
        lines = []
        used = 0
    }

    private mutating func put(_ key: Key, _ line: [UInt8], signedAt: Int64) {
        let start = firstSlot(key)
        var chosen = start
        for slot in start..<start + Self.slotsOfSet {
            // Another tier or account of the same token on the same route: what it had before.
            if slots[slot].key.token == key.token, slots[slot].key.route == key.route {
                chosen = slot
                break
            }
            if slots[slot].signedAt < slots[chosen].signedAt { chosen = slot }
        }
        if slots[chosen].key.token == 0 { used += 1 }
        slots[chosen] = Slot(key: key, signedAt: signedAt)
        lines[chosen] = line
    }

    /// Doubles the table, and drops what is stale.
    private mutating func grow(at now: Int64) {
        let (oldSlots, oldLines) = (slots, lines)
        let count = slots.isEmpty ? Self.slotsOfSet : slots.count * 2
        slots = Array(repeating: Slot(), count: count)
        lines = Array(repeating: [], count: count)
        used = 0
        for index in oldSlots.indices where oldSlots[index].key.token != 0 && oldSlots[index].isFresh(at: now) {
            put(oldSlots[index].key, oldLines[index], signedAt: oldSlots[index].signedAt)
        }
    }

    /// The first slot of the key's set. Serials and route numbers are counted, so no client can choose those that collide.
    private func firstSlot(_ key: Key) -> Int {
        let mixed = (key.token &* 0x9E37_79B9_7F4A_7C15) ^ (UInt64(UInt32(bitPattern: key.route)) &* 0xD6E8_FEB8_6659_FD93)
        let sets = slots.count / Self.slotsOfSet
        return Int(truncatingIfNeeded: (mixed ^ mixed >> 32) & UInt64(sets - 1)) * Self.slotsOfSet
    }
}
