package import Gate
package import Wire

/// Client of limits that Redis counts, one per worker: decides which charges to send, which to answer locally, and which
/// requests wait.
///
/// A state machine without sockets or clocks. `charge` answers immediately from the deny cache, from a lease, or by the
/// failure mode while Redis is down. Otherwise the request waits. Requests for the same counts share one command, with one
/// in flight at a time: those that arrive meanwhile form the next, so a hot count costs one command per round trip. At the
/// end of a loop turn the driver fetches commands, several of them per Redis call, feeds replies back, and fetches verdicts.
/// Each fetched command must end in exactly one `answered` or `failed`. A request that reaches the deadline is judged by the
/// failure mode; a later grant for it is lost.
///
/// **Bound.** In any window of length T, all gateways together admit at most burst + T / interval.
///
/// Exact limits: each admission is a grant of the server, stamped by the server's clock, and `GCRA` proves the bound.
///
/// Leased limits: a grant stamped d may be spent at a later s. The command was sent before it was granted, and a lease ends
/// `leaseTime` after the send, so d ≤ s < d + leaseTime. Admissions in [a, a + T] were therefore stamped in (a − leaseTime,
/// a + T]. The server counts with tolerance − leaseTime (`LimitRate.storedTolerance`), so it granted at most (tolerance −
/// leaseTime + T + leaseTime) / interval = burst + T / interval there. The number of gateways and the size of their leases
/// do not matter. `leaseTime` is a function of the policy, so all gateways use the same tolerance.
///
/// While Redis is down, `local` admits burst / n and 1 / n of the rate in each of n gateways, and continues from the grants
/// that Redis gave this gateway; the switch may admit one extra burst.
///
/// Redis may be neither up nor down: replies that come late, then in time, then not at all. Each local grant is therefore a debt until
/// Redis has counted it: a command asks for the debts of its counts, too, and what a late reply grants to requests that no longer wait
/// pays them. A worker owes at most the gateway's share of one burst, then it refuses. Debts drain with time only when Redis has been
/// down for a second: until then others may be using the whole rate there. So what all admit together exceeds what Redis counts by no
/// more than the debts, for any sequence of replies.
package struct SharedLimitClient: ~Copyable {
    private let pin = AddressPin()
    /// Deadlines and bounds of a client.
    package struct Settings: Sendable {
        /// Milliseconds that a request waits for its verdict.
        package var deadline: UInt64 = 25
        package var failureMode = LimitFailureMode.local
        /// Workers of this gateway, each with a client of its own.
        package var workers: UInt32 = 1
        /// Maximum waiting requests; further ones are judged by the failure mode. No client can fill it for others: a
        /// request waits at most the deadline, and in 25 ms a worker receives a thousand or two. In proportion for longer ones.
        package var waiters = 16_384
        /// Maximum sets of counts in use at a time; further ones are judged by the failure mode. One is in use until its command ends,
        /// though its requests have been judged by then: `fit` makes room for as long as a late reply may take.
        package var queues = 8_192
        /// Counts in the deny cache.
        package var denyCacheCapacity = 32_768

        package init() {}

        /// Sets the deadline, and the bounds that it needs if a command without a reply ends after `responseTimeout`, in milliseconds.
        package mutating func fit(deadline: UInt64, responseTimeout: UInt64) {
            self.deadline = deadline
            let (deadlines, responses) = (max(1, Int(deadline) / 25), Int(responseTimeout) / 25)
            waiters *= deadlines
            queues = max(queues * deadlines, 2_048 * responses)
        }
    }

    package let settings: Settings
    /// Counts while Redis is down.
    let limiter: SharedLimiter
    /// Live gateways, by the latest heartbeat; at least 1.
    private(set) var gateways: UInt32 = 1
    /// Since when Redis is down; nil while it answers.
    private var downSince: UInt64?
    var denyCache: DenyCache
    var queues: LimitQueues
    var waiters: LimitWaiters
    /// A charge at this gateway's share of the rates.
    private var share = LimitCharge()
    /// The verdict that is being distributed.
    var verdict = LimitVerdict()

    /// `limiter` is shared by all workers of this process.
    package init(_ settings: Settings, limiter: SharedLimiter) {
        self.settings = settings
        self.limiter = limiter
        denyCache = DenyCache(capacity: settings.denyCacheCapacity)
        queues = LimitQueues(capacity: settings.queues)
        waiters = LimitWaiters(capacity: settings.waiters)
    }

    /// Microseconds, never 0, which is the TAT of an unknown count.
    static func clock(_ now: MonotonicTime) -> UInt64 { now.nanoseconds / 1_000 &+ 1 }

    // MARK: charging

    /// Charges one unit to all counts of `charge`. Either writes `verdict` and returns nil, or returns a wait: then
    /// `nextVerdict` delivers it under `ticket`, at the deadline at the latest.
    package mutating func charge(
        _ charge: inout LimitCharge, ticket: UInt64, now: MonotonicTime, into verdict: inout LimitVerdict
    ) -> LimitWait? {
        let clock = Self.clock(now)
        let mayLease = charge.leaseTime > 0
        var queue = mayLease ? queues.find(&charge) : -1
        if queue >= 0, queues.items[Int(queue)].spendLease(clock, &verdict) {
            queues.items[Int(queue)].demand.record(clock)
            return nil
        }
        if denyCache.refuses(&charge, clock, &verdict) { return nil }
        if downSince == nil {
            if queue < 0, !mayLease { queue = queues.find(&charge) }
            if queue < 0 { queue = queues.open(&charge) }
            if queue >= 0, let wait = enqueue(Int(queue), ticket, clock) { return wait }
        }
        fallBack(&charge, now, &verdict)
        return nil
    }

    private mutating func enqueue(_ queue: Int, _ ticket: UInt64, _ clock: UInt64) -> LimitWait? {
        let command = queues.items[queue].command
        let wait = waiters.add(
            ticket, queue: Int32(queue), command: command, &queues.items[queue].lists[LimitQueue.waiting], clock)
        guard wait != nil else {
            queues.releaseIfDone(queue)
            return nil
        }
        if queues.items[queue].leaseTime > 0 { queues.items[queue].demand.record(clock) }
        queues.makeReady(queue)
        return wait
    }

    /// Applies the failure mode.
    mutating func fallBack(_ charge: inout LimitCharge, _ now: MonotonicTime, _ verdict: inout LimitVerdict) {
        switch settings.failureMode {
        case .open:
            verdict = .open
            for index in 0..<charge.count
            where charge[index].subject.countsOnce && limiter.take(charge[index], now: now, want: 1).granted == 0 {
                Self.refuse(&charge, .unknown, &verdict)
                verdict[index] = LimitReading(remaining: 0, reset: 0, retryAfter: 0)
                return
            }
        case .closed: verdict = .closed(retryAfterSeconds: 1)
        case .local:
            share.fill(with: &charge, sharedBy: gateways)
            for index in 0..<share.count {
                let granted = denyCache.drainOwnGrants(share[index], Self.clock(now))
                if granted > 0 { _ = limiter.take(share[index], now: now, want: granted) }
            }
            guard mayOwe(Self.clock(now)) else {
                let reading = LimitReading(remaining: 0, reset: Self.drainDelay, retryAfter: Self.drainDelay)
                return Self.refuse(&share, reading, &verdict)
            }
            limiter.take(&share, now: now, into: &verdict)
            let isGranted = verdict.kind == .granted
            verdict.becomes(granted: isGranted, .fallback, count: share.count)
            guard isGranted else { return }
            for index in 0..<share.count where !share[index].subject.countsOnce { denyCache.owe(share[index], Self.clock(now)) }
        }
    }

    /// The refusal of a charge, with a reading for its limits.
    private static func refuse(_ charge: inout LimitCharge, _ reading: LimitReading, _ verdict: inout LimitVerdict) {
        verdict.becomes(granted: false, .fallback, count: charge.count)
        for index in 0..<charge.count { verdict[index] = charge[index].subject.countsOnce ? .unknown : reading }
    }

    /// Microseconds for which Redis must be down before debts drain.
    private static let drainDelay: UInt64 = 1_000_000

    /// Whether every count of `share` may owe another local grant. A proof or an attestation owes nothing: here it counts once, whatever
    /// Redis has seen.
    private mutating func mayOwe(_ clock: UInt64) -> Bool {
        let drainsFrom = downSince.map { $0 &+ Self.drainDelay }
        var mayOwe = true
        for index in 0..<share.count where !share[index].subject.countsOnce {
            if !denyCache.mayOwe(share[index], drainsFrom: drainsFrom, clock) { mayOwe = false }
        }
        return mayOwe
    }

    // MARK: waiting

    /// When `expire` is due; nil while no request waits.
    package var nextDeadline: MonotonicTime? {
        guard waiters.oldest >= 0 else { return nil }
        let arrivedAt = waiters.arrival(waiters.oldest)
        return MonotonicTime(nanoseconds: (arrivedAt - 1) * 1_000).advanced(milliseconds: settings.deadline)
    }

    /// Applies the failure mode to every request that has waited for the deadline.
    package mutating func expire(_ now: MonotonicTime) {
        let clock = Self.clock(now)
        while waiters.oldest >= 0, clock - min(clock, waiters.arrival(waiters.oldest)) >= settings.deadline * 1_000 {
            abandon(waiters.oldest, now)
        }
    }

    /// Cancels the wait of a request that is gone; it gets no verdict. Its grant goes to the next one in the queue.
    package mutating func cancel(_ wait: LimitWait) {
        guard let waiter = waiters.outstanding(wait) else { return }
        let (queue, list) = position(waiter)
        waiters.drop(waiter, from: &queues.items[queue].lists[list])
    }

    /// Whether `nextVerdict` may return one.
    package var hasVerdicts: Bool { waiters.hasVerdicts }

    /// The next verdict of a waiting request, and its ticket; nil if there is none.
    package mutating func nextVerdict(into verdict: inout LimitVerdict) -> UInt64? { waiters.next(into: &verdict) }

    /// Applies the failure mode to one waiting request.
    mutating func abandon(_ waiter: Int32, _ now: MonotonicTime) {
        let (queue, list) = position(waiter)
        var charge = queues.items[queue].charge
        var verdict = LimitVerdict()
        fallBack(&charge, now, &verdict)
        waiters.settle(waiter, &verdict, from: &queues.items[queue].lists[list])
    }

    /// The queue of a waiting request, and its list there: a request that is not in flight carries the number of the queue's
    /// next command.
    private func position(_ waiter: Int32) -> (queue: Int, list: Int) {
        let queue = waiters.queue(waiter)
        let isWaiting = waiters.command(waiter) == queues.items[queue].command
        return (queue, isWaiting ? LimitQueue.waiting : LimitQueue.asked)
    }

    // MARK: the store

    /// Redis is down: sends nothing until `storeRecovered`, and applies the failure mode to waiting requests at once.
    /// Commands in flight must still end in `answered` or `failed`.
    package mutating func storeFailed(_ now: MonotonicTime) {
        downSince = downSince ?? Self.clock(now)
        while waiters.oldest >= 0 { abandon(waiters.oldest, now) }
    }

    /// Redis answers again.
    package mutating func storeRecovered() { downSince = nil }

    /// Number of live gateways, including this one.
    package mutating func gatewayCountChanged(_ count: UInt32) { gateways = max(1, count) }
}
