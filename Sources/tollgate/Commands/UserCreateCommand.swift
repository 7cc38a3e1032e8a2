internal import Accounts
internal import Admin
internal import Credentials
internal import Wire

/// `tollgate user create`: creates an account with a password, or with a password hash from another system.
struct UserCreateCommand: AccountCommand {
    let email: EmailAddress
    let secret: AccountCreation.Secret
    let tier: TierChoice?
    let isVerified: Bool
    let json: Bool

    /// `readInput` is called for the password once the other arguments are valid.
    init(_ arguments: Arguments, readInput: () -> String) throws(UsageFault) {
        json = arguments.has("json")
        isVerified = arguments.has("verified")
        let address = arguments.value("email") ?? ""
        do throws(MalformedText) {
            email = try EmailAddress(address)
        } catch {
            throw Self.fault("--email \(quoted(address)) is no email, write one like ada@example.org")
        }
        tier = try arguments.value("tier").map { name throws(UsageFault) in try TierChoice(name, arguments) }
        if tier == nil, arguments.has("until") { throw Self.fault("--until goes with --tier TIER") }
        switch (arguments.has("password-stdin"), arguments.value("password-hash")) {
        case (true, nil): secret = .password(try Self.password(readInput()))
        case (false, let text?): secret = .hash(try Self.hash(text))
        case (true, _?), (false, nil): throw Self.fault("give the password by --password-stdin, or its hash by --password-hash HASH")
        }
    }

    private static func fault(_ message: String) -> UsageFault { UsageFault(message: message, command: .userCreate) }

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

    func run(_ accounts: OfflineAccounts) async throws -> CommandResult {
        var creation = AccountCreation(email: email)
        creation.secret = secret
        creation.isEmailConfirmed = isVerified
        creation.tier = try tier?.kept(accounts, label: "--tier ")
        creation.tierUntil = tier?.until
        let account = try await accounts.administration.create(creation)
        let answer = AccountView(account, accounts)
        if json { return answer.report() }
        return CommandResult(output: "Created the account \(account.id.text) of \(answer.name), with the tier \(answer.tierText).\n")
    }
}
