internal import Credentials
package import Wire

/// Why a claim is refused.
package enum PurchaseRefusal: Sendable, Equatable {
    /// The store, or what it signed, says no.
    case store(StorefrontFault)
    /// No line has this product of the store: the purchase is kept, and gives nothing until one does.
    case productUnknown(String)
    case ofOtherAccount
    /// The claiming account was deleted meanwhile.
    case noAccount
}

/// A claim that was accepted.
package struct ClaimedPurchase: Sendable, Equatable {
    package let purchase: Purchase
    /// The claiming account, with the grants that it has now.
    package let account: Account
    /// Whether every live gateway has acknowledged the change in time.
    package let isEverywhere: Bool
}

/// The purchases of an account, newest first.
package struct HeldPurchases: Sendable, Equatable {
    package let account: Account
    package let purchases: [Purchase]
}

/// Purchases at stores: what apps claim, and what the stores notify of. All of it is verified by a `Storefront`, and then committed as
/// `PurchaseEffect`s. Any task.
package struct Purchases: Sendable {
    /// Purchases that one transaction gives the tiers of other product lines.
    private static let adoptedAtOnce = 1_000

    private let context: AccountContext
    private let mint: TokenMint
    private let stores: Stores
    private let transfers: Bool
    private let limiter: any AttemptLimiter
    private let fence: @Sendable () async -> Bool
    private let report: @Sendable (PurchaseReport) -> Void

    /// `transfers`: a purchase that another account has claimed moves to the one that claims it. `fence` waits until every live gateway
    /// has acknowledged what was committed, for a second at most, and returns whether all have.
    package init(
        context: AccountContext, mint: TokenMint, stores: Stores, transfers: Bool,
        limiter: any AttemptLimiter, fence: @escaping @Sendable () async -> Bool,
        report: @escaping @Sendable (PurchaseReport) -> Void = { _ in }
    ) {
        self.context = context
        self.mint = mint
        self.stores = stores
        self.transfers = transfers
        self.limiter = limiter
        self.fence = fence
        self.report = report
    }

    /// Verifies a purchase, binds it to `account`, and returns once its tier counts on every gateway. The same claim twice has the same
    /// answer twice.
    package func claim(
        _ evidence: PurchaseEvidence, by account: UUID, caller: Caller
    ) async throws(AccountError<PurchaseRefusal>) -> ClaimedPurchase {
        do throws(AccountError<PurchaseRefusal>) {
            let claimed = try await bind(evidence, account, caller)
            report(.claim(evidence.source, .bound))
            return claimed
        } catch {
            let (verdict, reason) = error.verdict
            report(.claim(evidence.source, verdict, reason: reason))
            throw error
        }
    }

    private func bind(
        _ evidence: PurchaseEvidence, _ account: UUID, _ caller: Caller
    ) async throws(AccountError<PurchaseRefusal>) -> ClaimedPurchase {
        typealias Fault = AccountError<PurchaseRefusal>
        let attempts = try await Fault.failing(try await Attempts(limiter, [AttemptBucket(.accountPurchases, account.text)]))
        let proven: ProvenPurchase
        do throws(AccountError<StorefrontFault>) {
            let now = context.clock.now().wall
            proven = try await judge(evidence.source, caller) { store throws(StorefrontFault) in try await store.prove(evidence, now: now) }
        } catch {
            throw error.mapped { .store($0) }
        }
        let outcome = try await attempts.make { () throws(Fault) in
            try await Fault.failing(
                try await context.ask(
                    await context.store.claim(
                        proven.key, proven.effects, by: account, transfers: transfers, stores.products, context.audit(caller))))
        }
        switch outcome {
        case .ofOtherAccount: throw .refused(.ofOtherAccount)
        case .noAccount: throw .refused(.noAccount)
        case .bound(let purchase, let account, let isNews):
            if isNews { attempts.refund() }
            tell([purchase])
            guard purchase.product != nil else { throw .refused(.productUnknown(purchase.status.product)) }
            return ClaimedPurchase(purchase: purchase, account: account, isEverywhere: await fenced())
        }
    }

    /// Verifies what a store sends, and returns once it is committed: a store that hears of a fault sends it again. `field` is the value of
    /// a request's header field, by its name in lower case.
    package func notify(
        _ source: PurchaseSource, _ body: [UInt8], caller: Caller, field: @Sendable (StaticString) -> String?
    ) async throws(AccountError<StorefrontFault>) -> RecordedEvent {
        do throws(AccountError<StorefrontFault>) {
            let now = context.clock.now().wall
            let event = try await judge(source, caller) { store throws(StorefrontFault) in
                try await store.notification(body, now: now, field: field)
            }
            return try await record(event, body)
        } catch {
            switch error {
            case .refused(let fault): report(.refusedEvent(source, PurchaseReport.EventRefusal(fault), reason: fault.reason))
            // It was never read: a bucket was full.
            case .failed(.tooManyAttempts): break
            case .failed: report(.refusedEvent(source, .unavailable, reason: "accounts"))
            }
            throw error
        }
    }

    private func record(_ event: StoreEvent, _ body: [UInt8]) async throws(AccountError<StorefrontFault>) -> RecordedEvent {
        do throws(AccountFailure) {
            let recorded = try await context.ask(
                await context.store.record(
                    event, body: body, digest: Digest.sha256(body.rawBytes), stores.products, context.audit(by: .store)))
            let lag = max(0, context.storeTime.microseconds - event.at.microseconds) / 1_000
            report(
                .event(
                    event.source, type: event.type, recorded.isRepeated ? .repeated : .kept(recorded.verdict), lagMilliseconds: lag,
                    product: recorded.purchases.first { $0.product == nil }?.status.product))
            tell(recorded.purchases)
            return recorded
        } catch {
            throw .failed(error)
        }
    }

    /// Verifies a claim or a notification by its storefront. A forged one is charged to the client's address, and never to the store, which
    /// a forger could otherwise lock out. It is charged after the verification, because a store sends many notifications at once.
    private func judge<Value: Sendable>(
        _ source: PurchaseSource, _ caller: Caller, _ reading: (any Storefront) async throws(StorefrontFault) -> Value
    ) async throws(AccountError<StorefrontFault>) -> Value {
        // A reload has just removed it: the next request finds no endpoint.
        guard let storefront = stores[source] else { throw .failed(.unavailable(retryAfterSeconds: 1)) }
        let buckets = caller.address.bucket(.addressPurchases)
        try await AccountError<StorefrontFault>.failing(try await Attempts(limiter, buckets).refund())
        do throws(StorefrontFault) {
            // Away from the store's threads, where others would wait for the signatures.
            return try await withTaskExecutorPreference(globalConcurrentExecutor) { () async throws(StorefrontFault) in
                try await reading(storefront)
            }
        } catch {
            if error.isOfSender { for bucket in buckets { await limiter.mark(bucket) } }
            throw .refused(error)
        }
    }

    private func fenced() async -> Bool {
        let began = context.clock.now().monotonic
        let isEverywhere = await fence()
        let milliseconds = context.clock.now().monotonic.nanoseconds(since: began) / 1_000_000
        report(.fence(milliseconds: Int64(clamping: milliseconds), isEverywhere: isEverywhere))
        return isEverywhere
    }

    /// Tells the store of committed purchases, if it wants to know.
    private func tell(_ purchases: [Purchase]) {
        for (source, purchases) in Dictionary(grouping: purchases, by: \.key.source) {
            guard let storefront = stores[source] else { continue }
            // Unstructured: neither the app nor the store waits for it, and it may be told again.
            Task(executorPreference: globalConcurrentExecutor) { await storefront.committed(purchases) }
        }
    }
}

