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
        // A guest has nothing to sign in with again.
        let guest = try await store.opened(nil, hash: nil, contract: .anonymous, at: at(0))
        let leaver = CallerSession(user: guest.account.id, session: try #require(guest.session).id)
        #expect(try await store.leave(leaver, rule, at(5_000)) == .closed(until: at(5_100).now))
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
        #expect(try await store.standing(of: ada.account.id) == .erased)
        #expect(try await store.standing(of: newID()) == nil)
        #expect(try await store.endedSessions().map(\.reason) == [.accountDeleted])
        #expect(try await store.leave(caller, DeletionRule(), at(1)) == .sessionEnded)
    }

    // MARK: Apple

    private func signIn(
        _ store: any AccountStore, code: AppleToken?, email text: String? = nil, subject: String = "1", at seconds: Int64 = 0
    ) async throws -> SignIn {
        var proof = IdentityProof(
            provider: .apple, subject: subject, verifiedEmail: try text.map { try email($0) }, name: nil, nameRule: .first)
        proof.appleCode = code
        return try await store.signIn(proof, newUser: newID(), session: newSession(.apple), at(seconds))
    }

    private func code(_ text: String = "code") -> AppleToken { AppleToken(id: newID(), client: "app", sealed: Array(text.utf8)) }

    @Test(arguments: Backend.allCases)
    func aTokenOfAppleIsRevokedWhenItsAccountGoes(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let (store, other) = (bench.store, try bench.another())
        let code = code()
        let user = try await signIn(store, code: code).account.id
        // The first gateway claims it, and stops; the pauses become longer.
        let times: [Int64] = [0, 60, 180, 420, 900, 1_860, 3_780, 7_620, 15_300, 30_660, 52_260, 73_860]
        for (tries, seconds) in times.enumerated() {
            #expect(try await other.claimAppleTokens(at: at(seconds - 1).now, limit: 9).isEmpty)
            #expect(try await store.claimAppleTokens(at: at(seconds).now, limit: 9).map(\.tries) == [Int64(tries + 1)])
        }
        #expect(
            try await store.outgoing() == [
                OutgoingState(.notices, waiting: 0, since: nil), OutgoingState(.appleTokens, waiting: 1, since: at(0).now),
            ])
        try await store.replaceCode(code, by: [1], at: at(1).now)
        #expect(try await store.claimAppleTokens(at: at(10_000).now, limit: 9).isEmpty, "it is in use")
        // A newer one takes its place.
        let newer = self.code("newer")
        _ = try await signIn(store, code: newer)
        try await store.replaceCode(newer, by: [2], at: at(2).now)
        _ = try await store.delete(user, at(3))
        let revoked = try await store.claimAppleTokens(at: at(3).now, limit: 9)
        #expect(revoked.map(\.sealed) == [[2]] && revoked.allSatisfy { $0.isRevoked && !$0.isCode })
        #expect(try await store.giveUp(at: at(3 + AppleToken.revocationSeconds - 1).now) == [:])
        #expect(try await store.giveUp(at: at(3 + AppleToken.revocationSeconds).now) == [.appleTokens: 1])
        #expect(try await store.claimAppleTokens(at: at(100 * 86_400).now, limit: 9).isEmpty)
    }

    @Test(arguments: Backend.allCases)
    func aCodeWhoseAccountGoesIsExchangedAndThenRevoked(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let code = code()
        let ada = try await signIn(store, code: code)
        let caller = CallerSession(user: ada.account.id, session: try #require(ada.session).id)
        #expect(try await store.leave(caller, DeletionRule(graceSeconds: 100), at(1)) == .closed(until: at(101).now))
        let due = try await store.claimAppleTokens(at: at(1).now, limit: 9)
        #expect(due.map(\.isCode) == [true] && due.map(\.isRevoked) == [true])
        try await store.replaceCode(code, by: [1], at: at(1).now)
        #expect(try await store.claimAppleTokens(at: at(1).now, limit: 9).map(\.sealed) == [[1]])
        // The sign-in that opens the account again brings another code, which the erasure revokes.
        let next = self.code("next")
        _ = try await signIn(store, code: next, at: 2)
        try await store.drop(code)
        try await store.replaceCode(next, by: [3], at: at(2).now)
        #expect(try await store.claimAppleTokens(at: at(1_000).now, limit: 9).isEmpty)
        // A code that Apple never took.
        _ = try await signIn(store, code: self.code("lost"), at: 3)
        #expect(try await store.giveUp(at: at(3 + 600).now) == [.appleTokens: 1])
    }

    @Test(arguments: Backend.allCases)
    func eachIdentityOfAnAccountKeepsItsToken(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (first, second, newer) = (code("first"), code("second"), code("newer"))
        let ada = try await signIn(store, code: first)
        let proof = IdentityProof(provider: .apple, subject: "2", verifiedEmail: nil, name: nil, nameRule: .first)
        let caller = CallerSession(user: ada.account.id, session: try #require(ada.session).id)
        guard case .success = try await store.link(proof, by: caller, at(1)) else { throw Fault("it was not linked") }
        _ = try await signIn(store, code: second, subject: "2", at: 1)
        #expect(try await store.claimAppleTokens(at: at(1).now, limit: 9).map(\.id).sorted() == [first.id, second.id].sorted())
        try await store.replaceCode(first, by: [1], at: at(1).now)
        try await store.replaceCode(second, by: [2], at: at(1).now)
        _ = try await signIn(store, code: newer, subject: "2", at: 2)
        try await store.replaceCode(newer, by: [3], at: at(2).now)
        _ = try await store.delete(ada.account.id, at(3))
        #expect(Set(try await store.claimAppleTokens(at: at(3).now, limit: 9).map(\.sealed)) == [[1], [3]])
    }

    @Test(arguments: Backend.allCases)
    func anAccountWithoutAnyWayInIsClosedWhenAppleDeletesItsUser(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (ways, rule) = (SignInWays(passwords: true, emails: true, phones: true), DeletionRule(graceSeconds: 100))
        // An email of the user's own, a relay address, no email; whether the account is closed.
        for (subject, email, closes) in [("1", "ada@x", false), ("2", "z@privaterelay.appleid.com", true), ("3", nil, true)] {
            let user = try await signIn(store, code: code(), email: email, subject: subject, at: 1_000).account.id
            let notice = { AppleNotice(.accountDeleted, subject: subject, at: at($0).now) }
            #expect(try await !store.apply(notice(900), ways, rule, at(1_001)), "it was linked after that")
            #expect(try await store.apply(notice(1_001), ways, rule, at(1_001)))
            #expect(try await !store.apply(notice(1_001), ways, rule, at(1_002)), "it comes again")
            #expect(try await store.identities(of: user).isEmpty)
            #expect(try await store.sessions(of: user, now: at(1_001).now).isEmpty)
            #expect(try await store.account(user)?.erasedAt == (closes ? at(1_101).now : nil), "\(subject)")
        }
        #expect(try await store.claimAppleTokens(at: at(2_000).now, limit: 9).isEmpty, "Apple has ended them itself")
        #expect(try await !store.apply(AppleNotice(.consentRevoked, subject: "9", at: at(0).now), ways, rule, at(0)))
    }

    @Test(arguments: Backend.allCases)
    func consentThatIsRevokedEndsTheSessionsFromBefore(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (ways, rule) = (SignInWays(passwords: true, emails: true, phones: true), DeletionRule())
        let user = try await signIn(store, code: nil, email: "z@privaterelay.appleid.com").account.id
        let late = try await signIn(store, code: nil, at: 1_000)
        #expect(try await store.apply(AppleNotice(.consentRevoked, subject: "1", at: at(500).now), ways, rule, at(1_001)))
        #expect(try await store.sessions(of: user, now: at(1_001).now).map(\.id) == [late.session?.id])
        #expect(try await store.identities(of: user).count == 1)
        let relay = try email("z@privaterelay.appleid.com")
        let mail = { (kind: AppleNotice.Kind, seconds: Int64) in
            try await store.apply(AppleNotice(kind, subject: "1", at: at(seconds).now), ways, rule, at(seconds))
        }
        #expect(try await !mail(.mailStopped(try email("other@x")), 10))
        #expect(try await mail(.mailStopped(relay), 10))
        #expect(try await store.account(user)?.mailStoppedAt == at(10).now)
        #expect(try await !mail(.mailResumed(relay), 9), "it was said before")
        #expect(try await mail(.mailResumed(relay), 11))
        #expect(try await store.account(user)?.mailStoppedAt == nil)
    }
}
