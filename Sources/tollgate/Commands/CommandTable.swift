package import Admin
package import Settings
internal import Telemetry
internal import Wire

extension Command {
    /// The gateway and its configuration.
    static let service = [
        Command(
            "serve", "runs the gateway; SIGHUP reloads, SIGUSR2 starts the program anew in its place, SIGTERM drains and ends",
            readsSettings: true
        ) { call in
            let loaded = call.loader.load(now: call.now.wall)
            guard let configuration = loaded.configuration else { return .refused(loaded.findings) }
            // Before it starts, not when it ends.
            call.runner.writeError(CommandResult.warnings(loaded.findings))
            return Serve.run(configuration, loader: call.loader)
        },
        Command(
            "check", "validates the configuration, prints every fault in it, or the resolved routes", readsSettings: true
        ) { call in CheckCommand.run(call.loader.load(now: call.now.wall), json: call.json) },
        Command.configured(
            "explain METHOD URL", "prints the steps and the verdict for one request, without sending it",
            options: [
                CommandOption("token", "TOKEN", "the request's bearer token"),
                CommandOption("from", "IP", "the client's address, 127.0.0.1 by default"),
                CommandOption("header", "\"NAME: VALUE\"", "another header of the request", isRepeatable: true),
            ]
        ) { call throws(UsageFault) in try ExplainCommand.understand(call) }.with {
            ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
        },
        Command(
            "init [FILE]", "writes an env file (\(ConfigurationLoader.usualFile) by default) from five questions, or from these options",
            options: SetupQuestion.options
        ) { call throws(UsageFault) in
            try InitCommand(loader: call.loader, now: call.now.wall, writeError: call.runner.writeError, ask: call.runner.ask).run(
                call.arguments)
        }.with(examples: SetupQuestion.examples),
        Command(
            "doctor", "looks at the deployment of this configuration and prints what to mend; it changes nothing", readsSettings: true
        ) { call in DoctorCommand(loader: call.loader, now: call.now.wall).run(json: call.json) },
    ]

    /// A deployment's limits, certificates, messages and health.
    static let deployment = [
        Command(
            "limits verify LOG…",
            "verifies from the access logs of all gateways that no window admitted more than its limit, or prints the violations (- reads standard input)"
        ) { call in LimitsCommand.verify(call.operands, json: call.json, terminal: call.terminal) },
        Command(
            "pin [FILE]…", "prints the SPKI pins of TOLLGATE_TLS_CERT, or of PEM files, and a snippet for Info.plist", readsSettings: true
        ) { call in
            let pins = { (files: [String]) in PinCommand.run(files, json: call.json, now: call.now.wall) }
            guard call.operands.isEmpty else { return pins(call.operands) }
            let loaded = call.loader.load(now: call.now.wall)
            guard let configuration = loaded.configuration else { return .refused(loaded.findings) }
            return pins(configuration.settings.tlsPairs.map(\.certificate))
        },
        Command.configured(
            "outbox", "prints the mail and SMS in the development outbox, where they land if no mail server or SMS webhook is set"
        ) { call in
            { OutboxCommand.run($0, json: call.json) }
        },
        Command.configured("health", "exits with 0 if the running gateway of this configuration is ready or degraded, for probes") { call in
            { HealthCommand.run($0.settings.adminListeners, json: call.json) }
        },
        Command(
            "echo", "runs a small upstream that returns the requests it receives",
            options: [CommandOption("listen", "ADDRESS", "the address to listen on, like 127.0.0.1:9001", isRequired: true)]
        ) { call in Serve.echo(listen: call.value("listen") ?? "") },
    ]

    /// Lists and texts about the program itself.
    static let reference = [
        Command("settings", "lists every setting", options: [CommandOption("markdown", nil, "prints the table of docs/settings.md")]) {
            call in
            if call.has("markdown") { return CommandResult(output: SettingsReference.markdown) }
            return call.answer(Setting.all) { SettingsReference.plain }
        },
        Command(
            "metrics", "lists every metric of /metrics", options: [CommandOption("markdown", nil, "prints the table of docs/metrics.md")]
        ) { call in
            if call.has("markdown") { return CommandResult(output: MetricsReference.markdown) }
            return call.answer(MetricsReference.rows, .array(MetricsReference.record.shape)) { MetricsReference.plain }
        },
        Command("completions SHELL", "prints the completions for a shell: bash, zsh or fish") { call throws(UsageFault) in
            guard let shell = Completions(rawValue: call.operands[0]) else {
                let known = Completions.allCases.map(\.rawValue).joined(separator: ", ")
                throw UsageFault("\(quoted(call.operands[0])) is no shell with completions, write one of \(known)")
            }
            return CommandResult(output: shell.script)
        }.with { Completions.allCases.map(\.rawValue) },
        Command("manual", "prints the manual page") { _ in CommandResult(output: Manual.page) },
        Command(
            "help [COMMAND]", "explains a command, or lists all; `help routes` lists the keys of route, upstream, trust and internal lines"
        ) { call throws(UsageFault) in CommandResult(output: try CommandHelp.text(call.operands)) }.with { Completions.firstWords },
        Command("version", "prints the version") { call in
            call.answer(Version.text, Record([.has("version") { $0 }]).shape) { "tollgate \(Version.text)\n" }
        },
    ]
}

extension Setting: Recorded {
    package static var record: Record<Setting> {
        Record([
            .has("name", \.shownName), .has("default", \.defaultValue), .has("doc", \.doc), .has("secret", \.isSecret),
        ])
    }
}

extension MetricsReference {
    fileprivate static let record = Record<Row>([
        .has("name", \.name), .has("type", \.type), .has("labels", \.labels), .has("help", \.help),
    ])
}
