import Issuers
import Storage
import Telemetry
import Testing
import Wire
import Workbench

@testable import Settings
@testable import tollgate

/// The conditions that `/readyz` shows, when a change of them is logged, and the counts of key sets across reloads.
@Suite struct ReadinessBoardTests {
    private let moment = Moment(monotonic: MonotonicTime(nanoseconds: 1), wall: WallTime(seconds: 1_800_000_000))

    private func counts() -> ProcessCounts { ProcessCounts(BuildInfo(version: "1", commit: "", swift: "")) }

    /// State and reason of a check of `/readyz`; nil without it.
    private func check(
        _ name: String, of board: ReadinessBoard, _ metrics: ProcessMetrics, _ configuration: GatewayConfiguration, keys: [KeyStatus] = []
    ) -> String? {
        let readiness = board.readiness(keys, metrics, configuration, at: moment)
        return readiness.checks.first { $0.name == name }.map { "\($0.state) \($0.reason ?? "")" }
    }

    private func configuration(_ text: String) -> GatewayConfiguration {
        ConfigurationLoader(envFiles: [], environment: []).load(text, as: "a.env", now: moment.wall).partial
    }

    /// Each step, whether it is logged, and the check after it.
    @Test func changesOfTheStoreAreLoggedOnceAndShownUntilTheyEnd() {
        let steps: [(step: (inout StoreCondition) -> Bool, isLogged: Bool, check: String)] = [
            // On a full disk reads go on.
            ({ $0.ended(.writeFailed("full")) }, true, "degraded changes fail: full"),
            ({ $0.ended(.writeFailed("still full")) }, false, "degraded changes fail: still full"),
            ({ $0.failed("still full") }, false, "degraded changes fail: still full"),
            ({ $0.answered() }, false, "degraded changes fail: still full"),
            ({ $0.ended(.wrote) }, true, "ready "),
            ({ $0.ended(.wrote) }, false, "ready "),
            // A store that did not answer at all is well without a write.
            ({ $0.ended(.writeFailed("no answer")) }, true, "degraded changes fail: no answer"),
            ({ $0.ended(.readFailed) }, false, "degraded changes fail: no answer"),
            ({ $0.failed("no answer") }, true, "degraded no answer"),
            ({ $0.failed("no route") }, false, "degraded no route"),
            ({ $0.answered() }, true, "ready "),
            ({ $0.answered() }, false, "ready "),
        ]
        var board = ReadinessBoard(workers: 1)
        let (metrics, accounts) = (counts().metrics, configuration("TOLLGATE_CONTRACTS=anonymous"))
        for (number, step) in steps.enumerated() {
            let isLogged = step.step(&board.store)
            let shown = check("accounts", of: board, metrics, accounts)
            #expect(isLogged == step.isLogged && shown == step.check, "step \(number): \(isLogged), \(shown ?? "-")")
        }
    }

    @Test func theBusIsLoggedWhenItConnectsAndIsLost() {
        var (board, metrics) = (ReadinessBoard(workers: 1), counts().metrics)
        metrics.bus.carrier = "redis"
        board.busExpected()
        let shown = check("bus", of: board, metrics, configuration(""))
        let logged = [nil, nil, "lost", "lost still", nil].map { board.busChanged(problem: $0) }
        #expect(shown?.hasPrefix("degraded redis: connecting; ") == true && logged == [true, false, true, false, true], "\(logged)")
        #expect(check("bus", of: board, metrics, configuration("")) == "ready ")
    }

    @Test func furtherReasonsOfAProblemAreLoggedOnceEachWhenDue() {
        var problem = LoggedProblem()
        let reports: [(String?, isDue: Bool)] = [
            (nil, true), ("a", false), ("a", true), ("b", false), ("b", true), ("a", true), (nil, false), ("b", false),
        ]
        let logged = reports.map { report in problem.set(report.0) { report.isDue } }
        #expect(logged == [false, true, false, false, true, false, true, true] && problem.problem == "b", "\(logged)")
    }

    @Test func keysAndCertificatesDegradeForAReason() {
        var (metrics, tls) = (counts().metrics, configuration(""))
        let board = ReadinessBoard(workers: 1)
        #expect(check("certificates", of: board, metrics, tls) == nil)
        tls.settings.tlsPairs = [TLSPairDeclaration(certificate: "a.crt", key: "a.key", origin: .builtIn)]
        metrics.certificates = ["a.test": WallTime(seconds: 1_800_000_001), "b.test": WallTime(seconds: 1_800_000_000)]
        #expect(check("certificates", of: board, metrics, tls) == "degraded expired: b.test")
        metrics.certificates["b.test"] = nil
        #expect(check("certificates", of: board, metrics, tls) == "ready ")

        var status = KeyStatus(name: "t")
        for (count, problem, shown) in [
            (0, nil, "degraded keys never fetched"), (0, "no answer", "degraded no answer"), (1, "no answer", "degraded no answer"),
            (1, nil, "ready "),
        ] as [(Int, String?, String)] {
            (status.keyCount, status.problem) = (count, problem)
            #expect(check("keys of t", of: board, metrics, tls, keys: [status]) == shown)
        }
    }

    /// A reload gives an issuer another URL: its source counts from 0 again.
    @Test func fetchesAreCountedAcrossSourcesOfAnIssuer() {
        var counts = counts()
        func fetches(_ fetches: UInt64, failures: UInt64) -> [String] {
            var status = KeyStatus(name: "t")
            (status.fetches, status.failures) = (fetches, failures)
            counts.add([status], now: moment.wall)
            let lines = String(decoding: Exposition.render([], counts.metrics, at: moment.wall), as: UTF8.self).split(separator: "\n")
            return lines.filter { $0.hasPrefix("tollgate_jwks_fetches_total{") && !$0.hasSuffix(" 0") }.map(String.init)
        }
        let first = fetches(5, failures: 2)
        #expect(first.map { $0.split(separator: " ").last } == ["3", "2"], "\(first)")
        #expect(fetches(1, failures: 0).map { $0.split(separator: " ").last } == ["4", "2"])
        #expect(fetches(9, failures: 1).map { $0.split(separator: " ").last } == ["11", "3"])
    }
}
