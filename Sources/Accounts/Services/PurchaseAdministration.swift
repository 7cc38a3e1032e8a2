package import Wire

/// Why a store is not asked for a purchase, or an event is not read again.
package enum InquiryRefusal: Sendable, Equatable {
    case noSuchPurchase
    case noSuchEvent
    /// The body was deleted with an account that it was about.
    case noBody
    /// The store is not configured.
    case noLine(PurchaseSource)
    /// The store's API key is not configured.
    case noKey(PurchaseSource)
    /// The store was asked, or the event was read, and this came of it.
    case store(PurchaseSource, StorefrontFault)
}

/// Purchases and the events of stores for the operator, by command, admin API or console.
package struct PurchaseAdministration: Sendable {
    private let context: AccountContext
    private let records: any PurchaseRecords
    /// Those of the configuration in force.
    private let stores: @Sendable () -> Stores
    /// How the operator asks, for the audit log.
    package var actor: AuditActor

    /// `records`: those of the context's store, unless a test has others.
    package init(
        context: AccountContext, records: (any PurchaseRecords)? = nil, stores: @escaping @Sendable () -> Stores, actor: AuditActor
    ) {
        self.context = context
        self.records = records ?? context.store
        self.stores = stores
        self.actor = actor
    }

    // MARK: reading

    /// By id behind `after`, of an account and a state, or of all with nil.
    package func purchases(
        of account: UUID?, _ state: PurchaseState?, after: UUID? = nil, limit: Int = 100
    ) async throws(AccountFailure) -> [Purchase] {
        let now = context.storeTime
        return try await context.ask(await records.purchases(of: account, state, at: now, after: after, limit: limit)).map {
            $0.current(at: now)
        }
    }

    package func purchase(_ id: UUID) async throws(AccountError<InquiryRefusal>) -> Purchase {
        try await context.ask(orRefuse: InquiryRefusal.noSuchPurchase, await records.purchase(id)).current(at: context.storeTime)
    }

    /// A purchase, with the newest events about it.
    package func details(_ id: UUID) async throws(AccountError<InquiryRefusal>) -> PurchaseDetails {
        let purchase = try await purchase(id)
        let events = try await AccountError<InquiryRefusal>.failing(
            try await context.ask(await records.storeEvents(about: id, limit: PurchaseDetails.maxEvents)))
        return PurchaseDetails(purchase: purchase, events: events)
    }

    /// The newest first, older than `before`.
    package func events(
        _ source: PurchaseSource? = nil, _ verdict: StoreEvent.Verdict? = nil, before: UUID? = nil, limit: Int = 100
    ) async throws(AccountFailure) -> [KeptStoreEvent] {
        try await context.ask(await records.storeEvents(source, verdict, before: before, limit: limit))
    }

    /// When each source's newest event came.
    package func newestEvents() async throws(AccountFailure) -> [PurchaseSource: WallTime] {
        try await context.ask(await records.newestStoreEvents())
    }

    // MARK: asking

    /// Asks the store for the newest state of a purchase, and applies its answer.
    package func sync(_ id: UUID) async throws(AccountError<InquiryRefusal>) -> Purchase {
        let purchase = try await purchase(id)
        let changed = try await ask(purchase)
        if let found = changed.first(where: { $0.id == id }) { return found }
        return try await self.purchase(id)
    }

    /// Reads a kept event again, and applies what it says by the product lines in force. What was known later stays.
    package func replay(_ id: UUID) async throws(AccountError<InquiryRefusal>) -> ReplayedEvent {
        let kept = try await context.ask(orRefuse: InquiryRefusal.noSuchEvent, await records.storeEvent(id))
        guard !kept.body.isEmpty else { throw .refused(.noBody) }
        guard let storefront = stores()[kept.source] else { throw .refused(.noLine(kept.source)) }
        let event: StoreEvent
        do throws(StorefrontFault) {
            event = try await storefront.replay(kept.body, now: context.storeTime)
        } catch {
            throw .refused(.store(kept.source, error))
        }
        return ReplayedEvent(event: kept, purchases: try await apply(event.effects, storefront))
    }

    /// Asks the store for one purchase, and applies its answer; returns the purchases that the answer is about.
    func ask(_ purchase: Purchase) async throws(AccountError<InquiryRefusal>) -> [Purchase] {
        let source = purchase.key.source
        guard let storefront = stores()[source] else { throw .refused(.noLine(source)) }
        let effects: [PurchaseEffect]?
        do throws(StorefrontFault) {
            effects = try await storefront.newest(purchase, now: context.storeTime)
        } catch {
            throw .refused(.store(source, error))
        }
        guard let effects else { throw .refused(.noKey(source)) }
        // The gateway ends: its store may be closed by now.
        if Task.isCancelled { return [] }
        return try await apply(effects, storefront)
    }

    private func apply(
        _ effects: [PurchaseEffect], _ storefront: any Storefront
    ) async throws(AccountError<InquiryRefusal>) -> [Purchase] {
        guard !effects.isEmpty else { return [] }
        let changed = try await AccountError<InquiryRefusal>.failing(
            try await context.ask(await records.apply(effects, stores().products, context.audit(by: actor))))
        await storefront.committed(changed)
        return changed
    }
}

/// A purchase and what its store said of it.
package struct PurchaseDetails: Sendable {
    /// The most events that are shown. Each is read with its body.
    package static let maxEvents = 100

    package let purchase: Purchase
    /// The newest first.
    package let events: [KeptStoreEvent]

    package init(purchase: Purchase, events: [KeptStoreEvent]) {
        self.purchase = purchase
        self.events = events
    }
}

/// A kept event that was read again.
package struct ReplayedEvent: Sendable {
    package let event: KeptStoreEvent
    /// The purchases that it is about, as they are now; none for an event without effect.
    package let purchases: [Purchase]
}
