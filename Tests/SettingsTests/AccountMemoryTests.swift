import Accounts
import MemoryStore
import Testing
import Transport
import Wire

@testable import tollgate

/// What a gateway keeps of accounts, and what it drops.
@Suite struct AccountMemoryTests {
    private let store = MemoryStore()

    private func open(_ email: String) async throws -> Account {
        let id = UUID(random: (1, UInt64(store.calls)))
        let new = NewAccount(id: id, openedBy: .password, email: try EmailAddress(email))
        _ = try await store.open(new, session: nil, Occasion(now: EventLoop.now().wall, address: nil))
        return try #require(try await store.account(id))
    }

    @Test func anAccountThatIsShownAgainAndAgainCostsOneQuestion() async throws {
        let account = try await open("ada@example.org")
        let memory = AccountMemory(store: store)
        let before = store.calls
        for _ in 0..<100 { #expect(try await memory.account(account.id) == account) }
        #expect(store.calls == before + 1)
    }

    @Test func whatHasChangedIsShownAtOnce() async throws {
        let account = try await open("ada@example.org")
        let memory = AccountMemory(store: store)
        _ = try await memory.account(account.id)
        memory.update(Entitlement(tier: "premium", until: nil, version: account.entitlement.version + 1), of: account.id)
        #expect(try await memory.account(account.id)?.entitlement.tier == "premium")
        let before = store.calls
        memory.forget(account.id)
        _ = try await memory.account(account.id)
        #expect(store.calls == before + 1)
    }

    @Test func whileTheStoreIsAwayWhatIsKnownIsShown() async throws {
        let account = try await open("ada@example.org")
        let memory = AccountMemory(store: store)
        memory.note(account)
        store.fail([.unavailable("away")])
        #expect(try await memory.account(account.id) == account)
        await #expect(throws: AccountError.unavailable(retryAfterSeconds: 1)) {
            _ = try await memory.account(UUID(random: (7, 7)))
        }
    }

    @Test func whatIsLongOverIsDroppedFromTheStart() async throws {
        let clock = AccountClock(now: { EventLoop.now() }, pause: pause)
        let sweep = AccountSweep(base: AccountBase(store: store, events: NoNews(), clock: clock, notice: { _ in }))
        sweep.start()
        // Without blocking a thread that the sweep may need.
        for _ in 0..<1_000 where store.calls == 0 { await pause(milliseconds: 10) }
        #expect(store.calls == 1)
        sweep.stop()
    }
}

private struct NoNews: AccountEvents {
    func ended(_ sessions: [EndedSession]) async {}
    func changed(_ entitlement: Entitlement, of user: UUID) async {}
}
