/// What the account of a user of the gateway's own says of their tier, whatever their token says.
package enum TierStatus: Equatable, Sendable {
    /// There is no such account: a token's own claim counts.
    case noAccount
    /// `until` is in seconds since 1970; then the tier becomes the lowest.
    case tier(Tier, until: Int64)
    /// The accounts cannot be asked; they may be again at `until`, in seconds since 1970.
    case unavailable(until: Int64)
}

/// The tier of one user, as the workers are told.
package struct UserTier: Equatable, Sendable {
    /// As tokens name the user (`sub`).
    package var user: String
    package var status: TierStatus
    /// Counts the changes of an account: what has a lower number than is known already is passed over.
    package var version: Int64
    package var source: Source
    /// Seconds since 1970.
    package var learnedAt: Int64

    /// How the accounts came to say it.
    package enum Source: UInt8, Equatable, Sendable {
        /// They told of a change.
        case pushed
        /// They were asked.
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

/// Where a request's tier comes from, and since when it is known.
package enum TierOrigin: Equatable, Sendable {
    /// Nobody is known, or the accounts cannot be asked.
    case none
    /// The token claims it, and the gateway keeps no account of its user.
    case claim
    /// The accounts said so then, in seconds since 1970.
    case account(UserTier.Source, at: Int64)
}

/// The tiers that a worker knows: of whoever came by lately, up to a bound.
///
/// Two generations: what is asked for moves to the young one; when that is full, the old one is given up. So whoever
/// comes more often than half the bound's number of others stays.
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

    /// What is known of `user` at `now`, in seconds since 1970, and from where; nil if the accounts are to be asked.
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

    /// Takes in what the accounts said, unless something newer is known.
    mutating func learn(_ news: UserTier, of user: LimitKey) {
        if let known = find(user), !known.isUnavailable {
            // That they cannot be asked is no news where they have answered before.
            if case .unavailable = news.status { return }
            if known.version > news.version { return }
            // What was told is never older than an answer to a question that it may have overtaken.
            if known.version == news.version, known.source == .pushed, news.source == .lookedUp { return }
        }
        put(
            Entry(status: news.status, version: news.version, source: news.source, learnedAt: news.learnedAt), user)
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
