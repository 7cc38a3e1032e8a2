internal import Accounts
internal import Admin
internal import Credentials
internal import Gate
internal import Settings
internal import Wire

extension Command {
    /// Accounts.
    static let users = [
        Command.overAccounts(
            "user list", "lists the accounts in the order of their creation",
            options: [
                CommandOption("email", "EMAIL", "only the account with this email")
            ] + CommandOption.page(of: "accounts")
        ) { call throws(UsageFault) in
            let list = try UserListCommand(call)
            return { try await list.run($0, call) }
        },
        Command.overAccounts(
            "user show USER",
            "shows one account with its identities, passkeys and sessions; USER is an id, an email, or NAME:SUBJECT of a trust line"
        ) { call in
            { accounts in
                let details = try await accounts.operator.details(call.operands[0])
                return call.answer(details) { details.text }
            }
        },
        UserCreateCommand.row, UserImportCommand.row,
        Command.overAccounts(
            "user set-tier USER TIER",
            "sets the tier of an account, or of NAME:SUBJECT of a trust line; every gateway applies it within a second",
            options: [.until]
        ) { call throws(UsageFault) in
            let tier = try TierChoice(call.operands[1], call)
            return { accounts in
                let named = try await accounts.operator.named(call.operands[0])
                let view = try await accounts.operator.setTier(tier, of: named)
                var name = view.name
                if case .subject(let subject) = named { name = subject.text }
                var result = call.answer(view) { "\(visible(name)) has the tier \(view.tierText).\n" }
                if let note = view.purchaseNote { result.errorOutput += "note: \(note)\n" }
                guard case .subject(let subject) = named else { return result }
                let issuer = subject.key.source.name
                if !accounts.trusts.contains(where: { $0.name == issuer && $0.tierSource == .account }) {
                    let line = "\(Setting.trust.name)\(issuer.uppercased())"
                    result.errorOutput += "note: \(line) has no tier-from=account, without which this tier has no effect\n"
                }
                return result
            }
        },
        Command.overAccounts(
            "user set-attributes USER JSON",
            "replaces the attributes of an account by a JSON object like '{\"role\":\"editor\"}'; every gateway applies it within a second"
        ) { call in
            { accounts in
                let set = try await accounts.operator.setAttributes(Array(call.operands[1].utf8), merges: false, of: call.operands[0])
                return call.answer(set) { "The attributes are \(visible(set.attributes.json.rawBytes.text)).\n" }
            }
        },
        Command.overAccounts(
            "user revoke USER", "ends all sessions of an account; every gateway refuses its tokens within a second"
        ) { call in
            { accounts in
                let ended = try await accounts.operator.revoke(call.operands[0])
                return call.answer(ended, EndedAccount.withEmail.shape) { "\(ended.sentence).\n" }
            }
        },
        Command.overAccounts(
            "user ban USER", "bans an account, for good or until a time; every gateway refuses its tokens within a second",
            options: [
                CommandOption("until", "TIME", "the end of the ban, like 2027-01-01T00:00:00Z"),
                CommandOption("reason", "TEXT", "the reason, for the operator; the user is not told"),
            ]
        ) { call throws(UsageFault) in
            let until: WallTime?
            do throws(TierChoice.Fault) {
                until = try TierChoice.end(call.value("until"))
            } catch {
                throw UsageFault(error.message(end: "--until"))
            }
            return { accounts in
                let banned = try await accounts.operator.ban(call.operands[0], until: until, reason: call.value("reason"))
                return call.answer(banned) {
                    let sessions = counted(banned.sessions, "session")
                    return "\(visible(banned.account.shownName)) is banned \(visible(banned.account.ban?.text ?? "")); \(sessions) ended.\n"
                }
            }
        },
        Command.overAccounts("user unban USER", "lifts the ban of an account; the sessions that it ended stay ended") { call in
            { accounts in
                let changed = try await accounts.operator.unban(call.operands[0])
                return call.answer(changed) { "\(visible(changed.account.shownName)) is not banned.\n" }
            }
        },
        Command.overAccounts(
            "user reset-factors USER",
            "removes the second factor of a user who has lost it, with the backup codes; the user is told where TOLLGATE_NOTICES is set"
        ) { call in
            { accounts in
                let reset = try await accounts.operator.resetFactors(call.operands[0])
                let name = visible(reset.account.shownName)
                return call.answer(reset) { reset.wasThere ? "Removed the second factor of \(name).\n" : "\(name) has no second factor.\n" }
            }
        },
        Command.overAccounts(
            "user merge-done USER ID",
            "ends the announcement that the account ID was merged into USER: the services have moved what they kept"
        ) { call in
            { accounts in
                let taken = try await accounts.operator.mergeDone(from: call.operands[1], to: call.operands[0])
                return call.answer(taken) { "The merge of \(taken.from.text) into \(taken.into.shownName) is announced no longer.\n" }
            }
        },
        Command.overAccounts("user remove-passkey USER ID", "removes a passkey of an account and ends all its sessions within a second") {
            call in
            { accounts in
                let removed = try await accounts.operator.removePasskey(call.operands[1], of: call.operands[0])
                return call.answer(removed) { "Removed the passkey of \(visible(removed.account.shownName)); its sessions ended.\n" }
            }
        },
        Command.overAccounts("user delete USER", "deletes an account and ends all its sessions within a second") { call in
            { accounts in
                let ended = try await accounts.operator.delete(call.operands[0])
                return call.answer(ended, EndedAccount.withEmail.shape) { "Deleted the account of \(ended.name); \(ended.sentence).\n" }
            }
        },
    ]

