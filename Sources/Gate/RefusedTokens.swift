import Credentials
import Wire

/// Deny cache of tokens with a bad signature, one per worker: a client that sends the same token again costs a hash in place of a
/// signature check.
///
/// No other fault is kept. This one depends on the token and the policy's keys alone, and a change of policy empties the cache. An
/// entry is a 128-bit keyed hash of the whole token: clients cannot cause collisions, and one would refuse a token, never accept it.
struct RefusedTokens {
    /// With the algorithm that the token names, for metrics.
    private var algorithms = RecentTable<SigningAlgorithm>(capacity: Self.maxTokens)
    private let hash: KeyedHash

    static let maxTokens = 4_096

    /// `hash` must have a random key.
    init(hash: KeyedHash) { self.hash = hash }

    var count: Int { algorithms.count }

    /// `asked`: tells apart those whose keys may differ.
    func key(of token: RawSpan, asked: Int = 0) -> LimitKey { hash.hash128(token, domain: UInt64(truncatingIfNeeded: asked)) }

    /// The algorithm of a token that was refused; nil if it must be verified.
    mutating func find(_ key: LimitKey) -> SigningAlgorithm? { algorithms.find(key) }

    mutating func insert(_ key: LimitKey, _ algorithm: SigningAlgorithm) { algorithms.put(algorithm, key) }

    mutating func removeAll() { algorithms.removeAll() }
}
