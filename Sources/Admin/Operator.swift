package import Accounts
package import Gate
package import Wire

/// The settings by which the operator's changes are made and shown.
package struct OperatorPlan: Sendable {
    package var tiers: TierList
    /// Seconds that a tier stays in force beyond its end.
    package var tierGraceSeconds: Int64
    /// The trust lines.
    package var issuers: [SubjectIssuer]
    /// The names of the routes that take API keys.
    package var keyRoutes: [String]

    package init(tiers: TierList, tierGraceSeconds: Int64, issuers: [SubjectIssuer] = [], keyRoutes: [String] = []) {
        self.tiers = tiers
        self.tierGraceSeconds = tierGraceSeconds
        self.issuers = issuers
        self.keyRoutes = keyRoutes
    }
}

/// Why the operator's request is not carried out, beside a refusal of the store.
package enum OperatorRefusal: Error {
    case malformedName(String, SubjectName.Fault)
    /// No account has this id or email.
    case unknownName(String)
    case unknownSubject(SubjectName)
    case unknownSession
    case apiKey(APIKeyChoice.Fault)
    case unknownAPIKey
    /// Of a ban.
    case malformedReason
    /// Only the tiers of outside issuers' users can be forgotten.
    case ownTier
    case tier(TierChoice.Fault)
    case attributes(Metadata.Fault)
    /// The account has no such grant.
    case notGranted(Account, ActorName)
    /// The account has no passkey of this id.
    case noPasskey(Account)
    /// No account of this id was merged into the account.
    case notMerged(Account)
    case unknownEvent
    /// Events were never sent to a service of this name.
    case unknownSubscriber(String)
}

