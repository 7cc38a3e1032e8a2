internal import Wire

/// Until when issuers want no refresh, as their answers say. Pure.
struct IssuerPauses {
    /// A longer `Retry-After` is cut, in seconds.
    private static let longest: UInt64 = 30

    private var until: [String: MonotonicTime] = [:]

    /// The seconds that are left; nil if the issuer may be asked.
    mutating func left(of issuer: String, at now: MonotonicTime) -> UInt32? {
        guard let end = until[issuer] else { return nil }
        guard now < end else {
            until[issuer] = nil
            return nil
        }
        return UInt32(clamping: (end.nanoseconds(since: now) + 999_999_999) / 1_000_000_000)
    }

    /// Notes the answer of an issuer to a refresh: 429 and 503 with `Retry-After` in seconds pause it (RFC 9110, 10.2.3).
    mutating func note(_ status: Int, _ retryAfter: String?, of issuer: String, at now: MonotonicTime) {
        guard status == 429 || status == 503, let seconds = retryAfter.flatMap({ UInt64($0) }), seconds > 0 else { return }
        until[issuer] = now.advanced(milliseconds: min(seconds, Self.longest) * 1_000)
    }
}
