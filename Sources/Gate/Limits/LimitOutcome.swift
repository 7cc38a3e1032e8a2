import Credentials

/// Outcome of the route's limits for one request, for the answer, the log and metrics.
package struct LimitOutcome: Equatable, Sendable {
    /// Verdict, with its word for logs and metrics.
    package enum Result: UInt8, CaseIterable, Sendable {
        /// The route has no limit, or the request was refused before it.
        case none
        case admitted
        case refused
        /// Would be refused, admitted by `shadow=limit`.
        case shadowRefused
        /// Could not be counted; admitted.
        case open
        /// Could not be counted; refused.
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

    /// Source of the verdict, with its word for logs and metrics.
    package enum Source: UInt8, CaseIterable, Sendable {
        /// Counted in this process, without Redis.
        case process
        /// Counted by Redis for this request.
        case redis
        /// Spent from a lease.
        case lease
        /// Refused by the deny cache.
        case denyCache
        /// The failure mode, as Redis did not answer.
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
    /// The proof or attestation that was used before: then the request is refused, whatever the limits say.
    package var spent = SingleUses(rawValue: 0)
    package var source = Source.process
    /// Index of the tightest of the route's limits, which the rest describes.
    package var index = 0
    package var rate: LimitRate?
    /// `LimitVerdict.countedAt`.
    package var countedAt: UInt64 = 0
    /// Requests that would be admitted now.
    package var remaining: UInt32 = 0
    /// Seconds until the full burst is available, rounded up.
    package var resetSeconds: UInt32 = 0
    /// Seconds until one more is admitted, rounded up, at least 1; 0 unless refused.
    package var retryAfterSeconds: UInt32 = 0

    /// The refusal of the request; nil if it was admitted.
    package var refusal: Refusal? {
        if spent == .proof { return .unauthorized(.proof(.replayed)) }
        if spent == .attestation { return .attestationRequired(wasUsed: true) }
        return switch result {
        case .none, .admitted, .shadowRefused, .open: nil
        case .refused: .rateLimited(retryAfterSeconds: retryAfterSeconds)
        case .closed: .unavailable(.limits, retryAfterSeconds: retryAfterSeconds)
        }
    }
}
