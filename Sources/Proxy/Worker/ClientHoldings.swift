import Gate
import Glibc
import Synchronization

/// The part of a bound that one client may hold, by dynamic thresholds: it may take one more only while it holds less than α times what is
/// free. One client alone gets `percent` of the bound, with α = `percent` / (100 − `percent`), and each further one finds at least
/// (100 − `percent`) percent of what the others left. The last place goes only to a client that holds none, so a bound of 1 has room for
/// one request, and from 2 on one client leaves a place.
package struct ShareRule: Equatable, Sendable {
    /// One client may hold all.
    package static let all = ShareRule(percent: 100)

    private let percent: Int
    /// No bound is larger; products with a percentage do not overflow.
    private static let most = 1 << 48

    /// `percent` is from 1 to 100.
    package init(percent: Int) {
        precondition((1...100).contains(percent), "a share that is no percentage")
        self.percent = percent
    }

    /// Whether a client that holds `held` of `limit`, of which all clients hold `taken`, may take one more.
    func allows(held: Int, taken: Int, limit: Int) -> Bool {
        guard percent < 100 else { return true }
        let free = min(limit - taken, Self.most)
        guard held > 0 else { return free > 0 }
        return free > 1 && min(held, Self.most) * (100 - percent) < percent * free
    }
}

/// A bound that clients share, as a number that is the same in all workers.
struct SharedBound: Equatable, Sendable {
    let number: UInt64

    static let requests = SharedBound(number: 1)
    static let buffers = SharedBound(number: 2)
    static func local(_ kind: LocalKind) -> SharedBound { SharedBound(number: 3 + UInt64(kind.rawValue)) }
    /// A bound of one upstream; `kind` is below 8.
    static func upstream(_ upstream: UInt64, _ kind: UInt64) -> SharedBound { SharedBound(number: 8 * (upstream + 1) + kind) }
}

/// How much of each bound each client holds in all workers together. Any thread.
///
/// Two counters, at places that a keyed hash of client and bound chooses, count each holding; the smaller one is taken for it. It is never
/// below the truth. Above it is only if others hold something at both places: for a client beside n that hold much, with a probability of
/// (n / 32,768)². A client cannot choose its places.
@safe
// Unchecked, for the compiler cannot see through the pointer: it is written once, in `init`, points to memory that lives as long as this
// object, and all access to it is atomic.
final class ClientHoldings: @unchecked Sendable {
    private let counters: UnsafeMutablePointer<Atomic<Int32>>
    private let key = KeyedHash.random()
    private static let width = 1 << 15

    init() {
        // An atomic whose bits are all 0 holds 0.
        let memory = unsafe calloc(2 * Self.width, MemoryLayout<Atomic<Int32>>.stride)
        guard let memory = unsafe memory else { preconditionFailure("out of memory") }
        unsafe counters = memory.bindMemory(to: Atomic<Int32>.self, capacity: 2 * Self.width)
    }

    deinit { unsafe free(counters) }

    /// The hash that stands for a client.
    func hash(_ client: ClientKey) -> UInt64 { key.hash128(client.high, client.low, domain: 0).low }

    /// Adds to what a client holds of a bound; returns how much it held before.
    @discardableResult
    func add(_ count: Int, of bound: SharedBound, by client: UInt64) -> Int {
        let (first, second) = Self.places(client, bound)
        let count = Int32(truncatingIfNeeded: count)
        let one = unsafe counters[first].wrappingAdd(count, ordering: .relaxed).oldValue
        let other = unsafe counters[second].wrappingAdd(count, ordering: .relaxed).oldValue
        return Int(min(one, other))
    }

    /// How much a client holds of a bound.
    func held(of bound: SharedBound, by client: UInt64) -> Int {
        let (first, second) = Self.places(client, bound)
        return Int(unsafe min(counters[first].load(ordering: .relaxed), counters[second].load(ordering: .relaxed)))
    }

    /// Takes `count` of a bound of which all clients hold `taken`, unless that is beyond the client's share.
    func take(_ count: Int = 1, of bound: SharedBound, by client: UInt64, taken: Int, limit: Int, _ rule: ShareRule) -> Bool {
        if rule.allows(held: add(count, of: bound, by: client), taken: taken, limit: limit) { return true }
        add(-count, of: bound, by: client)
        return false
    }

    private static func places(_ client: UInt64, _ bound: SharedBound) -> (Int, Int) {
        let mixed = (client ^ bound.number &* 0xD6E8_FEB8_6659_FD93) &* 0x9E37_79B9_7F4A_7C15
        let mask = UInt64(width - 1)
        return (Int(truncatingIfNeeded: mixed >> 16 & mask), width + Int(truncatingIfNeeded: mixed >> 40 & mask))
    }
}
