/// What a person can ask the binary to do, and the table of how it is asked.
enum Command: String, CaseIterable, Sendable {
    case serve, check, explain
    case tokenMint = "token mint"
    case tokenInspect = "token inspect"
    case keysList = "keys list"
    case keysRotate = "keys rotate"
    case keysJwks = "keys jwks"
    case userList = "user list"
    case userShow = "user show"
    case userCreate = "user create"
    case userSetTier = "user set-tier"
    case userRevoke = "user revoke"
    case userDelete = "user delete"
    case actorGrant = "actor grant"
    case actorRevoke = "actor revoke"
    case limitsVerify = "limits verify"
    case pin, outbox, echo, settings, metrics, help, version
}

/// An option of a command: `--name VALUE`, or `--name` alone.
struct CommandOption: Hashable, Sendable {
    let name: String
    /// What stands for the value in the help; nil for an option without one.
    let value: String?
    let doc: String
    /// Whether it may be given more than once.
    var isRepeatable = false
    /// Whether the command needs it.
    var isRequired = false
}

extension Command {
    /// What follows the command, in order; those in brackets may be left out, the last may be repeated if it ends in `…`.
    var operands: [String] {
        switch self {
        case .explain: ["METHOD", "URL"]
        case .tokenInspect: ["TOKEN"]
        case .userShow, .userRevoke, .userDelete: ["USER"]
        case .userSetTier: ["USER", "TIER"]
        case .actorGrant, .actorRevoke: ["USER", "TYPE", "ID"]
        case .limitsVerify: ["LOG…"]
        case .pin: ["[FILE]…"]
        case .help: ["[COMMAND]"]
        case .serve, .check, .tokenMint, .keysList, .keysRotate, .keysJwks, .userList, .userCreate, .outbox, .echo, .settings,
            .metrics, .version:
            []
        }
    }

    var summary: String {
        switch self {
        case .serve: "runs the gateway; SIGHUP reloads, SIGTERM drains and ends"
        case .check: "reads the configuration, names every fault in it, and prints the routes"
        case .explain: "walks one request through the policy and prints each step, without sending it"
        case .tokenMint: "mints a token with the gateway's own key"
        case .tokenInspect: "decodes a token, verifies it, and says why not (- reads it from standard input)"
        case .keysList: "lists the signing keys"
        case .keysRotate: "lets the next key sign; the old one verifies until its last token ends"
        case .keysJwks: "prints the public keys as a JWK Set"
        case .userList: "lists the accounts in the order in which they were opened"
        case .userShow: "shows one account with its identities and sessions; USER is an id or an email"
        case .userCreate: "opens an account, or brings one along from another system"
        case .userSetTier: "gives an account a tier; every gateway knows within a second"
        case .userRevoke: "ends all sessions of an account; every gateway refuses its tokens within a second"
        case .userDelete: "deletes an account and ends all its sessions within a second"
        case .actorGrant: "lets an account act as TYPE ID in the tokens it asks for"
        case .actorRevoke: "takes such a grant back"
        case .limitsVerify:
            "proves from the access logs of all gateways that no window admitted more than its limit, or names it (- reads standard input)"
        case .pin: "prints the keys of TOLLGATE_TLS_CERT, or of PEM files, as apps pin them, and a snippet for Info.plist"
        case .outbox: "prints the mail and SMS that nothing is set up to send (development)"
        case .echo: "a small upstream that answers with what it received"
        case .settings: "lists every setting"
        case .metrics: "lists every metric of /metrics"
        case .help: "explains a command, or lists them; `help routes` lists the keys of the lines"
        case .version: "prints the version"
        }
    }

    /// The options of this command alone.
    var ownOptions: [CommandOption] {
        switch self {
        case .explain:
            [
                CommandOption(name: "token", value: "TOKEN", doc: "the bearer that the request carries"),
                CommandOption(name: "from", value: "IP", doc: "the address it comes from, 127.0.0.1 by default"),
                CommandOption(
                    name: "header", value: "\"NAME: VALUE\"", doc: "a further header of the request", isRepeatable: true),
            ]
        case .tokenMint:
            [
                CommandOption(name: "sub", value: "ID", doc: "the user", isRequired: true),
                CommandOption(name: "tier", value: "TIER", doc: "the tier claim"),
                CommandOption(name: "email", value: "EMAIL", doc: "the email claim; a proven one also needs --claim email_verified=true"),
                CommandOption(name: "ttl", value: "1h", doc: "how long it lives, up to 7d; 1h by default"),
                CommandOption(name: "claim", value: "NAME=VALUE", doc: "a further claim", isRepeatable: true),
            ]
        case .userList:
            [
                CommandOption(name: "email", value: "EMAIL", doc: "only the account that has it"),
                CommandOption(name: "limit", value: "N", doc: "so many at most, up to 1000; 100 by default"),
                CommandOption(name: "after", value: "ID", doc: "those behind this one"),
            ]
        case .userCreate:
            [
                CommandOption(name: "email", value: "EMAIL", doc: "what its owner signs in with", isRequired: true),
                CommandOption(name: "password-stdin", value: nil, doc: "reads the password from standard input"),
                CommandOption(
                    name: "password-hash", value: "HASH",
                    doc: "or takes its hash over: Django's pbkdf2_sha256$… or an $argon2id$…, in single quotes"),
                CommandOption(name: "tier", value: "TIER", doc: "one of TOLLGATE_TIERS, the lowest by default"),
                CommandOption.until,
                CommandOption(name: "verified", value: nil, doc: "the email is known to be the owner's"),
            ]
        case .userSetTier: [CommandOption.until]
        case .echo:
            [CommandOption(name: "listen", value: "ADDRESS", doc: "where to listen, like 127.0.0.1:9001", isRequired: true)]
        case .settings:
            [CommandOption(name: "markdown", value: nil, doc: "prints the table of docs/settings.md")]
        case .metrics:
            [CommandOption(name: "markdown", value: nil, doc: "prints the table of docs/metrics.md")]
        case .serve, .check, .tokenInspect, .keysList, .keysRotate, .keysJwks, .userShow, .userRevoke, .userDelete, .actorGrant,
            .actorRevoke, .limitsVerify, .pin, .outbox, .help, .version:
            []
        }
    }

    /// Whether it reads the configuration.
    var readsSettings: Bool {
        switch self {
        case .serve, .check, .explain, .tokenMint, .tokenInspect, .keysList, .keysRotate, .keysJwks, .userList, .userShow,
            .userCreate, .userSetTier, .userRevoke, .userDelete, .actorGrant, .actorRevoke, .pin, .outbox:
            true
        case .limitsVerify, .echo, .settings, .metrics, .help, .version: false
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
        doc: "reads settings from FILE; later files win; \(ConfigurationLoader.usualFile) by default where it exists",
        isRepeatable: true)
    static let until = CommandOption(
        name: "until", value: "TIME", doc: "when the tier ends, like 2027-01-01T00:00:00Z: what a subscription has")
    static let json = CommandOption(name: "json", value: nil, doc: "answers in JSON")
    static let help = CommandOption(name: "help", value: nil, doc: "explains the command")
}