    /// Grants to act as another.
    static let actors = [
        Command.overAccounts("actor grant USER TYPE ID", "allows an account to act as TYPE ID in its tokens") { call throws(UsageFault) in
            let actor = try ActorName(call)
            return { accounts in
                let grant = ShownGrant(
                    account: try await accounts.operator.grant(actor, to: call.operands[0]), actor: actor, isGranted: true)
                return call.answer(grant) { "\(grant.name) may now act as \(actor.type) \(actor.id).\n" }
            }
        },
        Command.overAccounts("actor revoke USER TYPE ID", "removes such a grant") { call throws(UsageFault) in
            let actor = try ActorName(call)
            return { accounts in
                let grant = ShownGrant(
                    account: try await accounts.operator.revoke(actor, from: call.operands[0]), actor: actor, isGranted: false)
                return call.answer(grant) { "\(grant.name) may no longer act as \(actor.type) \(actor.id).\n" }
            }
        },
    ]
}

extension Account {
    /// For people.
    var shownName: String { email?.text ?? id.text }
}

extension EndedAccount {
    static let withEmail = Record<Self>(
        record.fields.prefix(1) + [.may("email", \.account.email?.text)] + record.fields.dropFirst())

    fileprivate var name: String { account.shownName }
    fileprivate var sentence: String { "\(counted(sessions, "session")) of \(name) ended" }
}

private struct ShownGrant: Recorded {
    let account: Account
    let actor: ActorName
    let isGranted: Bool

    static let record = Record<Self>([
        .has("id", \.account.id), .may("email", \.account.email?.text), .has("actor_type", \.actor.type), .has("actor_id", \.actor.id),
        .has("granted", \.isGranted),
    ])

    var name: String { account.shownName }
}

extension ActorName {
    /// The last two operands.
    fileprivate init(_ call: CommandCall) throws(UsageFault) {
        do throws(MalformedText) {
            try self.init(type: call.operands[1], id: call.operands[2])
        } catch {
            throw UsageFault("TYPE and ID are 1 to 128 bytes each, without control characters or space around them")
        }
    }
}

extension TierChoice {
    /// The tier and `--until` of a command line.
    init(_ name: String, _ call: CommandCall) throws(UsageFault) {
        do throws(Fault) {
            try self.init(name, until: call.value("until"))
        } catch {
            throw UsageFault(error.message(end: "--until"))
        }
    }
}

extension AccountDetails {
    /// Tables for a terminal.
    fileprivate var text: String {
        var rows = view.rows
        for identity in identities {
            rows.append(["identity", "\(identity.key.source.name) \(identity.key.subject), linked at \(ISO8601.text(identity.linkedAt))"])
        }
        for passkey in passkeys {
            let used = passkey.lastUsedAt.map { ", last used at \(ISO8601.text($0))" } ?? ""
            rows.append(["passkey", "\(passkey.id) \(passkey.name), added at \(ISO8601.text(passkey.createdAt))\(used)"])
        }
        for factor in factors {
            let since = factor.confirmedAt.map { ", set up at \(ISO8601.text($0))" } ?? ""
            rows.append(["factor", "authenticator app\(since), backup codes left: \(factor.backupCodes)"])
        }
        for actor in grants { rows.append(["acts as", "\(actor.type) \(actor.id)"]) }
        if view.account.metadata != .empty { rows.append(["metadata", view.account.metadata.json.rawBytes.text]) }
        if view.account.attributes != .none { rows.append(["attributes", view.account.attributes.json.rawBytes.text]) }
        let text = CheckTable.table(["PART", "WHAT"], rows.map { $0.map(visible) })
        guard !sessions.isEmpty else { return text + "\nNo session is in use.\n" }
        return text + "\n"
            + CheckTable.table(
                ["SESSION", "CONTRACT", "CREATED", "LAST USED", "ADDRESS", "DEVICE"],
                sessions.map { session in
                    [
                        session.id.text, session.contract.name, ISO8601.text(session.createdAt), ISO8601.text(session.usedAt),
                        session.address?.text ?? "",
                        visible(session.deviceName ?? session.device ?? "")
                            + (session.deviceKey == nil ? "" : ", bound to its key")
                            + (session.factorAt.map { ", second factor proven at \(ISO8601.text($0))" } ?? ""),
                    ]
                })
    }
}

/// `tollgate user list`.
private struct UserListCommand {
    let email: String?
    let after: UUID?
    let limit: Int

    init(_ call: CommandCall) throws(UsageFault) {
        email = call.value("email")
        (after, limit) = try call.page()
    }

    func run(_ accounts: OfflineAccounts, _ call: CommandCall) async throws -> CommandResult {
        // One more than shown, to know whether there are more.
        let found = try await found(accounts.operator.directory)
        let shown = found.prefix(limit).map(accounts.operator.view)
        return call.answer(shown) {
            guard let last = shown.last else {
                return email == nil && after == nil ? "There are no accounts yet.\n" : "There is no such account.\n"
            }
            let more = found.count > limit ? "\nThere are more: --after \(last.account.id.text)\n" : ""
            return CheckTable.table(AccountView.columns, shown.map(\.row)) + more
        }
    }

    private func found(_ directory: AccountDirectory) async throws -> [Account] {
        guard let email else { return try await directory.accounts(after: after, limit: limit + 1) }
        let address: EmailAddress
        do throws(MalformedText) {
            address = try EmailAddress(email)
        } catch {
            throw AccountCommandFault(message: "--email \(quoted(email)) is no email, write one like ada@example.org", exitCode: 2)
        }
        let account = try await directory.account(email: address)
        return account.map { [$0] }?.filter { account in after.map { $0 < account.id } ?? true } ?? []
    }
}
