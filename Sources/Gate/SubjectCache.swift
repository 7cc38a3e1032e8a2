package import Wire

/// The account of an outside issuer's subject, on a trust line with `accounts=on`.
package enum SubjectStatus: Equatable, Sendable {
    case account(UUID)
    /// No account: the caller passes under the subject.
    case unknown
    /// Its tokens are refused: the account is gone, or its sessions at the issuer have ended.
    case refused
    /// The accounts could not be read.
    case unavailable
}

/// A subject as the control plane looked it up, sent to the workers.
package struct KnownSubject: Equatable, Sendable {
    package var user: TokenUser
    package var status: SubjectStatus
    /// When the question was asked, or failed, in seconds since 1970.
    package var learnedAt: Int64

    package init(user: TokenUser, status: SubjectStatus, learnedAt: Int64) {
        self.user = user
        self.status = status
        self.learnedAt = learnedAt
    }
}

/// Cache of a worker: the accounts of recently seen subjects, up to a bound.
///
/// An account that changes invalidates what was learned of it before: each entry has the number of changes until then, and each
/// changed account that of its last change. Changes must arrive before any answer that was read after them.
struct SubjectCache {
    private struct Entry {
        var status: SubjectStatus
        /// The key of the account in the tier cache.
        var tierKey: LimitKey?
        /// In seconds since 1970.
        var until: Int64
        var changes: UInt64
    }

    /// How long a subject without an account stays known, in seconds: an import is not announced.
    private static let unknownSeconds: Int64 = 10
    private static let unavailableSeconds: Int64 = 1
    /// Changed accounts that are remembered; then everything is looked up again.
    private static let maxChanged = 8_192

    private var entries: RecentTable<Entry>
    private var changed = KeyTable<UInt64>()
    private var changes: UInt64 = 0

    init(capacity: Int) { entries = RecentTable(capacity: capacity) }

    /// The subject's status, and the key of its account in the tier cache; nil if the accounts must be asked. `now` is in seconds
    /// since 1970.
    mutating func find(_ subject: LimitKey, at now: Int64, _ hash: KeyedHash) -> (status: SubjectStatus, tierKey: LimitKey?)? {
        guard let entry = entries.find(subject), now < entry.until else { return nil }
        // Later than any that is learned now: the clock was set back.
        if entry.until != .max, entry.until > now + Self.unknownSeconds { return nil }
        if case .account(let id) = entry.status, let last = changed[Self.key(id, hash)], entry.changes < last { return nil }
        return (entry.status, entry.tierKey)
    }

    mutating func learn(_ status: SubjectStatus, of subject: LimitKey, tierKey: LimitKey?, at learnedAt: Int64) {
        let until: Int64 =
            switch status {
            case .account: .max
            case .unknown, .refused: learnedAt + Self.unknownSeconds
            case .unavailable: learnedAt + Self.unavailableSeconds
            }
        entries.put(Entry(status: status, tierKey: tierKey, until: until, changes: changes), subject)
    }

    /// Has a subject looked up again.
    mutating func forget(_ subject: LimitKey) {
        guard entries.find(subject) != nil else { return }
        entries.put(Entry(status: .unavailable, tierKey: nil, until: .min, changes: changes), subject)
    }

    /// An account changed, or was deleted.
    mutating func accountChanged(_ id: UUID, _ hash: KeyedHash) {
        guard entries.count > 0 else { return }
        if changed.count >= Self.maxChanged { removeAll() }
        changes += 1
        changed.set(changes, for: Self.key(id, hash))
    }

    mutating func removeAll() {
        entries.removeAll()
        changed.removeAll()
    }

    private static func key(_ id: UUID, _ hash: KeyedHash) -> LimitKey { LimitSubject.account(id, hash) }
}
