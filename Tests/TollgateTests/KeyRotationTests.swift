import Admin
import Credentials
import Gate
import Proxy
import System
import Telemetry
import Testing
import Threads
import Transport
import Wire
import Workbench

@testable import Issuers
@testable import Settings
@testable import tollgate

/// Rotations by the admin API.
@Suite struct KeyRotationTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// An operator who rotates because a key has leaked must be able to count on the answer.
    @Test func aRotationIsAnsweredOnceTheNewKeySigns() async throws {
        // A policy of many routes takes a while.
        let routes = (0..<200).map { "TOLLGATE_ROUTE_R\($0)=\"/r\($0) upstream=u\"" }.joined(separator: "\n")
        let text = "TOLLGATE_DATA_DIR=\(folder.path)\nTOLLGATE_UPSTREAM_U=http://127.0.0.1:9\n\(routes)"
        let configuration = try #require(load(text).configuration)
        let now = EventLoop.now()
        let keys = try KeySetRefresher.load(IssuersPlan(configuration), at: now)
        let log = try ServerLog(Configuration())
        var labels = MetricLabels(WorkerTelemetry.words)
        labels.declare(configuration)
        let active = ActiveConfiguration(
            configuration, keys: keys, labels: labels, adminToken: nil, limitHash: .random(),
            workers: WorkerBroadcast(mailboxes: [Mailbox<WorkerMessage>(waker: try Waker())]), log: log, now: now.wall)
        let keySets = try KeySetRefresher(
            IssuersPlan(configuration), own: keys.ownRing, onChange: { active.keysChanged($0, now: EventLoop.now().wall) },
            onEvent: { _ in })
        let rotation = KeyRotation(active: active, keySets: keySets) { _ in }
        for _ in 0..<5 {
            let ring = try await rotation.rotate()
            #expect(active.signingKey.kid == ring.active.kid)
        }
        keySets.stop()
        log.close()
    }

    @Test func aSigningKeyForAnotherAlgorithmIsAWarning() throws {
        let file = folder.path + "/a.env"
        let now = EventLoop.now().wall
        let warnings = { (algorithm: String) in
            let text = oneRoute + "TOLLGATE_DATA_DIR=\(folder.path)\nTOLLGATE_SIGNING_ALGORITHM=\(algorithm)\n"
            try FileBytes.write(Array(text.utf8), to: file)
            return ConfigurationLoader(envFiles: [file], environment: []).load(now: now).findings.warnings.map(\.text)
        }
        #expect(try warnings("EdDSA") == [], "there is no key yet")
        let store = KeyStore(dataDirectory: folder.path)
        _ = try store.loadOrGenerate(.ES256, now: now)
        #expect(try warnings("ES256") == [])
        #expect(
            try warnings("EdDSA") == [
                "\(file):4: TOLLGATE_SIGNING_ALGORITHM: is EdDSA and the current key signs with ES256, run tollgate keys rotate to sign with EdDSA"
            ])
        _ = try store.rotate(to: .EdDSA, clockSkewSeconds: 30, now: now)
        #expect(try warnings("EdDSA") == [])
    }
}
