import System
import TestThreads
import Testing
import Threads
import Wire
import Workbench

@testable import tollgate

/// `tollgate user import` as a shell sees it, on an SQLite file and without a gateway.
@Suite(.ownThread) struct UserImportTests {
    private let folder: TemporaryFolder
    private let envFile: String
    private let ada = "550e8400-e29b-41d4-a716-446655440000"

    init() throws {
        folder = try TemporaryFolder()
        envFile = folder.path + "/a.env"
        try configure("")
    }

    private func configure(_ more: String) throws {
        let secret = folder.path + "/secret"
        try FileBytes.write(Array(String(repeating: "s", count: 64).utf8), to: secret)
        let trusts = more.split(separator: " ").map {
            "TOLLGATE_TRUST_\($0)=\"audience=any secret-file=\(secret) issuer=https://\($0).test\"\n"
        }
        try FileBytes.write(Array("TOLLGATE_DATA_DIR=\(folder.path)\n\(trusts.joined())".utf8), to: envFile)
    }

    /// On a thread of its own: a command blocks until tasks have answered.
    private func run(_ words: [String]) async throws -> CommandResult {
        let runner = CommandRunner(
            environment: [], now: Moment(monotonic: MonotonicTime(nanoseconds: 0), wall: WallTime(seconds: 1_800_000_000)),
            readInput: { "" })
        let line = words + ["--env-file", envFile]
        return try await withCheckedThrowingContinuation { continuation in
            do {
                _ = try WorkerThread(name: "command") { continuation.resume(returning: runner.run(line)) }
            } catch {
                continuation.resume(throwing: error)
            }
        }
    }

    private func importing(_ lines: [String], _ more: [String] = []) async throws -> CommandResult {
        let file = folder.path + "/accounts.ndjson"
        try FileBytes.write(Array(lines.joined(separator: "\n").utf8), to: file)
        return try await run(["user", "import", file] + more)
    }

    @Test func accountsAreMadeOnceAndTheSameFileAgainChangesNothing() async throws {
        let lines = [
            #"{"id":"\#(ada)","email":"ada@example.org","email_verified":true,"username":"ada","password_hash":"!","tier":"premium","tier_until":"2030-01-01T00:00:00Z","created_at":"2024-05-06T07:08:09Z"}"#,
            "", #"{"email":"bob@example.org"}"#,
        ]
        let first = try await importing(lines)
        #expect(first == CommandResult(output: "2 made, 0 kept, 0 refused.\n"))
        let shown = try await run(["user", "show", "ada@example.org", "--json"]).output
        for part in [ada, "2024-05-06T07:08:09", "\"premium\"", "2030-01-01T00:00:00"] { #expect(shown.contains(part), "\(shown)") }
        #expect(try await importing(lines) == CommandResult(output: "0 made, 2 kept, 0 refused.\n"))
        #expect(try await run(["user", "show", "ada@example.org", "--json"]).output == shown)
    }

    @Test func aRefusedLineIsNamedWithItsReasonAndTheOthersAreMade() async throws {
        let result = try await importing([
            #"{"email":"ada@example.org"}"#, #"{"email":"Ada@Example.org","id":"\#(ada)"}"#, "nonsense",
            #"{"email":"bob@example.org","tier":"gold"}"#,
            #"{"email":"carol@example.org"}"#,
        ])
        #expect(result.exitCode == 1)
        #expect(result.output == "2 made, 0 kept, 3 refused.\n")
        let lines = result.errorOutput.split(separator: "\n").map { $0.dropFirst(folder.path.count + 1) }
        #expect(lines.count == 3)
        #expect(lines.first?.hasPrefix("accounts.ndjson:2: the email is of another account, ") == true)
        #expect(
            lines.dropFirst().map(String.init) == [
                "accounts.ndjson:3: the line is no JSON object", "accounts.ndjson:4: tier is none of free, premium",
            ])
    }

    @Test func aScriptGetsTheReportAsJSON() async throws {
        let result = try await importing([#"{"email":"ada@example.org"}"#, "x"], ["--json"])
        #expect(
            result
                == CommandResult(
                    output: #"{"made":1,"kept":0,"refused":[{"line":2,"reason":"the line is no JSON object"}]}"# + "\n", exitCode: 1))
    }

    @Test func theOldIssuersIdsAreIdentities() async throws {
        let line = #"{"id":42,"email":"ada@example.org"}"#
        #expect(
            try await importing([line]).errorOutput.hasSuffix("id is no UUID; name the outside issuer that it is of by --issuer NAME\n"))
        try configure("DJANGO")
        #expect(try await importing([line]).output == "1 made, 0 kept, 0 refused.\n")
        #expect(try await importing([line]).output == "0 made, 1 kept, 0 refused.\n")
        #expect(try await run(["user", "show", "ada@example.org"]).output.contains("django 42"))
        try configure("DJANGO OTHER")
        #expect(try await importing([line]).exitCode == 1)
        #expect(try await importing([line], ["--issuer", "django"]).output == "0 made, 1 kept, 0 refused.\n")
        let unknown = try await importing([line], ["--issuer", "nobody"])
        #expect(unknown.exitCode == 2)
        #expect(unknown.errorOutput == "tollgate: --issuer \"nobody\" is no TOLLGATE_TRUST_… line, they are django, other\n")
    }

    /// More lines than one transaction has.
    @Test func aLongFileIsAddedInBatches() async throws {
        let lines = (0..<1_001).map { #"{"email":"user\#($0)@example.org"}"# }
        #expect(try await importing(lines).output == "1001 made, 0 kept, 0 refused.\n")
        #expect(try await importing(lines).output == "0 made, 1001 kept, 0 refused.\n")
    }

    @Test func aFileThatIsMissingIsNamed() async throws {
        let result = try await run(["user", "import", "/nonexistent.ndjson"])
        #expect(result.exitCode == 1)
        #expect(result.errorOutput.contains("/nonexistent.ndjson"))
    }
}
