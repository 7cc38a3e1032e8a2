internal import Credentials
internal import Issuers
internal import Settings
internal import Telemetry
internal import Wire

/// Runs one command line. `serve` and `echo` run until a signal ends them.
struct CommandRunner: Sendable {
    var environment: [(name: String, value: String)]
    /// The time at which the command runs.
    var now: Moment
    /// Reads standard input to its end.
    var readInput: @Sendable () -> String
    /// Writes to standard error at once.
    var writeError: @Sendable (String) -> Void
    /// Prompts on the terminal and returns the line that was typed, nil at the end of input; nil without a terminal.
    var ask: (@Sendable (String) -> String?)?
    /// Whether standard error is a terminal, on which long commands show their progress.
    var showsProgress = false

    init(
        environment: [(name: String, value: String)], now: Moment, readInput: @escaping @Sendable () -> String,
        writeError: @escaping @Sendable (String) -> Void = { _ in }, ask: (@Sendable (String) -> String?)? = nil
    ) {
        self.ask = ask
        self.environment = environment
        self.now = now
        self.readInput = readInput
        self.writeError = writeError
    }

    /// Runs `words`, the arguments without the program's name.
    func run(_ words: [String]) -> CommandResult {
        do {
            let arguments = try Arguments(parsing: words)
            if arguments.has("help") { return CommandResult(output: CommandHelp.text(arguments.command)) }
            var result = try run(arguments)
            if result.exitCode != 0 { result.errorOutput += NextStep.line(after: result.errorOutput, words) ?? "" }
            return result
        } catch {
            let usage = error.command.map { "usage: \(CommandHelp.usage($0))\n" } ?? ""
            return CommandResult(errorOutput: "tollgate: \(error.message)\n\(usage)", exitCode: 2)
        }
    }

    private func run(_ arguments: Arguments) throws(UsageFault) -> CommandResult {
        switch arguments.command {
        case .help: CommandResult(output: try CommandHelp.text(arguments.operands))
        case .version: version(arguments)
        case .settings: settings(arguments)
        case .metrics: metrics(arguments)
        case .echo: Serve.echo(listen: arguments.value("listen") ?? "")
        case .check: CheckCommand.run(loader(arguments).load(now: now.wall), json: arguments.has("json"))
        case .serve: serve(arguments)
        case .doctor: DoctorCommand(loader: loader(arguments), now: now.wall).run(json: arguments.has("json"))
        case .initialize: try InitCommand(loader: loader(arguments), now: now.wall, writeError: writeError, ask: ask).run(arguments)
        case .explain:
            try configured(arguments, ExplainCommand.Request(arguments)) { request, configuration in
                ExplainCommand.run(request, configuration, json: arguments.has("json"), at: now)
            }
        case .tokenMint:
            try configured(arguments, MintCommand.Request(arguments)) { request, configuration in
                MintCommand.run(request, configuration, json: arguments.has("json"), at: now)
            }
        case .tokenInspect:
            configured(arguments) { configuration in
                let token = arguments.operands[0] == "-" ? readInput() : arguments.operands[0]
                return InspectCommand.run(token, configuration, json: arguments.has("json"), at: now)
            }
        case .userList: try accounts(arguments, UserListCommand(arguments))
        case .userShow: accounts(arguments, UserShowCommand(arguments))
        case .userCreate: try accounts(arguments, UserCreateCommand(arguments, readInput: readInput))
        case .userImport: accounts(arguments, UserImportCommand(arguments, terminal: terminal))
        case .userSetTier: try accounts(arguments, UserSetTierCommand(arguments))
        case .userRevoke: accounts(arguments, UserEndCommand(arguments, deletes: false))
        case .userDelete: accounts(arguments, UserEndCommand(arguments, deletes: true))
        case .actorGrant: try accounts(arguments, ActorCommand(arguments, grants: true))
        case .actorRevoke: try accounts(arguments, ActorCommand(arguments, grants: false))
        case .limitsVerify: LimitsCommand.verify(arguments.operands, json: arguments.has("json"), terminal: terminal)
        case .keysList: keys(arguments, KeysCommand.list)
        case .keysRotate: keys(arguments, KeysCommand.rotate)
        case .keysJwks: keys(arguments, KeysCommand.jwks)
        case .pin: pin(arguments)
        case .health: configured(arguments) { HealthCommand.run($0.settings.adminListeners, json: arguments.has("json")) }
        case .completions: try completions(arguments)
        case .manual: CommandResult(output: Manual.page)
        case .outbox: configured(arguments) { OutboxCommand.run($0, json: arguments.has("json")) }
        }
    }

