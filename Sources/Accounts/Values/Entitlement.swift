package import Wire

/// The tier of an account, and its end.
package struct Entitlement: Sendable, Hashable {
    /// The name that was set; nil for the lowest tier.
    package let tier: String?
    /// The end of the subscription; nil for a tier without end.
    package let until: WallTime?
    /// Number of changes: of two readings the one with the higher number is newer.
    package let version: Int64

    package init(tier: String?, until: WallTime?, version: Int64) {
        self.tier = tier
        self.until = until
        self.version = version
    }

    /// The entitlement of a new account.
    package static let none = Entitlement(tier: nil, until: nil, version: 0)

    /// The tier in force at `now`, nil for the lowest. It stays in force for `graceSeconds` beyond its end.
    package func tier(at now: WallTime, graceSeconds: Int64 = 0) -> String? {
        isOver(at: now, graceSeconds) ? nil : tier
    }

    /// Whether the tier has an end that is still to come.
    package func hasActiveSubscription(at now: WallTime) -> Bool {
        tier != nil && until != nil && !isOver(at: now, 0)
    }

    private func isOver(at now: WallTime, _ graceSeconds: Int64) -> Bool {
        guard let until else { return false }
        return until.advanced(seconds: graceSeconds) <= now
    }
}

/// The data of an account that gateways cache and compare its tokens with.
package struct AccountStanding: Sendable, Hashable {
    package let entitlement: Entitlement
    /// nil unless it is proven.
    package let email: EmailAddress?

    package init(_ entitlement: Entitlement, email: EmailAddress? = nil) {
        self.entitlement = entitlement
        self.email = email
    }

    package init(_ account: Account) {
        self.init(account.entitlement, email: account.emailConfirmedAt == nil ? nil : account.email)
    }
}

extension WallTime {
    /// The time `seconds` later, clamped to the range.
    package func advanced(seconds: Int64) -> WallTime {
        let (sum, overflow) = microseconds.addingReportingOverflow(WallTime(seconds: seconds).microseconds)
        return WallTime(microseconds: overflow ? (seconds < 0 ? .min : .max) : sum)
    }
}
