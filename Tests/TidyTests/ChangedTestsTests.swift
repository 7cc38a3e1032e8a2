import Foundation
import Testing

/// What `deploy/test --changed` chooses, by the import graph of the package.
@Suite struct ChangedTestsTests {
    private static let everything: Set = [
        "AccountsTests", "ContractsTests", "CredentialsTests", "EndToEndTests", "GateTests", "HTTPTests", "MailTests", "ProxyTests", "RedisTests",
        "SettingsTests", "StorageTests", "TelemetryTests", "TidyTests", "TransportTests", "WireTests",
    ]

    @Test(arguments: [
        (["Sources/Wire/ASCII.swift"], everything),
        (["Sources/Gate/Decision.swift"], ["TidyTests", "GateTests", "ProxyTests", "ContractsTests", "SettingsTests", "EndToEndTests"]),
        (["Sources/Telemetry/X.swift"], ["TidyTests", "TelemetryTests", "ProxyTests", "SettingsTests", "EndToEndTests"]),
        (["Sources/CCurl/ccurl.c"], ["TidyTests", "MailTests", "SettingsTests", "EndToEndTests"]),
        (["Sources/tollgate/Commands/Command.swift"], ["TidyTests", "SettingsTests", "EndToEndTests"]),
        (["Tests/HTTPTests/Cases/heads.md"], ["TidyTests", "HTTPTests"]),
        (["Tests/MemoryStore/MemoryStore.swift"], ["TidyTests", "AccountsTests", "ContractsTests", "SettingsTests", "StorageTests"]),
        (["Tests/TidyTests/WordTests.swift"], ["TidyTests"]),
        (["Tests/ContractsTests/Cases/apple.md"], ["TidyTests", "ContractsTests", "EndToEndTests.ContractStoryTests"]),
        (["docs/limits.md"], ["TidyTests", "EndToEndTests.DocumentExampleTests"]),
        (["docs/settings.md"], ["TidyTests", "SettingsTests.ShippedFileTests", "EndToEndTests.DocumentExampleTests"]),
        (["docs/limits.md", "Tests/EndToEndTests/LimitTests.swift"], ["TidyTests", "EndToEndTests"]),
        (["deploy/systemd/tollgate.service"], ["TidyTests", "SettingsTests", "EndToEndTests.ServiceUnitTests", "EndToEndTests.PackageTests"]),
        (["LICENSE"], ["TidyTests"]), (["Tests/Chaos/faults.py"], ["TidyTests", "Chaos"]),
        (["Package.swift"], everything), (["deploy/changed-tests"], everything), (["somewhere/else"], everything),
        (["Sources/NoSuchTarget/X.swift"], everything), ([], []),
    ] as [([String], Set<String>)])
    func whatAChangeReachesIsChosen(_ paths: [String], _ chosen: Set<String>) throws {
        let (code, output) = try run("deploy/changed-tests", [], input: paths.joined(separator: "\n"))
        let filters = output.split(separator: "\n").map { $0.prefix { $0 != "\t" } }
        #expect(code == 0)
        #expect(filters.allSatisfy { $0.hasSuffix("\\.") || $0.hasSuffix("/") }, "a filter stands for no longer name")
        #expect(Set(filters.map { $0.replacing("\\.", with: ".").dropLast() }.map(String.init)) == chosen)
    }

    /// A suite that is moved or renamed must be so in the rules as well.
    @Test func theRulesNameSuitesThatExist() throws {
        let rules = try TreeFile(path: "deploy/changed-tests").text()
        for named in rules.matches(of: /"(\w+Tests)\.(\w+Tests)"/) {
            let (target, suite) = (String(named.output.1), String(named.output.2))
            let files = SourceTree.files(in: "Tests/\(target)", suffixes: [".swift"])
            #expect(try files.contains { try $0.text().contains("struct \(suite) ") }, "\(target) has no suite \(suite)")
        }
    }

    @Test(arguments: [
        (["--chnged"], "'--chnged' is no option"), (["--filter"], "--filter needs a value"), (["--list"], "--list needs --changed"),
        (["--seed", "1"], "--seed needs --chaos"), (["--chaos", "--seed"], "--seed needs a value"),
        (["--chaos", "--filter", "x"], "--chaos goes with no option but its own"),
        (["--changed", "no-such-commit"], "no-such-commit is no commit"), (["--changed", "--filter", "x"], "--changed chooses the tests"),
    ])
    func wrongArgumentsAreToldBeforeAnythingIsDone(_ arguments: [String], _ message: String) throws {
        let (code, output) = try run("deploy/test", arguments)
        #expect(code == 64)
        #expect(output.hasPrefix("tollgate: \(message)"), "\(output)")
    }

    /// Runs a script of the package; answers its code, and what it wrote.
    private func run(_ script: String, _ arguments: [String], input: String = "") throws -> (Int32, String) {
        let process = Process()
        let (said, asked) = (Pipe(), Pipe())
        process.executableURL = SourceTree.root.appending(path: script)
        process.currentDirectoryURL = SourceTree.root
        process.arguments = arguments
        process.standardInput = asked
        process.standardOutput = said
        process.standardError = said
        try process.run()
        try asked.fileHandleForWriting.write(contentsOf: Data(input.utf8))
        try asked.fileHandleForWriting.close()
        let output = said.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: output, as: UTF8.self))
    }
}
