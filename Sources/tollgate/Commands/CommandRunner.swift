internal import Wire

/// Runs one command line. `serve` and `echo` run until a signal ends them.
struct CommandRunner: Sendable {
    var environment: [(name: String, value: String)]
    /// The time at which the command runs.
    var now: Moment
    /// Reads standard input to its end.
    var readInput: @Sendable () -> String
    /// Writes to standard error at once.
    var writeError: @Sendable (String) -> Void = { _ in }
    /// Prompts on the terminal and returns the line that was typed, nil at the end of input; nil without a terminal.
    var ask: (@Sendable (String) -> String?)?
    /// Whether standard error is a terminal, on which long commands show their progress.
    var showsProgress = false

    /// Runs `words`, the arguments without the program's name.
    func run(_ words: [String]) -> CommandResult {
        do throws(UsageFault) {
            let arguments = try Arguments(parsing: words)
            if arguments.has("help") { return CommandResult(output: CommandHelp.text(arguments.command)) }
            var result = try run(CommandCall(arguments: arguments, runner: self))
            if result.exitCode != 0 { result.errorOutput += NextStep.line(after: result.errorOutput, words) ?? "" }
            return result
        } catch {
            let usage = error.command.map { "usage: \(CommandHelp.usage($0))\n" } ?? ""
            return CommandResult(errorOutput: "tollgate: \(error.message)\n\(usage)", exitCode: 2)
        }
    }

    private func run(_ call: CommandCall) throws(UsageFault) -> CommandResult {
        let command = call.arguments.command
        do throws(UsageFault) {
            switch command.run {
            case .plain(let run): return try run(call)
            case .configured(let understand): return configured(call, try understand(call))
            case .accounts(let understand):
                let work = try understand(call)
                return configured(call) { OfflineAccounts.run(work, $0, at: now) }
            }
        } catch {
            throw UsageFault(error.message, command: error.command ?? command)
        }
    }

    /// Runs `body` with the configuration, or prints its faults.
    private func configured(_ call: CommandCall, _ body: Command.Configured) -> CommandResult {
        let loaded = call.loader.load(now: now.wall)
        guard let configuration = loaded.configuration else { return .refused(loaded.findings) }
        return body(configuration)
    }
}
