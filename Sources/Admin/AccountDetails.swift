package import Accounts
internal import Credentials
internal import Wire

/// An account with its identities, passkeys, second factor, grants and sessions.
package struct AccountDetails: Sendable, Recorded {
    package let view: AccountView
    package let identities: [LinkedIdentity]
    package let passkeys: [Passkey]
    package let factors: [KeptFactor]
    package let grants: [ActorName]
    package let sessions: [Session]

    init(of view: AccountView, _ directory: AccountDirectory) async throws(AccountFailure) {
        self.view = view
        identities = try await directory.identities(of: view.account.id)
        passkeys = try await directory.passkeys(of: view.account.id)
        factors = try await directory.factor(of: view.account.id).map { [$0] } ?? []
        grants = try await directory.grants(of: view.account.id)
        sessions = try await directory.sessions(of: view.account.id)
    }

    package static let record = Record<Self>(
        "UserDetails",
        AccountView.record.fields(of: \.view) + [
            .has("grants", about: "Of tiers; the highest that has not ended counts", \.view.account.entitlement.grants),
            .has("merges", about: "Accounts merged into this one of which services may still keep something", \.view.account.merges),
            .has("identities", \.identities), .has("passkeys", \.passkeys), .has("factors", \.factors), .has("actors", \.grants),
            .has("sessions", \.sessions),
            .has("metadata", .anything, \.view.account.metadata.json), .has("attributes", .anything, \.view.account.attributes.json),
        ])
}

extension Grant: Recorded {
    package static let record = Record<Self>([
        .has("source", about: "operator, or a store", \.source),
        .may("key", about: "The id of a purchase") { $0.key.isEmpty ? nil : $0.key }, .has("tier", .tier, \.tier), .may("until", \.until),
    ])
}

extension Merge: Recorded {
    package static let record = Record<Self>([.has("from", \.from), .has("until", about: "The end of its announcement", \.until)])
}

extension LinkedIdentity: Recorded {
    package static let record = Record<Self>([
        .has("provider", \.key.source.name), .has("subject", \.key.subject), .has("linked_at", \.linkedAt),
    ])
}

extension Passkey: Recorded {
    package static let record = Record<Self>([
        .has("id", about: "Of its credential, in base64url", \.id), .has("name", \.name), .has("created_at", \.createdAt),
        .may("last_used_at", \.lastUsedAt), .has("backed_up", \.isBackedUp),
    ])
}

extension KeptFactor: Recorded {
    package static let record = Record<Self>([
        .has("type", .words(["totp"])) { _ in "totp" }, .may("created_at", about: "When its first code came", \.confirmedAt),
        .has("backup_codes", about: "Those that are left", \.backupCodes),
    ])
}

extension ActorName: Recorded {
    package static let record = Record<Self>([.has("type", \.type), .has("id", \.id)])
}

extension Session: Recorded {
    package static let record = Record<Self>([
        .has("id", \.id), .has("contract", .words(ContractID.allCases.map(\.name)), \.contract.name), .may("device", \.device),
        .may("device_name", \.deviceName),
        .may("device_key", about: "The thumbprint of the key that it is bound to") { $0.deviceKey?.text },
        .may("address", \.address?.text), .has("created_at", \.createdAt), .has("last_used_at", \.usedAt),
        .may("factor_proven_at", about: "When it proved a second factor last", \.factorAt),
        .has("expires_at", about: "Unless it is refreshed before", \.deadline),
    ])
}

extension AuditEvent: Recorded {
    package static let record = Record<Self>(
        "AuditEvent",
        [
            .has("id", \.id), .has("at", \.at), .has("event", .cases, \.kind), .may("user", \.user),
            .may("email", about: "Of the account as it is now, not part of the event", \.email), .may("session", \.session),
            .has(
                "actor", .words(["user", "command", "admin-api", "console", "store", "operator"]),
                about: "operator: an event of an earlier version",
                \.actor.kind),
            .may("token", about: "The name of the token with scopes by which the admin API was used", \.actor.token),
            .may("address", \.address?.text), .may("detail", \.detail),
        ])
}
