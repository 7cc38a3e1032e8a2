import Accounts
import Credentials
import Gate
import MemoryStore
import Storage
import Testing
import Threads
import Transport
import Wire

@testable import Cluster

/// Confirmations of refreshed pairs: written to the store once, and kept while it is down.
@Suite struct TokenConfirmationTests {
    private let store = MemoryStore()
    private let confirmations: TokenConfirmations

    init() throws { confirmations = TokenConfirmations(sessions: try Sessions(over: store)) }

    /// The token of the pair `counter`.
    private func see(_ counter: UInt64, session: UInt64 = 1) {
        var id = ByteBuffer()
        id.append(highBytes: counter, count: 8)
        id.append(highBytes: 77, count: 8)
        confirmations.saw(TokenDelivery(session: UUID(high: 0, low: session).text, token: Base64URL.encode(id.readable)))
    }

    private func isAsked(_ count: Int) async -> Bool {
        for _ in 0..<6_000 where store.calls < count { await pause(milliseconds: 10) }
        return store.calls == count
    }

    /// Waits until two more pairs are written, one after the other: those seen before are written then, and remembered. Answers how
    /// often the store was asked for that.
    private func settle() async throws -> Int {
        var asked = 0
        for _ in 0..<2 {
            let number = UInt64(1_000 + store.calls)
            let (user, session) = (UUID(high: 1, low: number), UUID(high: 0, low: number))
            let audit = AuditContext(now: EventLoop.now().wall, address: nil)
            _ = try await store.open(
                NewAccount(id: user, openedBy: .password, email: try EmailAddress("u\(number)@example.org")),
                session: NewSession(id: session, contract: .password, device: nil), audit)
            see(1, session: number)
            asked += 2
            for _ in 0..<6_000 {
                asked += 1
                if try await store.session(session)?.session?.isConfirmed == true { break }
                await pause(milliseconds: 10)
            }
        }
        return asked
    }

    @Test func manySightingsAreBatchedAndEachPairIsConfirmedOnce() async throws {
        for _ in 0..<50 { for session in 1...20 { see(2, session: UInt64(session)) } }
        for _ in 0..<6_000 where store.calls == 0 { await pause(milliseconds: 10) }
        let own = try await settle()
        // One, but on a machine that stands still in between.
        let asked = store.calls
        #expect((1...5).contains(asked - own))
        for _ in 0..<50 { see(2) }
        see(3)
        #expect(await isAsked(asked + 1))
        let settled = try await asked + 1 + settle()
        #expect(store.calls == settled)
        see(3)
        await pause(milliseconds: 300)
        #expect(store.calls == settled)
    }

    @Test func confirmationsAreRetriedOnceTheStoreIsBack() async throws {
        store.fail([.unavailable("away"), .unavailable("away")])
        see(2)
        #expect(await isAsked(3))
        let settled = try await 3 + settle()
        #expect(store.calls == settled)
        see(2)
        await pause(milliseconds: 300)
        #expect(store.calls == settled)
    }

    @Test func aTokenOutsideThePairsConfirmsNothing() async {
        see(0)
        confirmations.saw(TokenDelivery(session: "none", token: "none"))
        await pause(milliseconds: 300)
        #expect(store.calls == 0)
    }
}

extension Sessions {
    /// Sessions in a store of a test.
    init(over store: MemoryStore) throws {
        let key = try SigningKey.generate(.ES256)
        let secret = [UInt8](repeating: 9, count: 32)
        let mint = TokenMint(
            issuer: "i", audience: "a", signingKey: { key }, refreshKeys: RefreshTokenKeys(secret: secret),
            refreshJWTs: try RefreshJWTs(secret: secret, issuer: "i"))
        let clock = AccountClock(now: { EventLoop.now() }, pause: pause)
        self.init(context: AccountContext(store: store, clock: clock, notice: { _ in }), mint: mint)
    }
}
