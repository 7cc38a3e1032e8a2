internal import Settings
internal import Wire

/// The output of `help` and `--help`, generated from the tables of commands and settings.
enum CommandHelp {
    /// All commands, one line each.
    static var overview: String {
        var text = "Tollgate \(Version.text), a gateway that verifies tokens, tiers and limits before your services\n\n"
        text += aligned(Command.all.map { (usage($0), $0.summary) })
        text += "\nEvery command answers --help and --json. Settings come from the environment and from env files\n"
        text += "(--env-file FILE, repeatable; \(ConfigurationLoader.usualFile) where it exists): `tollgate settings` lists them.\n"
        text += "Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.\n"
        return text
    }

    static func text(_ command: Command) -> String {
        var text = "usage: \(usage(command))\n\n\(command.summary)\n\n"
        text += aligned(command.options.map { ("  --\($0.name)\($0.value.map { " " + $0 } ?? "")", $0.doc) })
        if !command.examples.isEmpty { text += "\nexamples:\n" + command.examples.map { "  \($0)\n" }.joined() }
        return text
    }

    /// The text for the operands of `help`.
    static func text(_ operands: [String]) throws(UsageFault) -> String {
        let topic = operands.joined(separator: " ")
        if topic.isEmpty { return overview }
        if ["settings", "config", "configuration"].contains(topic) { return SettingsReference.plain }
        if ["routes", "lines", "options"].contains(topic) { return SettingsReference.lines }
        if let command = Command.named(topic) { return text(command) }
        let group = Command.all.filter { $0.name.hasPrefix(topic + " ") }
        guard group.isEmpty else { return group.map(text).joined(separator: "\n") }
        if let text = SettingsReference.setting(topic) { return text }
        let nearest = nearestName(to: topic, in: Command.all.map(\.name) + ["routes", "settings"]) ?? ""
        throw UsageFault("\(quoted(topic)) is no topic, the nearest is `\(nearest)`")
    }

    static func usage(_ command: Command) -> String {
        let required = command.ownOptions.filter(\.isRequired).map { " --\($0.name) \($0.value ?? "")" }.joined()
        let optional = command.ownOptions.filter { !$0.isRequired }.map { option in
            " [--\(option.name)\(option.value.map { " " + $0 } ?? "")]"
        }
        let operands = command.operands.map { " " + $0 }.joined()
        return "tollgate \(command.name)\(operands)\(required)\(optional.joined())"
    }

    /// Two columns; a long left cell is on a line of its own.
    static func aligned(_ rows: [(String, String)]) -> String {
        let width = 34
        return rows.map { left, right in
            left.count < width
                ? left + String(repeating: " ", count: width - left.count) + right + "\n"
                : left + "\n" + String(repeating: " ", count: width) + right + "\n"
        }.joined()
    }
}
