package import Accounts
internal import Credentials
internal import Gate
internal import Wire

/// An account as the commands and the admin API show it.
package struct AccountView: Sendable, Recorded {
    package let account: Account
    let tiers: TierList
    /// Seconds that a tier stays in force beyond its end.
    let graceSeconds: Int64
    let now: WallTime

    init(_ account: Account, tiers: TierList, graceSeconds: Int64, now: WallTime) {
        self.account = account
        self.tiers = tiers
        self.graceSeconds = graceSeconds
        self.now = now
    }

    /// Its email, or its id if it has none.
    package var name: String { account.email?.text ?? account.id.text }

    /// The tier in force; one that the gateway no longer has counts as the lowest.
    private var tier: String { tiers.name(of: held.flatMap { tiers.rank(of: $0.tier) } ?? .lowest) }

    private var held: Grant? { account.entitlement.grant(at: now, graceSeconds: graceSeconds, TierOrder(tiers.names)) }

    /// The end of the grant in force, or of the last one.
    private var until: WallTime? { (held ?? account.entitlement.ended)?.until }

    /// The purchase that gives more than the operator's grant, as a note beside a change of that; nil without one.
    package var purchaseNote: String? {
        guard let held, held.source != Grant.operator else { return nil }
        return "\(held.text) goes on; only the operator's own grant was changed"
    }

    private var hasActiveSubscription: Bool { account.entitlement.hasActiveSubscription(at: now) }

    /// `premium until 2027-01-01T00:00:00.000Z`.
    package var tierText: String {
        guard let until else { return tier }
        if now < until { return "\(tier) until \(ISO8601.text(until))" }
        if held != nil { return "\(tier) (ended at \(ISO8601.text(until)), within the grace)" }
        return "\(tier) (\(account.entitlement.ended?.tier ?? "") ended at \(ISO8601.text(until)))"
    }

    package static let record = Record<Self>(
        "User",
        [
            .has("id", \.account.id), .may("email", \.account.email?.text), .may("email_confirmed_at", \.account.emailConfirmedAt),
            .may("phone", \.account.phone?.text), .may("phone_confirmed_at", \.account.phoneConfirmedAt),
            .may("username", \.account.username?.text), .may("name", about: "Both parts", \.account.name?.full),
            .may("given_name", \.account.name?.given), .may("family_name", \.account.name?.family),
            .has("has_password", \.account.hasPassword),
            .has("opened_by", .words(ContractID.allCases.map(\.name) + ["operator"])) { $0.account.openedBy?.name ?? "operator" },
            .has("created_at", \.account.createdAt), .has("updated_at", \.account.updatedAt), .has("tier", .tier, \.tier),
            .may("tier_until", \.until), .has("has_active_subscription", \.hasActiveSubscription),
            .may("ban", about: "Also one that is over", \.account.ban),
            .may("erased_at", about: "When a closed account is erased", \.account.erasedAt),
            .may("mail_stopped_at", about: "Since when Apple forwards no mail to the relay address", \.account.mailStoppedAt),
        ])

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
        // Without a purchase the tier is the operator's.
        for grant in account.entitlement.purchased.isEmpty ? [] : account.entitlement.grants {
            rows.append(["grant", grant.text])
        }
        if let ban = account.ban { rows.append(["ban", ban.isInForce(at: now) ? ban.text : "over, it was \(ban.text)"]) }
        if let erasedAt = account.erasedAt { rows.append(["closed", "erased at \(ISO8601.text(erasedAt))"]) }
        if let stopped = account.mailStoppedAt { rows.append(["mail", "Apple forwards none since \(ISO8601.text(stopped))"]) }
        for merge in account.merges { rows.append(["merged", "\(merge.from.text), announced until \(ISO8601.text(merge.until))"]) }
        let opener = account.openedBy.map { "under the contract \($0.name)" } ?? "by the operator"
        rows.append(["opened", "\(ISO8601.text(account.createdAt)) \(opener)"])
        rows.append(["changed", ISO8601.text(account.updatedAt)])
        return rows
    }

    private static func proof(_ time: WallTime?) -> String { time.map { "proven at \(ISO8601.text($0))" } ?? "not proven" }
}

extension Ban {
    /// `until 2027-01-01T00:00:00.000Z, fraud`.
    package var text: String { (until.map { "until \(ISO8601.text($0))" } ?? "for good") + (reason.map { ", \($0)" } ?? "") }
}

extension Grant {
    /// `premium until 2027-01-01T00:00:00.000Z by apple, purchase 550e8400-e29b-41d4-a716-446655440000`.
    fileprivate var text: String {
        let end = until.map { " until \(ISO8601.text($0))" } ?? ""
        return "\(tier)\(end) by \(source)\(key.isEmpty ? "" : ", purchase \(key)")"
    }
}
