package import Wire

/// The events of accounts, and how far each subscriber has got. The audit log is the stream: an event is written in the transaction of what
/// happened.
package protocol EventRecords: Sendable {
    /// At most `limit` events behind a place in their order, of one account or of all.
    func events(after position: Int64, of account: UUID?, limit: Int) async throws(StoreFault) -> [AccountEvent]
    /// The place of an event, or of another entry of the log; nil if there is none with this id, or if it is from before events.
    func position(ofEvent id: UUID) async throws(StoreFault) -> Int64?
    /// The deliveries to a subscriber that are due, at most `limit` of either kind. One that was not known begins with the next commits.
    func deliveries(to subscriber: String, now: WallTime, limit: Int) async throws(StoreFault) -> DueDeliveries
    /// Notes the outcomes of deliveries; false, and nothing is noted, if the sender has lost the lease meanwhile.
    func settle(_ settled: SettledDeliveries, of subscriber: String, lease: String, by sender: UUID) async throws(StoreFault) -> Bool
    /// All that were ever sent something, by name.
    func subscriptions() async throws(StoreFault) -> [Subscription]
    /// Sends a subscriber everything behind a place again, and drops what waited or was parked behind it; false if it is not known.
    func replay(to subscriber: String, after position: Int64) async throws(StoreFault) -> Bool
}

/// An event on its way to a subscriber.
package struct Delivery: Sendable, Equatable {
    package let event: AccountEvent
    /// How often it has failed.
    package let failures: Int64
    /// When it failed first.
    package let failedAt: WallTime?

    package init(_ event: AccountEvent, failures: Int64 = 0, failedAt: WallTime? = nil) {
        self.event = event
        self.failures = failures
        self.failedAt = failedAt
    }
}

/// The deliveries to a subscriber that are due.
package struct DueDeliveries: Sendable, Equatable {
    /// For how many accounts an event of a subscriber waits for another try until it is sent no further ones.
    package static let mostWaiting: Int64 = 1_000

    /// Those whose next try is due, the first one of each account: the next one of the account is due after it has arrived.
    package let again: [Delivery]
    /// Those that come for the first time, in their order.
    package let new: [AccountEvent]
    /// The accounts of `new` of which an earlier event waits for its next try, so that the new ones wait, too.
    package let held: Set<UUID>
    /// The place up to which everything was handed out before, and with `new`.
    package let cursor: Int64
    package let next: Int64

    package init(again: [Delivery], new: [AccountEvent], held: Set<UUID>, cursor: Int64, next: Int64) {
        self.again = again
        self.new = new
        self.held = held
        self.cursor = cursor
        self.next = next
    }
}

/// The outcomes of `DueDeliveries`. One of `new` that is in neither list waits behind an earlier one of its account.
package struct SettledDeliveries: Sendable, Equatable {
    /// One that waits for its next try: the first one of its account.
    package struct Waiting: Sendable, Equatable {
        package let delivery: Delivery
        /// nil: it is parked.
        package let next: WallTime?
        package let failure: DeliveryFailure?

        package init(_ delivery: Delivery, next: WallTime?, failure: DeliveryFailure?) {
            self.delivery = delivery
            self.next = next
            self.failure = failure
        }
    }

    /// Those of the deliveries.
    package let cursor: Int64
    package let next: Int64
    package let now: WallTime
    /// The places of those that have arrived.
    package var arrived: [Int64] = []
    package var waiting: [Waiting] = []
    /// Whether the subscriber answers again, so that all that failed while it was away is due.
    package var isBack = false
    /// The kinds that the subscriber is sent.
    package var kinds = Set(AccountEvent.Kind.allCases)

    package init(_ due: DueDeliveries, now: WallTime) {
        cursor = due.cursor
        next = due.next
        self.now = now
    }
}

/// The state of a subscriber.
package struct Subscription: Sendable, Equatable {
    /// How long it is kept that an event is parked: as long as the log keeps addresses.
    package static let parkedSeconds = AuditEvent.addressSeconds

    package let name: String
    /// How many entries of the log are behind its place.
    package let behind: Int64
    /// For how many accounts an event waits for its next try, and how many events were given up.
    package let waiting: Int64
    package let parked: Int64
    /// The oldest of those that wait.
    package let waitingSince: WallTime?
    /// The reason of the newest failure of those that wait or are parked.
    package let failure: String?

    package init(name: String, behind: Int64, waiting: Int64, parked: Int64, waitingSince: WallTime?, failure: String?) {
        self.name = name
        self.behind = behind
        self.waiting = waiting
        self.parked = parked
        self.waitingSince = waitingSince
        self.failure = failure
    }
}
