package import Credentials
package import Wire

/// An API key, as workers know it.
package struct KnownAPIKey: Hashable, Sendable {
    package let id: UUID
    package let digest: APIKeyDigest
    package let tier: String
    /// The names of the routes that it may be used on; empty for all that take keys.
    package let routes: [String]
    /// Its own limit over all routes.
    package let rate: LimitRate?
    /// In seconds since 1970.
    package let expiresAt: Int64

    /// The end of a key without one: a time that every clock of streams can count with.
    package static let noEnd: Int64 = 253_402_300_799

    package init(id: UUID, digest: APIKeyDigest, tier: String, routes: [String] = [], rate: LimitRate? = nil, expiresAt: Int64 = noEnd) {
        self.id = id
        self.digest = digest
        self.tier = tier
        self.routes = routes
        self.rate = rate
        self.expiresAt = min(expiresAt, Self.noEnd)
    }
}

/// All API keys that are not revoked. Immutable: each change makes another one, which replaces it at every worker.
package final class APIKeyTable: Sendable, Equatable {
    /// The most keys of a store.
    package static let capacity = 10_000

    package let keys: [KnownAPIKey]
    private let byDigest: [APIKeyDigest: Int]
    private let ids: Set<UUID>

    package init(_ keys: [KnownAPIKey]) {
        self.keys = keys
        byDigest = Dictionary(keys.indices.map { (keys[$0].digest, $0) }) { first, _ in first }
        ids = Set(keys.map(\.id))
    }

    func index(of digest: APIKeyDigest) -> Int? { byDigest[digest] }

    func holds(_ id: UUID) -> Bool { ids.contains(id) }

    package static func == (one: APIKeyTable, other: APIKeyTable) -> Bool { one.keys == other.keys }
}

/// The API keys of a worker.
struct APIKeys: ~Copyable {
    private static let noteSeconds: UInt64 = 30

    private var reader = APIKeyReader()
    /// nil until the store was read.
    private var table: APIKeyTable?
    /// By the key's place: when its use was last told of, in seconds since 1970.
    private var notedAt: [Int64] = []

    enum Finding {
        case key(KnownAPIKey, isNoted: Bool)
        /// No such key, or it has ended.
        case wrong
        case ended
        /// The store was never read.
        case unknown
    }

    mutating func adopt(_ table: APIKeyTable) {
        self.table = table
        notedAt = Array(repeating: .min, count: table.keys.count)
    }

    func hasEnded(_ id: UUID) -> Bool { table.map { !$0.holds(id) } ?? false }

    /// The key of this text; `isNoted` if its use is to be told of. `now` is in seconds since 1970.
    mutating func find(_ text: RawSpan, at now: Int64) -> Finding {
        guard let digest = reader.digest(of: text) else { return .wrong }
        guard let table else { return .unknown }
        guard let index = table.index(of: digest) else { return .wrong }
        let key = table.keys[index]
        guard now < key.expiresAt else { return .ended }
        let isNoted = UInt64(bitPattern: now &- notedAt[index]) >= Self.noteSeconds
        if isNoted { notedAt[index] = now }
        return .key(key, isNoted: isNoted)
    }
}
