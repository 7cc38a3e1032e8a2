package import Wire

/// Counts that Redis keeps, as one worker sees them: who waits, what to ask, what can be answered without asking.
///
/// A machine without sockets or clocks. `charge` answers at once where it can: from what was heard (`DenyCache`), from a
/// lease, or by the failure mode while Redis is away. Otherwise the request waits. Requests for the same counts go as one
/// command, with one under way at a time: those that come meanwhile form the next, so a busy count costs a command for each
/// round trip and not for each request. The driver fetches commands at the end of a turn of its loop, puts as many as it likes
/// into one call of the server, brings answers back, and fetches verdicts; each command it fetched must end in `answered` or
/// `failed`, once. One who has waited for the deadline is judged by the failure mode, and a grant that comes later is lost.
///
/// **The bound.** Over any window of length T, all gateways together admit at most burst + T / interval.
///
/// Exact limits: every admission is a grant of the server, stamped by the server's one clock, and `GCRA` proves the bound.
///
/// Leased limits: a grant stamped d may be spent at s, later. It was asked for before it was granted, and what is held is
/// spent only until `leaseTime` after the asking, so d ≤ s < d + leaseTime. Whatever is admitted in [a, a + T] was hence
/// stamped in (a − leaseTime, a + T]. The server stores with tolerance − leaseTime (`LimitRate.storedTolerance`), so there it
/// granted at most (tolerance − leaseTime + T + leaseTime) / interval = burst + T / interval. Nothing else is asked of
/// the gateways: not how many they are, nor how much each holds. `leaseTime` follows from the policy alone, so that all
/// of them store by the same tolerance.
///
/// While Redis is away, `local` admits burst / n and 1 / n of the rate in each of n gateways, and remembers what Redis had
/// granted this gateway before; the turn from one to the other may admit one burst more.
package struct SharedLimitClient: ~Copyable {
    private let pin = AddressPin()
    /// How a limit client counts, and how much it may remember.
    package struct Settings: Sendable {
        /// Milliseconds that a request waits for its answer.
        package var deadline: UInt64 = 25
        package var failureMode = LimitFailureMode.local
        /// Ledgers of this gateway: one for each worker.
        package var workers: UInt32 = 1
        /// Requests that wait at a time; one more is judged by the failure mode. Clients cannot fill it for each other: none
        /// waits beyond the deadline, in which a worker takes in a thousand or two.
        package var waiters = 16_384
        /// Different counts that are asked about at a time; one more is judged by the failure mode. A command ends within the
        /// deadline of its reply, so the same holds.
        package var queues = 8_192
        /// Counts that are remembered.
        package var heardCounts = 32_768

        package init() {}
    }

    let settings: Settings
    /// Stands in while Redis is away.
    let limiter: SharedLimiter
    /// Gateways that are alive, as last heard.
    private(set) var gateways: UInt32 = 1
    private var isAway = false
    var heard: DenyCache
    var queues: LimitQueues
    var waiters: LimitWaiters
    /// A charge by this gateway's share of the rates.
    private var share = LimitCharge()
    /// What is being said to those who waited.
    var verdict = LimitVerdict()

    /// `limiter` is the one that all workers of this process share.
    package init(_ settings: Settings, limiter: SharedLimiter) {
        self.settings = settings
        self.limiter = limiter
        heard = DenyCache(capacity: settings.heardCounts)
        queues = LimitQueues(capacity: settings.queues)
        waiters = LimitWaiters(capacity: settings.waiters)
    }

    /// Microseconds, never 0: that is the TAT of a count nobody has heard of.
    static func clock(_ now: MonotonicTime) -> UInt64 { now.nanoseconds / 1_000 &+ 1 }

    // MARK: charging

    /// Charges one to all counts of `charge`. Writes the answer into `verdict` and answers nil, or answers a wait: then
    /// the verdict comes by `nextVerdict` under `ticket`, at the latest with the deadline.
    package mutating func charge(
        _ charge: inout LimitCharge, ticket: UInt64, now: MonotonicTime, into verdict: inout LimitVerdict
    ) -> LimitWait? {
        let clock = Self.clock(now)
        let mayLease = charge.leaseTime > 0
        var queue = mayLease ? queues.find(&charge) : -1
        if queue >= 0, queues.items[Int(queue)].spendLease(clock, &verdict) {
            queues.items[Int(queue)].pace.note(clock)
            return nil
        }
        if heard.refuses(&charge, clock, &verdict) { return nil }
        if !isAway {
            if queue < 0, !mayLease { queue = queues.find(&charge) }
            if queue < 0 { queue = queues.open(&charge) }
            if queue >= 0, let wait = enqueue(Int(queue), ticket, clock) { return wait }
        }
        fallBack(&charge, now, &verdict)
        return nil
    }

    private mutating func enqueue(_ queue: Int, _ ticket: UInt64, _ clock: UInt64) -> LimitWait? {
        let command = queues.items[queue].command
        let wait = waiters.take(
            ticket, queue: Int32(queue), command: command, &queues.items[queue].lists[LimitQueue.waiting], clock)
        guard wait != nil else {
            queues.releaseIfDone(queue)
            return nil
        }
        if queues.items[queue].leaseTime > 0 { queues.items[queue].pace.note(clock) }
        queues.makeReady(queue)
        return wait
    }

    /// Judges by the failure mode.
    private mutating func fallBack(_ charge: inout LimitCharge, _ now: MonotonicTime, _ verdict: inout LimitVerdict) {
        switch settings.failureMode {
        case .open: verdict = .open
        case .closed: verdict = .closed(retryAfterSeconds: 1)
        case .local:
            share.fill(with: &charge, sharedBy: gateways)
            for index in 0..<share.count {
                let granted = heard.takeGranted(share[index], Self.clock(now))
                if granted > 0 { _ = limiter.take(share[index], now: now, want: granted) }
            }
            limiter.take(&share, now: now, into: &verdict)
            verdict.becomes(granted: verdict.kind == .granted, .fallback, count: share.count)
        }
    }

    // MARK: waiting

    /// When `expire` has something to do next; nil while nobody waits.
    package var nextDeadline: MonotonicTime? {
        guard waiters.oldest >= 0 else { return nil }
        let arrivedAt = waiters.arrival(waiters.oldest)
        return MonotonicTime(nanoseconds: (arrivedAt - 1) * 1_000).advanced(milliseconds: settings.deadline)
    }

    /// Judges those by the failure mode who have waited for the deadline.
    package mutating func expire(_ now: MonotonicTime) {
        let clock = Self.clock(now)
        while waiters.oldest >= 0, clock - min(clock, waiters.arrival(waiters.oldest)) >= settings.deadline * 1_000 {
            abandon(waiters.oldest, now)
        }
    }

    /// The request of `wait` has gone: it gets no verdict. What was asked for it goes to who comes behind it.
    package mutating func cancel(_ wait: LimitWait) {
        guard let waiter = waiters.outstanding(wait) else { return }
        let (queue, list) = place(waiter)
        waiters.drop(waiter, from: &queues.items[queue].lists[list])
    }

    /// Whether `nextVerdict` may have one.
    package var hasVerdicts: Bool { waiters.hasVerdicts }

    /// The next verdict of those who waited, and the ticket it is for; nil if there is none.
    package mutating func nextVerdict(into verdict: inout LimitVerdict) -> UInt64? { waiters.next(into: &verdict) }

    /// Judges one who waits by the failure mode.
    mutating func abandon(_ waiter: Int32, _ now: MonotonicTime) {
        let (queue, list) = place(waiter)
        var charge = queues.items[queue].charge
        var verdict = LimitVerdict()
        fallBack(&charge, now, &verdict)
        waiters.settle(waiter, &verdict, from: &queues.items[queue].lists[list])
    }

    /// The queue of one who waits, and in which of its lists they are: only what waits carries the next command's number.
    private func place(_ waiter: Int32) -> (queue: Int, list: Int) {
        let queue = waiters.queue(waiter)
        let isWaiting = waiters.command(waiter) == queues.items[queue].command
        return (queue, isWaiting ? LimitQueue.waiting : LimitQueue.asked)
    }

    // MARK: the store

    /// Redis is not asked until it is back. Who waits is judged by the failure mode at once; commands that are under way
    /// must still end in `answered` or `failed`.
    package mutating func storeFailed(_ now: MonotonicTime) {
        isAway = true
        while waiters.oldest >= 0 { abandon(waiters.oldest, now) }
    }

    package mutating func storeRecovered() { isAway = false }

    /// How many gateways share the counts, this one included.
    package mutating func gatewayCountChanged(_ count: UInt32) { gateways = max(1, count) }
}
