import Accounts
import Credentials
import Foundation
import Gate
import Storage
import Synchronization
import TestServers
import Testing
import Threads
import Transport
import Wire

@testable import Cluster

/// After a fence a change counts for the next request at every gateway of the database, or the caller is told that it does not yet.
@Suite struct ChangeFenceTests {
    enum Place: String, CaseIterable, Sendable {
        case sqlite, postgres
    }

    /// Gateways over one database, of which each has a store, and workers that take updates while they are not `stopped`.
    private struct Fleet {
        let folder: String
        let members: [Member]

        /// The first waits for as long as a busy machine may take, the second for a moment, and both for the others.
        init(_ place: Place) throws {
            folder = "/tmp/tollgate-fence-\(Foundation.UUID().uuidString)"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            let url = place == .sqlite ? "sqlite://\(folder)/accounts.db" : try PostgresCluster.shared.get().newDatabase()
            let location = try StoreLocation(url: url)
            members = try [600_000, 400, 400].enumerated().map { try Member("g\($0)", location, fencePatience: $1) }
        }

        func start() async throws {
            for member in members {
                try member.cluster.start()
                #expect(await member.cluster.applied())
            }
        }

        func end() async {
            for member in members {
                member.workers.stopped.withLock { $0 = false }
                member.cluster.stop()
                await member.store.close()
            }
            try? FileManager.default.removeItem(atPath: folder)
        }
    }

    private final class Member: Sendable {
        let store: SQLStore
        let workers = Workers()
        let cluster: ClusterMember

        init(_ name: String, _ location: StoreLocation, fencePatience: UInt64) throws {
            guard let opened = location.open(connections: 3, start: WorkerThread.start) else { throw Absent() }
            store = opened
            let (workers, tiers) = (workers, try TierList(["free", "plus", "premium"]))
            cluster = try ClusterMember(
                ClusterPlan(name: name, scale: TierScale(tiers: tiers, graceSeconds: 0), location: location),
                AccountContext(
                    store: opened, clock: AccountClock(now: { EventLoop.now() }, pause: pause), executor: opened.executor(),
                    notice: { _ in }),
                ClusterEvents(
                    broadcast: { workers.post($0) }, confirmed: { await workers.confirmed() },
                    report: { if case .gatewaysLate(let names) = $0 { workers.late.withLock { $0 = names } } }),
                patience: 600_000, fencePatience: fencePatience)
        }
    }

    private struct Absent: Error {}

    /// The workers of a gateway, who take what was posted when they are asked to confirm it.
    private final class Workers: Sendable {
        let stopped = Mutex(false)
        let late = Mutex<[String]>([])
        private let posted = Mutex<[WorkerUpdate]>([])
        private let taken = Mutex<[WorkerUpdate]>([])

        func post(_ update: WorkerUpdate) { posted.withLock { $0.append(update) } }

        func confirmed() async {
            while stopped.withLock({ $0 }) { await pause(milliseconds: 5) }
            taken.withLock {
                $0 += posted.withLock { posted in
                    defer { posted = [] }; return posted
                }
            }
        }

        /// The newest tier of this user that they have taken.
        func tier(of user: Wire.UUID) -> TierStatus? {
            taken.withLock { taken in
                taken.flatMap { update -> [UserTier] in if case .tiers(let users) = update { users } else { [] } }
                    .last { $0.user == TokenUser(user.text) }?.status
            }
        }
    }

    private var audit: AuditContext { AuditContext(now: EventLoop.now().wall, address: nil) }

    private func open(_ store: SQLStore) async throws -> Wire.UUID {
        let user = UUID(random: (UInt64.random(in: 0 ... .max), 1))
        _ = try await store.open(NewAccount(id: user, openedBy: .password, email: try EmailAddress("ada@example.org")), session: nil, audit)
        return user
    }

