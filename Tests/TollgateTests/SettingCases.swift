import Testing
import Workbench

@testable import Settings
@testable import tollgate

/// A case of a document in `Cases`: settings, and all that comes of them.
struct SettingCase {
    /// `DOCUMENT:LINE`.
    let place: String
    let line: String
    /// The env file, and the number of the line in it that the case is.
    let text: String
    let number: Int
    let files: [String: [UInt8]]
    var faults: [String] = []
    var warnings: [String] = []
    /// Parts of what `check` prints as text and as JSON.
    var shown: [String] = []
    var members: [String] = []

    /// A finding of the case's own line is written without its place and name.
    func whole(_ message: String) -> String {
        if message.hasPrefix("a.env:") || message.hasPrefix("default:") { return message }
        let name = text.split(separator: "\n", omittingEmptySubsequences: false)[number - 1].prefix { $0 != "=" }
        return "a.env:\(number): \(name): \(message)"
    }

    /// Each difference from the document.
    func failures() -> [String] {
        let loaded = load(text, files: files)
        var failures: [String] = []
        for (kind, found, wanted) in [("fault", loaded.findings.faults, faults), ("warning", loaded.findings.warnings, warnings)] {
            let found = found.map(\.text), wanted = wanted.map(whole)
            if found != wanted { failures.append("\(place): \(line)\n  wants of each \(kind) \(wanted)\n  and has \(found)") }
        }
        if !shown.isEmpty || !members.isEmpty {
            let (table, json) = (CheckCommand.run(loaded, json: false).output, CheckCommand.run(loaded, json: true).output)
            failures += shown.filter { !table.contains($0) }.map { "\(place): \(line)\n  `check` does not print \($0):\n\(table)" }
            failures += members.filter { !json.contains($0) }.map { "\(place): \(line)\n  `check --json` does not print \($0):\n\(json)" }
        }
        return failures
    }

    static func all(_ document: String) throws -> (cases: [SettingCase], mistakes: [String]) {
        read(document, try packageFile("Tests/TollgateTests/Cases/\(document)"))
    }

    /// The cases of a document with this text, and the mistakes in it; see `Cases/README.md`.
    static func read(_ document: String, _ text: String) -> (cases: [SettingCase], mistakes: [String]) {
        var cases: [SettingCase] = [], mistakes: [String] = [], block = "", hasCase = false
        var template: [String] = [], files: [String: [UInt8]] = [:]
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            func mistake(_ text: String) { mistakes.append("\(document):\(index + 1): \(text)") }
            if line.hasPrefix("```") {
                block = block.isEmpty ? String(line.dropFirst(3)) : ""
                if block == "settings" { (template, files) = ([], [:]) }
                if block == "cases" { hasCase = false }
                if !["", "settings", "cases"].contains(block), !block.hasPrefix("file ") {
                    mistake("\"\(block)\" is no block, write settings, cases or file NAME")
                }
            } else if block == "settings" {
                template.append(String(line))
            } else if block.hasPrefix("file ") {
                files[String(block.dropFirst(5)), default: []] += Array(line.utf8)
            } else if block == "cases" {
                guard line.hasPrefix("    ") else {
                    let settings = template.map { $0.replacing("@@", with: line.replacing("\\n", with: "\n")) }.joined(separator: "\n")
                    let number = template.prefix { !$0.contains("@@") }.count + 1
                    hasCase = true
                    cases.append(
                        SettingCase(place: "\(document):\(index + 1)", line: String(line), text: settings, number: number, files: files))
                    continue
                }
                let parts = line.dropFirst(4).split(separator: " ", maxSplits: 1).map(String.init)
                guard parts.count == 2, let outcome = outcomes[parts[0]] else {
                    mistake("\"\(line.dropFirst(4))\" is no outcome, write fault, warning, shows or json, and a text")
                    continue
                }
                guard hasCase else {
                    mistake("\"\(line.dropFirst(4))\" is an outcome before a case")
                    continue
                }
                cases[cases.count - 1][keyPath: outcome].append(parts[1])
            }
        }
        if !block.isEmpty { mistakes.append("\(document): its last block has no end") }
        return (cases, mistakes)
    }

    private static let outcomes: [String: any WritableKeyPath<SettingCase, [String]> & Sendable] = [
        "fault": \.faults, "warning": \.warnings, "shows": \.shown, "json": \.members,
    ]
    static let documents = ["purchases.md", "routes.md", "settings.md", "trust.md", "upstreams.md"]
}

/// Lines as an operator might write them, and just what `tollgate check` says of them.
@Suite struct SettingCaseTests {
    @Test(arguments: SettingCase.documents) func everyCaseComesOut(_ document: String) throws {
        let (cases, mistakes) = try SettingCase.all(document)
        #expect(cases.count > 3)
        for failure in mistakes + cases.flatMap({ $0.failures() }) { Issue.record("\(failure)") }
    }

    @Test func everyDocumentIsRead() {
        let documents = TemporaryFolder.names(packagePath("Tests/TollgateTests/Cases")).filter { $0.hasSuffix(".md") && $0 != "README.md" }
        #expect(documents.sorted() == SettingCase.documents)
    }

    @Test(arguments: [
        ("```setings\nA=@@\n```", ["a.md:1: \"setings\" is no block, write settings, cases or file NAME"]),
        ("```cases\na\n    fault\n```", ["a.md:3: \"fault\" is no outcome, write fault, warning, shows or json, and a text"]),
        ("```cases\na\n    error b\n```", ["a.md:3: \"error b\" is no outcome, write fault, warning, shows or json, and a text"]),
        ("```cases\na\n```\n```cases\n    fault b\n```", ["a.md:5: \"fault b\" is an outcome before a case"]),
        ("```cases\na\n    fault b", ["a.md: its last block has no end"]), ("```cases\na\n    fault b c\n```", []),
    ])
    func mistakesOfADocumentAreTold(_ text: String, _ mistakes: [String]) {
        #expect(SettingCase.read("a.md", text).mistakes == mistakes)
    }
}
