/// The commands of the binary, with their operands, options and help.
enum Command: String, CaseIterable, Sendable {
    case serve, check, explain
    case initialize = "init"
    case doctor
    case tokenMint = "token mint"
    case tokenInspect = "token inspect"
    case keysList = "keys list"
    case keysRotate = "keys rotate"
    case keysJwks = "keys jwks"
    case userList = "user list"
    case userShow = "user show"
    case userCreate = "user create"
    case userImport = "user import"
    case userSetTier = "user set-tier"
    case userRevoke = "user revoke"
    case userDelete = "user delete"
    case actorGrant = "actor grant"
    case actorRevoke = "actor revoke"
    case limitsVerify = "limits verify"
    case pin, outbox, health, echo, settings, metrics, completions, manual, help, version
}

/// An option of a command: `--name VALUE`, or `--name` alone.
struct CommandOption: Hashable, Sendable {
    let name: String
    /// The placeholder of the value in the help; nil for an option without one.
    let value: String?
    let doc: String
    /// Whether it may be given more than once.
    var isRepeatable = false
    /// Whether the command needs it.
    var isRequired = false
}

extension Command {
    /// The operands in order. Those in brackets are optional; the last may be repeated if it ends in `…`.
    var operands: [String] {
        switch self {
        case .explain: ["METHOD", "URL"]
        case .tokenInspect: ["TOKEN"]
        case .userShow, .userRevoke, .userDelete: ["USER"]
        case .userSetTier: ["USER", "TIER"]
        case .actorGrant, .actorRevoke: ["USER", "TYPE", "ID"]
        case .limitsVerify: ["LOG…"]
        case .userImport: ["FILE"]
        case .pin: ["[FILE]…"]
        case .help: ["[COMMAND]"]
        case .initialize: ["[FILE]"]
        case .completions: ["SHELL"]
        case .serve, .check, .doctor, .tokenMint, .keysList, .keysRotate, .keysJwks, .userList, .userCreate, .outbox, .health, .echo,
            .settings, .metrics, .manual, .version:
            []
        }
    }

    var summary: String {
        switch self {
        case .serve: "runs the gateway; SIGHUP reloads, SIGUSR2 starts the program anew in its place, SIGTERM drains and ends"
        case .check: "validates the configuration, prints every fault in it, or the resolved routes"
        case .initialize: "writes an env file (\(ConfigurationLoader.usualFile) by default) from five questions, or from these options"
        case .doctor: "looks at the deployment of this configuration and prints what to mend; it changes nothing"
        case .explain: "prints the steps and the verdict for one request, without sending it"
        case .tokenMint: "mints a token with the gateway's own key"
        case .tokenInspect: "decodes and verifies a token, and prints why it would be refused (- reads standard input)"
        case .keysList: "lists the signing keys"
        case .keysRotate: "rotates the signing keys; the old one verifies until its last token expires"
        case .keysJwks: "prints the public keys as a JWK Set"
        case .userList: "lists the accounts in the order of their creation"
        case .userShow: "shows one account with its identities and sessions; USER is an id, an email, or NAME:SUBJECT of a trust line"
        case .userCreate: "creates an account, also with a password hash from another system"
        case .userImport: "adds the accounts of another system from lines of JSON (- reads standard input); again, it changes nothing"
        case .userSetTier: "sets the tier of an account, or of NAME:SUBJECT of a trust line; every gateway applies it within a second"
        case .userRevoke: "ends all sessions of an account; every gateway refuses its tokens within a second"
        case .userDelete: "deletes an account and ends all its sessions within a second"
        case .actorGrant: "allows an account to act as TYPE ID in its tokens"
        case .actorRevoke: "removes such a grant"
        case .limitsVerify:
            "verifies from the access logs of all gateways that no window admitted more than its limit, or prints the violations (- reads standard input)"
        case .pin: "prints the SPKI pins of TOLLGATE_TLS_CERT, or of PEM files, and a snippet for Info.plist"
        case .outbox: "prints the mail and SMS in the development outbox, where they land if no mail server or SMS webhook is set"
        case .health: "exits with 0 if the running gateway of this configuration is ready or degraded, for probes"
        case .echo: "runs a small upstream that returns the requests it receives"
        case .settings: "lists every setting"
        case .metrics: "lists every metric of /metrics"
        case .completions: "prints the completions for a shell: bash, zsh or fish"
        case .manual: "prints the manual page"
        case .help: "explains a command, or lists all; `help routes` lists the keys of route, upstream, trust and internal lines"
        case .version: "prints the version"
        }
    }

