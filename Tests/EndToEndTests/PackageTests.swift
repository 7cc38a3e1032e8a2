import Foundation
import TestThreads
import Testing

/// The Debian package, made of the program under test.
@Suite(.ownThread, .timeLimit(.minutes(10))) struct PackageTests {
    private func pack(into output: String) throws -> String {
        // Compressed as little as xz can: its size does not matter here.
        try mustRun(
            repository.appending(path: "deploy/package").path, ["--binary", try Tollgate.binary.get(), "--output", output],
            environment: ["DPKG_DEB_COMPRESSOR_LEVEL": "0"], seconds: 280)
    }

    @Test(.enabled(if: mayMount && isThere("/usr/bin/mmdebstrap")))
    func aMachineInstallsItServesUpgradesAndRemovesIt() throws {
        let folder = try Folder()
        let package = try pack(into: folder.file("package"))
        let outcome = try run(
            repository.appending(path: "Tests/EndToEndTests/Package/install").path, [package, folder.path], seconds: 400)
        #expect(outcome.code == 0 && outcome.output.hasSuffix("done"), "\(outcome.output)\n\(outcome.complaints)")
    }

    @Test func theSameProgramGivesTheSamePackage() throws {
        let folder = try Folder()
        let packages = try [pack(into: folder.file("a")), pack(into: folder.file("b"))]
        let bytes = try packages.map { try Data(contentsOf: URL(filePath: $0)) }
        #expect(bytes[0] == bytes[1] && bytes[0].count > 1 << 20)
        let debug = packages.map { $0.replacingOccurrences(of: ".deb", with: ".debug") }
        #expect(try Data(contentsOf: URL(filePath: debug[0])) == Data(contentsOf: URL(filePath: debug[1])))
        try mustRun("/usr/bin/dpkg-deb", ["--extract", packages[0], folder.file("tree")])
        let program = folder.file("tree") + "/usr/bin/tollgate"
        let sections = try mustRun("/usr/bin/readelf", ["--sections", "--wide", program])
        #expect(sections.contains(".text") && !sections.contains(".symtab") && !sections.contains(".debug_info"))
        if try Tollgate.binary.get().contains("/release/") {
            #expect(try Data(contentsOf: URL(filePath: program)).count <= 20_000_000)
        }
        let needs = try mustRun("/usr/bin/dpkg-deb", ["--field", packages[0], "Depends"])
        for library in ["libssl3", "libcurl4", "libpq5", "libsqlite3-0"] { #expect(needs.contains(library)) }
    }

    @Test(.enabled(if: mayMount)) func theImageServesReadOnlyWithoutAShell() throws {
        let folder = try Folder()
        let image = try mustRun(
            repository.appending(path: "deploy/container/build").path,
            ["--binary", try Tollgate.binary.get(), "--output", folder.file("image")],
            seconds: 400
        ).split(separator: "\n").last.map(String.init)
        #expect(image == folder.file("image"))
        try FileManager.default.createDirectory(atPath: folder.file("run"), withIntermediateDirectories: false)
        let check = repository.appending(path: "Tests/EndToEndTests/Package/container").path
        let outcome = try run("/usr/bin/unshare", ["--mount", check, folder.file("image"), folder.file("run")], seconds: 120)
        #expect(outcome.code == 0 && outcome.output.hasSuffix("done"), "\(outcome.output)\n\(outcome.complaints)")
    }

    @Test(.enabled(if: PythonTools.hasKubernetesSchemas)) func manifestsAreValidAndTheirSettingsAreAccepted() throws {
        let folder = try Folder()
        let check = repository.appending(path: "Tests/EndToEndTests/Package/manifests").path
        let outcome = try run(
            PythonTools.python, [check, repository.path, try Tollgate.binary.get(), PythonTools.composeSchema],
            environment: ["HOME": folder.path])
        #expect(outcome.code == 0, "\(outcome.output)\n\(outcome.complaints)")
    }

    @Test func aWrongOptionIsNamed() throws {
        let script = repository.appending(path: "deploy/package").path
        let wrong = try run(script, ["--outptu", "x"])
        #expect(wrong.code == 64 && wrong.complaints.contains("'--outptu' is no option"))
        let missing = try run(script, ["--binary", "/nonexistent"])
        #expect(missing.code == 1 && missing.complaints.contains("/nonexistent is no program"))
    }
}

/// Completions and manual, in the programs that read them.
@Suite(.ownThread) struct ShellTests {
    @Test(arguments: [
        ("tollgate tok", 1, ["token"]), ("tollgate token ", 2, ["mint", "inspect"]), ("tollgate token mint --se", 3, ["--session"]),
        ("tollgate serve --env", 2, ["--env-file"]), ("tollgate completions f", 2, ["fish"]),
        ("tollgate explain P", 2, ["POST", "PUT", "PATCH"]),
    ])
    func bashCompletesCommandsAndOptions(_ line: String, _ word: Int, _ expected: [String]) throws {
        let script = try mustRun(try Tollgate.binary.get(), ["completions", "bash"])
        let words = line.split(separator: " ", omittingEmptySubsequences: false).map { "'\($0)'" }.joined(separator: " ")
        let output = try mustRun(
            "/bin/bash",
            ["-c", "source /dev/stdin; COMP_WORDS=(\(words)); COMP_CWORD=\(word); _tollgate; printf '%s\\n' \"${COMPREPLY[@]}\""],
            input: script)
        #expect(output.split(separator: "\n").map(String.init) == expected)
    }

    @Test(.enabled(if: isThere("/usr/bin/zsh"))) func zshTakesTheScript() throws {
        let folder = try Folder()
        try folder.write("_tollgate", try mustRun(try Tollgate.binary.get(), ["completions", "zsh"]))
        let outcome = try run("/usr/bin/zsh", ["-n", folder.file("_tollgate")])
        #expect(outcome.code == 0 && outcome.complaints == "")
        // A pseudo-terminal would be needed to press Tab; that compinit registers the function shows that zsh has found it.
        let found = try mustRun(
            "/usr/bin/zsh",
            [
                "-f", "-c",
                "fpath=(\(folder.path) $fpath); autoload -U compinit; compinit -u -d \(folder.file("dump")); echo $_comps[tollgate]",
            ])
        #expect(found == "_tollgate")
    }

    @Test(.enabled(if: isThere("/usr/bin/fish"))) func fishCompletesCommandsAndOptions() throws {
        let folder = try Folder()
        try folder.write("tollgate.fish", try mustRun(try Tollgate.binary.get(), ["completions", "fish"]))
        let ask = { (line: String) in
            try mustRun(
                "/usr/bin/fish", ["--no-config", "-c", "source \(folder.file("tollgate.fish")); complete -C '\(line)'"],
                environment: ["HOME": folder.path]
            ).split(separator: "\n").map { String($0.prefix { $0 != "\t" }) }
        }
        #expect(try ask("tollgate tok") == ["token"])
        #expect(try ask("tollgate token ") == ["inspect", "mint"])
        #expect(try ask("tollgate token mint --se") == ["--session"])
    }

    @Test(.enabled(if: isThere("/usr/bin/groff"))) func theManualIsAPageWithoutWarnings() throws {
        let page = try mustRun(try Tollgate.binary.get(), ["manual"])
        let outcome = try run("/usr/bin/groff", ["-man", "-ww", "-Tutf8", "-P-cbou"], input: page)
        #expect(outcome.code == 0 && outcome.complaints == "", "\(outcome.complaints)")
        // Lines are justified by wider spaces.
        let text = outcome.output.replacing(/[ ]+/, with: " ")
        for word in ["tollgate token mint", "--env-file FILE", "TOLLGATE_LISTEN", "EXIT STATUS"] { #expect(text.contains(word), "\(word)") }
    }

    @Test func anUnknownShellIsNamed() throws {
        let outcome = try Tollgate.run(["completions", "ksh"])
        #expect(outcome.code == 2 && outcome.complaints.contains("\"ksh\" is no shell with completions, write one of bash, zsh, fish"))
    }
}
