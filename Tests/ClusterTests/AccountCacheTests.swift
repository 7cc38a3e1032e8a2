import Accounts
import Credentials
import MemoryStore
import Storage
import Testing
import Threads
import Transport
import Wire

@testable import Cluster

/// The cache of accounts: entries and invalidation.
@Suite struct AccountCacheTests {
    private let store = MemoryStore()

    private func open(_ email: String) async throws -> Account {
        let id = UUID(random: (1, UInt64(store.calls)))
        let new = NewAccount(id: id, openedBy: .password, email: try EmailAddress(email))
        _ = try await store.open(new, session: nil, AuditContext(now: EventLoop.now().wall, address: nil))
        return try #require(try await store.account(id))
    }

    private func setTier(_ tier: String, of user: UUID) async throws {
        _ = try await store.setTier(tier, until: nil, of: user, AuditContext(now: EventLoop.now().wall, address: nil))
    }

    /// A cache that is kept up to date for as long as these tests take.
    private func trusted() -> AccountCache {
        let cache = AccountCache(store: store, now: SystemClock.now)
        cache.trust(until: MonotonicTime(nanoseconds: .max))
        return cache
    }

    @Test func anAccountThatIsShownAThousandTimesCostsOneQuestion() async throws {
        let account = try await open("ada@example.org")
        let cache = trusted()
        let before = store.calls
        for _ in 0..<1_000 { #expect(try await cache.account(account.id) == account) }
        #expect(store.calls == before + 1)
    }

    @Test func invalidatedEntriesAreLookedUpAgain() async throws {
        let account = try await open("ada@example.org")
        let cache = trusted()
        _ = try await cache.account(account.id)
        try await setTier("premium", of: account.id)
        cache.evict(account.id)
        #expect(try await cache.account(account.id)?.entitlement.tier == "premium")
        try await setTier("gold", of: account.id)
        cache.evictAll()
        #expect(try await cache.account(account.id)?.entitlement.tier == "gold")
    }

    @Test func staleEntriesAreNotUsed() async throws {
        let account = try await open("ada@example.org")
        let cache = AccountCache(store: store, now: SystemClock.now)
        let before = store.calls
        for _ in 0..<5 { _ = try await cache.account(account.id) }
        #expect(store.calls == before + 5)
        cache.trust(until: EventLoop.now().monotonic.advanced(milliseconds: 50))
        await pause(milliseconds: 60)
        try await setTier("premium", of: account.id)
        #expect(try await cache.account(account.id)?.entitlement.tier == "premium")
    }

    /// An answer that was on its way while the account changed may be the old one.
    @Test func anAnswerThatAChangeOvertookIsNotKept() async throws {
        let account = try await open("ada@example.org")
        let cache = trusted()
        let user = account.id
        store.afterNextCall { cache.evict(user) }
        #expect(try await cache.account(user) == account)
        try await setTier("premium", of: user)
        #expect(try await cache.account(user)?.entitlement.tier == "premium")
    }

    @Test func whileTheStoreIsDownCachedAccountsAreServed() async throws {
        let account = try await open("ada@example.org")
        let cache = AccountCache(store: store, now: SystemClock.now)
        _ = try await cache.account(account.id)
        store.fail([.unavailable("away")])
        #expect(try await cache.account(account.id) == account)
        store.fail([.unavailable("away")])
        await #expect(throws: AccountFailure.unavailable(retryAfterSeconds: 1)) {
            _ = try await cache.account(UUID(random: (7, 7)))
        }
    }

    @Test func expiredRowsAreSweptAtTheStart() async throws {
        let clock = AccountClock(now: { EventLoop.now() }, pause: pause)
        let sweep = AccountSweep(context: AccountContext(store: store, clock: clock, notice: { _ in }))
        sweep.start()
        // Without blocking a thread that the sweep may need.
        for _ in 0..<6_000 where store.calls < 16 { await pause(milliseconds: 10) }
        #expect(
            store.calls == 16,
            "the time, the rows of twelve tables, addresses, events of subscribers, and announcements of merges")
        sweep.stop()
    }
}
