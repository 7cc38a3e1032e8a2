internal import Accounts
internal import Admin
internal import Credentials
internal import Gate
internal import Wire

/// `tollgate user create`: creates an account by the rules of an import, with a password or with a hash from another system.
struct UserCreateCommand {
    static let row = Command.overAccounts(
        "user create", "creates an account, also with a password hash from another system",
        options: [
            CommandOption("email", "EMAIL", "the email to sign in with"),
            CommandOption("username", "NAME", "the name shown, with which `dlauth` signs in, too"),
            CommandOption("id", "UUID", "the account's id, as it was in another system; a new one by default"),
            CommandOption(
                "identity", "NAME:SUBJECT", "who it is at apple, google, or the outside issuer of a trust line", isRepeatable: true),
            CommandOption("password-stdin", nil, "reads the password from standard input"),
            CommandOption(
                "password-hash", "HASH", "or its hash, in single quotes: Django's, an $argon2id$…, a $2b$… or a $fbscrypt$…"),
            CommandOption("tier", "TIER", "one of TOLLGATE_TIERS, the lowest by default"), .until,
            CommandOption("email-verified", nil, "marks the email as verified"),
        ]
    ) { call throws(UsageFault) in
        let create = try UserCreateCommand(call)
        return { try await create.run($0, call) }
    }

    /// Without tier and identities, which the configuration decides over.
    let account: ImportedAccount
    let password: Password?
    let tier: TierChoice?
    let identities: [(provider: String, subject: String)]

    /// The password is read from standard input once the other arguments are valid.
    private init(_ call: CommandCall) throws(UsageFault) {
        tier = try call.value("tier") { name throws(UsageFault) in try TierChoice(name, call) }
        if tier == nil, call.has("until") { throw Self.fault("--until goes with --tier TIER") }
        identities = try call.values("identity").map { text throws(UsageFault) in try Self.identity(text) }
        var account = ImportedAccount()
        account.id = try call.value("id") { text throws(UsageFault) in try Self.id(text) }
        account.email = try call.value("email") { text throws(UsageFault) in try Self.email(text) }
        account.username = try call.value("username", Self.username) ?? nil
        account.isEmailConfirmed = call.has("email-verified")
        guard account.email != nil || account.id != nil || !identities.isEmpty else {
            throw Self.fault("`user create` needs --email EMAIL, or --id or --identity for an account without one")
        }
        if account.isEmailConfirmed, account.email == nil { throw Self.fault("--email-verified goes with --email EMAIL") }
        // An account with an id or an identity may have no password: its owner signs in at the issuer.
        let needsPassword = account.id == nil && identities.isEmpty
        switch (call.has("password-stdin"), call.value("password-hash")) {
        case (true, nil): password = try Self.password(call.runner.readInput())
        case (false, let text?):
            account.passwordHash = try Self.hash(text)
            password = nil
        case (false, nil) where !needsPassword: password = nil
        case (true, _?), (false, nil): throw Self.fault("give the password by --password-stdin, or its hash by --password-hash HASH")
        }
        self.account = account
    }

    private static func fault(_ message: String) -> UsageFault { UsageFault(message) }

    private static func email(_ text: String) throws(UsageFault) -> EmailAddress {
        do throws(MalformedText) {
            return try EmailAddress(text)
        } catch {
            throw fault("--email \(quoted(text)) is no email, write one like ada@example.org")
        }
    }

    private static func id(_ text: String) throws(UsageFault) -> UUID {
        if let id = UUID(parsing: text) { return id }
        throw fault("--id \(quoted(text)) is no UUID; the id at an outside issuer goes by --identity NAME:ID, NAME being its trust line's")
    }

    private static func username(_ text: String) throws(UsageFault) -> Username? {
        do throws(ImportFault) { return try ImportedAccount.username(text) } catch { throw fault("--\(error.message)") }
    }

    private static func identity(_ text: String) throws(UsageFault) -> (provider: String, subject: String) {
        guard let colon = text.firstIndex(of: ":") else {
            throw fault("--identity \(quoted(text)) has no colon, write NAME:SUBJECT, like apple:001234.abcd")
        }
        return (text[..<colon].lowercased(), String(text[text.index(after: colon)...]))
    }

    /// The password on standard input, without a newline at its end.
    private static func password(_ input: String) throws(UsageFault) -> Password {
        let text = input.last?.isNewline == true ? String(input.dropLast()) : input
        guard !text.isEmpty else { throw fault("standard input has no password, pipe one in") }
        // Input that was not UTF-8 has been decoded to U+FFFD.
        guard !text.unicodeScalars.contains("\u{FFFD}") else { throw fault("the password is not UTF-8, give it in that encoding") }
        do throws(PasswordFault) {
            return try Password(text)
        } catch {
            throw fault("the password is longer than \(Password.longest) bytes, choose a shorter one")
        }
    }

    private static func hash(_ text: String) throws(UsageFault) -> PasswordHash {
        if let hash = PasswordHash(parsing: text) { return hash }
        throw fault(
            "--password-hash is of no supported kind, give \(PasswordHash.kinds) (in single quotes, or the shell takes the $ away)")
    }

    private func run(_ accounts: OfflineAccounts, _ call: CommandCall) async throws -> CommandResult {
        var account = account
        let plan = accounts.operator.plan
        do throws(TierChoice.Fault) {
            account.tier = try tier?.kept(plan.tiers, now: accounts.operator.now)
        } catch {
            throw AccountCommandFault(message: error.message(end: "--until", tier: "--tier "), exitCode: 2)
        }
        account.tierUntil = account.tier == nil ? nil : tier?.until
        let rules = ImportRules(
            tiers: plan.tiers.names, issuers: plan.issuers.map(\.name), providers: accounts.providers, idIssuer: nil)
        do throws(ImportFault) {
            for (provider, subject) in identities {
                account.identities.append(try ImportedAccount.identity(provider, subject: subject, rules))
            }
            try account.check(rules)
        } catch {
            throw AccountCommandFault(message: "--identity: \(error.message)", exitCode: 2)
        }
        let view = accounts.operator.view(try await accounts.operator.administration.create(account, password: password))
        return call.answer(view) { "Created the account \(view.account.id.text) of \(view.name), with the tier \(view.tierText).\n" }
    }
}
