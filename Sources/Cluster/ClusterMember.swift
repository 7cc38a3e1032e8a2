package import Accounts
internal import Synchronization
package import Wire

/// This gateway's part in the cluster: what it caches of the store that gateways share, and what keeps that current.
package final class ClusterMember: Sendable {
    package let cache: AccountCache
    package let tiers: TierLookups
    package let subjects: SubjectLookups
    private let presence: GatewayPresence
    private let poller: ChangeLogPoller
    private let fence: ChangeFence
    private let sweep: AccountSweep
    private let plan: ClusterPlan
    private let events: ClusterEvents
    /// nil until `start`.
    private let bus = Mutex<ChangeBus?>(nil)

    /// A write waits for its change to be applied for `patience` milliseconds, and half a second more at most; `everywhere` waits for
    /// `fencePatience`. Throws if the
    /// system gives no descriptor. Nothing is read before `start`.
    package init(
        _ plan: ClusterPlan, _ context: AccountContext, _ events: ClusterEvents, patience: UInt64 = 2_000, fencePatience: UInt64 = 1_000
    ) throws {
        let directory = AccountDirectory(context: context)
        let now = context.clock.now
        self.plan = plan
        self.events = events
        cache = AccountCache(store: context.store, now: now)
        tiers = TierLookups(plan, directory: directory, now: now, events)
        subjects = SubjectLookups(directory: directory, now: now, broadcast: events.broadcast)
        presence = GatewayPresence(context, name: plan.name, confirmed: events.confirmed)
        let poller = try ChangeLogPoller(
            directory: directory, cache: cache, tiers: tiers, subjects: subjects, presence: presence, events: events, on: context.executor,
            now: now, patience: patience)
        self.poller = poller
        let appliedHere: @Sendable () async -> Bool = {
            guard await poller.applied() else { return false }
            await events.confirmed()
            return true
        }
        fence = ChangeFence(of: presence.id, context, patience: fencePatience, appliedHere: appliedHere, report: events.report)
        sweep = AccountSweep(context: context)
    }

    /// Starts polling, whose first reading brings what ended before, and the bus. Once; throws if the system gives no thread or
    /// descriptor, and may then be called again.
    package func start() throws {
        try poller.start()
        do {
            let started = try ChangeBus(plan, poller: poller, report: events.report)
            bus.withLock { $0 = started }
        } catch {
            // A reload may start this again, and there is one poller.
            poller.stop()
            throw error
        }
        sweep.start()
    }

    /// Waits until every change committed before the call counts on this gateway; false if the change log could not be read
    /// in 2.5 s, and unless this is started.
    package func applied() async -> Bool { await poller.applied() }

    /// Whether a reading would bring nothing new: one has begun within so many milliseconds, or the store does not answer. Any thread.
    package func isCaughtUp(within milliseconds: UInt64) -> Bool { poller.isCaughtUp(within: milliseconds) }

    /// This gateway has committed a change, of these accounts if of any: hints to the others, and waits as `applied` does.
    /// A change that could not be read in time is applied later; its accounts are shown from the store until then.
    package func changed(_ accounts: [UUID]) async {
        bus.withLock { $0 }?.publish()
        guard await !poller.applied() else { return }
        for account in accounts { cache.evict(account) }
    }

    /// Whether every change that was committed before the call counts for the next request at each live gateway of the database; false if
    /// one has not said so within a second, and unless this is started. Those who ask at once share one entry of the change log.
    package func everywhere() async -> Bool { await fence.isPassed { [self] in bus.withLock { $0 }?.publish() } }

    /// Tells the other gateways that this one has ended, once it is stopped and its workers answer nothing any more. Until then a change
    /// waits for it, and otherwise until its row is old.
    package func leave() async { await presence.leave() }

    /// Ends every thread. Blocks until the reading under way has ended.
    package func stop() {
        bus.withLock { $0 }?.stop()
        poller.stop()
        sweep.stop()
    }
}
