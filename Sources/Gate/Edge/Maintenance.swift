package import Wire

/// A route, or the gateway's own contracts, that is closed for a time (`tollgate maintenance`).
package struct Maintenance: Equatable, Sendable {
    /// Since when it has been set, for operators; nil if that is not known.
    package var since: WallTime?
    /// When it ends by itself; nil: an operator ends it.
    package var until: WallTime?
    /// For users, in place of the dialect's sentence.
    package var message: String?
    /// Requests from these networks pass.
    package var allowed: [CIDR]

    /// `Retry-After` of one without an end, and the longest of one with an end, in seconds.
    private static let usualSeconds: UInt32 = 60
    private static let mostSeconds: UInt32 = 86_400

    package init(until: WallTime? = nil, message: String? = nil, allowed: [CIDR] = []) {
        (self.until, self.message, self.allowed) = (until, message, allowed)
    }

    /// Whether it refuses a request of this client.
    func refuses(_ client: ClientAddress, at now: WallTime) -> Bool {
        if let until, until <= now { return false }
        return !(client.isCertain && allowed.contains { $0.contains(client.address) })
    }

    /// The seconds until its end, at least one.
    func retryAfterSeconds(at now: WallTime) -> UInt32 {
        guard let until else { return Self.usualSeconds }
        let (left, isFar) = until.microseconds.subtractingReportingOverflow(now.microseconds)
        // Rounded up.
        return isFar ? Self.mostSeconds : UInt32(clamping: min(max(0, left - 1) / 1_000_000 + 1, Int64(Self.mostSeconds)))
    }
}
