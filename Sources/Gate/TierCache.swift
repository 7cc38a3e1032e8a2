/// Tier of a user of the gateway according to the accounts; it overrides the token's claim.
package enum TierStatus: Equatable, Sendable {
    /// No such account: the token's claim counts.
    case noAccount
    /// `until` is in seconds since 1970, then the tier is the lowest.
    case tier(Tier, until: Int64)
    /// The accounts could not be read; ask again at `until`, in seconds since 1970.
    case unavailable(until: Int64)
}

/// One user's tier, as sent to the workers.
package struct UserTier: Equatable, Sendable {
    /// `sub` of the user's tokens.
    package var user: String
    package var status: TierStatus
    /// Version of the account. A lower one than the known is ignored.
    package var version: Int64
    package var source: Source
    /// Seconds since 1970.
    package var learnedAt: Int64

    /// How it was learned.
    package enum Source: UInt8, Equatable, Sendable {
        /// Pushed on a change.
        case pushed
        /// Looked up.
        case lookedUp
    }

    package init(
        user: String, status: TierStatus, version: Int64, source: Source = .lookedUp, learnedAt: Int64 = 0
    ) {
        self.user = user
        self.status = status
        self.version = version
        self.source = source
        self.learnedAt = learnedAt
    }
}

/// Source and age of a request's tier.
package enum TierOrigin: Equatable, Sendable {
    /// Anonymous caller, or the accounts could not be read.
    case none
    /// The token's claim; the user has no account.
    case claim
    /// The account, as of this time in seconds since 1970.
    case account(UserTier.Source, at: Int64)
}

/// Tier cache of a worker: the recently seen users, up to a bound.
///
/// Two generations. A hit moves an entry to the young one; when that is full, it becomes the old one, and the previous old
/// one is evicted. A user who returns before half the capacity of other users were seen stays cached.
struct TierCache {
    fileprivate struct Entry {
        var status: TierStatus
        var version: Int64
        var source: UserTier.Source
        var learnedAt: Int64
    }

    private let generationSize: Int
    private var young = KeyTable<Entry>()
    private var old = KeyTable<Entry>()

    init(capacity: Int) { generationSize = max(32, capacity / 2) }

    var count: Int { young.count + old.count }

    /// The cached tier of `user` at `now`, in seconds since 1970, and its origin; nil if the accounts must be asked.
    mutating func status(of user: LimitKey, at now: Int64) -> (status: TierStatus, origin: TierOrigin)? {
        guard let entry = find(user) else { return nil }
        switch entry.status {
        case .noAccount: return (entry.status, .claim)
        case .tier(_, let until):
            let isOver = until != .max && until <= now
            return (isOver ? .tier(.lowest, until: .max) : entry.status, .account(entry.source, at: entry.learnedAt))
        case .unavailable(let until): return until > now ? (entry.status, .none) : nil
        }
    }

    /// Stores an update, unless something newer is cached.
    mutating func learn(_ update: UserTier, of user: LimitKey) {
        if let known = find(user), !known.isUnavailable {
            // Unavailability never replaces a known tier.
            if case .unavailable = update.status { return }
            if known.version > update.version { return }
            // A pushed update is never older than a lookup that it may have overtaken.
            if known.version == update.version, known.source == .pushed, update.source == .lookedUp { return }
        }
        put(
            Entry(status: update.status, version: update.version, source: update.source, learnedAt: update.learnedAt), user)
    }

    mutating func removeAll() {
        young.removeAll()
        old.removeAll()
    }

    private mutating func find(_ user: LimitKey) -> Entry? {
        if let entry = young[user] { return entry }
        guard let entry = old[user] else { return nil }
        put(entry, user)
        return entry
    }

    private mutating func put(_ entry: Entry, _ user: LimitKey) {
        if young.count >= generationSize {
            swap(&young, &old)
            young.removeAll()
        }
        young.set(entry, for: user)
    }
}

extension TierCache.Entry {
    fileprivate var isUnavailable: Bool {
        switch status {
        case .unavailable: true
        case .noAccount, .tier: false
        }
    }
}
