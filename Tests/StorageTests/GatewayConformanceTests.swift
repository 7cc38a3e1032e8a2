import Accounts
import TestServers
import Testing
import Wire

/// The rows of live gateways, and fences.
@Suite struct GatewayConformanceTests {
    @Test(arguments: Backend.allCases) func gatewaysAreSeenWhileTheyRenewTheirRows(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let (store, here, there) = (bench.store, newID(), newID())
        func others() async throws -> [LiveGateway] { try await store.gateways(besides: here) }
        func row(_ passed: Int64) -> LiveGateway { LiveGateway(id: there, name: "b/2", passed: passed) }
        #expect(try await others() == [])
        #expect(try await !store.renew(row(3), joins: false), "it has no row, as after its end")
        #expect(try await others() == [])
        for id in [there, here] { #expect(try await store.renew(LiveGateway(id: id, name: "b/2", passed: 0), joins: true)) }
        #expect(try await others() == [row(0)])
        for (passed, joins, shown) in [(5, false, 5), (4, false, 5), (4, true, 4), (6, true, 6)] as [(Int64, Bool, Int64)] {
            #expect(try await store.renew(row(passed), joins: joins))
            #expect(try await others() == [row(shown)])
        }
        // By the clock of the database, which may be set.
        for seconds in [-7, 7, 3_600] {
            try bench.run("UPDATE gateways SET seen_at = seen_at + \(seconds * 1_000_000)")
            #expect(try await others() == [], "\(seconds)")
            #expect(try await store.renew(row(6), joins: false))
            #expect(try await others() == [row(6)])
        }
        try await store.remove(there)
        #expect(try await others() == [])
        try bench.run("UPDATE gateways SET seen_at = seen_at - 90000000000")
        try await store.sweep(now: at(0).now, stride: anyStride)
        #expect(try await !store.renew(LiveGateway(id: here, name: "a/1", passed: 0), joins: false), "it was swept")
    }

    /// Its number is higher than those of all changes that were committed before it was asked for, and it is read behind them.
    @Test(arguments: Backend.allCases) func aFenceStandsBehindWhatWasCommitted(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let (store, gateway) = (bench.store, newID())
        let user = try await store.opened("ada@x").account.id
        let begin = try await store.changes(since: nil).next
        var (mark, highest): (ChangeMark, Int64?) = (begin, nil)
        for number: Int64 in 1...3 {
            let entitlement = try #require(try await store.setTier("t\(number)", until: nil, of: user, at(number)))
            let fence = try await store.raiseFence(by: gateway, inPlaceOf: highest)
            let reading = try await store.changes(since: mark)
            #expect(reading.changes.map(\.change).suffix(2) == [.account(user, AccountStanding(entitlement)), .fence(by: gateway)])
            #expect(reading.changes.last?.id == fence && fence > highest ?? 0 && reading.newest == nil)
            let end = try await store.changes(since: nil)
            #expect(end.newest == fence)
            (mark, highest) = (end.next, fence)
        }
        let left = try await store.changes(since: begin).changes.filter { $0.change == .fence(by: gateway) }
        #expect(left.map(\.id) == [highest], "the former ones went")
        let all = try await store.changes(since: begin).changes
        let foreign = try await store.raiseFence(by: newID(), inPlaceOf: highest)
        for id in all.map(\.id).filter({ $0 != highest }) + [foreign] { _ = try await store.raiseFence(by: gateway, inPlaceOf: id) }
        let kept = try await Set(store.changes(since: begin).changes.map(\.id))
        #expect(kept.isSuperset(of: all.map(\.id) + [foreign]), "what has the number of a fence in another log stays")
        let fences = try await withThrowingTaskGroup(of: Int64.self) { group in
            for _ in 0..<50 { group.addTask { try await store.raiseFence(by: gateway, inPlaceOf: nil) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(fences).count == 50 && fences.allSatisfy { $0 > highest ?? 0 })
    }
}
