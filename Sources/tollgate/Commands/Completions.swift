/// Completions of the command line for a shell, generated from the table of commands.
enum Completions: String, CaseIterable {
    case bash, zsh, fish

    var script: String {
        switch self {
        case .bash: Self.bashScript
        case .zsh: Self.zshScript
        case .fish: Self.fishScript
        }
    }

    /// The first words of commands in their order, each with its second words and their summaries; none for a command of one word.
    private static var groups: [(word: String, members: [(word: String, command: Command)])] {
        var groups: [(word: String, members: [(word: String, command: Command)])] = []
        for command in Command.all {
            let words = command.name.split(separator: " ").map(String.init)
            if groups.last?.word != words[0] { groups.append((words[0], [])) }
            if words.count > 1 { groups[groups.count - 1].members.append((words[1], command)) }
        }
        return groups
    }

    private static func summary(_ word: String) -> String {
        Command.named(word)?.summary ?? "\(word) " + groups.first { $0.word == word }!.members.map(\.word).joined(separator: ", ")
    }

    /// The first words of all commands.
    static var firstWords: [String] { groups.map(\.word) }

    // MARK: bash

    private static var bashScript: String {
        let second = groups.filter { !$0.members.isEmpty }.map { group in
            "        \(group.word)) [ \"$COMP_CWORD\" -ne 2 ] || words=\"\(group.members.map(\.word).joined(separator: " "))\" ;;\n"
        }.joined()
        let options = Command.all.map { command in
            let words = command.options.map { "--\($0.name)" } + command.words()
            let pattern = command.name.contains(" ") ? "\"\(command.name)\"" : "\"\(command.name) \"*"
            return "        \(pattern)) words=\"\(words.joined(separator: " "))\" ;;\n"
        }.joined()
        return """
            # Completions of tollgate for bash: source this file, or put it into /usr/share/bash-completion/completions/tollgate.
            _tollgate() {
                local word=${COMP_WORDS[COMP_CWORD]} words=''
                if [ "$COMP_CWORD" -eq 1 ]; then
                    COMPREPLY=($(compgen -W "\(groups.map(\.word).joined(separator: " "))" -- "$word"))
                    return
                fi
                case "${COMP_WORDS[1]}" in
            \(second)    esac
                [ -n "$words" ] || case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
            \(options)    esac
                COMPREPLY=($(compgen -W "$words" -- "$word"))
            }
            complete -o default -F _tollgate tollgate

            """
    }

    // MARK: zsh

    private static var zshScript: String {
        func described(_ rows: [(String, String)]) -> String {
            rows.map { "'\($0):\(zshText($1))'" }.joined(separator: " ")
        }
        let second = groups.filter { !$0.members.isEmpty }.map { group in
            let words = described(group.members.map { ($0.word, $0.command.summary) })
            return """
                    \(group.word))
                        if (( CURRENT == 3 )); then
                            words_here=(\(words))
                            _describe command words_here
                            return
                        fi ;;

                """
        }.joined()
        let options = Command.all.map { command in
            let pattern = command.name.contains(" ") ? "'\(command.name)'" : "'\(command.name) '*"
            let specifications = command.options.map { option in
                "'\(option.isRepeatable ? "*" : "")--\(option.name)[\(zshText(option.doc))]\(option.value.map { zshValue(option, $0) } ?? "")'"
            }
            let known = command.words()
            let rest = known.isEmpty ? "'*:file:_files'" : "'*:word:(\(known.joined(separator: " ")))'"
            return "        \(pattern)) _arguments \((specifications + [rest]).joined(separator: " ")) ;;\n"
        }.joined()
        return """
            #compdef tollgate
            # Completions of tollgate for zsh: put this file as _tollgate into a folder of $fpath.
            _tollgate() {
                local -a words_here
                if (( CURRENT == 2 )); then
                    words_here=(\(described(groups.map { ($0.word, summary($0.word)) })))
                    _describe command words_here
                    return
                fi
                case "$words[2]" in
            \(second)    esac
                case "$words[2] $words[3]" in
            \(options)    esac
            }
            _tollgate "$@"

            """
    }

    private static func zshValue(_ option: CommandOption, _ value: String) -> String {
        option.name == "env-file" ? ":file:_files" : ":\(zshText(value)):"
    }

    /// Text within single quotes and a specification of `_arguments` or `_describe`.
    private static func zshText(_ text: String) -> String {
        var quoted = ""
        for character in text {
            switch character {
            case "'": quoted += "'\\''"
            case ":", "[", "]", "\\": quoted += "\\\(character)"
            default: quoted.append(character)
            }
        }
        return quoted
    }

    // MARK: fish

    private static var fishScript: String {
        var text = "# Completions of tollgate for fish: put this file as tollgate.fish into ~/.config/fish/completions.\n"
        for group in groups {
            text += "complete -c tollgate -f -n __fish_use_subcommand -a \(group.word) -d \(fishText(summary(group.word)))\n"
            let seen = "__fish_seen_subcommand_from \(group.word)"
            let members = group.members.map(\.word).joined(separator: " ")
            for member in group.members {
                text += "complete -c tollgate -f -n '\(seen); and not __fish_seen_subcommand_from \(members)' -a \(member.word) "
                text += "-d \(fishText(member.command.summary))\n"
            }
        }
        for command in Command.all {
            let condition = command.name.split(separator: " ").map { "__fish_seen_subcommand_from \($0)" }.joined(separator: "; and ")
            for option in command.options {
                text +=
                    "complete -c tollgate -n '\(condition)' -l \(option.name)\(option.value == nil ? "" : " -r") -d \(fishText(option.doc))\n"
            }
            for operand in command.words() { text += "complete -c tollgate -f -n '\(condition)' -a \(operand)\n" }
        }
        return text
    }

    private static func fishText(_ text: String) -> String {
        "'" + text.map { $0 == "'" || $0 == "\\" ? "\\\($0)" : String($0) }.joined() + "'"
    }
}
