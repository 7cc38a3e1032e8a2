internal import Wire

/// Until when issuers want no refresh, as their answers say: 503 from any client, 429 from the client address that got it, for an issuer
/// limits single users, too. Pure.
struct IssuerPauses {
    /// A longer `Retry-After` is cut, in seconds.
    private static let longest: UInt64 = 30

    /// The most pauses that are kept; those that are over are dropped first.
    private static let capacity = 8_192

    private struct Subject: Hashable {
        let issuer: String
        /// nil for all.
        let address: IPAddress?
    }

    private var until: [Subject: MonotonicTime] = [:]

    /// The seconds that are left; nil if the issuer may be asked.
    func left(of issuer: String, from address: IPAddress?, at now: MonotonicTime) -> UInt32? {
        let ends = [until[Subject(issuer: issuer, address: nil)], until[Subject(issuer: issuer, address: address)]]
        guard let end = ends.compactMap(\.self).max(), now < end else { return nil }
        return UInt32(clamping: (end.nanoseconds(since: now) + 999_999_999) / 1_000_000_000)
    }

    /// Notes the answer of an issuer to a refresh: 429 and 503 with `Retry-After` in seconds pause it (RFC 9110, 10.2.3).
    mutating func note(_ status: Int, _ retryAfter: String?, of issuer: String, from address: IPAddress?, at now: MonotonicTime) {
        guard status == 503 || status == 429 && address != nil else { return }
        guard let seconds = retryAfter.flatMap({ UInt64($0) }), seconds > 0 else { return }
        if until.count >= Self.capacity { until = until.filter { now < $0.value } }
        guard until.count < Self.capacity else { return }
        until[Subject(issuer: issuer, address: status == 503 ? nil : address)] = now.advanced(
            milliseconds: min(seconds, Self.longest) * 1_000)
    }
}
