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

    @Test(arguments: Backend.allCases)
    func aSignInWithinTheGraceOpensAClosedAccount(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await store.opened("ada@x")
        let user = ada.account.id
        let caller = CallerSession(user: user, session: try #require(ada.session).id)
        let rule = DeletionRule(graceSeconds: 100, recentSeconds: 10)
        #expect(try await store.leave(caller, rule, at(10)) == .notRecent)
        #expect(try await store.leave(CallerSession(user: newID(), session: caller.session), rule, at(1)) == .sessionEnded)
        let before = try #require(try await store.standing(of: user))
        #expect(try await store.leave(caller, rule, at(9)) == .closed(until: at(109).now))
        #expect(try await store.leave(caller, rule, at(9)) == .sessionEnded)
        let closed = try #require(try await store.standing(of: user))
        #expect(closed.isClosed && !before.isClosed && closed.entitlement.version > before.entitlement.version)
        #expect(try await store.erasable(at: at(108).now, limit: 9).isEmpty)
        #expect(try await store.erasable(at: at(109).now, limit: 9) == [user])
        #expect(try await !store.erase(user, at(108)))
        let signIn = try await store.signIn(user, proof: PasswordProof(hash: "hash"), session: newSession(), at(50))
        #expect(signIn?.account.erasedAt == nil)
        #expect(try await store.account(user)?.erasedAt == nil)
        #expect(try await !store.erase(user, at(200)), "it is open")
        let again = CallerSession(user: user, session: try #require(signIn?.session).id)
        #expect(try await store.leave(again, rule, at(51)) == .closed(until: at(151).now))
        #expect(try await store.erase(user, at(151)))
        #expect(try await !store.erase(user, at(151)))
        #expect(try await store.account(user) == nil)
        let kinds = try await store.auditEvents(of: user, before: nil, limit: 20).map(\.kind)
        #expect(kinds == [.accountDeleted, .accountClosed, .signedIn, .accountReopened, .accountClosed, .accountOpened])
        #expect(try await store.auditEvents(of: user, before: nil, limit: 20).allSatisfy { $0.address == nil })
    }

    /// Two gateways and the user, all at once.
    @Test(arguments: Backend.allCases)
    func anAccountIsErasedOnceOrOpenedAgain(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let stores = [bench.store, try bench.another()]
        for round in 0..<10 {
            let ada = try await stores[0].opened("ada\(round)@x")
            let user = ada.account.id
            let caller = CallerSession(user: user, session: try #require(ada.session).id)
            _ = try await stores[0].leave(caller, DeletionRule(graceSeconds: 1), at(0))
            let (erasures, signIn) = try await withThrowingTaskGroup(of: Bool?.self) { group in
                for store in stores { group.addTask { try await store.erase(user, at(1)) } }
                group.addTask {
                    let proof = PasswordProof(hash: "hash")
                    return try await stores[1].signIn(user, proof: proof, session: newSession(), at(1)) == nil ? false : nil
                }
                let all = try await group.reduce(into: [Bool?]()) { $0.append($1) }
                return (all.count { $0 == true }, all.contains(nil))
            }
            #expect(erasures == (signIn ? 0 : 1))
            #expect(try await (stores[0].account(user) != nil) == signIn)
        }
    }

    @Test(arguments: Backend.allCases)
    func withoutAGraceAnAccountIsErasedWithItsSessions(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await store.opened("ada@x")
        let caller = CallerSession(user: ada.account.id, session: try #require(ada.session).id)
        #expect(try await store.leave(caller, DeletionRule(), at(1)) == .erased)
        #expect(try await store.account(ada.account.id) == nil)
        #expect(try await store.endedSessions().map(\.reason) == [.accountDeleted])
        #expect(try await store.leave(caller, DeletionRule(), at(1)) == .sessionEnded)
    }
}
