internal import Accounts
internal import Admin
internal import Gate
internal import Settings
internal import Wire

/// `tollgate user set-tier`.
struct UserSetTierCommand: AccountCommand {
    let user: String
    let tier: TierChoice
    let json: Bool

    init(_ arguments: Arguments) throws(UsageFault) {
        user = arguments.operands[0]
        tier = try TierChoice(arguments.operands[1], arguments)
        json = arguments.has("json")
    }

    func run(_ accounts: OfflineAccounts) async throws -> CommandResult {
        let kept = try tier.kept(accounts)
        guard let subject = try accounts.subject(user) else {
            var account = try await accounts.account(user)
            account.entitlement = try await accounts.administration.setTier(kept, until: tier.until, of: account.id)
            return describe(AccountView(account, accounts))
        }
        let account = try await accounts.administration.setTier(kept, until: tier.until, of: subject.key, orID: subject.mayBeID)
        let issuer = subject.key.source.name
        var result = describe(AccountView(account, accounts), as: subject.text)
        if accounts.tierSources[issuer] != .account {
            let line = "\(Setting.trust.name)\(issuer.uppercased())"
            result.errorOutput += "note: \(line) has no tier-from=account, without which this tier has no effect\n"
        }
        return result
    }

    private func describe(_ answer: AccountView, as name: String? = nil) -> CommandResult {
        json ? answer.report() : CommandResult(output: "\(visible(name ?? answer.name)) has the tier \(answer.tierText).\n")
    }
}

/// `tollgate user revoke` and `user delete`: both end all sessions of the account.
struct UserEndCommand: AccountCommand {
    let user: String
    /// Whether to delete the account, too.
    let deletes: Bool
    let json: Bool

    init(_ arguments: Arguments, deletes: Bool) {
        user = arguments.operands[0]
        self.deletes = deletes
        json = arguments.has("json")
    }

    func run(_ accounts: OfflineAccounts) async throws -> CommandResult {
        let account = try await accounts.account(user)
        let count =
            deletes ? try await accounts.administration.delete(account.id) : try await accounts.administration.revoke(account.id)
        guard json else {
            let name = AccountView(account, accounts).name
            let ended = "\(counted(count, "session")) of \(name) ended"
            return CommandResult(output: deletes ? "Deleted the account of \(name); \(ended).\n" : "\(ended).\n")
        }
        return .json { json in
            json.beginObject()
            json.field("id", account.id.text)
            json.optional("email", account.email?.text)
            json.field("deleted", deletes)
            json.field("sessions_ended", count)
            json.endObject()
        }
    }
}

/// `tollgate actor grant` and `actor revoke`.
struct ActorCommand: AccountCommand {
    let user: String
    let actor: ActorName
    let grants: Bool
    let json: Bool

    init(_ arguments: Arguments, grants: Bool) throws(UsageFault) {
        user = arguments.operands[0]
        self.grants = grants
        json = arguments.has("json")
        do throws(MalformedText) {
            actor = try ActorName(type: arguments.operands[1], id: arguments.operands[2])
        } catch {
            let message = "TYPE and ID are 1 to 128 bytes each, without control characters or space around them"
            throw UsageFault(message: message, command: arguments.command)
        }
    }

    func run(_ accounts: OfflineAccounts) async throws -> CommandResult {
        let account = try await accounts.account(user)
        let name = AccountView(account, accounts).name
        if grants {
            try await accounts.administration.grant(actor, to: account.id)
        } else if try await !accounts.administration.revoke(actor, from: account.id) {
            throw AccountCommandFault(message: "\(name) may not act as \(actor.type) \(actor.id), `tollgate user show` lists the grants")
        }
        guard json else {
            return CommandResult(output: "\(name) may \(grants ? "now" : "no longer") act as \(actor.type) \(actor.id).\n")
        }
        return .json { json in
            json.beginObject()
            json.field("id", account.id.text)
            json.optional("email", account.email?.text)
            json.field("actor_type", actor.type)
            json.field("actor_id", actor.id)
            json.field("granted", grants)
            json.endObject()
        }
    }
}
