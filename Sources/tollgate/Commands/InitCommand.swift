internal import Admin
internal import Credentials
internal import Glibc
internal import Settings
internal import System
internal import Wire

/// `tollgate init`: writes an env file from questions on a terminal, or from options.
struct InitCommand {
    let loader: ConfigurationLoader
    let now: WallTime
    let writeError: @Sendable (String) -> Void
    /// nil without a terminal.
    let ask: (@Sendable (String) -> String?)?

    func run(_ arguments: Arguments) throws(UsageFault) -> CommandResult {
        let path = arguments.operands.first ?? ConfigurationLoader.usualFile
        let given = try Self.answers(arguments)
        guard given != nil || ask != nil else {
            throw UsageFault("`init` asks questions and standard input is no terminal, answer them by options like --upstream URL")
        }
        do throws(SystemFault) {
            let replaced = try existing(path)
            if replaced != nil, !arguments.has("force") {
                return .failed("\(path) exists already and stays as it is; --force replaces it, `tollgate init FILE` writes another")
            }
            let secrets = (admin: Self.secret(), key: Self.secret())
            let directory = try FileBytes.workingDirectory()
            let file = { SetupFile(answers: $0, secrets: secrets, path: path, workingDirectory: directory) }
            let judge: Interview.Judge = { loader.load(file($0).text, as: path, now: now).findings }
            let answers: SetupAnswers
            if let given {
                if let complaint = Self.complaint(about: given, judge) { return .failed(complaint, exitCode: 2) }
                answers = given
            } else if let answered = interview(judge) {
                answers = answered
            } else {
                return .failed("the questions were not answered to the end, nothing is written")
            }
            return try write(file(answers), replacing: replaced, json: arguments.has("json"))
        } catch {
            return .failed(error.description)
        }
    }

    // MARK: answers

    /// The answers of the options; nil if there are none.
    private static func answers(_ arguments: Arguments) throws(UsageFault) -> SetupAnswers? {
        var answers = SetupAnswers()
        let given = SetupQuestion.allCases.filter { arguments.has($0.rawValue) }
        for question in given { answers[question] = arguments.value(question.rawValue) ?? "" }
        guard !given.isEmpty else { return nil }
        let whole = answers.completed
        for question in SetupQuestion.allCases {
            let fits = question.applies(to: whole)
            if given.contains(question), !fits { throw UsageFault("--\(question.rawValue) \(question.misfit(whole))") }
            if fits, question.isNeeded(in: whole), !given.contains(question) {
                throw UsageFault("`init` needs --\(question.rawValue) \(question.placeholder): \(question.doc)")
            }
        }
        return whole
    }

    private static func complaint(about answers: SetupAnswers, _ judge: Interview.Judge) -> String? {
        for question in SetupQuestion.allCases where question.applies(to: answers) {
            if let complaint = Interview.complaint(about: question, in: answers, judge) { return "--\(question.rawValue): \(complaint)" }
        }
        return nil
    }

    /// nil if the input ends before the last answer.
    private func interview(_ judge: Interview.Judge) -> SetupAnswers? {
        var interview = Interview()
        writeError("Five questions. An empty answer takes what is in brackets.\n")
        while interview.question != nil {
            guard let line = ask?(interview.prompt) else {
                writeError("\n")
                return nil
            }
            if let complaint = interview.answer(line, judge: judge) { writeError("    \(complaint)\n") }
        }
        return interview.answers
    }

    /// 43 characters with 256 random bits.
    private static func secret() -> String { Base64URL.encode(SecureRandom.bytes(32).rawBytes) }

    // MARK: the file

    private func existing(_ path: String) throws(SystemFault) -> FileStamp? {
        do throws(SystemFault) {
            return try FileBytes.stamp(path)
        } catch {
            guard error.errno == ENOENT else { throw error }
            return nil
        }
    }

    /// Writes the file if `check` accepts it. One that takes the place of another stays readable by the group of that one, which
    /// is the service's, but never by others.
    private func write(_ file: SetupFile, replacing replaced: FileStamp?, json: Bool) throws(SystemFault) -> CommandResult {
        let loaded = loader.load(file.text, as: file.path, now: now)
        guard let configuration = loaded.configuration else { return .refused(loaded.findings) }
        if let slash = file.path.lastIndex(of: "/"), slash != file.path.startIndex {
            try FileBytes.makeDirectory(String(file.path[..<slash]), mode: 0o755)
        }
        try FileBytes.write(Array(file.text.utf8), to: file.path, mode: (replaced?.mode ?? 0o600) & 0o640, replacing: replaced)
        let readers = Self.readers(try FileBytes.stamp(file.path))
        let steps = Self.steps(file)
        guard !json else {
            return .json { json in
                json.beginObject()
                json.field("file", file.path)
                json.findings(loaded.findings)
                ShownRoutes.plain.writeMembers(ShownRoutes(configuration), &json)
                json.array("next", steps) { $0.string($1) }
                json.endObject()
            }
        }
        let next = "\n\(file.path) is written, readable by \(readers) alone. Next:\n\n" + steps.map { "    \($0)\n" }.joined()
        return CommandResult(output: CheckTable.text(configuration) + next, errorOutput: CommandResult.warnings(loaded.findings))
    }

    private static func readers(_ stamp: FileStamp) -> String {
        let owner = stamp.owner == geteuid() ? "you" : "its owner"
        return stamp.mode & 0o040 == 0 ? owner : "\(owner) and the group \(stamp.group)"
    }

    /// The commands to run next.
    private static func steps(_ file: SetupFile) -> [String] {
        let option = file.path == ConfigurationLoader.usualFile ? "" : " --env-file \(word(file.path))"
        let claim = file.routeClaim.map { " --claim \(word("\($0.name)=\($0.value)"))" } ?? ""
        let url = file.answers.publicURL
        return [
            "tollgate serve\(option)",
            "curl -i -H \"Authorization: Bearer $(tollgate token mint --sub ada\(claim)\(option))\" \(word(url.hasSuffix("/") ? url : url + "/"))",
            "tollgate doctor\(option)",
        ]
    }

    /// As one word of a shell.
    private static func word(_ text: String) -> String {
        let isPlain = text.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "/.:_-@=".utf8.contains($0) }
        return isPlain ? text : "'" + text.replacing("'", with: "'\\''") + "'"
    }
}

extension SetupQuestion {
    /// The options of `tollgate init`.
    static var options: [CommandOption] {
        allCases.map { CommandOption($0.rawValue, $0.placeholder, $0.doc) }
            + [CommandOption("force", nil, "replaces the file if it exists")]
    }

    static let examples = [
        "tollgate init --upstream http://127.0.0.1:9001 --contract password",
        "tollgate init --upstream http://127.0.0.1:9001 --contract provider --apple-client-ids org.example.app --public-url https://api.example.org --trusted-proxies 10.0.0.0/8",
        "tollgate init --upstream http://10.0.0.5:8080 --issuer auth0 --tenant example.eu.auth0.com --audience https://api.example.org",
        "tollgate init --upstream http://10.0.0.5:8080 --issuer cognito --tenant eu-west-1_AbCdEf123 --audience 1example23456789",
        "tollgate init --upstream http://10.0.0.5:8080 --issuer keycloak --tenant https://sso.example.org/realms/main --redis redis://10.0.0.6:6379",
        "tollgate init /etc/tollgate/tollgate.env --upstream http://10.0.0.5:8080 --issuer firebase --tenant my-app-1a2b3 --tls-cert /etc/ssl/api.crt --tls-key /etc/ssl/private/api.key --public-url https://api.example.org",
    ]
}
