import Foundation
import Testing

/// What `deploy/test --changed` chooses, by the import graph of the package.
@Suite struct ChangedTestsTests {
    private static let everything: Set = [
        "AccountsTests", "AcmeTests", "AdminTests", "ClusterTests", "ContractsTests", "CredentialsTests", "EndToEndTests", "GateTests",
        "HTTPTests",
        "IssuersTests",
        "MailTests", "ProxyTests", "PurchasesTests", "RedisTests", "SettingsTests", "StorageTests", "TelemetryTests", "TidyTests",
        "TollgateTests",
        "TransportTests", "WireTests",
    ]

    @Test(
        arguments: [
            (["Sources/Wire/ASCII.swift"], everything),
            (
                ["Sources/Gate/Decision.swift"],
                [
                    "TidyTests", "GateTests", "ProxyTests", "AdminTests", "ClusterTests", "ContractsTests", "IssuersTests", "SettingsTests",
                    "TollgateTests", "EndToEndTests",
                ]
            ),
            (
                ["Sources/Telemetry/X.swift"],
                [
                    "TidyTests", "TelemetryTests", "GateTests", "ContractsTests", "ProxyTests", "AdminTests", "IssuersTests",
                    "SettingsTests", "TollgateTests", "EndToEndTests",
                ]
            ),
            (["Sources/Admin/AdminAPI.swift"], ["TidyTests", "AdminTests", "TollgateTests", "EndToEndTests"]),
            (["Sources/Cluster/X.swift"], ["TidyTests", "ClusterTests", "TollgateTests", "EndToEndTests"]),
            (
                ["Sources/CCurl/ccurl.c"],
                ["TidyTests", "AcmeTests", "IssuersTests", "MailTests", "PurchasesTests", "TollgateTests", "EndToEndTests"]
            ),
            (["Sources/tollgate/Commands/Command.swift"], ["TidyTests", "TollgateTests", "EndToEndTests"]),
            (["Tests/HTTPTests/Cases/heads.md"], ["TidyTests", "HTTPTests"]),
            (
                ["Tests/MemoryStore/MemoryStore.swift"],
                [
                    "TidyTests", "AccountsTests", "AdminTests", "ClusterTests", "ContractsTests", "TollgateTests",
                ]
            ),
            (["Tests/TidyTests/WordTests.swift"], ["TidyTests"]),
            (["Tests/ContractsTests/Cases/apple.md"], ["TidyTests", "ContractsTests", "EndToEndTests.ContractStoryTests"]),
            (["docs/limits.md"], ["TidyTests", "EndToEndTests.DocumentExampleTests"]),
            (["docs/settings.md"], ["TidyTests", "TollgateTests.ShippedFileTests", "EndToEndTests.DocumentExampleTests"]),
            (["docs/images/growth.svg"], ["TidyTests", "EndToEndTests.PictureTests"]),
            (["docs/clients/Tollgate.swift"], ["TidyTests", "EndToEndTests.SwiftClientTests", "EndToEndTests.DocumentExampleTests"]),
            (["docs/limits.md", "Tests/EndToEndTests/LimitTests.swift"], ["TidyTests", "EndToEndTests"]),
            (
                ["deploy/systemd/tollgate.service"],
                ["TidyTests", "TollgateTests", "EndToEndTests.ServiceUnitTests", "EndToEndTests.PackageTests"]
            ),
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

    @Test(arguments: [
        (
            ["--changed"],
            ["compared with", "(begin)", "tollgate: GateTests\\. for Sources/Gate/New.swift", "builds the tests and the program"]
        ),
        (["--changed", "HEAD"], ["(change)", "nothing differs, so there is nothing to test"]),
        (["--filter", "^(GateTests|ProxyTests)"], ["builds the tests\n"]),
        (["--filter", #"GateTests\.(LimitTests|X)/"#], ["builds the tests\n"]),
        (["--filter", "LimitTests"], ["builds the tests and the program"]), (["--filter", "^(GateTests|End)"], ["the program"]),
        (["--filter", "aLimit"], ["the program"]), (["--filter", "WireTests", "--filter", #"LimitTests\.swift"#], ["the program"]),
        (["--filter", "("], ["the program"]),
    ])
    func aBranchWithoutAnUpstreamIsComparedWithMain(_ arguments: [String], _ expected: [String]) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "changed-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        for file in ["deploy/test", "deploy/changed-tests", "deploy/requirements.sh", "Package.swift"] {
            let copy = folder.appending(path: file)
            try FileManager.default.createDirectory(at: copy.deletingLastPathComponent(), withIntermediateDirectories: true)
            try FileManager.default.copyItem(at: SourceTree.root.appending(path: file), to: copy)
        }
        let script = """
            set -e
            mkdir -p Tests/EndToEndTests Sources/Gate
            echo 'struct LimitTests { @Test func aLimitHolds() {} }' >Tests/EndToEndTests/LimitTests.swift
            git init -q -b main . && git config user.email a@example.org && git config user.name A
            git add . && git commit -q -m begin && git checkout -q -b change
            touch Sources/Gate/New.swift && git add . && git commit -q -m change
            """
        #expect(try run("/bin/bash", ["-c", script], in: folder).0 == 0)
        let (code, output) = try run("deploy/test", arguments + ["--list"], in: folder)
        #expect(code == 0 && expected.allSatisfy(output.contains), "\(output)")
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

    /// Runs a script of the package, or of `folder`; answers its code, and what it wrote.
    private func run(
        _ script: String, _ arguments: [String], input: String = "", in folder: URL = SourceTree.root
    ) throws -> (Int32, String) {
        let process = Process()
        let (said, asked) = (Pipe(), Pipe())
        process.executableURL = script.hasPrefix("/") ? URL(filePath: script) : folder.appending(path: script)
        process.currentDirectoryURL = folder
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
