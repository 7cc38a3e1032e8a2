import Accounts
import Cluster
import Issuers
import Storage
import Telemetry
import Testing
import Wire

@testable import Settings
@testable import tollgate

/// The counts of key sets across reloads, and the conditions that `/readyz` shows.
@Suite struct HealthBoardTests {
    /// State and reason of a check of `/readyz`; nil without it.
    private func check(_ name: String, of board: HealthBoard, _ configuration: GatewayConfiguration, at moment: Moment) -> String? {
        board.readiness([], configuration, at: moment).checks.first { $0.name == name }.map { "\($0.state) \($0.reason ?? "")" }
    }

    private static func configuration(_ text: String) -> GatewayConfiguration {
        ConfigurationLoader(envFiles: [], environment: []).load(text, as: "a.env", now: WallTime(seconds: 1_800_000_000)).partial
    }

    private let moment = Moment(monotonic: MonotonicTime(nanoseconds: 1), wall: WallTime(seconds: 1_800_000_000))

    /// On a full disk reads go on.
    @Test func changesThatFailAreToldUntilOneSucceeds() throws {
        let log = try ServerLog(Configuration())
        let board = HealthBoard(BuildInfo(version: "1", commit: "", swift: ""), workers: 1, log: log)
        let configuration = Self.configuration("TOLLGATE_CONTRACTS=anonymous")
        let accounts = { check("accounts", of: board, configuration, at: moment) }
        #expect(accounts() == "ready ")
        board.report(.writeFailed("the disk is full"))
        board.report(AccountNotice.storeAway("the disk is full"))
        board.report(ClusterReport.storeAnswered(clockSkew: nil))
        #expect(accounts() == "degraded changes fail: the disk is full")
        board.report(.wrote)
        #expect(accounts() == "ready ")

        // A store that was away altogether need not be changed to be well.
        board.report(.writeFailed("nobody answers"))
        board.report(.readFailed)
        board.report(AccountNotice.storeAway("nobody answers"))
        #expect(accounts() == "degraded nobody answers")
        board.report(ClusterReport.storeAnswered(clockSkew: nil))
        #expect(accounts() == "ready ")
        log.close()
    }

    @Test func anExpiredCertificateIsTold() throws {
        let log = try ServerLog(Configuration())
        let board = HealthBoard(BuildInfo(version: "1", commit: "", swift: ""), workers: 1, log: log)
        var configuration = Self.configuration("")
        #expect(check("certificates", of: board, configuration, at: moment) == nil)
        configuration.settings.tlsPairs = [TLSPairDeclaration(certificate: "a.crt", key: "a.key", origin: .builtIn)]
        board.certificatesAdopted(["a.test": WallTime(seconds: 1_800_000_001), "b.test": WallTime(seconds: 1_800_000_000)])
        #expect(check("certificates", of: board, configuration, at: moment) == "degraded expired: b.test")
        board.certificatesAdopted(["a.test": WallTime(seconds: 1_800_000_001)])
        #expect(check("certificates", of: board, configuration, at: moment) == "ready ")
        log.close()
    }

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
