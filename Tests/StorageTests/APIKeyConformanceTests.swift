import Accounts
import Testing
import Wire

/// API keys, which all gateways of a store read again after each change.
@Suite struct APIKeyConformanceTests {
    private static func key(_ number: UInt64, until: WallTime? = nil) -> APIKey {
        APIKey(
            id: WireID(random: (9, number)), name: "key \(number)", prefix: "tg_abcdef", digest: Array(repeating: UInt8(number), count: 32),
            tier: "premium", routes: number == 1 ? [] : ["feed", "search"], limit: number == 1 ? nil : "100/m",
            createdAt: WallTime(seconds: 1_000 + Int64(number)), until: until)
    }

    @Test(arguments: Backend.allCases) func keysAreAddedUsedAndRevoked(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let (store, audit) = (bench.store, AuditContext(now: at(5).now, address: nil, actor: .command))
        var reader = try await ChangeReader(store)
        let far = WallTime(microseconds: 4_000_000_000_000_000)
        let (first, second, over) = (Self.key(1), Self.key(2, until: far), Self.key(3, until: WallTime(seconds: 1)))
        for key in [over, first, second] { #expect(try await store.add(key, atMost: 2, audit)) }
        #expect(try await !store.add(Self.key(4), atMost: 2, audit), "those that are over do not count, and two live")
        #expect(try await store.apiKeys(live: false) == [first, second, over])
        #expect(try await store.apiKeys(live: true) == [first, second])
        #expect(try await reader.news() == [.apiKeys, .apiKeys, .apiKeys])
        try await store.saw([first.id: at(7).now, second.id: at(8).now])
        try await store.saw([first.id: at(6).now])
        #expect(try await store.apiKeys(live: true).map(\.lastUsedAt) == [at(7).now, at(8).now])
        let revoked = try #require(try await store.revokeAPIKey(first.id, audit))
        #expect(revoked.revokedAt == audit.now && revoked.lastUsedAt == at(7).now)
        let later = AuditContext(now: at(50).now, address: nil, actor: .command)
        #expect(try await store.revokeAPIKey(first.id, later) == revoked, "once")
        #expect(try await store.revokeAPIKey(WireID(random: (9, 99)), audit) == nil)
        #expect(try await store.apiKeys(live: true).map(\.id) == [second.id])
        #expect(try await reader.news() == [.apiKeys])
        let events = try await store.auditEvents(of: nil, before: nil, limit: 10)
        #expect(events.count == 4 && events.allSatisfy { $0.actor == .command && $0.user == nil })
        #expect(events.filter { $0.kind == .apiKeyRevoked }.map(\.detail) == ["key 1 (\(first.id.text))"])
    }
}
