/// What a limit said.
package struct LimitOutcome: Equatable, Sendable {
    package enum Result: UInt8, CaseIterable, Sendable {
        /// The route has none, or the request did not come so far.
        case none
        case admitted
        case refused
        /// Refused, but let pass by `shadow=limit`.
        case shadowRefused
        /// Nothing could be counted; passed.
        case open
        /// Nothing could be counted; refused.
        case closed

        package var text: StaticString {
            switch self {
            case .none: "none"
            case .admitted: "allow"
            case .refused: "deny"
            case .shadowRefused: "shadow_deny"
            case .open: "open"
            case .closed: "closed"
            }
        }
    }

    /// What knew it.
    package enum Source: UInt8, CaseIterable, Sendable {
        /// Counted in this process, as without Redis.
        case process
        /// Redis, asked for this request.
        case redis
        /// A grant of Redis that was held in advance.
        case lease
        /// An earlier refusal whose wait is not over.
        case denyCache
        /// Redis does not answer: the failure mode decided.
        case fallback

        package var text: StaticString {
            switch self {
            case .process: "process"
            case .redis: "redis"
            case .lease: "lease"
            case .denyCache: "deny_cache"
            case .fallback: "fallback"
            }
        }
    }

    package var result = Result.none
    package var source = Source.process
    /// Which of the route's limits the rest is about, the tightest; 0 is the first.
    package var index = 0
    package var rate: LimitRate?
    /// `LimitVerdict.countedAt`.
    package var countedAt: UInt64 = 0
    /// What could pass now.
    package var remaining: UInt32 = 0
    /// Until the full burst is there again, rounded up.
    package var resetSeconds: UInt32 = 0
    /// Until one more may pass, rounded up and at least 1; 0 unless refused.
    package var retryAfterSeconds: UInt32 = 0

    /// How the request is refused; nil if it passes.
    package var refusal: Refusal? {
        switch result {
        case .none, .admitted, .shadowRefused, .open: nil
        case .refused: .rateLimited(retryAfterSeconds: retryAfterSeconds)
        case .closed: .unavailable(.limits, retryAfterSeconds: retryAfterSeconds)
        }
    }
}
