package import Wire

/// What was changed in a store, for gateways that remember what it said.
package enum StoreChange: Sendable, Hashable {
    case ended(EndedSession)
    /// An account, which has this entitlement now.
    case account(UUID, Entitlement)
    case accountDeleted(UUID)
    /// What gateways share and nobody may read in the database: their keys.
    case secrets
}

/// A change in the order in which the store has them.
package struct LoggedChange: Sendable, Hashable {
    /// No two changes of a store share it.
    package let id: Int64
    package let change: StoreChange
    /// How long ago it was made when it was read, in microseconds, by the store's own clock.
    package let age: Int64

    package init(id: Int64, change: StoreChange, age: Int64) {
        self.id = id
        self.change = change
        self.age = age
    }
}

/// A place in a store's log of changes: everything that the store had acknowledged before lies behind it.
package struct ChangeMark: Sendable, Hashable, Comparable {
    /// Means something to the store alone.
    package let value: Int64

    package init(value: Int64) { self.value = value }

    package static func < (left: Self, right: Self) -> Bool { left.value < right.value }
}

/// What a look at the log of changes brought.
package struct ChangeReading: Sendable, Equatable {
    /// From the mark on, the oldest first. Some may have been read before.
    package let changes: [LoggedChange]
    /// Where the next look goes on.
    package let next: ChangeMark
    /// Whether nothing is missing. A store that was put back to an earlier state cannot tell.
    package let isWhole: Bool

    package init(changes: [LoggedChange], next: ChangeMark, isWhole: Bool) {
        self.changes = changes
        self.next = next
        self.isWhole = isWhole
    }
}
