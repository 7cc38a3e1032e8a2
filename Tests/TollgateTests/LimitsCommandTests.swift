import System
import TestThreads
import Testing
import Wire
import Workbench

@testable import tollgate

/// `tollgate limits verify` as a shell sees it: access logs in, a sentence and an exit code out.
@Suite(.ownThread) struct LimitsCommandTests {
    private let folder: TemporaryFolder
    private let caller = "00112233445566778899aabbccddeeff"

    init() throws { folder = try TemporaryFolder() }

    private func verify(_ logs: String..., json: Bool = false) throws -> CommandResult {
        var paths: [String] = []
        for (index, log) in logs.enumerated() {
            paths.append("\(folder.path)/\(index).log")
            try FileBytes.write(Array(log.utf8), to: paths[index])
        }
        let moment = Moment(monotonic: MonotonicTime(nanoseconds: 0), wall: WallTime(seconds: 0))
        let runner = CommandRunner(environment: [], now: moment, readInput: { "" })
        return runner.run(["limits", "verify"] + paths + (json ? ["--json"] : []))
    }

    private func line(_ time: Int, outcome: String = "allow", keys: String? = nil) -> String {
        #"{"ts":"x","msg":"access","nested":{"a":[1]},"limit_policy":"me","limit_keys":""# + (keys ?? "\(caller)@2/s")
            + #"","limit_outcome":"\#(outcome)","limit_source":"redis","limit_remaining":1,"limit_at":\#(time)}"# + "\n"
    }

    @Test func `logs that kept every bound end well`() throws {
        let result = try verify(line(1_000_000) + line(1_000_000), line(1_500_000) + line(1_500_001, outcome: "deny"))
        #expect(result.exitCode == 0)
        #expect(result.errorOutput == "")
        #expect(
            result.output == """
                4 lines, 3 requests admitted under 1 limit of 1 route.
                Every window kept its bound: at most burst + rate × T.

                """)
    }

    @Test func `the logs of two gateways are checked together, and the window is printed`() throws {
        let result = try verify(line(1_000_000) + line(1_200_000), line(1_000_000) + line(1_400_000))
        #expect(result.exitCode == 1)
        #expect(
            result.output.hasSuffix(
                "route me, limit 2/s, caller \(caller): 4 admitted within 0.4 s from 1000000 µs on, the bound is 2.\n"))
        let json = try verify(line(1_000_000) + line(1_200_000), line(1_000_000) + line(1_400_000), json: true)
        #expect(json.exitCode == 1)
        #expect(json.output.contains(#""admitted":4,"bound":2"#))
    }

    @Test func `each of several limits is checked by itself`() throws {
        let keys = "\(caller)@100/s ffffffffffffffffffffffffffffffff@1/m+burst=1+lease"
        let result = try verify(line(5, keys: keys) + line(6, keys: keys))
        #expect(result.exitCode == 1)
        #expect(result.output.contains("limit 1/m+lease"))
        #expect(!result.output.contains("limit 100/s"))
    }

    @Test func `requests admitted uncounted are checked against the limit too`() throws {
        let result = try verify(line(5) + line(5) + line(6, outcome: "open"))
        #expect(result.exitCode == 1)
        #expect(result.output.contains("\n1 request passed uncounted while Redis did not answer; this check counts them.\n"))
    }

    @Test func `lines that are missing between others are told`() throws {
        let numbered = { (time: Int, number: String) in
            line(time).replacing(#","limit_at""#, with: #","limit_line":"\#(number)","limit_at""#)
        }
        let whole = try verify(numbered(5, "a.1") + numbered(1_000_000, "b.1"), numbered(2_000_000, "a.2") + line(3_000_000))
        #expect(whole.exitCode == 0 && !whole.output.contains("with limits"), "\(whole)")
        let cut = try verify(numbered(5, "a.3") + numbered(1_000_000, "a.7"), numbered(2_000_000, "b.2") + numbered(3_000_000, "b.x"))
        #expect(cut.output.contains("The logs lack 3 lines with limits; requests of missing lines are not counted here.\n"))
        #expect(cut.output.contains("The gateways wrote 3 lines with limits before the first line of these logs.\n"))
        #expect(cut.output.hasSuffix("at most burst + rate × T, by the lines that are not missing.\n"))
        let json = try verify(numbered(5, "a.3") + numbered(1_000_000, "a.7"), json: true)
        #expect(json.exitCode == 0 && json.output.contains(#""missing":3,"earlier":2"#))
    }

    @Test func `shadowed and refused requests are no grants`() throws {
        let result = try verify(line(5) + line(5, outcome: "deny") + line(5, outcome: "shadow_deny") + line(5, outcome: "closed"))
        #expect(result.exitCode == 0)
        #expect(result.output.hasPrefix("4 lines, 1 request admitted"))
    }

    @Test func `lines that are not JSON are counted and ignored`() throws {
        let result = try verify("ts=x msg=access\n\n{\"a\":\n" + line(5) + String(line(6).dropLast(20)))
        #expect(result.exitCode == 0)
        #expect(result.output.contains("\n3 of 4 lines are not JSON (ignored).\n"))
    }

    @Test func `a log without limits is an error`() throws {
        let result = try verify("{\"msg\":\"access\"}\n")
        #expect(result.exitCode == 1)
        #expect(
            result.errorOutput.contains(
                "the logs have 1 line and no request that a limit admitted, so there is nothing to verify; give the access logs of gateways"
            ))
        #expect(
            try verify("msg=access\n{}\n").errorOutput.contains(
                "; 1 of 2 lines is not JSON; the log must be written with TOLLGATE_ACCESS_LOG=json"))
        #expect(
            try verify("\n").errorOutput.contains("the logs have no lines, so there is nothing to verify; give the access logs of gateways")
        )
    }

    @Test func `a missing file is named, and without a file it is a usage error`() throws {
        let moment = Moment(monotonic: MonotonicTime(nanoseconds: 0), wall: WallTime(seconds: 0))
        let runner = CommandRunner(environment: [], now: moment, readInput: { "" })
        let gone = runner.run(["limits", "verify", folder.path + "/gone.log"])
        #expect(gone.exitCode == 1)
        #expect(gone.errorOutput.contains("gone.log"))
        #expect(runner.run(["limits", "verify"]).exitCode == 2)
    }
}