    /// The options of this command alone.
    var ownOptions: [CommandOption] {
        switch self {
        case .explain:
            [
                CommandOption(name: "token", value: "TOKEN", doc: "the request's bearer token"),
                CommandOption(name: "from", value: "IP", doc: "the client's address, 127.0.0.1 by default"),
                CommandOption(
                    name: "header", value: "\"NAME: VALUE\"", doc: "another header of the request", isRepeatable: true),
            ]
        case .initialize: SetupQuestion.options
        case .tokenMint:
            [
                CommandOption(name: "sub", value: "ID", doc: "the user; with --session an account, by id or email", isRequired: true),
                CommandOption(
                    name: "session", value: nil,
                    doc: "opens a session of the account, so that the token can be revoked and has the account's email and tier"),
                CommandOption(name: "tier", value: "TIER", doc: "the tier claim"),
                CommandOption(name: "email", value: "EMAIL", doc: "the email claim; a verified one also needs --claim email_verified=true"),
                CommandOption(name: "ttl", value: "1h", doc: "its lifetime, up to 7d; 1h by default"),
                CommandOption(name: "claim", value: "NAME=VALUE", doc: "another claim", isRepeatable: true),
            ]
        case .userList:
            [
                CommandOption(name: "email", value: "EMAIL", doc: "only the account with this email"),
                CommandOption(name: "limit", value: "N", doc: "the maximum number, up to 1000; 100 by default"),
                CommandOption(name: "after", value: "ID", doc: "the accounts after this one"),
            ]
        case .userCreate:
            [
                CommandOption(name: "email", value: "EMAIL", doc: "the email to sign in with"),
                CommandOption(name: "username", value: "NAME", doc: "the name shown, with which `dlauth` signs in, too"),
                CommandOption(name: "id", value: "UUID", doc: "the account's id, as it was in another system; a new one by default"),
                CommandOption(
                    name: "identity", value: "NAME:SUBJECT",
                    doc: "who it is at apple, google, or the outside issuer of a trust line", isRepeatable: true),
                CommandOption(name: "password-stdin", value: nil, doc: "reads the password from standard input"),
                CommandOption(
                    name: "password-hash", value: "HASH",
                    doc: "or its hash, in single quotes: Django's, an $argon2id$…, a $2b$… or a $fbscrypt$…"),
                CommandOption(name: "tier", value: "TIER", doc: "one of TOLLGATE_TIERS, the lowest by default"),
                CommandOption.until,
                CommandOption(name: "email-verified", value: nil, doc: "marks the email as verified"),
            ]
        case .userImport:
            [CommandOption(name: "issuer", value: "NAME", doc: "the trust line whose subjects the ids are that are no UUIDs; the only one by default")]
        case .userSetTier: [CommandOption.until]
        case .echo:
            [CommandOption(name: "listen", value: "ADDRESS", doc: "the address to listen on, like 127.0.0.1:9001", isRequired: true)]
        case .settings:
            [CommandOption(name: "markdown", value: nil, doc: "prints the table of docs/settings.md")]
        case .metrics:
            [CommandOption(name: "markdown", value: nil, doc: "prints the table of docs/metrics.md")]
        case .serve, .check, .doctor, .tokenInspect, .keysList, .keysRotate, .keysJwks, .userShow, .userRevoke, .userDelete, .actorGrant,
            .actorRevoke, .limitsVerify, .pin, .outbox, .health, .completions, .manual, .help, .version:
            []
        }
    }

    /// Command lines for its help.
    var examples: [String] { self == .initialize ? SetupQuestion.examples : [] }

    /// Whether it reads the configuration.
    var readsSettings: Bool {
        switch self {
        case .serve, .check, .doctor, .explain, .tokenMint, .tokenInspect, .keysList, .keysRotate, .keysJwks, .userList, .userShow,
            .userCreate, .userImport, .userSetTier, .userRevoke, .userDelete, .actorGrant, .actorRevoke, .pin, .outbox, .health:
            true
        case .initialize, .limitsVerify, .echo, .settings, .metrics, .completions, .manual, .help, .version: false
        }
    }

    var options: [CommandOption] {
        var options = ownOptions
        if readsSettings { options.append(.envFile) }
        return options + [.json, .help]
    }
}

extension CommandOption {
    static let envFile = CommandOption(
        name: "env-file", value: "FILE",
        doc: "reads settings from FILE, whose relative paths begin at its folder (those of the environment at the working directory); later files win; \(ConfigurationLoader.usualFile) by default where it exists",
        isRepeatable: true)
    static let until = CommandOption(
        name: "until", value: "TIME", doc: "the end of the tier, like 2027-01-01T00:00:00Z, for a subscription")
    static let json = CommandOption(name: "json", value: nil, doc: "prints JSON")
    static let help = CommandOption(name: "help", value: nil, doc: "explains the command")
}
