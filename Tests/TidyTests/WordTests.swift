import Testing

/// A word that is banned from code, and its replacement.
private struct BannedWord {
    var word: String
    var instead: String
    /// The targets in which it is allowed.
    var exceptIn: Set<String> = []
    /// The targets in which it is banned; nil for all.
    var onlyIn: Set<String>?
    /// Whether it is allowed with a comment that says why.
    var isAllowedWithReason = false
}

private let core: Set<String> = ["Wire", "Credentials", "HTTP", "Gate", "Telemetry"]
private let dataPlane: Set<String> = ["Transport", "Redis", "Proxy"]

private let banned: [BannedWord] = [
    .init(word: "try!", instead: "handle the error, or `do`/`catch` with preconditionFailure and what was assumed"),
    .init(word: "as!", instead: "`as?` with an answer for nil, or a type that needs no cast"),
    .init(word: "fatalError(", instead: "a typed error for a peer's fault, preconditionFailure(\"what was assumed\") for ours"),
    .init(word: "print(", instead: "a log line; only the commands in Sources/tollgate write for people", exceptIn: ["tollgate"]),
    .init(word: "debugPrint(", instead: "a log line"),
    .init(word: "import Foundation", instead: "Wire's own types; Foundation costs 11 MB resident"),
    .init(word: "[String: Any]", instead: "JSONReader and JSONWriter"),
    .init(word: "try?", instead: "`do`/`catch`, or a comment that says why the error may be forgotten", isAllowedWithReason: true),
    .init(
        word: "default: break", instead: "the cases by name, or a comment that says why the others may be passed over",
        isAllowedWithReason: true),
    .init(word: "@unchecked Sendable", instead: "a Sendable value or a Mutex, or a comment with the proof", isAllowedWithReason: true),
    .init(word: "nonisolated(unsafe)", instead: "a let or a Mutex, or a comment with the proof", isAllowedWithReason: true),
    .init(
        word: "Task {", instead: "an owned thread or a structured child, or a comment that says who waits for it", isAllowedWithReason: true
    ),
    .init(word: "Task.detached", instead: "an owned thread, or a comment that says who waits for it", isAllowedWithReason: true),
    .init(word: "DispatchQueue", instead: "Threads' WorkerThread, or Transport's Mailbox"),
    .init(word: "await ", instead: "a callback or a state machine: the data plane never suspends", onlyIn: core.union(dataPlane)),
    .init(word: " async ", instead: "a callback or a state machine: the data plane never suspends", onlyIn: core.union(dataPlane)),
    .init(word: "clock_gettime", instead: "a Moment passed in: the core reads no clock", onlyIn: core),
    .init(word: "ContinuousClock", instead: "a Moment passed in", onlyIn: core.union(dataPlane)),
    .init(word: "getenv(", instead: "a value from the settings, passed down", exceptIn: ["tollgate"]),
    .init(word: "environ", instead: "a value from the settings, passed down", onlyIn: core.union(dataPlane)),
    .init(
        word: "SystemRandomNumberGenerator", instead: "random words passed in, or Credentials' SecureRandom", onlyIn: core,
        isAllowedWithReason: true),
]

/// The only files in which async code meets an event loop, or a thread waits for a task.
private let crossings: Set<String> = [
    "Sources/Proxy/Local/LocalService.swift", "Sources/Redis/AwaitableRedis.swift", "Sources/Threads/Blocking.swift",
]

/// Words without meaning, banned from the names of types and files, each with its replacement.
private let emptyWords: [String: String] = [
    "Utils": "the name of what the functions work on", "Util": "the name of what it works on",
    "Utilities": "the name of what they work on", "Helper": "the name of what it does",
    "Helpers": "extensions of the type they help", "Manager": "what it owns: Pool, Table, Registry",
    "Common": "the name of what is shared", "Misc": "one file per subject", "Legacy": "deletion", "V2": "the one name; delete the other",
    "Impl": "the plain name",
]

/// Names that contain a banned word but have a meaning, which is given.
private let meaningfulNames: [String: String] = [
    "CommonPasswords": "the contracts' word for what many people choose",
    "AuthManager": "the name that the documents of the contracts give to an app's client",
    "ServiceManager": "what systemd and its like are called", "ServiceManagerTests": "the same",
]