/// All that the operator does with accounts, under the admin API, the console and the commands: one rule finds the account that a name
/// stands for, and each change is written once.
package struct Operator: Sendable {
    package let directory: AccountDirectory
    package let administration: Administration
    package let purchases: PurchaseAdministration
    package let plan: OperatorPlan
    package let now: WallTime

    package init(
        directory: AccountDirectory, administration: Administration, purchases: PurchaseAdministration, plan: OperatorPlan, now: WallTime
    ) {
        self.directory = directory
        self.administration = administration
        self.purchases = purchases
        self.plan = plan
        self.now = now
    }

    package func view(_ account: Account) -> AccountView {
        AccountView(account, tiers: plan.tiers, graceSeconds: plan.tierGraceSeconds, now: now)
    }

    // MARK: names

    /// The thing that a name stands for: an account, or a subject of an outside issuer, which may have none yet.
    package enum Named: Sendable {
        case account(Account)
        case subject(SubjectName)
    }

    /// A user of an outside issuer by `NAME:SUBJECT`; nil for an id or an email.
    private func subject(_ name: String) throws(OperatorRefusal) -> SubjectName? {
        do throws(SubjectName.Fault) {
            return try SubjectName(name, issuers: plan.issuers)
        } catch {
            throw .malformedName(name, error)
        }
    }

    /// The only rule: `NAME:SUBJECT` of a trust line, the id of an account or of one that was merged into it, or its email.
    package func named(_ name: String) async throws -> Named {
        if let subject = try subject(name) { return .subject(subject) }
        if let id = UUID(parsing: name) {
            if let account = try await directory.account(id) { return .account(account) }
            if let account = try await directory.account(mergedFrom: id) { return .account(account) }
        } else if let email = Self.email(name), let account = try await directory.account(email: email) {
            return .account(account)
        }
        throw OperatorRefusal.unknownName(name)
    }

    private static func email(_ text: String) -> EmailAddress? {
        do throws(MalformedText) { return try EmailAddress(text) } catch { return nil }
    }

    /// The account that a name stands for.
    package func account(_ name: String) async throws -> Account {
        switch try await named(name) {
        case .account(let account): return account
        case .subject(let subject):
            if let account = try await directory.account(of: subject.key, allowsAccountID: subject.mayBeID) { return account }
            throw OperatorRefusal.unknownSubject(subject)
        }
    }

    package func details(_ name: String) async throws -> AccountDetails {
        try await AccountDetails(of: view(try await account(name)), directory)
    }

    /// The accounts with a text in them; one of an outside issuer also by `NAME:SUBJECT`, first.
    package func search(_ search: AccountSearch) async throws -> AccountMatches {
        var matches = try await directory.accounts(matching: search)
        if let id = UUID(parsing: search.text), matches.accounts.isEmpty, let account = try await directory.account(mergedFrom: id) {
            matches = AccountMatches(accounts: [account], isWhole: true)
        }
        let subject: SubjectName?
        do throws(OperatorRefusal) { subject = try self.subject(search.text) } catch { return matches }
        guard let subject, let account = try await directory.account(of: subject.key, allowsAccountID: subject.mayBeID),
            !matches.accounts.contains(where: { $0.id == account.id })
        else { return matches }
        return AccountMatches(accounts: [account] + matches.accounts.prefix(AccountSearch.most - 1), isWhole: matches.isWhole)
    }

    /// The purchases of the account that a name stands for, or of all accounts with nil, by their ids.
    package func purchases(of name: String?, _ state: PurchaseState?, after: UUID?, limit: Int) async throws -> [Purchase] {
        var id: UUID?
        if let name { id = try await account(name).id }
        return try await purchases.purchases(of: id, state, after: after, limit: limit)
    }

    // MARK: changes

    /// Sets a tier; a subject without an account gets one.
    package func setTier(_ choice: TierChoice, of named: Named) async throws -> AccountView {
        let kept: String?
        do throws(TierChoice.Fault) { kept = try choice.kept(plan.tiers, now: now) } catch { throw OperatorRefusal.tier(error) }
        switch named {
        case .account(var account):
            account.entitlement = try await administration.setTier(kept, until: choice.until, of: account.id)
            return view(account)
        case .subject(let subject):
            return view(try await administration.setTier(kept, until: choice.until, of: subject.key, allowsAccountID: subject.mayBeID))
        }
    }

    /// Replaces the attributes of an account by the members of a JSON object, or with `merges` those of the same names, where `null` removes.
    package func setAttributes(_ json: [UInt8], merges: Bool, of name: String) async throws -> SetAttributes {
        let account = try await account(name)
        let change: AttributeChange
        do throws(Metadata.Fault) {
            change = merges ? .merge(json) : .replace(try Attributes(json: json.rawBytes))
        } catch {
            throw OperatorRefusal.attributes(error)
        }
        switch try await administration.change(change, of: account.id) {
        case .success(let attributes): return SetAttributes(id: account.id, attributes: attributes)
        case .failure(let fault): throw OperatorRefusal.attributes(fault)
        }
    }

    /// Has every gateway ask for the tier of an outside issuer's user again.
    package func forgetTier(_ name: String) async throws -> ForgottenTier {
        guard let subject = try subject(name) else { throw OperatorRefusal.ownTier }
        try await administration.forgetTier(of: subject.key)
        return ForgottenTier(user: subject.text)
    }

    /// Ends all sessions of an account.
    package func revoke(_ name: String) async throws -> EndedAccount {
        let account = try await account(name)
        return EndedAccount(account: account, isDeleted: false, sessions: try await administration.revoke(account.id))
    }

    /// Deletes an account and ends all its sessions.
    package func delete(_ name: String) async throws -> EndedAccount {
        let account = try await account(name)
        return EndedAccount(account: account, isDeleted: true, sessions: try await administration.delete(account.id))
    }

    /// Bans an account, for good without `until`, and ends its sessions.
    package func ban(_ name: String, until: WallTime?, reason: String?) async throws -> ChangedBan {
        let account = try await account(name)
        if let until, until <= now { throw OperatorRefusal.tier(.pastEnd(until)) }
        var kept: String?
        if let reason { do throws(MalformedText) { kept = try Ban.reason(reason) } catch { throw OperatorRefusal.malformedReason } }
        let banned = try await administration.ban(account.id, until: until, reason: kept)
        return ChangedBan(account: banned.account, sessions: banned.ended.count)
    }

    /// Lifts the ban of an account.
    package func unban(_ name: String) async throws -> ChangedBan {
        let account = try await account(name)
        return ChangedBan(account: try await administration.unban(account.id), sessions: 0)
    }

    /// Removes the second factor of an account.
    package func resetFactors(_ name: String) async throws -> ResetFactors {
        let account = try await account(name)
        return ResetFactors(account: account, wasThere: try await administration.resetFactors(account.id))
    }

    /// Lets an account act as `actor`.
    package func grant(_ actor: ActorName, to name: String) async throws -> Account {
        let account = try await account(name)
        try await administration.grant(actor, to: account.id)
        return account
    }

    /// Takes a grant back.
    package func revoke(_ actor: ActorName, from name: String) async throws -> Account {
        let account = try await account(name)
        guard try await administration.revoke(actor, from: account.id) else { throw OperatorRefusal.notGranted(account, actor) }
        return account
    }

    /// Services have moved what they kept of an account that was merged into this one; may be told again.
    package func mergeDone(from text: String, to name: String) async throws -> TakenMerge {
        let account = try await account(name)
        guard let from = UUID(parsing: text), try await directory.account(mergedFrom: from)?.id == account.id else {
            throw OperatorRefusal.notMerged(account)
        }
        try await administration.mergeDone(from: from, to: account.id)
        return TakenMerge(from: from, into: account)
    }

    /// Removes a passkey of an account, also its last way to sign in, and ends all sessions.
    package func removePasskey(_ id: String, of name: String) async throws -> RemovedPasskey {
        let account = try await account(name)
        guard let credentialID = Passkey.credentialID(id), try await administration.removePasskey(credentialID, of: account.id) else {
            throw OperatorRefusal.noPasskey(account)
        }
        return RemovedPasskey(account: account, id: id)
    }

    package func revoke(session text: String) async throws -> EndedSessionID {
        guard let id = UUID(parsing: text), try await administration.revoke(session: id) else { throw OperatorRefusal.unknownSession }
        return EndedSessionID(id: id)
    }
}

