import Foundation
import TestThreads
import Testing

/// The shell scripts of the tree.
@Suite(.ownThread) struct ScriptTests {
    private static let shellcheck = "/usr/bin/shellcheck"

    @Test(.enabled(if: isThere(shellcheck)))
    func shellcheckHasNoNotes() throws {
        let files = try run(
            "grep",
            ["-rlIE", "^#!.*sh$|^# shellcheck shell=", repository.appending(path: "deploy").path, repository.appending(path: ".ci").path]
        ).output.split(separator: "\n").map(String.init)
        #expect(files.count > 10)
        let outcome = try run(Self.shellcheck, ["--external-sources", "--source-path=SCRIPTDIR", "--format=gcc"] + files)
        #expect(outcome.code == 0 && outcome.output == "", "\(outcome.output)")
    }
}
