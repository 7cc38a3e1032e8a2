internal import Admin
internal import Settings
internal import Wire

/// A command of the binary: help, completions, the manual, usage faults and the run follow from its row.
struct Command: Sendable {
    /// The work of a command, once its words are understood.
    typealias Configured = (GatewayConfiguration) -> CommandResult
    typealias OverAccounts = @Sendable (OfflineAccounts) async throws -> CommandResult

    enum Run: Sendable {
        case plain(@Sendable (CommandCall) throws(UsageFault) -> CommandResult)
        /// Words first, so usage errors precede faults of the configuration.
        case configured(@Sendable (CommandCall) throws(UsageFault) -> Configured)
        case accounts(@Sendable (CommandCall) throws(UsageFault) -> OverAccounts)
    }

    /// One word or two.
    let name: String
    /// In order. Those in brackets are optional; the last may be repeated if it ends in `…`.
    let operands: [String]
    let summary: String
    /// The options of this command alone.
    let ownOptions: [CommandOption]
    /// Command lines for its help.
    var examples: [String] = []
    /// Words for the first operand, where they are known.
    var words: @Sendable () -> [String] = { [] }
    /// Whether it reads the configuration.
    let readsSettings: Bool
    let run: Run

    private init(_ usage: String, _ summary: String, _ options: [CommandOption], readsSettings: Bool, _ run: Run) {
        let words = usage.split(separator: " ").map(String.init)
        let name = words.prefix { $0.first?.isLowercase == true }
        self.name = name.joined(separator: " ")
        operands = Array(words.dropFirst(name.count))
        self.summary = summary
        ownOptions = options
        self.readsSettings = readsSettings
        self.run = run
    }

    /// `usage`: the name in lower case, then the operands.
    init(
        _ usage: String, _ summary: String, options: [CommandOption] = [], readsSettings: Bool = false,
        run: @escaping @Sendable (CommandCall) throws(UsageFault) -> CommandResult
    ) { self.init(usage, summary, options, readsSettings: readsSettings, .plain(run)) }

    static func configured(
        _ usage: String, _ summary: String, options: [CommandOption] = [],
        _ understand: @escaping @Sendable (CommandCall) throws(UsageFault) -> Configured
    ) -> Self { Self(usage, summary, options, readsSettings: true, .configured(understand)) }

    /// A command over the accounts, whether a gateway runs or not.
    static func overAccounts(
        _ usage: String, _ summary: String, options: [CommandOption] = [],
        _ understand: @escaping @Sendable (CommandCall) throws(UsageFault) -> OverAccounts
    ) -> Self { Self(usage, summary, options, readsSettings: true, .accounts(understand)) }

    /// All commands, in the order of the help. A new group is added here.
    static let all: [Command] =
        service + tokens + keys + apiKeys + users + actors + events + purchases + testPurchases + cache + splits + maintenance + apps
        + certificates + deployment + reference

    static func named(_ name: String) -> Command? { all.first { $0.name == name } }

    var options: [CommandOption] { ownOptions + (readsSettings ? [.envFile] : []) + [.json, .help] }

    /// The same command with more for help and completions.
    func with(examples: [String] = [], words: @escaping @Sendable () -> [String] = { [] }) -> Self {
        var command = self
        (command.examples, command.words) = (examples, words)
        return command
    }
}

extension Command: Equatable {
    static func == (one: Self, other: Self) -> Bool { one.name == other.name }
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

    init(_ name: String, _ value: String?, _ doc: String, isRepeatable: Bool = false, isRequired: Bool = false) {
        self.name = name
        self.value = value
        self.doc = doc
        self.isRepeatable = isRepeatable
        self.isRequired = isRequired
    }

    static let envFile = Self(
        "env-file", "FILE",
        "reads settings from FILE, whose relative paths begin at its folder (those of the environment at the working directory); later files win; \(ConfigurationLoader.usualFile) by default where it exists",
        isRepeatable: true)
    static let until = Self("until", "TIME", "the end of the tier, like 2027-01-01T00:00:00Z, for a subscription")

    /// The options of a list that is shown page by page.
    static func page(of things: String) -> [Self] {
        [
            Self("limit", "N", "the maximum number, up to \(maxPage); 100 by default"),
            Self("after", "ID", "the \(things) after this one"),
        ]
    }
    static let maxPage = 1_000
    static let json = Self("json", nil, "prints JSON")
    static let help = Self("help", nil, "explains the command")
}

/// A command line, its words parsed, with what the process lends it.
struct CommandCall: Sendable {
    let arguments: Arguments
    let runner: CommandRunner

    var operands: [String] { arguments.operands }
    var json: Bool { arguments.has("json") }
    var now: Moment { runner.now }
    var loader: ConfigurationLoader {
        ConfigurationLoader(envFiles: values("env-file"), environment: runner.environment)
    }
    /// Writes to the terminal that standard error is; nil where it is none.
    var terminal: (@Sendable (String) -> Void)? { runner.showsProgress ? runner.writeError : nil }

    func has(_ name: String) -> Bool { arguments.has(name) }
    func value(_ name: String) -> String? { arguments.value(name) }
    func values(_ name: String) -> [String] { arguments.values(name) }

    /// The value of an option, parsed; nil without it.
    func value<Value>(_ name: String, _ parse: (String) throws(UsageFault) -> Value) throws(UsageFault) -> Value? {
        guard let text = value(name) else { return nil }
        return try parse(text)
    }

    /// The values of the options of `CommandOption.page`.
    func page() throws(UsageFault) -> (after: UUID?, limit: Int) {
        let after = try value("after") { text throws(UsageFault) in
            guard let id = UUID(parsing: text) else {
                throw UsageFault("--after \(quoted(text)) is no id, give the last one of the list before")
            }
            return id
        }
        let limit = try value("limit") { text throws(UsageFault) in
            do throws(ParseError) {
                return try TypedText.count(text, 1...CommandOption.maxPage)
            } catch {
                throw UsageFault("--limit \(quoted(text)) \(error.text)")
            }
        }
        return (after, limit ?? 100)
    }

    /// The answer in JSON, or as `text` for people.
    func answer<Answer: Shaped>(_ answer: Answer, _ text: () -> String) -> CommandResult {
        self.answer(answer, Answer.shape, text)
    }

    func answer<Answer>(_ answer: Answer, _ shape: Shape<Answer>, _ text: () -> String) -> CommandResult {
        json ? .json { shape.write(answer, &$0) } : CommandResult(output: text())
    }
}