extension Purchases {
    /// nil if there is no such account.
    package func held(by account: UUID) async throws(AccountFailure) -> HeldPurchases? {
        guard let holder = try await context.ask(await context.store.account(account)) else { return nil }
        let (now, purchases) = (context.storeTime, try await context.ask(await context.store.purchases(of: account)))
        return HeldPurchases(account: holder, purchases: purchases.map { $0.current(at: now) })
    }

    /// A signed token with the claims that `write` adds, good until a time, and for a day at most; nil where tokens are signed with a secret.
    package func entitlement(
        of account: UUID, until: WallTime?, _ write: (inout JSONWriter) -> Void
    ) async throws(AccountFailure) -> String? {
        let now = context.clock.now().wall
        return try await context.signing(by: mint, try mint.entitlement(of: account, now: now, until: until, write))
    }

    /// Gives stored purchases the names and tiers of the product lines; returns how many changed.
    package func adoptProducts(by actor: AuditActor) async throws(AccountFailure) -> Int {
        var adopted = 0
        while true {
            let changed = try await context.ask(
                await context.store.adopt(stores.products, limit: Self.adoptedAtOnce, context.audit(by: actor)))
            guard changed > 0 else { return adopted }
            adopted += changed
        }
    }
}

extension PurchaseEvidence {
    /// The store that can verify it.
    package var source: PurchaseSource {
        switch self {
        case .apple: .apple
        case .google: .google
        case .stripe: .stripe
        }
    }
}

extension StorefrontFault {
    /// Whether its sender made it up, or cannot know better.
    fileprivate var isOfSender: Bool {
        switch self {
        case .notAuthentic, .malformed, .foreign: true
        case .environmentRefused, .unavailable: false
        }
    }
}

extension AccountError<StorefrontFault> {
    fileprivate func mapped<Other>(_ refusal: (StorefrontFault) -> Other) -> AccountError<Other> {
        switch self {
        case .refused(let fault): .refused(refusal(fault))
        case .failed(let failure): .failed(failure)
        }
    }
}

extension AccountError<PurchaseRefusal> {
    /// As metrics and log have it.
    fileprivate var verdict: (PurchaseReport.ClaimVerdict, reason: String?) {
        switch self {
        case .refused(.store(let fault)): (PurchaseReport.ClaimVerdict(fault), fault.reason)
        case .refused(.productUnknown(let product)): (.unknownProduct, product)
        case .refused(.ofOtherAccount): (.otherAccount, nil)
        case .refused(.noAccount): (.noAccount, nil)
        case .failed(.tooManyAttempts): (.invalid, "attempts")
        case .failed: (.unavailable, "accounts")
        }
    }
}
