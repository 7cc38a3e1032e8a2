import Accounts
import Credentials
import Testing
import Wire

/// Conformance of every store: accounts that are banned, closed and erased.
@Suite struct LeavingConformanceTests {
    @Test(arguments: Backend.allCases)
    func aBanEndsSessionsAndKeepsItsAccountOut(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await store.opened("ada@x")
        let user = ada.account.id
        let before = try #require(try await store.standing(of: user))
        let ban = Ban(bannedAt: at(1).now, until: at(100).now, reason: "fraud")
        let banned = try #require(try await store.ban(ban, user, at(1)))
        #expect(banned.account.ban == ban && banned.ended.map(\.id) == [ada.session?.id] && banned.ended[0].reason == .accountBanned)
        #expect(try await store.ban(ban, newID(), at(1)) == nil)
        #expect(try await store.unban(newID(), at(1)) == nil)
        let during = try #require(try await store.standing(of: user))
        #expect(during.ban == ban && during.entitlement.version > before.entitlement.version)
        let signIn = { (time: Int64) in
            _ = try await store.signIn(user, proof: PasswordProof(hash: "hash"), session: newSession(), at(time))
        }
        #expect(await fault { try await signIn(99) } == .banned(ban))
        #expect(await fault { _ = try await store.openSession(newSession(), of: user, at(99)) } == .banned(ban))
        #expect(try await store.sessions(of: user, now: at(99).now).isEmpty)
        #expect(await fault { try await signIn(100) } == nil, "its end needs no message")
        #expect(try await store.ban(Ban(bannedAt: at(101).now, until: nil, reason: nil), user, at(101))?.ended.count == 1)
        #expect(await fault { try await signIn(1_000_000) } != nil)
        #expect(try await store.unban(user, at(102))?.ban == nil)
        #expect(try await store.unban(user, at(103))?.ban == nil, "it has none, which is no event")
        #expect(await fault { try await signIn(104) } == nil)
        let events = try await store.auditEvents(of: user, before: nil, limit: 20).filter { $0.kind != .signedIn }
        #expect(events.map(\.kind) == [.accountUnbanned, .accountBanned, .accountBanned, .accountOpened])
        #expect(events[1].detail == "for good" && events[2].detail == "until \(ISO8601.text(at(100).now))")
    }
}
