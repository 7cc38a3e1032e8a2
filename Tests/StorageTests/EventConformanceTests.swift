import Accounts
import TestServers
import Testing
import Wire

/// The events of accounts, and what subscribers are sent.
@Suite struct EventConformanceTests {
    @Test(arguments: Backend.allCases) func entriesOfTheLogAreEventsInTheOrderOfTheirCommits(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let (store, other) = (bench.store, try bench.another())
        let ada = try await store.opened("ada@x").account.id
        // Clocks of gateways differ: the order is that of the commits.
        let bob = try await other.opened("bob@x", at: at(-3_600)).account.id
        _ = try await store.setTier("pro", until: nil, of: ada, at(5))
        _ = try await other.grant(ActorName(type: "agent", id: "7"), to: ada, at(6))
        _ = try await other.setTier(nil, until: nil, of: ada, at(-7))
        _ = try await store.delete(bob, at(8))
        let events = try await store.events(after: 0, of: nil, limit: 100)
        #expect(events.map(\.kind) == [.created, .created, .tierChanged, .tierChanged, .deleted, .erased])
        #expect(events.map(\.account) == [ada, bob, ada, ada, bob, bob])
        #expect(events.map(\.position) == events.map(\.position).sorted())
        #expect(try await other.events(after: 0, of: ada, limit: 2).map(\.position) == [events[0], events[2]].map(\.position))
        #expect(try await other.events(after: events[1].position, of: ada, limit: 1) == [events[2]])
        #expect(try await other.position(ofEvent: events[3].id) == events[3].position)
        #expect(try await other.position(ofEvent: newID()) == nil)
        for event in events { #expect(!String(decoding: event.body, as: UTF8.self).contains("@x"), "\(event)") }
    }

    /// One gateway commits while others read: each event comes once, and those of an account in their order.
    @Test(arguments: Backend.allCases) func noCommitIsMissedByTwoReaders(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let (store, other) = (bench.store, try bench.another())
        var users: [WireID] = []
        for name in 0..<4 { users.append(try await store.opened("u\(name)@x").account.id) }
        let accounts = users
        _ = try await store.deliveries(to: "crm", now: at(0).now, limit: 1)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, user) in accounts.enumerated() {
                group.addTask {
                    for number in 0..<15 {
                        _ = try await (index % 2 == 0 ? store : other).setTier("t\(number)", until: nil, of: user, at(0))
                    }
                }
            }
            group.addTask { for _ in 0..<20 { _ = try await other.subscriptions() } }
            try await group.waitForAll()
        }
        var told: [WireID: [String?]] = [:]
        while true {
            let due = try await other.deliveries(to: "crm", now: at(0).now, limit: 7)
            if due.new.isEmpty { break }
            for event in due.new { told[event.account, default: []].append(event.detail) }
            #expect(try await other.settled(SettledDeliveries(due, now: at(0).now)))
        }
        #expect(told == Dictionary(uniqueKeysWithValues: accounts.map { ($0, (0..<15).map { "t\($0)" }) }))
    }

    @Test(arguments: Backend.allCases) func whatFailsWaitsAndHoldsUpItsAccountAlone(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        _ = try await store.opened("early@x")
        func due(_ seconds: Int64) async throws -> DueDeliveries { try await store.deliveries(to: "crm", now: at(seconds).now, limit: 9) }
        #expect(try await due(0).new == [], "it begins with what comes")
        let (ada, bob) = (try await store.opened("ada@x").account.id, try await store.opened("bob@x").account.id)
        var first = try await due(0)
        #expect(first.new.map(\.account) == [ada, bob] && first.held == [] && first.again == [])
        var settled = SettledDeliveries(first, now: at(0).now)
        settled.arrived = [first.new[1].position]
        let failed = Delivery(first.new[0], failures: 1, failedAt: at(0).now)
        settled.waiting = [.init(failed, next: at(3).now, failure: DeliveryFailure(status: 503))]
        let lost = try await store.settle(settled, of: "crm", lease: "events crm", by: newID())
        #expect(!lost, "without the lease nothing is noted")
        #expect(try await due(0) == first)
        #expect(try await store.settled(settled))
        for user in [ada, bob] { _ = try await store.setTier("pro", until: nil, of: user, at(1)) }
        first = try await due(2)
        #expect(first.new.map(\.account) == [ada, bob] && first.held == [ada] && first.again == [])
        settled = SettledDeliveries(first, now: at(2).now)
        settled.arrived = [first.new[1].position]
        #expect(try await store.settled(settled))
        #expect(try await due(2).again == [], "the earlier one of its account is not due")
        #expect(try await due(3).again == [failed])
        let shown = try await store.subscriptions()
        #expect(
            shown == [
                Subscription(
                    name: "crm", behind: 0, waiting: 1, parked: 0, waitingSince: at(0).now, failure: "the answer has the status 503")
            ])
        settled = SettledDeliveries(try await due(3), now: at(3).now)
        settled.waiting = [.init(failed, next: nil, failure: DeliveryFailure(status: 500))]
        #expect(try await store.settled(settled))
        #expect(try await due(3).again.map(\.event.kind) == [.tierChanged], "the one behind a parked one goes on")
        let parked = try await store.subscriptions()
        #expect(parked.map { [$0.waiting, $0.parked] } == [[1, 1]] && parked[0].failure == "the answer has the status 500")
        for (seconds, isKept) in [(Subscription.parkedSeconds + 2, true), (Subscription.parkedSeconds + 3, false)] {
            // It is seen again, so that it is not forgotten itself.
            _ = try await due(seconds)
            _ = try await store.sweep(now: at(seconds).now, stride: anyStride)
            #expect(try await store.subscriptions().map(\.parked) == [isKept ? 1 : 0])
        }
        #expect(try await store.replay(to: "crm", after: failed.event.position - 1))
        #expect(try await !store.replay(to: "none", after: 0))
        let again = try await due(4)
        #expect(again.new.map(\.kind) == [.created, .created, .tierChanged, .tierChanged] && again.again == [] && again.held == [])
    }

    @Test(arguments: Backend.allCases) func aSubscriberThatIsBackGetsAllThatWaits(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        _ = try await store.deliveries(to: "crm", now: at(0).now, limit: 1)
        for name in ["ada@x", "bob@x"] { _ = try await store.opened(name) }
        let due = try await store.deliveries(to: "crm", now: at(0).now, limit: 9)
        var settled = SettledDeliveries(due, now: at(0).now)
        settled.waiting = zip(due.new, [503, 400]).map {
            .init(Delivery($0, failures: 9, failedAt: at(0).now), next: at(3_600).now, failure: DeliveryFailure(status: $1))
        }
        #expect(try await store.settled(settled))
        #expect(try await store.deliveries(to: "crm", now: at(5).now, limit: 9).again == [])
        settled = SettledDeliveries(try await store.deliveries(to: "crm", now: at(5).now, limit: 9), now: at(5).now)
        settled.isBack = true
        #expect(try await store.settled(settled))
        #expect(try await store.deliveries(to: "crm", now: at(5).now, limit: 9).again.map(\.event) == [due.new[0]])
    }

    /// Events behind one that waits are read from the log, up to the place that a replay may have moved.
    @Test(arguments: Backend.allCases) func oneRowWaitsForAnAccount(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        func due() async throws -> DueDeliveries { try await store.deliveries(to: "crm", now: at(9).now, limit: 9) }
        _ = try await due()
        let ada = try await store.opened("ada@x").account.id
        for tier in ["a", "b", "c"] { _ = try await store.setTier(tier, until: nil, of: ada, at(1)) }
        let new = try await due()
        var settled = SettledDeliveries(new, now: at(9).now)
        settled.waiting = [.init(Delivery(new.new[0], failures: 1, failedAt: at(9).now), next: at(9).now, failure: nil)]
        #expect(try await store.settled(settled))
        var told: [String?] = []
        for round in 0..<9 {
            let next = try await due()
            guard let first = next.again.first else { break }
            #expect(next.again.count == 1)
            told.append(first.event.detail)
            if round == 1 { #expect(try await store.replay(to: "crm", after: first.event.position)) }
            settled = SettledDeliveries(next, now: at(9).now)
            settled.arrived = [first.event.position]
            #expect(try await store.settled(settled))
        }
        told += try await due().new.map(\.detail)
        #expect(told.suffix(3) == ["a", "b", "c"] && told.count == 4)
        // A failure that is noted after a replay has gone behind it is forgotten, so that the order stays.
        let late = try await due()
        #expect(try await store.replay(to: "crm", after: 0))
        settled = SettledDeliveries(late, now: at(9).now)
        settled.waiting = [.init(Delivery(late.new[1]), next: at(9).now, failure: nil)]
        #expect(try await store.settled(settled))
        #expect(try await due().new == new.new)
    }

    @Test(arguments: Backend.allCases) func aSubscriberThatWasTakenOutIsForgotten(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let day: Int64 = 86_400
        func new(_ days: Int64) async throws -> [AccountEvent] {
            try await store.deliveries(to: "crm", now: at(days * day).now, limit: 9).new
        }
        _ = try await new(0)
        _ = try await store.opened("ada@x", at: at(day * 6))
        _ = try await store.sweep(now: at(day * 6).now, stride: anyStride)
        #expect(try await new(6).count == 1)
        _ = try await store.opened("bob@x", at: at(day * 12))
        _ = try await store.sweep(now: at(day * 12).now, stride: anyStride)
        #expect(try await new(12).count == 2, "it was seen on the sixth day")
        _ = try await store.opened("eve@x", at: at(day * 20))
        _ = try await store.sweep(now: at(day * 20).now, stride: anyStride)
        #expect(try await store.subscriptions() == [])
        #expect(try await new(20) == [], "it begins with what happens from then on")
    }
}

extension AccountStore {
    /// Settles as the gateway that has the lease.
    fileprivate func settled(_ settled: SettledDeliveries) async throws -> Bool {
        guard try await hold("events crm", by: sender, seconds: 60) else { return false }
        return try await settle(settled, of: "crm", lease: "events crm", by: sender)
    }
}

private let sender = WireID(high: 1, low: 0x8000_0000_0000_0001)
