package import Wire

/// All that is known of a purchase itself: registers, of which the later value counts by the store's time, and the account that claimed it.
package struct PurchaseFacts: Hashable, Sendable {
    package let key: PurchaseKey
    package var status: PurchaseStatus?
    package var named: NamedOwner?
    package var claimed: UUID?

    package init(_ key: PurchaseKey) { self.key = key }

    package mutating func take(_ new: PurchaseStatus) {
        guard status.map({ PurchaseRule.counts(new, before: $0) }) ?? true else { return }
        status = new
    }

    package mutating func take(_ owner: NamedOwner) {
        if let named, named.place >= owner.place { return }
        named = owner
    }
}

/// The account that a purchase names, since when, and when the store said so. It need not exist.
package struct NamedOwner: Hashable, Sendable {
    package let account: UUID
    package let at: WallTime
    package let told: WallTime

    package init(_ account: UUID, at: WallTime, told: WallTime) { (self.account, self.at, self.told) = (account, at, told) }

    fileprivate var place: (WallTime, WallTime, UUID) { (at, told, account) }
}

/// The account that a purchase names, after all transfers.
package enum NamedAccount: Hashable, Sendable {
    /// The purchase names none.
    case none
    case present(UUID)
    /// It was deleted, so its owner may claim the purchase again under another account.
    case deleted
    /// It was never here: the purchase belongs to another system's account, and stays unbound.
    case unknown
}

/// The account, state and grant that follow from the facts of a purchase.
package struct PurchaseOutcome: Hashable, Sendable {
    package var account: UUID?
    package var state: PurchaseState
    /// The end of its grant; nil without end.
    package var until: WallTime?
    package var product: String?
    package var tier: String?
    /// The grace of the product's line, in seconds.
    package var grace: Int64?
    /// Whether its tier is a grant of the account until then.
    package var gives: Bool

    package init(
        account: UUID?, state: PurchaseState, until: WallTime?, product: String?, tier: String?, grace: Int64?, gives: Bool
    ) {
        self.account = account
        self.state = state
        self.until = until
        self.product = product
        self.tier = tier
        self.grace = grace
        self.gives = gives
    }
}

