internal import Accounts
internal import Gate
internal import Proxy
internal import Transport
internal import Wire

/// Counts attempts at accounts, apart from what routes count, and with `REDIS_URL` together with all gateways.
///
/// While Redis does not answer this gateway goes on counting by itself.
struct AttemptCounts: AttemptLimiter {
    private static let domain: UInt64 = 6

    let limiter: SharedLimiter
    /// The worker over whose connection Redis is asked; nil where this gateway counts alone.
    var redis: Mailbox<WorkerMessage>?

    /// What this gateway refuses by its own count, all of them would.
    func wait(_ bucket: AttemptBucket) async -> Int? {
        let item = item(bucket)
        let own = LimitReading(limiter.take(item, now: EventLoop.now().monotonic, want: 0))
        if own.remaining == 0 { return Self.seconds(own) }
        guard let all = await ask(item, want: 0), all.remaining == 0 else { return nil }
        return Self.seconds(all)
    }

    func count(_ bucket: AttemptBucket) async {
        let item = item(bucket)
        _ = limiter.take(item, now: EventLoop.now().monotonic, want: 1)
        _ = await ask(item, want: 1)
    }

    private func ask(_ item: LimitCharge.Item, want: UInt32) async -> LimitReading? {
        guard let redis else { return nil }
        return await withCheckedContinuation { continuation in
            let isTaken = redis.post(.count(item, want: want) { continuation.resume(returning: $0) })
            if !isTaken { continuation.resume(returning: nil) }
        }
    }

    private static func seconds(_ reading: LimitReading) -> Int {
        max(1, Int(clamping: (reading.retryAfter + 999_999) / 1_000_000))
    }

    private func item(_ bucket: AttemptBucket) -> LimitCharge.Item {
        let (burst, perHour) = bucket.kind.rate
        guard let rate = LimitRate(count: perHour, windowSeconds: 3_600, burst: burst) else {
            preconditionFailure("a rate of attempts is out of range")
        }
        let key = "\(bucket.kind.rawValue) \(bucket.subject)".withRawBytes {
            limiter.hash.hash128($0, domain: Self.domain)
        }
        return LimitCharge.Item(key: key, rate: rate, subject: bucket.kind.subject)
    }
}

extension AttemptBucket.Kind {
    /// Anybody can invent names and recipients; addresses one must have.
    fileprivate var subject: SubjectKind {
        switch self {
        case .accountFailures, .recipientMessages: .attemptName
        case .addressFailures, .addressMessages, .addressOpenings, .adminFailures: .attemptAddress
        }
    }
}