    private var terminal: (@Sendable (String) -> Void)? { showsProgress ? writeError : nil }

    private func loader(_ arguments: Arguments) -> ConfigurationLoader {
        ConfigurationLoader(envFiles: arguments.values("env-file"), environment: environment)
    }

    /// Runs the gateway. Prints warnings before it starts, not when it ends.
    private func serve(_ arguments: Arguments) -> CommandResult {
        let loader = loader(arguments)
        let loaded = loader.load(now: now.wall)
        guard let configuration = loaded.configuration else { return .refused(loaded.findings) }
        writeError(CommandResult.warnings(loaded.findings))
        return Serve.run(configuration, loader: loader)
    }

    /// Runs `body` with the configuration, or prints its faults.
    private func configured(_ arguments: Arguments, _ body: (GatewayConfiguration) -> CommandResult) -> CommandResult {
        let loaded = loader(arguments).load(now: now.wall)
        guard let configuration = loaded.configuration else { return .refused(loaded.findings) }
        return body(configuration)
    }

    /// Runs `body` with a parsed request and the configuration. The request is parsed first, so usage errors precede faults.
    private func configured<Request>(
        _ arguments: Arguments, _ request: Request, _ body: (Request, GatewayConfiguration) -> CommandResult
    ) -> CommandResult {
        configured(arguments) { body(request, $0) }
    }

    private func keys(
        _ arguments: Arguments, _ body: (GatewayConfiguration, Bool, WallTime) throws(KeyStoreFault) -> CommandResult
    ) -> CommandResult {
        configured(arguments) { configuration in
            do throws(KeyStoreFault) {
                return try body(configuration, arguments.has("json"), now.wall)
            } catch {
                return .failed(error.description)
            }
        }
    }

    private func accounts(_ arguments: Arguments, _ command: some AccountCommand) -> CommandResult {
        configured(arguments) { OfflineAccounts.run(command, $0, at: now) }
    }

    /// Reads the configuration only if no files are given.
    private func pin(_ arguments: Arguments) -> CommandResult {
        let json = arguments.has("json")
        guard arguments.operands.isEmpty else { return PinCommand.run(arguments.operands, json: json, now: now.wall) }
        return configured(arguments) { PinCommand.run($0.settings.tlsPairs.map(\.certificate), json: json, now: now.wall) }
    }

    private func version(_ arguments: Arguments) -> CommandResult {
        guard arguments.has("json") else { return CommandResult(output: "tollgate \(Version.text)\n") }
        return .json { json in
            json.beginObject()
            json.field("version", Version.text)
            json.endObject()
        }
    }

    private func completions(_ arguments: Arguments) throws(UsageFault) -> CommandResult {
        guard let shell = Completions(rawValue: arguments.operands[0]) else {
            let known = Completions.allCases.map(\.rawValue).joined(separator: ", ")
            throw UsageFault(message: "\(quoted(arguments.operands[0])) is no shell with completions, write one of \(known)", command: .completions)
        }
        return CommandResult(output: shell.script)
    }

    private func settings(_ arguments: Arguments) -> CommandResult {
        if arguments.has("markdown") { return CommandResult(output: SettingsReference.markdown) }
        if arguments.has("json") { return SettingsReference.json }
        return CommandResult(output: SettingsReference.plain)
    }

    private func metrics(_ arguments: Arguments) -> CommandResult {
        if arguments.has("markdown") { return CommandResult(output: MetricsReference.markdown) }
        if arguments.has("json") { return MetricsReference.json }
        return CommandResult(output: MetricsReference.plain)
    }
}

extension SettingsReference {
    static var json: CommandResult {
        .json { json in
            json.beginArray()
            for setting in Setting.all {
                json.beginObject()
                json.field("name", setting.shownName)
                json.field("default", setting.defaultValue)
                json.field("doc", setting.doc)
                json.field("secret", setting.isSecret)
                json.endObject()
            }
            json.endArray()
        }
    }
}

extension MetricsReference {
    static var json: CommandResult {
        .json { json in
            json.beginArray()
            for row in rows {
                json.beginObject()
                json.field("name", row.name)
                json.field("type", row.type)
                json.array("labels", row.labels) { $0.string($1) }
                json.field("help", row.help)
                json.endObject()
            }
            json.endArray()
        }
    }
}