/// The rules of purchases. Pure; stores apply them inside their transactions. Each fact has a place in an order that does not depend on when
/// it came, so that any order and number of notifications gives one state.
package enum PurchaseRule {
    /// Whether a status counts before another one of the same purchase: by the period, then by the store's time. Of two that the store said
    /// at once (Stripe says several things of a new subscription in one second) the one that gives more counts.
    package static func counts(_ status: PurchaseStatus, before other: PurchaseStatus) -> Bool { place(other) < place(status) }

    private typealias Place = (WallTime, WallTime, WallTime, Int, Int, String)

    private static func place(_ status: PurchaseStatus) -> Place {
        let rest = ([status.product, "\(status.paidUntil?.microseconds ?? 0) \(status.paidFrom?.microseconds ?? 0)"] + status.transactions)
            .joined(separator: "\n")
        return (
            status.periodStart, status.at, status.until ?? WallTime(microseconds: .max), -rank(status.state), status.renews ? 1 : 0, rest
        )
    }

    /// Whether what is said of a transaction counts before something else that was said of it. Of two that were said at once an end counts.
    package static func counts(_ ended: EndedTransaction, before other: EndedTransaction) -> Bool {
        (other.at, other.state.map(rank) ?? -1) < (ended.at, ended.state.map(rank) ?? -1)
    }

    private static func rank(_ state: PurchaseState) -> Int { PurchaseState.allCases.firstIndex(of: state) ?? 0 }

    /// The outcome at `now`. `status` is the newest, with all payments of its period; `line` has its product; `ended` may have more than
    /// concerns the purchase.
    package static func outcome(
        of facts: PurchaseFacts, _ status: PurchaseStatus, _ named: NamedAccount, ended: [EndedTransaction], _ line: ProductLine?,
        at now: WallTime
    ) -> PurchaseOutcome {
        let end = ended.filter { $0.state != nil && concerns($0, facts.key, status) }.max { counts($1, before: $0) }?.state
        let state = end ?? status.state
        let until = end == nil ? self.until(status, graceSeconds: line?.graceSeconds) : status.until
        return PurchaseOutcome(
            account: account(named, claimed: facts.claimed), state: self.state(state, until: until, at: now), until: until,
            product: line?.name, tier: line?.tier, grace: line?.graceSeconds, gives: line != nil && gives(state))
    }

    /// Whether a payment that ended is the one of the present period. A refund of an earlier period takes nothing from this one, and at Apple
    /// (and so at RevenueCat) the first payment has the id of the whole purchase; a purchase that was superseded is over in any case.
    private static func concerns(_ ended: EndedTransaction, _ key: PurchaseKey, _ status: PurchaseStatus) -> Bool {
        guard ended.source == key.source, ended.environment == key.environment else { return false }
        if status.transactions.contains(ended.transaction) { return true }
        guard ended.transaction == key.original else { return false }
        return switch key.source {
        case .google, .stripe: true
        case .apple, .revenuecat: ended.state == .superseded || status.transactions.isEmpty
        }
    }

    private static func gives(_ state: PurchaseState) -> Bool {
        switch state {
        case .active, .grace, .retry: true
        case .paused, .expired, .refunded, .revoked, .superseded: false
        }
    }

    /// The end of access: the store's, or with a late payment the end of the last paid period and the grace of the product's line.
    private static func until(_ status: PurchaseStatus, graceSeconds: Int64?) -> WallTime? {
        switch status.state {
        case .grace:
            guard let graceSeconds, let paid = status.paidUntil else { return status.until }
            return paid.advanced(seconds: graceSeconds)
        case .retry:
            // A late payment without any end gives nothing beyond what the store said.
            return (status.paidUntil ?? status.until ?? status.at).advanced(seconds: graceSeconds ?? 0)
        case .active, .paused, .expired, .refunded, .revoked, .superseded: return status.until
        }
    }

    /// A state at a time: a period that has ended, and of whose renewal no store has told, is over.
    package static func state(_ state: PurchaseState, until: WallTime?, at now: WallTime) -> PurchaseState {
        guard state == .active || state == .grace, let until, until <= now else { return state }
        return .expired
    }

    /// The account of a purchase. One that it names by itself goes before one that claims it.
    package static func account(_ named: NamedAccount, claimed: UUID?) -> UUID? {
        switch named {
        case .present(let account): account
        case .none, .deleted: claimed
        case .unknown: nil
        }
    }

    /// Whether `account` may claim a purchase that `claimed` has claimed before. A transfer overrides that, but never what the purchase names.
    package static func mayClaim(_ account: UUID, _ named: NamedAccount, claimed: UUID?, transfers: Bool) -> Bool {
        switch named {
        case .present(let owner): owner == account
        case .none, .deleted: claimed == nil || claimed == account || transfers
        case .unknown: false
        }
    }

    /// The account that a purchase belongs to which has named `account` at a time, after the transfers since. `next` finds the first
    /// transfer from an account at a time or later.
    package static func owner<Failure: Error>(
        _ account: UUID, since time: WallTime, next: (UUID, WallTime) throws(Failure) -> (to: UUID, at: WallTime)?
    ) throws(Failure) -> UUID {
        var (account, time) = (account, time)
        // Transfers at one time may form a ring.
        var seen: Set = [account]
        while let transfer = try next(account, time) {
            if transfer.at > time { seen = [account] }
            guard seen.insert(transfer.to).inserted else { break }
            (account, time) = (transfer.to, transfer.at)
        }
        return account
    }

    /// The verdict on an event whose effects were applied. `isNamedMissing`: an account that it names is not there, and nothing else has bound
    /// its purchase.
    package static func verdict(_ event: StoreEvent, _ purchases: [Purchase], isNamedMissing: Bool) -> StoreEvent.Verdict {
        if purchases.isEmpty, event.effects.allSatisfy(\.isEnd) { return .kept }
        if purchases.contains(where: { $0.product == nil }) { return .unknownProduct }
        return isNamedMissing ? .unknownAccount : .applied
    }
}

extension Purchase {
    /// As it is at a time.
    func current(at now: WallTime) -> Purchase {
        var purchase = self
        purchase.state = PurchaseRule.state(state, until: until, at: now)
        return purchase
    }
}

extension PurchaseEffect {
    fileprivate var isEnd: Bool { if case .ended = self { true } else { false } }
}
