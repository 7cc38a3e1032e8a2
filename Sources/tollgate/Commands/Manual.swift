internal import Settings
internal import Wire

/// The manual page tollgate(8) in the form of man(7), generated from the tables of commands and settings.
enum Manual {
    static var page: String {
        var text = """
            .TH TOLLGATE 8 "" "Tollgate \(Version.text)" "System Administration"
            .SH NAME
            tollgate \\- auth gateway for the API services of apps
            .SH SYNOPSIS
            .B tollgate
            .I COMMAND
            .RI [ OPERAND ...]
            .RI [ OPTION ...]
            .SH DESCRIPTION
            Tollgate terminates HTTP, verifies bearer tokens, enforces tiers and rate limits, and forwards requests with verified
            user headers to API services. It also is the auth server of the app.
            .SH COMMANDS
            Every command answers
            .B \\-\\-help
            and
            .BR \\-\\-json .

            """
        for command in Command.all {
            text += ".TP\n.B \(escaped(CommandHelp.usage(command)))\n\(line(command.summary))\n"
            let options = command.ownOptions
            guard !options.isEmpty else { continue }
            text += ".RS\n"
            for option in options {
                text += ".TP\n.B \(escaped("--\(option.name)\(option.value.map { " " + $0 } ?? "")"))\n\(line(option.doc))\n"
            }
            text += ".RE\n"
        }
        text += ".SH EXAMPLES\n"
        for example in Command.all.flatMap(\.examples) { text += ".PP\n\(line(example))\n" }
        text +=
            ".SH OPTIONS\nOf all commands that read the configuration:\n.TP\n.B \\-\\-env\\-file FILE\n\(line(CommandOption.envFile.doc))\n"
        text += """
            .SH ENVIRONMENT
            Settings come from the process environment, which wins, and from env files. A secret X may also be given as X_FILE, the
            path of a file.

            """
        for setting in Setting.all {
            text += ".TP\n.B \(escaped(setting.shownName))\n\(line(setting.doc))\n"
            if !setting.defaultValue.isEmpty { text += "Default: \(line(setting.defaultValue))\n" }
        }
        text += """
            .SH FILES
            .TP
            .I /etc/tollgate/tollgate.env
            Settings of the service.
            .TP
            .I /var/lib/tollgate
            Signing keys and the embedded database of the service.
            .SH SIGNALS
            .TP
            .B SIGHUP
            Reloads the configuration; a faulty one is logged and changes nothing.
            .TP
            .B SIGUSR2
            Starts the program anew, which takes over the listeners without losing a request; if it does not start, the old process keeps serving.
            .TP
            .BR SIGTERM ", " SIGINT
            Drains and ends; a second one ends at once.
            .SH EXIT STATUS
            0 done, 1 failed, 2 wrong usage or configuration.

            """
        return text
    }

    /// One line of running text: no line may begin with a control character.
    private static func line(_ text: String) -> String {
        let escaped = escaped(text)
        return escaped.hasPrefix(".") || escaped.hasPrefix("'") ? "\\&" + escaped : escaped
    }

    private static func escaped(_ text: String) -> String {
        var result = ""
        for character in text {
            switch character {
            case "\\": result += "\\e"
            case "-": result += "\\-"
            case "\"": result += "\\(dq"
            case "\n": result += " "
            default:
                for scalar in character.unicodeScalars {
                    result += scalar.isASCII ? String(scalar) : "\\[u\(hex(scalar))]"
                }
            }
        }
        return result
    }

    /// At least four digits.
    private static func hex(_ scalar: Unicode.Scalar) -> String {
        let digits = String(scalar.value, radix: 16, uppercase: true)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }
}
