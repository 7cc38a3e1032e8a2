internal import Accounts
internal import Gate
internal import Limits
internal import Synchronization
internal import Transport
internal import Wire

/// The attempt limits of accounts, apart from those of routes: GCRA in process, and with `REDIS_URL` counted together with
/// all gateways. While Redis does not answer, this gateway counts alone.
final class AttemptCounts: AttemptLimiter {
    private static let domain: UInt64 = 6

    private let hash: KeyedHash
    private let limiter: RefundableLimiter
    /// Charges in Redis; nil if it does not answer, and without `REDIS_URL`.
    private let take: @Sendable ([LimitCharge.Item]) async -> GCRAReply?
    /// Gives back in Redis what was charged at this time by its clock.
    private let refund: @Sendable ([LimitCharge.Item], UInt64) -> Void
    /// Called for each bucket that had no room for an attempt.
    private let refused: @Sendable (AttemptRefusal, MonotonicTime) -> Void
    /// As configured. Held while the limit client is called, so that times reach it in order.
    private let rates: Mutex<AttemptRates>
    private let clock: @Sendable () -> MonotonicTime

    init(
        _ rates: AttemptRates, table: SharedLimiter, clock: @escaping @Sendable () -> MonotonicTime = { EventLoop.now().monotonic },
        take: @escaping @Sendable ([LimitCharge.Item]) async -> GCRAReply? = { _ in nil },
        refund: @escaping @Sendable ([LimitCharge.Item], UInt64) -> Void = { _, _ in },
        refused: @escaping @Sendable (AttemptRefusal, MonotonicTime) -> Void = { _, _ in }
    ) {
        hash = table.hash
        limiter = RefundableLimiter(table)
        self.rates = Mutex(rates)
        self.clock = clock
        self.take = take
        self.refund = refund
        self.refused = refused
    }

    /// A reload brought other rates.
    func adopt(_ rates: AttemptRates) { self.rates.withLock { $0 = rates } }

    func charge(_ buckets: [AttemptBucket]) async -> AttemptVerdict {
        let verdict = await verdict(buckets)
        if case .refused(let refusals) = verdict {
            let now = clock()
            // A replayed proof is reported as a replay, not as a limit that was reached.
            for refusal in refusals where refusal.kind != .deviceProofs { refused(refusal, now) }
        }
        return verdict
    }

    func mark(_ bucket: AttemptBucket) async { _ = await verdict([bucket]) }

    /// Charges what counts over all gateways. While Redis is away each gateway knows its own; nil where that is not enough: then it stays as it
    /// was.
    func spend(_ buckets: [AttemptBucket], onlyShared: Bool) async -> AttemptVerdict? {
        let verdict = await charge(buckets)
        guard onlyShared, case .admitted(let charges) = verdict, charges[0].sharedAt == nil else { return verdict }
        refund(charges)
        return nil
    }

    func refund(_ charges: [AttemptCharge]) {
        // The charges of one attempt share a time.
        for (sharedAt, charges) in Dictionary(grouping: charges, by: \.sharedAt) {
            let items = charges.map { item($0.bucket, $0.rate) }
            rates.withLock { _ in
                for (charge, item) in zip(charges, items) {
                    limiter.refund(RefundableLimiter.Charge([item], at: charge.at), now: clock())
                }
            }
            if let sharedAt { refund(items, sharedAt) }
        }
    }

    private func verdict(_ buckets: [AttemptBucket]) async -> AttemptVerdict {
        if buckets.isEmpty { return .admitted([]) }
        let (charged, own) = rates.withLock { rates in
            let charged = buckets.map { (bucket: $0, rate: rates[$0.kind]) }
            return (charged, limiter.charge(charged.map { item($0.bucket, $0.rate) }, now: clock()))
        }
        guard case .admitted(let charge) = own else { return verdict(own, charged) }
        let reply = await take(charge.items)
        return self.verdict(rates.withLock { _ in limiter.settle(charge, reply, now: clock()) }, charged)
    }

    private func verdict(
        _ verdict: RefundableLimiter.Verdict, _ charged: [(bucket: AttemptBucket, rate: AttemptRate)]
    ) -> AttemptVerdict {
        switch verdict {
        case .admitted(let charge):
            return .admitted(
                charged.map { AttemptCharge($0.bucket, $0.rate, at: charge.at, sharedAt: charge.sharedAt) })
        case .refused(let waits):
            var refusals: [AttemptRefusal] = []
            for ((bucket, _), wait) in zip(charged, waits) where wait > 0 {
                let seconds = Int(clamping: (wait - 1) / 1_000_000 + 1)
                refusals.append(AttemptRefusal(bucket.kind, retryAfterSeconds: seconds))
            }
            return .refused(refusals)
        }
    }

    /// The rate is part of the key, as in the limits of routes: another rate counts afresh.
    private func item(_ bucket: AttemptBucket, _ rate: AttemptRate) -> LimitCharge.Item {
        guard let limit = LimitRate(count: rate.count, windowSeconds: rate.windowSeconds, burst: rate.burst) else {
            preconditionFailure("a rate of attempts is out of range")
        }
        let name = "\(bucket.kind.rawValue) \(limit.text) \(bucket.subject)"
        return LimitCharge.Item(
            key: name.withRawBytes { hash.hash128($0, domain: Self.domain) }, rate: limit, subject: bucket.kind.subject,
            tag: "\(bucket.subject)".withRawBytes { hash.hash128($0, domain: Self.domain) }.tag)
    }
}

extension AttemptBucket.Kind {
    /// Names and recipients can be invented; an address one must have.
    fileprivate var subject: SubjectKind {
        switch self {
        case .accountFailures, .accountNewcomers, .newcomerFailures, .familiarFailures, .recipientMessages, .passwordChanges,
            .identitySignIns, .accountPurchases, .accountMerges, .accountChanges, .sessionFactors, .accountFactors, .holderUsedProofs:
            .attemptName
        // Anyone can make proofs: many of them must drive out neither the counts of guesses nor the proofs of routes.
        case .deviceProofs: .openProof
        case .addressFailures, .addressUnjudged, .addressRevocations, .addressPurchases, .addressProofs, .addressUsedProofs,
            .addressMessages,
            .addressOpenings, .adminFailures:
            .attemptAddress
        case .smsBudget: .deployment
        }
    }
}