@Suite struct WordTests {
    @Test func noBannedWordStandsInTheSources() throws {
        for file in SourceTree.swiftSources { report(bannedWords(in: file, try file.lines())) }
    }

    @Test func jsonIsWrittenByTheWriterAlone() throws {
        for file in SourceTree.swiftSources where file.path != "Sources/Wire/JSONWriter.swift" {
            report(spelledJSON(in: file, try file.lines()))
        }
    }

    @Test func namesHaveNoEmptyWords() throws {
        for file in SourceTree.swiftFiles { report(emptyNames(in: file, try file.lines())) }
    }

    @Test func sharedDeclarationsHaveADocComment() throws {
        for file in SourceTree.swiftSources { report(undocumented(in: file, try file.lines())) }
    }

    private func report(_ faults: [String]) {
        for fault in faults { Issue.record("\(fault)") }
    }
}

/// Tests of the rules themselves.
@Suite struct WordRuleTests {
    @Test func everyBannedWordIsFoundAndAReasonLetsSomeBe() {
        for rule in banned {
            let file = TreeFile(path: "Sources/\(rule.onlyIn?.sorted().first ?? "Wire")/X.swift")
            let line = "let x = \(rule.word) y"
            #expect(bannedWords(in: file, SourceText.lines(of: line)).count == 1, "\(rule.word)")
            let reasoned = "// because\n\(line)\n\(line)"
            #expect(bannedWords(in: file, SourceText.lines(of: reasoned)).count == (rule.isAllowedWithReason ? 0 : 2), "\(rule.word)")
            #expect(bannedWords(in: file, SourceText.lines(of: "\"\(rule.word)\" // \(rule.word)")).isEmpty, "\(rule.word)")
        }
        #expect(bannedWords(in: TreeFile(path: "Sources/tollgate/X.swift"), SourceText.lines(of: "print(1)")).isEmpty)
        #expect(bannedWords(in: TreeFile(path: "Sources/Gate/X.swift"), SourceText.lines(of: "fingerprint(1)")).isEmpty)
        #expect(bannedWords(in: TreeFile(path: "Sources/Proxy/Local/LocalService.swift"), SourceText.lines(of: "x = await y")).isEmpty)
    }

    @Test(arguments: ["HTTPUtils", "UtilsHTTP", "TokenHelper", "PoolManager", "Common", "URLImpl", "StoreV2", "Misc"])
    func aNameWithAnEmptyWordIsFound(_ name: String) {
        let lines = SourceText.lines(of: "package struct \(name): Sendable {")
        #expect(emptyNames(in: TreeFile(path: "Sources/Gate/X.swift"), lines).count == 1)
        #expect(emptyNames(in: TreeFile(path: "Sources/Gate/\(name).swift"), []).count == 1)
    }

    @Test(arguments: ["Utility", "Managed", "Baseline", "Base64URL", "TokenCache", "Uncommon"])
    func aMeaningfulNameIsAllowed(_ name: String) {
        let found = emptyNames(in: TreeFile(path: "Sources/Gate/\(name).swift"), SourceText.lines(of: "enum \(name) {"))
        #expect(found.isEmpty)
    }

    @Test func jsonSpelledByHandIsFound() {
        let file = TreeFile(path: "Sources/Gate/X.swift")
        #expect(spelledJSON(in: file, SourceText.lines(of: #"out.append("{\"error\":1}")"#)).count == 1)
        #expect(spelledJSON(in: file, SourceText.lines(of: #"out.append("{}")"#)).isEmpty)
    }

    @Test func aSharedDeclarationWithoutADocCommentIsFound() {
        let file = TreeFile(path: "Sources/Gate/X.swift")
        #expect(undocumented(in: file, SourceText.lines(of: "package struct X {}")).count == 1)
        #expect(undocumented(in: file, SourceText.lines(of: "/// What it is.\n@frozen\npublic struct X {}")).isEmpty)
        #expect(undocumented(in: file, SourceText.lines(of: "package import Wire\nstruct Y {}")).isEmpty)
    }
}

