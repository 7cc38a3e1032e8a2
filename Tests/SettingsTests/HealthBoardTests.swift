import Issuers
import Telemetry
import Testing
import Wire

@testable import Settings
@testable import tollgate

/// The counts of key sets, across reloads.
@Suite struct HealthBoardTests {
    /// A reload gives an issuer another URL: its source counts from 0 again.
    @Test func fetchesAreCountedAcrossSourcesOfAnIssuer() throws {
        let now = WallTime(seconds: 1_800_000_000)
        let log = try ServerLog(Configuration())
        let board = HealthBoard(BuildInfo(version: "1", commit: "", swift: ""), workers: 1, log: log)
        func fetches(_ fetches: UInt64, failures: UInt64) -> [String] {
            var status = KeyStatus(name: "t")
            (status.fetches, status.failures) = (fetches, failures)
            let metrics = board.process({ [status] in [status] }, limitEvictions: 0, spans: SpanCounts(), now: now)
            let lines = String(decoding: Exposition.render([], metrics, at: now), as: UTF8.self).split(separator: "\n")
            return lines.filter { $0.hasPrefix("tollgate_jwks_fetches_total{") && !$0.hasSuffix(" 0") }.map(String.init)
        }
        let first = fetches(5, failures: 2)
        #expect(first.map { $0.split(separator: " ").last } == ["3", "2"], "\(first)")
        #expect(fetches(1, failures: 0).map { $0.split(separator: " ").last } == ["4", "2"])
        #expect(fetches(9, failures: 1).map { $0.split(separator: " ").last } == ["11", "3"])
        log.close()
    }
}