    private func tier(_ name: String) throws -> TierStatus {
        .tier(try #require(try TierList(["free", "plus", "premium"]).rank(of: name)), until: .max)
    }

    @Test(arguments: Place.allCases) func aChangeCountsAtEveryGatewayBehindTheFence(_ place: Place) async throws {
        let fleet = try Fleet(place)
        let first = fleet.members[0]
        let user = try await open(first.store)
        try await fleet.start()
        for name in ["plus", "premium", "free", "premium"] {
            _ = try await fleet.members[2].store.setTier(name, until: nil, of: user, audit)
            #expect(await first.cluster.everywhere())
            for member in fleet.members { #expect(try member.workers.tier(of: user) == tier(name)) }
        }
        // Many at once share fences.
        let before = try await first.store.changes(since: nil)
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<200 { group.addTask { await first.cluster.everywhere() } }
            for await isPassed in group { #expect(isPassed) }
        }
        let fences = try await first.store.changes(since: before.next).changes.filter { $0.id > before.newest ?? 0 }
        // The log keeps the last one.
        let last = try #require(fences.first)
        #expect(fences.count == 1 && last.id - (before.newest ?? 0) < 200)
        await fleet.end()
    }

    @Test(arguments: Place.allCases) func aGatewayWhoseWorkersDoNotGoOnIsWaitedForAndNamed(_ place: Place) async throws {
        let fleet = try Fleet(place)
        let (patient, hasty, stopped) = (fleet.members[0], fleet.members[1], fleet.members[2])
        let user = try await open(patient.store)
        try await fleet.start()
        #expect(await patient.cluster.everywhere())
        stopped.workers.stopped.withLock { $0 = true }
        _ = try await patient.store.setTier("premium", until: nil, of: user, audit)
        #expect(await !hasty.cluster.everywhere(), "it answers while the other is stopped")
        #expect(hasty.workers.late.withLock { $0.contains("g2") })
        #expect(try stopped.workers.tier(of: user) != tier("premium"))
        #expect(await !stopped.cluster.everywhere(), "its own workers count, too")
        stopped.workers.stopped.withLock { $0 = false }
        #expect(await patient.cluster.everywhere())
        for member in fleet.members { #expect(try member.workers.tier(of: user) == tier("premium")) }
        await fleet.end()
    }

    /// Its row counts until it is old; one that ends removes it.
    @Test(arguments: Place.allCases) func aGatewayThatDiesIsWaitedForUntilItsRowIsOld(_ place: Place) async throws {
        let fleet = try Fleet(place)
        let (patient, hasty, killed) = (fleet.members[0], fleet.members[1], fleet.members[2])
        try await fleet.start()
        #expect(await patient.cluster.everywhere())
        killed.cluster.stop()
        #expect(await !hasty.cluster.everywhere() && hasty.workers.late.withLock { $0.contains("g2") })
        #expect(await patient.cluster.everywhere())
        hasty.cluster.stop()
        await hasty.cluster.leave()
        #expect(try await patient.store.gateways(besides: UUID(high: 0, low: 0)).map(\.name) == ["g0"])
        await fleet.end()
    }

    /// As after a failover to a server that lags, or a restore: the number of a fence to come is not one that was passed.
    @Test func aLogThatGoesBackIsPassedAnew() async throws {
        let fleet = try Fleet(.sqlite)
        let (store, workers) = (fleet.members[0].store, fleet.members[0].workers)
        let context = AccountContext(
            store: store, clock: AccountClock(now: { EventLoop.now() }, pause: pause), executor: store.executor(), notice: { _ in })
        let presence = GatewayPresence(context, name: "g", confirmed: { await workers.confirmed() })
        func passed() async throws -> Int64? { try await store.gateways(besides: UUID(high: 0, low: 0)).first?.passed }
        presence.read(upTo: 100)
        while try await passed() != 100 { await pause(milliseconds: 5) }
        workers.stopped.withLock { $0 = true }
        // The workers are asked for a number of the former log meanwhile.
        presence.read(upTo: 120)
        presence.read(upTo: 7, anew: true)
        await presence.renew()
        #expect(try await passed() == 0)
        workers.stopped.withLock { $0 = false }
        while try await passed() == 0 { await pause(milliseconds: 5) }
        #expect(try await passed() == 7)
        await presence.leave()
        #expect(try await passed() == nil)
        await fleet.end()
    }

    /// It reads the log, and writes nothing to it.
    @Test(arguments: Place.allCases) func aGatewayThatIsAloneRaisesNoFence(_ place: Place) async throws {
        let fleet = try Fleet(place)
        let (alone, user) = (fleet.members[0], try await open(fleet.members[0].store))
        #expect(await !fleet.members[1].cluster.everywhere(), "it is not started, and reads nothing")
        try alone.cluster.start()
        #expect(await alone.cluster.applied())
        let end = try await alone.store.changes(since: nil)
        _ = try await alone.store.setTier("premium", until: nil, of: user, audit)
        #expect(await alone.cluster.everywhere())
        #expect(try alone.workers.tier(of: user) == tier("premium"))
        let news = try await alone.store.changes(since: end.next).changes.filter { $0.id > end.newest ?? 0 }
        #expect(news.count == 1)
        await fleet.end()
    }
}