// MARK: - Answers

/// An account whose sessions were ended.
package struct EndedAccount: Sendable, Recorded {
    package let account: Account
    package let isDeleted: Bool
    package let sessions: Int

    package static let record = Record<Self>(
        "Ended",
        [
            .has("id", \.account.id), .has("deleted", \.isDeleted), .has("sessions_ended", \.sessions),
        ])
}

/// An account whose ban was set or lifted.
package struct ChangedBan: Sendable, Recorded {
    package let account: Account
    package let sessions: Int

    package static let record = Record<Self>([
        .has("id", \.account.id), .has("ban", .nullable(Ban.shape), \.account.ban), .has("sessions_ended", \.sessions),
    ])
}

/// An account without a second factor.
package struct ResetFactors: Sendable, Recorded {
    package let account: Account
    /// Whether it had one.
    package let wasThere: Bool

    package static let record = Record<Self>([.has("id", \.account.id), .has("removed", \.wasThere)])
}

extension Ban: Recorded {
    package static let record = Record<Self>(
        "Ban",
        [
            .has("banned_at", \.bannedAt), .may("until", about: "Left out: for good", \.until),
            .may("reason", about: "The user is not told", \.reason),
        ])
}

/// A merge that services have taken.
package struct TakenMerge: Sendable, Recorded {
    package let from: UUID
    package let into: Account

    package static let record = Record<Self>([.has("id", \.into.id), .has("merged_from", \.from), .has("done") { _ in true }])
}

/// A passkey that was removed.
package struct RemovedPasskey: Sendable, Recorded {
    package let account: Account
    let id: String

    package static let record = Record<Self>([.has("id", \.account.id), .has("passkey", \.id), .has("removed") { _ in true }])
}

/// The attributes of an account after a change.
package struct SetAttributes: Sendable, Recorded {
    let id: UUID
    package let attributes: Attributes

    package static let record = Record<Self>("Attributes", [.has("id", \.id), .has("attributes", .anything, \.attributes.json)])
}

/// A session that was ended.
package struct EndedSessionID: Sendable, Recorded {
    let id: UUID

    package static let record = Record<Self>([.has("id", \.id), .has("ended") { _ in true }])
}

/// A user of an outside issuer whose tier is asked for again.
package struct ForgottenTier: Sendable, Recorded {
    let user: String

    package static let record = Record<Self>([.has("user", \.user), .has("forgotten") { _ in true }])
}

extension Metadata.Fault {
    /// For the operator, of attributes.
    package var attributesMessage: String {
        switch self {
        case .malformed: "attributes must be one JSON object, at most 32 levels deep and without NUL characters"
        case .tooLarge: "attributes may take at most \(Attributes.largest) bytes of JSON"
        }
    }
}
