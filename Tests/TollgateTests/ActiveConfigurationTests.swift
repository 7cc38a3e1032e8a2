import Credentials
import Gate
import Glibc
import Proxy
import Telemetry
import Testing
import Threads
import Transport
import Wire
import Workbench

@testable import Issuers
@testable import Settings
@testable import tollgate

/// The order in which keys come into force.
@Suite struct ActiveConfigurationTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// A token that is signed at any moment is verified by all workers, which have read their messages when it comes.
    @Test func noKeySignsBeforeTheWorkersKnowIt() throws {
        // A policy of many routes takes a while.
        let routes = (0..<20).map { "TOLLGATE_ROUTE_R\($0)=\"/r\($0) upstream=u\"" }.joined(separator: "\n")
        let text = "TOLLGATE_DATA_DIR=\(folder.path)\nTOLLGATE_UPSTREAM_U=http://127.0.0.1:9\n\(routes)"
        let configuration = try #require(load(text).configuration)
        let now = EventLoop.now().wall
        let rings = try (0..<20).map { _ in try SigningKeyRing.generate(.ES256, now: now) }
        let mailbox = Mailbox<WorkerMessage>(waker: try Waker())
        let log = try ServerLog(Configuration())
        var labels = MetricLabels(WorkerTelemetry.words)
        labels.declare(configuration)
        let active = ActiveConfiguration(
            configuration, keys: IssuerKeys(own: rings[0]), labels: labels, adminToken: nil, limitHash: .random(),
            workers: WorkerBroadcast(mailboxes: [mailbox]), log: log, now: now)
        var known = Set(try active.policy(now: now).ownKids)
        let thread = try WorkerThread(name: "rotations") {
            for ring in rings { active.keysChanged(IssuerKeys(own: ring), now: now) }
        }
        var rotations = 0
        var early: Set<String> = []
        while rotations < rings.count {
            let kid = active.signingKey.kid ?? ""
            for case .adoptPolicy(let policy) in mailbox.take() {
                known.formUnion(policy.ownKids)
                rotations += 1
            }
            if !known.contains(kid) { early.insert(kid) }
            // The other thread needs the same locks.
            usleep(10)
        }
        thread.join()
        #expect(early.isEmpty)
        #expect(active.signingKey.kid == rings.last?.active.kid)
        log.close()
    }
}

/// A reload of all parts.
@Suite struct ReloadTests {
    private struct Refusal: Error {}
    private struct RefusingPart: Part {
        func prepare(_ next: NextConfiguration) throws -> Commit { throw Refusal() }
    }

    /// The store of accounts, once opened, stays open and has its newest schema.
    @Test func nothingIsOpenedForAConfigurationThatAPartRefuses() throws {
        let configuration = try #require(load("TOLLGATE_UPSTREAM_U=http://127.0.0.1:9\nTOLLGATE_ROUTE_R=\"/r upstream=u\"").configuration)
        let next = NextConfiguration(configuration: configuration, moment: EventLoop.now())
        var steps: [String] = []
        let opening = PlainPart { _ in
            Commit {
                steps.append("open")
            } apply: {
                steps.append("apply")
            }
        }
        #expect(throws: Refusal.self) { try ([opening, RefusingPart()] as [any Part]).prepare(next) }
        #expect(steps.isEmpty)
        let commits = try ([opening, opening] as [any Part]).prepare(next)
        #expect(steps == ["open", "open"] && commits.count == 2)
    }
}

extension Policy {
    /// The ids of the gateway's own keys.
    fileprivate var ownKids: [String] { trust.issuers.first(where: \.isOwn)?.keys?.keys.compactMap(\.kid) ?? [] }
}
