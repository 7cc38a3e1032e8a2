internal import Wire

/// The command to run next after a failure, by the reason in its message. Messages that say themselves what would be right have none.
enum NextStep {
    private static let asItsUser = "run it as the user of the gateway, to whom its files belong: sudo -u tollgate COMMAND"
    /// By parts of the message with `…` between them, the more particular first. `COMMAND` stands for the command line that failed,
    /// `FILES` for its `--env-file` options.
    private static let steps: [(reason: String, step: String)] = [
        ("(no such file or directory), give the path of an env file", "`tollgate init FILE` writes one"),
        ("cannot be read from the database", "`tollgate doctorFILES` looks at the database"),
        ("the accounts cannot be opened: sqlite…permission denied", asItsUser),
        ("the accounts cannot be opened", "`tollgate doctorFILES` looks at the database"),
        ("the accounts do not answer", "`tollgate doctorFILES` looks at the database"),
        ("address already in use", "`ss -ltnp` names the process that listens there: end it, or set another address"),
        ("cannot assign requested address", "`ip address` lists the addresses of this machine: set one of them, or 0.0.0.0"),
        ("cannot listen on unix:", "set a path in a folder that exists and that this user can write"),
        (
            "cannot listen on…permission denied",
            "ports below 1024 need the right to bind them, which the unit of the package gives (CAP_NET_BIND_SERVICE): set a higher port, or run it with that right"
        ),
        ("permission denied", asItsUser),
        ("operation not permitted", asItsUser),
        ("no space left on device", "make room, then run it again; `df -h` names the file systems that are full"),
        ("read-only file system", "set TOLLGATE_DATA_DIR to a folder that can be written"),
        ("no gateway answers at", "`tollgate serveFILES` starts one, and `tollgate doctorFILES` says what it lacks"),
    ]

    /// The line after `message`, which standard error gets; nil if nothing is known that helps. `words` are the arguments without the
    /// program's name.
    static func line(after message: String, _ words: [String]) -> String? {
        let text = message.lowercased()
        guard let step = steps.first(where: { holds(text, $0.reason) })?.step else { return nil }
        var files = ""
        for (index, word) in words.enumerated() {
            if word == "--env-file", index + 1 < words.count { files += " --env-file \(words[index + 1])" }
            if word.hasPrefix("--env-file=") { files += " \(word)" }
        }
        let command = (["tollgate"] + words).joined(separator: " ")
        return "next: " + step.replacing("COMMAND", with: command).replacing("FILES", with: files) + "\n"
    }

    /// Whether `text` has the parts of `reason`, in their order.
    private static func holds(_ text: String, _ reason: String) -> Bool {
        var rest = text[...]
        for part in reason.split(separator: "…") {
            guard let found = rest.firstRange(of: part) else { return false }
            rest = rest[found.upperBound...]
        }
        return true
    }
}
