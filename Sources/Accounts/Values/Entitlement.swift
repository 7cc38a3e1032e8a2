package import Wire

/// The names of tiers, the lowest first. A tier that is not among them counts as the lowest.
package struct TierOrder: Sendable, Hashable {
    private let names: [String]

    package init(_ names: [String]) { self.names = names }

    /// All tiers are equal.
    package static let none = TierOrder([])

    fileprivate func rank(_ tier: String) -> Int { names.firstIndex(of: tier) ?? 0 }
}

/// The tiers of an account, and their ends.
package struct Entitlement: Sendable, Hashable {
    /// The name that the operator set; nil for the lowest tier.
    package let tier: String?
    /// The end of the operator's grant; nil for one without end.
    package let until: WallTime?
    /// Number of changes: of two readings the one with the higher number is newer.
    package let version: Int64
    /// The grants of purchases.
    package let purchased: [Grant]

    package init(tier: String?, until: WallTime?, version: Int64, purchased: [Grant] = []) {
        self.tier = tier
        self.until = until
        self.version = version
        self.purchased = purchased
    }

    /// The entitlement of a new account.
    package static let none = Entitlement(tier: nil, until: nil, version: 0)

    /// All of them, the operator's first.
    package var grants: [Grant] {
        (tier.map { [Grant(source: Grant.operator, key: "", tier: $0, until: until)] } ?? []) + purchased
    }

    /// The highest grant in force at `now`, and of two of one tier the one that ends later; nil for the lowest tier. A grant stays in force
    /// for `graceSeconds` beyond its end.
    package func grant(at now: WallTime, graceSeconds: Int64 = 0, _ order: TierOrder) -> Grant? {
        grants.filter { !$0.isOver(at: now, graceSeconds) }.max { (order.rank($0.tier), $0.end) < (order.rank($1.tier), $1.end) }
    }

    /// The tier in force at `now`, nil for the lowest.
    package func tier(at now: WallTime, graceSeconds: Int64 = 0, _ order: TierOrder) -> String? {
        grant(at: now, graceSeconds: graceSeconds, order)?.tier
    }

    /// The grant that ended last.
    package var ended: Grant? { grants.max { $0.end < $1.end } }

    /// Whether a tier has an end that is still to come.
    package func hasActiveSubscription(at now: WallTime) -> Bool {
        grants.contains { $0.until != nil && !$0.isOver(at: now, 0) }
    }
}

extension Grant {
    fileprivate var end: WallTime { until ?? WallTime(microseconds: .max) }

    fileprivate func isOver(at now: WallTime, _ graceSeconds: Int64) -> Bool {
        guard let until else { return false }
        return until.advanced(seconds: graceSeconds) <= now
    }
}

/// The data of an account that gateways cache and compare its tokens with.
package struct AccountStanding: Sendable, Hashable {
    package let entitlement: Entitlement
    /// nil unless it is proven.
    package let email: EmailAddress?
    package var attributes = Attributes.none
    /// Also one that is over.
    package var ban: Ban?
    /// Whether its user has closed it, or it was erased.
    package var isClosed = false
    package var merges: [Merge] = []

    package init(_ entitlement: Entitlement, email: EmailAddress? = nil) {
        self.entitlement = entitlement
        self.email = email
    }

    /// That of an account that was erased, or merged into another one. An import may make it again, which is newer.
    package static let erased = {
        var standing = Self(Entitlement(tier: nil, until: nil, version: -1))
        standing.isClosed = true
        return standing
    }()

    package init(_ account: Account) {
        self.init(account.entitlement, email: account.emailConfirmedAt == nil ? nil : account.email)
        attributes = account.attributes
        ban = account.ban
        isClosed = account.erasedAt != nil
        merges = account.merges
    }
}
