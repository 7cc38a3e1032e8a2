package import Wire

/// What tier an account has, and until when.
package struct Entitlement: Sendable, Hashable {
    /// The name that was set; nil for the tier that everyone has.
    package let tier: String?
    /// When it ends; nil if it does not. An end is what a subscription has.
    package let until: WallTime?
    /// Counts the changes: of two readings the one with the higher number is the newer.
    package let version: Int64

    package init(tier: String?, until: WallTime?, version: Int64) {
        self.tier = tier
        self.until = until
        self.version = version
    }

    /// What every account starts with.
    package static let none = Entitlement(tier: nil, until: nil, version: 0)

    /// The tier that counts at `now`; nil for the one that everyone has. `graceSeconds` put the end off.
    package func tier(at now: WallTime, graceSeconds: Int64 = 0) -> String? {
        isOver(at: now, graceSeconds) ? nil : tier
    }

    /// Whether a subscription that has not ended backs the tier.
    package func hasActiveSubscription(at now: WallTime) -> Bool {
        tier != nil && until != nil && !isOver(at: now, 0)
    }

    private func isOver(at now: WallTime, _ graceSeconds: Int64) -> Bool {
        guard let until else { return false }
        return until.advanced(seconds: graceSeconds) <= now
    }
}

extension WallTime {
    /// So much later; at the ends of the range it stays there.
    func advanced(seconds: Int64) -> WallTime {
        let (sum, overflow) = microseconds.addingReportingOverflow(WallTime(seconds: seconds).microseconds)
        return WallTime(microseconds: overflow ? (seconds < 0 ? .min : .max) : sum)
    }
}
