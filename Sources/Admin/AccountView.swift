package import Accounts
internal import Credentials
package import Gate
package import Wire

/// An account as the commands and the admin API show it.
package struct AccountView {
    package let account: Account
    let tiers: TierList
    /// Seconds that a tier stays in force beyond its end.
    let graceSeconds: Int64
    let now: WallTime

    package init(_ account: Account, tiers: TierList, graceSeconds: Int64, now: WallTime) {
        self.account = account
        self.tiers = tiers
        self.graceSeconds = graceSeconds
        self.now = now
    }

    /// Its email, or its id if it has none.
    package var name: String { account.email?.text ?? account.id.text }

    /// The tier in force; one that the gateway no longer has counts as the lowest.
    private var tier: String { tiers.name(of: held.flatMap { tiers.rank(of: $0) } ?? .lowest) }

    private var held: String? { account.entitlement.tier(at: now, graceSeconds: graceSeconds) }

    private var hasActiveSubscription: Bool { account.entitlement.hasActiveSubscription(at: now) }

    /// `premium until 2027-01-01T00:00:00.000Z`.
    package var tierText: String {
        guard let until = account.entitlement.until else { return tier }
        if hasActiveSubscription { return "\(tier) until \(ISO8601.text(until))" }
        if held != nil { return "\(tier) (ended at \(ISO8601.text(until)), within the grace)" }
        return "\(tier) (\(account.entitlement.tier ?? "") ended at \(ISO8601.text(until)))"
    }

    // MARK: JSON

    /// Writes its members into an open object. Those of other tables are in `AccountDetails`.
    package func write(_ json: inout JSONWriter) {
        json.field("id", account.id.text)
        json.optional("email", account.email?.text)
        json.optional("email_confirmed_at", account.emailConfirmedAt.map(ISO8601.text))
        json.optional("phone", account.phone?.text)
        json.optional("phone_confirmed_at", account.phoneConfirmedAt.map(ISO8601.text))
        json.optional("username", account.username?.text)
        json.optional("name", account.name?.full)
        json.optional("given_name", account.name?.given)
        json.optional("family_name", account.name?.family)
        json.field("has_password", account.hasPassword)
        json.field("opened_by", account.openedBy?.name ?? "operator")
        json.field("created_at", ISO8601.text(account.createdAt))
        json.field("updated_at", ISO8601.text(account.updatedAt))
        json.field("tier", tier)
        json.optional("tier_until", account.entitlement.until.map(ISO8601.text))
        json.field("has_active_subscription", hasActiveSubscription)
    }

    // MARK: tables

    package static let columns = ["ID", "EMAIL", "PROVEN", "TIER", "CREATED"]

    package var row: [String] {
        let isProven = account.emailConfirmedAt != nil ? "yes" : account.email == nil ? "" : "no"
        return [account.id.text, account.email?.text ?? "", isProven, tierText, ISO8601.text(account.createdAt)]
    }

    /// One row per property that is set.
    package var rows: [[String]] {
        var rows = [["id", account.id.text]]
        if let email = account.email { rows.append(["email", "\(email.text), \(Self.proof(account.emailConfirmedAt))"]) }
        if let phone = account.phone { rows.append(["phone", "\(phone.text), \(Self.proof(account.phoneConfirmedAt))"]) }
        if let username = account.username { rows.append(["username", username.text]) }
        if let name = account.name { rows.append(["name", name.full]) }
        rows.append(["password", account.hasPassword ? "yes" : "none"])
        rows.append(["tier", tierText + (hasActiveSubscription ? ", a subscription backs it" : "")])
        let opener = account.openedBy.map { "under the contract \($0.name)" } ?? "by the operator"
        rows.append(["opened", "\(ISO8601.text(account.createdAt)) \(opener)"])
        rows.append(["changed", ISO8601.text(account.updatedAt)])
        return rows
    }

    private static func proof(_ time: WallTime?) -> String { time.map { "proven at \(ISO8601.text($0))" } ?? "not proven" }
}
