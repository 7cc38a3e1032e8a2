import Foundation
import TestThreads
import Testing

/// User-space instructions and allocations of a request, which repeat where times drift: a change that makes requests cost more is seen.
@Suite(.ownThread) struct RequestCostTests {
    /// Beyond the figure by more than this is a failure, below it too: a saving that is not written down can be lost unseen.
    /// Over HTTP/2 it matters how many of four streams a read finds, and for a refresh and a sign-out (S1, S2) how threads meet.
    private static func allowance(_ workload: String) -> Double { ["W8", "S1", "S2"].contains(workload) ? 0.06 : 0.03 }
    /// Each time that a thread wakes another costs some, and how often that is depends on what else the machine does.
    private static func allocationAllowance(_ workload: String) -> Double { ["S1", "S2"].contains(workload) ? 0.15 : 0 }

    private static let figures = "Tests/EndToEndTests/RequestCost/counts.json"

    @Test(
        .enabled(if: isThere("/usr/bin/valgrind") && isThere("/usr/bin/h2load"), "valgrind or h2load is not installed"),
        .enabled(if: !RequestCostTests.isDebug, "the figures are of a release build"),
        arguments: ["W1", "W2", "W5", "W8", "S1", "S2"])
    func aRequestCostsWhatTheFiguresSay(_ workload: String) throws {
        let compare = repository.appending(path: "deploy/load/compare").path
        let counted = try JSON(mustRun(compare, ["--counts", try Tollgate.binary.get(), workload], seconds: 900))
        let figures = try JSON(String(contentsOf: repository.appending(path: Self.figures), encoding: .utf8))
        let allocations = try #require(counted[workload]["allocations"].number)
        let maxAllocations = try #require(figures[workload]["allocations"].number) * (1 + Self.allocationAllowance(workload)) + 0.05
        #expect(allocations <= maxAllocations, "\(workload): \(allocations) allocations a request")
        guard let system = counted["system"].text, system == figures["system"].text else {
            return print(
                "the instructions of \(workload) are not compared: counted on \(counted["system"]), the figures on \(figures["system"])")
        }
        let instructions = try #require(counted[workload]["instructions"].number)
        let ratio = try instructions / #require(figures[workload]["instructions"].number)
        #expect(
            abs(ratio - 1) <= Self.allowance(workload),
            """
            \(workload): \(Int(instructions)) instructions a request, \(ratio) of the figure. If that is meant, write the new figures: \
            deploy/load/compare --counts .build/release/tollgate >\(Self.figures)
            """)
    }

    static var isDebug: Bool {
        if case .success(let path) = Tollgate.binary { path.contains("/debug/") } else { false }
    }
}
