internal import Settings
internal import Wire

/// A parsed command line: command, operands and options.
struct Arguments: Equatable, Sendable {
    var command: Command
    var operands: [String] = []
    var options: [String: [String]] = [:]

    func has(_ name: String) -> Bool { options[name] != nil }
    func value(_ name: String) -> String? { options[name]?.last }
    func values(_ name: String) -> [String] { options[name] ?? [] }
}

/// A usage error: a sentence with the problem and what would be right. Exit code 2.
struct UsageFault: Error, Equatable, Sendable {
    let message: String
    /// The command whose usage to print; nil for the one that runs, or if it is unknown.
    let command: Command?

    init(_ message: String, command: Command? = nil) {
        self.message = message
        self.command = command
    }
}

extension Arguments {
    /// Parses `words`, the arguments without the program's name.
    init(parsing words: [String]) throws(UsageFault) {
        var rest = words[...]
        command = try Self.command(&rest)
        var onlyOperands = false
        while let word = rest.popFirst() {
            if onlyOperands || word == "-" || !word.hasPrefix("-") {
                operands.append(word)
            } else if word == "--" {
                onlyOperands = true
            } else {
                try parseOption(word, &rest)
            }
        }
        if has("help") || command.name == "help" { return }
        try check()
    }

    private static func command(_ rest: inout ArraySlice<String>) throws(UsageFault) -> Command {
        guard let first = rest.popFirst() else {
            throw UsageFault("no command is given, `tollgate help` lists them")
        }
        let plain = first == "-h" ? "help" : first == "--help" || first == "--version" ? String(first.dropFirst(2)) : first
        if let command = Command.named(plain) { return command }
        if let second = rest.first, let command = Command.named("\(first) \(second)") {
            rest.removeFirst()
            return command
        }
        // `token --help` explains the whole group.
        let group = Command.all.filter { $0.name.hasPrefix(first + " ") }
        if !group.isEmpty, rest.first?.hasPrefix("-") ?? true {
            if rest.first == "--help" || rest.first == "-h" {
                rest = [first]
                return Command.named("help")!
            }
            let names = group.map { String($0.name.dropFirst(first.count + 1)) }
            throw UsageFault("`\(first)` needs \(alternatives(names)) after it")
        }
        throw UsageFault(unknown(first, rest.first))
    }

    private static func unknown(_ first: String, _ second: String?) -> String {
        let names = Command.all.map(\.name)
        let both = second.map { "\(first) \($0)" } ?? first
        let candidates = [nearestName(to: both, in: names), nearestName(to: first, in: names)].compactMap { $0 }
        let nearest = candidates.min { editDistance(both, $0) < editDistance(both, $1) } ?? ""
        let shown = nearest.contains(" ") ? both : first
        return "\(quoted(shown)) is no command, the nearest is `\(nearest)`"
    }

    private mutating func parseOption(_ word: String, _ rest: inout ArraySlice<String>) throws(UsageFault) {
        let text = word == "-h" ? "--help" : word
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let name = String(parts[0].drop { $0 == "-" })
        guard parts[0].hasPrefix("--"), let option = command.options.first(where: { $0.name == name }) else {
            let names = command.options.map(\.name)
            let nearest = names.first { $0.hasSuffix("-\(name)") } ?? nearestName(to: name, in: names) ?? ""
            throw fault("\(quoted(parts[0])) is no option of `\(command.name)`, the nearest is --\(nearest)")
        }
        var value = parts.count > 1 ? parts[1] : nil
        if let placeholder = option.value {
            if value == nil { value = rest.popFirst() }
            guard value != nil else { throw fault("--\(name) needs a value, write --\(name) \(placeholder)") }
        } else if value != nil {
            throw fault("--\(name) takes no value, write it alone")
        }
        guard option.isRepeatable || options[name] == nil else { throw fault("--\(name) is given twice, keep one of them") }
        options[name, default: []].append(value ?? "")
    }

    /// Checks the number of operands and the required options.
    private func check() throws(UsageFault) {
        let needed = command.operands.filter { !$0.hasPrefix("[") }
        guard operands.count >= needed.count else {
            throw fault("`\(command.name)` needs \(needed[operands.count...].joined(separator: " and ")) after it")
        }
        let isVariadic = command.operands.last?.hasSuffix("…") ?? false
        guard isVariadic || operands.count <= command.operands.count else {
            throw fault("\(quoted(operands[command.operands.count])) is one word too many for `\(command.name)`")
        }
        for option in command.options where option.isRequired && !has(option.name) {
            throw fault("`\(command.name)` needs --\(option.name) \(option.value ?? "")")
        }
    }

    private func fault(_ message: String) -> UsageFault { UsageFault(message, command: command) }
}
