import Accounts
import Credentials
import Gate
import MemoryStore
import Testing
import Transport
import Wire

@testable import Cluster

/// Confirmations of refreshed pairs: written to the store once, and kept while it is down.
@Suite struct TokenConfirmationTests {
    private let store = MemoryStore()
    private let confirmations: TokenConfirmations

    init() throws {
        let clock = AccountClock(now: { EventLoop.now() }, pause: pause)
        let key = try SigningKey.generate(.ES256)
        let secret = [UInt8](repeating: 9, count: 32)
        let mint = TokenMint(
            issuer: "i", audience: "a", signingKey: { key }, refreshKeys: RefreshTokenKeys(secret: secret),
            refreshJWTs: try RefreshJWTs(secret: secret, issuer: "i"))
        confirmations = TokenConfirmations(
            sessions: Sessions(context: AccountContext(store: store, clock: clock, notice: { _ in }), mint: mint))
    }

    /// The token of the pair `counter`.
    private func see(_ counter: UInt64, session: UInt64 = 1) {
        var id = ByteBuffer()
        id.append(highBytes: counter, count: 8)
        id.append(highBytes: 77, count: 8)
        confirmations.saw(TokenDelivery(session: UUID(high: 0, low: session).text, token: Base64URL.encode(id.readable)))
    }

    private func isAsked(_ count: Int) async -> Bool {
        for _ in 0..<1_000 where store.calls < count { await pause(milliseconds: 10) }
        return store.calls == count
    }

    @Test func manySightingsAreBatchedAndEachPairIsConfirmedOnce() async {
        for _ in 0..<50 { for session in 1...20 { see(2, session: UInt64(session)) } }
        for _ in 0..<1_000 where store.calls == 0 { await pause(milliseconds: 10) }
        await pause(milliseconds: 300)
        // One, but on a machine that stands still in between.
        let asked = store.calls
        #expect((1...5).contains(asked))
        for _ in 0..<50 { see(2) }
        see(3)
        #expect(await isAsked(asked + 1))
        see(3)
        await pause(milliseconds: 300)
        #expect(store.calls == asked + 1)
    }

    @Test func confirmationsAreRetriedOnceTheStoreIsBack() async {
        store.fail([.unavailable("away"), .unavailable("away")])
        see(2)
        #expect(await isAsked(3))
        see(2)
        await pause(milliseconds: 300)
        #expect(store.calls == 3)
    }

    @Test func aTokenOutsideThePairsConfirmsNothing() async {
        see(0)
        confirmations.saw(TokenDelivery(session: "none", token: "none"))
        await pause(milliseconds: 300)
        #expect(store.calls == 0)
    }
}
