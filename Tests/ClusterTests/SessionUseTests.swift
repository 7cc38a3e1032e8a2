import Accounts
import Credentials
import Gate
import MemoryStore
import Storage
import Testing
import Threads
import Wire

@testable import Cluster

/// Uses of sessions: written in batches, and kept while the store is away.
@Suite struct SessionUseTests {
    private let store = MemoryStore()
    private let uses: SessionUses
    private let user = UUID(high: 1, low: 1)

    init() throws { uses = SessionUses(sessions: try Sessions(over: store), batchMilliseconds: 20) }

    private func open(_ count: UInt64) async throws -> [UUID] {
        let ids = (1...count).map { UUID(high: 2, low: $0) }
        let audit = AuditContext(now: WallTime(seconds: 1_700_000_000), address: nil)
        _ = try await store.open(NewAccount(id: user, openedBy: .anonymous), session: nil, audit)
        for id in ids { _ = try await store.openSession(NewSession(id: id, contract: .password, device: nil), of: user, audit) }
        return ids
    }

    private func see(_ ids: [UUID]) { for id in ids { uses.saw(TokenDelivery(session: id.text, token: "")) } }

    private func seen() async throws -> Int {
        let audit = AuditContext(now: WallTime(seconds: 1_700_000_000), address: nil)
        return try await store.sessions(of: user, now: audit.now).count { $0.seenAt != nil }
    }

    private func isSeen(_ count: Int) async throws -> Bool {
        for _ in 0..<3_000 where try await seen() < count { await pause(milliseconds: 10) }
        return try await seen() == count
    }

    /// More than one transaction takes, each many times.
    @Test func manyUsesAreFewWrites() async throws {
        let ids = try await open(450)
        let before = store.calls
        for _ in 0..<20 { see(ids) }
        uses.saw(TokenDelivery(session: "none", token: ""))
        #expect(try await isSeen(450))
        let asked = store.calls - before
        #expect(asked < 4_500)
        see([ids[0]])
        let first = try await store.session(ids[0])?.session?.seenAt
        for _ in 0..<3_000 where try await store.session(ids[0])?.session?.seenAt == first { await pause(milliseconds: 10) }
        #expect(try await store.session(ids[0])?.session?.seenAt != first)
    }

    @Test func usesWaitForAStoreThatIsAway() async throws {
        let ids = try await open(3)
        store.fail([.unavailable("away")])
        see(ids)
        for _ in 0..<3_000 where store.calls < 7 { await pause(milliseconds: 10) }
        #expect(try await isSeen(3))
    }
}