private func bannedWords(in file: TreeFile, _ lines: [SourceLine]) -> [String] {
    var faults: [String] = []
    for (index, line) in lines.enumerated() {
        for rule in banned where rule.applies(to: file) && contains(line.code, rule.word) {
            if rule.isAllowedWithReason && hasReason(lines, index, rule.word) { continue }
            faults.append("\(file.path):\(line.number): `\(rule.word)`: instead \(rule.instead)")
        }
    }
    return faults
}

/// Whether there is a comment on the line, just below it, or above it and adjacent lines with the same word.
private func hasReason(_ lines: [SourceLine], _ index: Int, _ word: String) -> Bool {
    if lines[index].hasComment || index + 1 < lines.count && lines[index + 1].hasComment { return true }
    guard index > 0 else { return false }
    return contains(lines[index - 1].code, word) ? hasReason(lines, index - 1, word) : lines[index - 1].hasComment
}

private func spelledJSON(in file: TreeFile, _ lines: [SourceLine]) -> [String] {
    lines.filter { $0.text.mentions(#""{\""#) && !$0.code.allSatisfy(\.isWhitespace) }.map {
        "\(file.path):\($0.number): JSON spelled by hand: use Wire's JSONWriter, which escapes"
    }
}

private func undocumented(in file: TreeFile, _ lines: [SourceLine]) -> [String] {
    var faults: [String] = []
    for (index, line) in lines.enumerated() where isSharedDeclaration(line.code) {
        var above = index - 1
        while above >= 0 && lines[above].code.hasPrefix("@") { above -= 1 }
        if above >= 0 && lines[above].text.hasPrefix("///") { continue }
        faults.append("\(file.path):\(line.number): other targets see this: a doc comment says what it is")
    }
    return faults
}

private func emptyNames(in file: TreeFile, _ lines: [SourceLine]) -> [String] {
    let fileName = file.name.split(separator: ".").first.map(String.init) ?? ""
    var named = [(fileName, file.path)]
    for line in lines { named += declaredTypes(line.code).map { ($0, "\(file.path):\(line.number)") } }
    return named.filter { meaningfulNames[$0.0] == nil }.flatMap { name, place in
        words(of: name).compactMap { word in
            emptyWords[word].map { "\(place): \(name) says nothing of what is inside: instead of \(word), \($0)" }
        }
    }
}

/// `HTTPHelpersTests` is HTTP, Helpers, Tests.
private func words(of name: String) -> [String] {
    var words: [String] = []
    let letters = Array(name)
    for (index, letter) in letters.enumerated() {
        let followsSmall = index > 0 && !letters[index - 1].isUppercase
        let precedesSmall = index + 1 < letters.count && letters[index + 1].isLowercase
        if index == 0 || letter.isUppercase && (followsSmall || precedesSmall) { words.append("") }
        words[words.count - 1].append(letter)
    }
    return words
}

private func declaredTypes(_ code: String) -> [String] {
    let kinds: Set = ["struct", "class", "enum", "actor", "protocol", "typealias"]
    guard kinds.contains(where: code.mentions) else { return [] }
    let words = code.split { !($0.isLetter || $0.isNumber || $0 == "_") }.map(String.init)
    return zip(words, words.dropFirst()).compactMap { kinds.contains($0) && $1.first?.isUppercase == true ? $1 : nil }
}

/// A declaration at the left margin that other targets see.
private func isSharedDeclaration(_ code: String) -> Bool {
    (code.hasPrefix("package ") || code.hasPrefix("public ")) && !code.contains("import ")
}

/// Whether `code` contains `word`, not as the end of a longer name.
private func contains(_ code: String, _ word: String) -> Bool {
    guard code.mentions(word) else { return false }
    guard word.first?.isLetter == true else { return true }
    return code.ranges(of: word).contains { range in
        guard range.lowerBound > code.startIndex else { return true }
        let before = code[code.index(before: range.lowerBound)]
        return !(before.isLetter || before.isNumber || before == "_")
    }
}

extension BannedWord {
    fileprivate func applies(to file: TreeFile) -> Bool {
        if crossings.contains(file.path) && (word == "await " || word == " async " || isAllowedWithReason) { return false }
        return !exceptIn.contains(file.target) && onlyIn?.contains(file.target) != false
    }
}
