import Testing

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

    /// The cases of a document; see `Cases/README.md`.
    static func all(_ document: String) throws -> [SettingCase] {
        var cases: [SettingCase] = [], block = "", template: [String] = [], files: [String: [UInt8]] = [:]
        for (index, line) in try packageFile("Tests/SettingsTests/Cases/\(document)").split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            if line.hasPrefix("```") {
                block = block.isEmpty ? String(line.dropFirst(3)) : ""
                if block == "settings" { (template, files) = ([], [:]) }
            } else if block == "settings" {
                template.append(String(line))
            } else if block.hasPrefix("file ") {
                files[String(block.dropFirst(5)), default: []] += Array(line.utf8)
            } else if block == "cases" {
                guard line.hasPrefix("    ") else {
                    let settings = template.map { $0.replacing("@@", with: line.replacing("\\n", with: "\n")) }.joined(separator: "\n")
                    let number = template.prefix { !$0.contains("@@") }.count + 1
                    cases.append(SettingCase(place: "\(document):\(index + 1)", line: String(line), text: settings, number: number, files: files))
                    continue
                }
                let parts = line.dropFirst(4).split(separator: " ", maxSplits: 1).map(String.init)
                let last = cases.count - 1
                switch parts[0] {
                case "fault": cases[last].faults.append(parts[1])
                case "warning": cases[last].warnings.append(parts[1])
                case "shows": cases[last].shown.append(parts[1])
                case "json": cases[last].members.append(parts[1])
                default: Issue.record("\(document):\(index + 1): \(parts[0]) is no outcome, write fault, warning, shows or json")
                }
            }
        }
        return cases
    }

    static let documents = TemporaryFolder.names(packagePath("Tests/SettingsTests/Cases")).filter { $0.hasSuffix(".md") && $0 != "README.md" }.sorted()
}

/// Lines as an operator might write them, and just what `tollgate check` says of them.
@Suite struct SettingCaseTests {
    @Test(arguments: SettingCase.documents) func everyCaseComesOut(_ document: String) throws {
        let cases = try SettingCase.all(document)
        #expect(cases.count > 3)
        for failure in cases.flatMap({ $0.failures() }) { Issue.record("\(failure)") }
    }
}
