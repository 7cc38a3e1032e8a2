internal import Synchronization
internal import Wire

/// Asks the stores for purchases whose renewal is due or whose state is in doubt, so that a notification that was lost does no lasting
/// harm. One gateway does it at a time, the one that holds the lease.
package final class Reconciliation: Sendable {
    private static let lease = "reconciliation"
    /// Beyond a pass and its pauses, so that the lease passes on only if its holder has stopped.
    private static let leaseSeconds: Int64 = 180
    private static let passMilliseconds: UInt64 = 60_000
    /// Between two questions.
    private static let pauseMilliseconds: UInt64 = 200
    /// Questions of either kind in one pass. No question of a kind begins later than `passMilliseconds` after the first, so that the lease
    /// outlasts a pass in which each store takes its time.
    private static let maxQuestions = 300
    /// Purchases that are read in one pass.
    private static let maxRead = 2_000
    /// How old a purchase of Google is when its acknowledgement is looked after, and how old it may be at most, in seconds. A claim or a
    /// notification acknowledges at once; Google refunds a purchase that is not acknowledged in three days.
    private static let acknowledgementSeconds: ClosedRange<Int64> = 600...3 * 86_400

    private struct State {
        /// When this gateway asked for a purchase, as long as it is read.
        var asked: [UUID: WallTime] = [:]
        /// All purchases up to this one were looked at for their acknowledgement.
        var acknowledged: UUID?
    }

    private let context: AccountContext
    private let records: any PurchaseRecords
    private let administration: PurchaseAdministration
    private let stores: @Sendable () -> Stores
    /// This process, for the lease.
    private let holder: UUID
    private let report: @Sendable (PurchaseReport) -> Void
    private let state = Mutex(State())
    private let rounds = Rounds()

    /// `records`: those of the context's store, unless a test has others.
    package init(
        context: AccountContext, records: (any PurchaseRecords)? = nil, stores: @escaping @Sendable () -> Stores,
        report: @escaping @Sendable (PurchaseReport) -> Void
    ) {
        self.context = context
        self.records = records ?? context.store
        self.stores = stores
        self.report = report
        holder = context.newID(context.storeTime)
        administration = PurchaseAdministration(context: context, records: records, stores: stores, actor: .store)
    }

    /// Begins the passes, one a minute; where no store is configured they do nothing.
    package func start() {
        // Gateways that start together do not go for the lease together.
        let first = UInt64(context.random(2).reduce(0) { Int($0) << 8 | Int($1) }) * Self.passMilliseconds / 65_536
        rounds.start(context.clock, after: first) { [self] _ in
            await pass()
            return Self.passMilliseconds
        }
    }

    /// Ends the pass under way before its next question.
    package func stop() { rounds.stop() }

    /// One pass: takes the lease, and asks for the purchases that are due.
    func pass() async {
        guard !stores().storefronts.isEmpty else { return }
        do throws(AccountFailure) {
            guard try await context.ask(await records.hold(Self.lease, by: holder, seconds: Self.leaseSeconds)) else { return }
            report(.newestEvents(try await context.ask(await records.newestStoreEvents())))
            let now = context.storeTime
            let found = try await context.ask(
                await records.purchasesInDoubt(
                    of: stores().storefronts.filter(\.isAsked).map(\.source),
                    after: now.advanced(seconds: -ReconciliationRule.doubtSeconds),
                    from: now.advanced(seconds: -ReconciliationRule.afterSeconds),
                    to: now.advanced(seconds: ReconciliationRule.beforeSeconds), limit: Self.maxRead))
            let due = state.withLock { state in
                let known = Set(found.map(\.id))
                state.asked = state.asked.filter { known.contains($0.key) }
                return found.filter { ReconciliationRule.isDue($0, asked: state.asked[$0.id], at: now) }
            }
            await ask(due.prefix(Self.maxQuestions)) { id, now in state.withLock { $0.asked[id] = now } }
            let fresh = try await unacknowledged(now)
            await ask(fresh) { id, _ in state.withLock { $0.acknowledged = id } }
        } catch {
            // The context has logged it; the next pass tries again.
        }
    }

    /// The next purchases of Google that are to be looked at for their acknowledgement, the oldest first.
    private func unacknowledged(_ now: WallTime) async throws(AccountFailure) -> [Purchase] {
        guard stores()[.google] != nil else { return [] }
        let oldest = UUID(at: now.advanced(seconds: -Self.acknowledgementSeconds.upperBound), random: (0, 0))
        let after = state.withLock { max($0.acknowledged ?? oldest, oldest) }
        let page = try await context.ask(await records.purchases(of: nil, nil, at: now, after: after, limit: Self.maxQuestions))
        let ripe = page.prefix { $0.createdAt.advanced(seconds: Self.acknowledgementSeconds.lowerBound) <= now }
        let google = ripe.filter { $0.key.source == .google && $0.state == .active }
        if google.isEmpty, let last = ripe.last { state.withLock { $0.acknowledged = last.id } }
        return google
    }

    /// Asks for purchases one after the other, and notes those of which the store has said something definite. A store that is away or has
    /// no key is not asked for further ones.
    private func ask(_ purchases: some Sequence<Purchase>, _ note: (UUID, WallTime) -> Void) async {
        var ended: Set<PurchaseSource> = []
        var counts: [PurchaseSource: (asked: Int, failed: Int, reason: String?)] = [:]
        let end = context.clock.now().monotonic.advanced(milliseconds: Self.passMilliseconds)
        for purchase in purchases where !Task.isCancelled && context.clock.now().monotonic < end {
            let source = purchase.key.source
            guard !ended.contains(source) else { continue }
            var count = counts[source] ?? (0, 0, nil)
            count.asked += 1
            do throws(AccountError<InquiryRefusal>) {
                _ = try await administration.ask(purchase)
                note(purchase.id, context.storeTime)
            } catch {
                switch error {
                case .refused(.noLine), .refused(.noKey):
                    ended.insert(source)
                    continue
                case .refused(.store(_, .unavailable(let reason, _, _))):
                    ended.insert(source)
                    count.reason = reason
                case .refused(.store(_, let fault)):
                    // Asked again it would say the same.
                    note(purchase.id, context.storeTime)
                    count.reason = fault.reason
                case .refused(.noSuchPurchase), .refused(.noSuchEvent), .refused(.noBody): break
                case .failed: return
                }
                count.failed += 1
            }
            counts[source] = count
            await context.clock.pause(Self.pauseMilliseconds)
        }
        // A question that was broken off says nothing of a store.
        if Task.isCancelled { return }
        for (source, count) in counts {
            report(.reconciled(source, asked: count.asked, failed: count.failed, reason: count.reason))
        }
    }
}
