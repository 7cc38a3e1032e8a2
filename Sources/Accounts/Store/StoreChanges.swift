package import Credentials
package import Wire

/// A change in the store that invalidates caches of gateways.
package enum StoreChange: Sendable, Hashable {
    case ended(EndedSession)
    /// An account changed; its standing now.
    case account(UUID, AccountStanding)
    case accountDeleted(UUID)
    /// The subject of an outside issuer: its account, the tier of that account, or what a tier server knows of it.
    case identity(IdentityKey)
    /// The sealed signing keys that gateways share.
    case secrets
    /// A live switch was set or removed.
    case switches
    /// An API key was added or revoked.
    case apiKeys
    /// A session has proven the second factor, or its proof counts no more.
    case factor(ProvenSession)
    /// This gateway waits until the others have applied what was committed before.
    case fence(by: UUID)
}

/// An entry of the change log.
package struct LoggedChange: Sendable, Hashable {
    /// Unique in its store.
    package let id: Int64
    package let change: StoreChange
    /// Microseconds between the change and its reading, by the store's clock; from 0 to `oldest`, whatever time its row has.
    package let age: Int64

    /// A day, for which the log is kept.
    private static let oldest: Int64 = 86_400_000_000

    package init(id: Int64, change: StoreChange, age: Int64) {
        self.id = id
        self.change = change
        self.age = min(max(0, age), Self.oldest)
    }
}

/// A position in the change log: every change that was acknowledged before this position was read lies before it.
package struct ChangeMark: Sendable, Hashable, Comparable {
    /// Opaque outside the store.
    package let value: Int64
    /// Tells servers apart, and runs of one; opaque too. Positions of two servers cannot be compared.
    package let server: Int64
    /// The transactions that began before this position and had not ended, opaque too; nil if all had. Their changes are yet to be read.
    package let inProgress: String?

    package init(value: Int64, server: Int64 = 0, inProgress: String? = nil) {
        self.value = value
        self.server = server
        self.inProgress = inProgress
    }

    package static func < (left: Self, right: Self) -> Bool { left.value < right.value }
}

/// One reading of the change log.
package struct ChangeReading: Sendable, Equatable {
    /// The changes from the mark on, oldest first. Some may have been in the reading before.
    package let changes: [LoggedChange]
    /// The mark for the next reading.
    package let next: ChangeMark
    /// False if changes are missing: there are more than `most`, the log ends before the mark, because the database was restored from a
    /// backup, or another server answers than before. Then the reader drops its caches, which is right at once however many changes
    /// there are, and reads the ended sessions.
    package let isWhole: Bool
    /// The clock of the store's server at the reading; nil where that is the gateway's.
    package let time: WallTime?
    /// The highest id in the log; nil of a reading from a mark on.
    package let newest: Int64?

    /// The most changes of a reading: what one reading costs in time and memory is bounded.
    package static let most = 10_000

    package init(changes: [LoggedChange], next: ChangeMark, isWhole: Bool, time: WallTime? = nil, newest: Int64? = nil) {
        self.changes = changes
        self.next = next
        self.isWhole = isWhole
        self.time = time
        self.newest = newest
    }
}
