package import Wire

/// Tier of a user according to the accounts or a tier server; it overrides the token's claim.
package enum TierStatus: Equatable, Sendable {
    /// No such account. The claim of an own token counts; a user of an outside issuer has the lowest tier.
    case noAccount
    /// `until` is in seconds since 1970, then the tier is the lowest.
    case tier(Tier, until: Int64)
    /// The accounts could not be read, or the tier server asked; ask again at `until`, in seconds since 1970.
    case unavailable(until: Int64)
}

/// One user's tier, as sent to the workers.
package struct UserTier: Equatable, Sendable {
    package var user: TokenUser
    package var status: TierStatus
    /// When it must be looked up again; nil for an account's tier, whose changes are pushed.
    package var freshUntil: WallTime?
    /// Version of the account. A lower one than the known is ignored.
    package var version: Int64
    package var source: Source
    /// Seconds since 1970.
    package var learnedAt: Int64
    /// The email that the account has proven, empty if none; nil if unknown.
    package var email: String?
    package var marks: AccountMarks

    /// How it was learned.
    package enum Source: UInt8, Equatable, Sendable {
        /// Pushed on a change.
        case pushed
        /// Looked up.
        case lookedUp
    }

    package init(
        user: TokenUser, status: TierStatus, version: Int64, source: Source = .lookedUp, learnedAt: Int64 = 0,
        freshUntil: WallTime? = nil, email: String? = nil, marks: AccountMarks = AccountMarks()
    ) {
        self.user = user
        self.status = status
        self.freshUntil = freshUntil
        self.version = version
        self.source = source
        self.learnedAt = learnedAt
        self.email = email
        self.marks = marks
    }
}

/// Source and age of a request's tier. Times are in seconds since 1970.
package enum TierOrigin: Equatable, Sendable {
    /// Anonymous caller, or the tier could not be looked up.
    case none
    /// The token's claim; the user has no account.
    case claim(TierClaim)
    /// The account, as of this time.
    case account(UserTier.Source, at: Int64)
    /// The lowest: as of this time no tier was set here for the subject of an outside issuer.
    case noAccount(at: Int64)
    /// The answer of a tier server, asked at this time.
    case lookup(at: Int64)
}

/// The tier that a token claims.
package enum TierClaim: UInt8, Sendable {
    /// None, so the user has the lowest.
    case missing
    /// None of the gateway's, so the user has the lowest.
    case unknown
    case known
}

/// Tier cache of a worker: the recently seen users, up to a bound.
struct TierCache {
    struct Entry {
        /// A tier that has ended is the lowest.
        fileprivate(set) var status: TierStatus
        fileprivate var version: Int64
        fileprivate(set) var source: UserTier.Source
        fileprivate(set) var learnedAt: Int64
        fileprivate var freshUntil: WallTime?
        /// Of the email that the account has proven, or of an empty one; nil if unknown.
        fileprivate var email: LimitKey?
        /// Why tokens of the account are refused; it may be over.
        fileprivate(set) var bar: AccountMarks.Bar?
        /// Whether `AccountDetails` has more of the account.
        fileprivate(set) var hasDetail = false

        /// Whether the account has another proven email than the one that a token claims. A token that is newer than what was
        /// looked up may name one of which this gateway has not been told yet; a change that was told ends older tokens' claims
        /// whatever their `iat`, for it is of another clock.
        @inline(__always)
        func contradicts(_ claimed: LimitKey, issuedAt: Int64) -> Bool {
            guard let email, email != claimed else { return false }
            return source == .pushed || issuedAt <= learnedAt
        }
    }

    private var entries: RecentTable<Entry>

    init(capacity: Int) { entries = RecentTable(capacity: capacity) }

    var count: Int { entries.count }

    /// The cached tier of `user` at `now`; nil if it must be looked up.
    mutating func entry(of user: LimitKey, at now: WallTime) -> Entry? {
        guard var entry = entries.find(user) else { return nil }
        if let freshUntil = entry.freshUntil, freshUntil <= now { return nil }
        switch entry.status {
        case .noAccount: break
        case .tier(_, let until): if until != .max && until <= now.seconds { entry.status = .tier(.lowest, until: .max) }
        // Learned in the future: the clock was set back, and `until` may be far off.
        case .unavailable(let until): if until <= now.seconds || entry.learnedAt > now.seconds { return nil }
        }
        return entry
    }

    /// Stores an update, unless something newer is cached. `email` is the key of its email. False if the update is older than what is
    /// cached, or says nothing of the account.
    @discardableResult
    mutating func learn(_ update: UserTier, of user: LimitKey, email: LimitKey? = nil, hasDetail: Bool = false) -> Bool {
        if var known = entries.find(user), !known.isUnavailable {
            if case .unavailable(let until) = update.status {
                // Unavailability never replaces a known tier; one that is no longer fresh stays until the next attempt.
                known.freshUntil = known.freshUntil.map { max($0, WallTime(seconds: until)) }
                entries.put(known, user)
                return false
            }
            // A tier that was over when it was looked up again gives way, whatever its version.
            if !known.isOver(at: update.learnedAt) {
                if known.version > update.version { return false }
                // A pushed update is never older than a lookup that it may have overtaken.
                if known.version == update.version, known.source == .pushed, update.source == .lookedUp { return true }
            }
        }
        entries.put(
            Entry(
                status: update.status, version: update.version, source: update.source, learnedAt: update.learnedAt,
                freshUntil: update.freshUntil, email: email, bar: update.marks.bar, hasDetail: hasDetail), user)
        return true
    }

    /// Has `user` looked up again; what was known no longer counts.
    mutating func forget(_ user: LimitKey) {
        guard entries.find(user) != nil else { return }
        entries.put(Entry(status: .unavailable(until: .min), version: .min, source: .lookedUp, learnedAt: 0, freshUntil: nil), user)
    }

    mutating func removeAll() { entries.removeAll() }
}

extension TierCache.Entry {
    var isUnavailable: Bool {
        switch status {
        case .unavailable: true
        case .noAccount, .tier: false
        }
    }

    /// Whether it no longer counted at `time`, in seconds since 1970. An account that was deleted and imported again with its id
    /// begins at the first version.
    fileprivate func isOver(at time: Int64) -> Bool { freshUntil.map { $0 <= WallTime(seconds: time) } ?? false }
}
