import Accounts
import Credentials
import Testing
import Wire

/// Conformance of every store: passkeys.
@Suite struct PasskeyConformanceTests {
    private let ways = SignInWays(passwords: false, emails: false, phones: false)

    private func passkey(_ id: String, of user: WireID, counter: UInt32 = 0, transports: [String] = ["internal", "hybrid"]) -> Passkey {
        Passkey(
            credentialID: Array(id.utf8), user: user, publicKey: [1, 2, 3], algorithm: .EdDSA, signCount: counter, isBackupEligible: true,
            isBackedUp: false, aaguid: WireID(high: 1, low: 2), transports: transports, name: "Ada's \(id)", createdAt: at(10).now)
    }

    private func proof(_ text: String, end: Int64 = 300) -> SpentProof { SpentProof(digest: Array(text.utf8), endsAt: at(end).now) }

    private func caller(_ signIn: SignIn) throws -> CallerSession {
        CallerSession(user: signIn.account.id, session: try #require(signIn.session).id)
    }

    private func opened(_ store: any AccountStore, _ id: String, _ user: WireID) async throws -> SignIn {
        let new = NewAccount(id: user, openedBy: .dlauth)
        return try await store.open(
            new, with: passkey(id, of: user, counter: 5), spending: proof("open \(id)"), session: newSession(), at(10)
        )
        .get()
    }

    @Test(arguments: Backend.allCases)
    func aPasskeyOpensAnAccountAndSignsInToIt(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let user = newID()
        let signIn = try await opened(store, "a", user)
        #expect(signIn.isNew && signIn.account.id == user && signIn.account.passkeys == 1 && signIn.session?.signedInAt == at(10).now)
        let stored = try #require(await store.passkey(Array("a".utf8)))
        #expect(try await store.passkeys(of: user) == [stored] && stored == passkey("a", of: user, counter: 5))
        // A challenge, a credential and the id of an account count once.
        func again(_ id: String, _ user: WireID, _ text: String) async throws -> PasskeyRefusal? {
            let new = NewAccount(id: user, openedBy: .dlauth)
            let outcome = try await store.open(
                new, with: passkey(id, of: user), spending: proof(text), session: newSession(), at(11))
            if case .failure(let refusal) = outcome { return refusal }
            return nil
        }
        #expect(try await again("b", newID(), "open a") == .challenge)
        #expect(try await again("a", newID(), "another") == .registered)
        #expect(try await store.passkey(Array("b".utf8)) == nil)
        // The counters rise, stay away, fall.
        var used = stored
        for (number, (counter, falls)) in [(6, false), (6, true), (0, false), (9, false), (3, true)].enumerated() {
            (used.signCount, used.isBackedUp) = (UInt32(counter), number > 2)
            let time = Int64(20 + number)
            let session = try await store.signIn(used, spending: proof("\(number)"), session: newSession(), present: nil, at(time)).get()
            #expect(session.account.id == user && session.session?.signedInAt == at(time).now && !session.isNew)
            let now = try #require(await store.passkey(used.credentialID))
            #expect(now.signCount == UInt32(counter) && now.isBackedUp == (number > 2) && now.lastUsedAt == at(time).now)
            let newest = try await store.auditEvents(of: user, before: nil, limit: 1).map(\.kind)
            #expect((newest == [.passkeyCounterFell]) == falls, "to \(counter)")
        }
        #expect(try await store.signIn(used, spending: proof("0"), session: newSession(), present: nil, at(30)) == .failure(.challenge))
        _ = try await store.delete(user, at(31))
        #expect(try await store.signIn(used, spending: proof("new"), session: newSession(), present: nil, at(32)) == .failure(.unknown))
        #expect(try await store.passkey(used.credentialID) == nil)
    }

    @Test(arguments: Backend.allCases)
    func theLastPasskeyOfAnAccountStaysAndTheOperatorRemovesAny(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let signIn = try await opened(store, "a", newID())
        let (user, caller) = (signIn.account.id, try caller(signIn))
        #expect(try await store.add(passkey("b", of: user), by: caller, spending: proof("1"), at(11)) == .success(passkey("b", of: user)))
        let other = try await opened(store, "other", newID())
        #expect(try await store.add(passkey("b", of: user), by: caller, spending: proof("2"), at(11)) == .failure(.registered))
        #expect(try await store.add(passkey("c", of: user), by: caller, spending: proof("1"), at(11)) == .failure(.challenge))
        #expect(
            try await store.add(passkey("c", of: user), by: try self.caller(other), spending: proof("3"), at(11)) == .failure(.sessionEnded)
        )
        #expect(try await store.rename(Array("b".utf8), of: user, to: "Ω")?.name == "Ω")
        #expect(try await store.rename(Array("other".utf8), of: user, to: "mine") == nil)
        #expect(try await store.passkey(Array("other".utf8))?.name == "Ada's other")
        func remove(_ id: String, _ ways: SignInWays?) async throws -> PasskeyRefusal? {
            let kept = ways == nil ? nil : caller.session
            guard case .failure(let refusal) = try await store.remove(Array(id.utf8), of: user, keeping: kept, ways, at(12)) else {
                return nil
            }
            return refusal
        }
        _ = try await store.openSession(newSession(), of: user, at(12))
        #expect(try await remove("other", ways) == .unknown)
        #expect(try await remove("a", ways) == nil)
        #expect(try await store.sessions(of: user, now: at(12).now).map(\.id) == [caller.session], "the others have ended")
        #expect(try await remove("b", ways) == .last)
        #expect(try await store.account(user)?.passkeys == 1)
        // A passkey is left when an identity is unlinked, unless passkeys do not sign in.
        _ = try await store.link(identity(subject: "1", email: nil), by: caller, at(13))
        var without = ways
        without.passkeys = false
        #expect(try await store.unlink(IdentitySource(.google), by: caller, without, at(14)).refusal == .last)
        #expect(try await store.unlink(IdentitySource(.google), by: caller, ways, at(14)).refusal == nil)
        #expect(try await remove("b", nil) == nil)
        #expect(try await store.account(user)?.passkeys == 0)
        #expect(try await store.sessions(of: user, now: at(14).now).isEmpty)
    }

    /// A guest with a passkey is none that could be lost or merged.
    @Test(arguments: Backend.allCases)
    func aGuestBecomesAnAccountByItsFirstPasskey(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let guest = try await store.opened(nil, hash: nil, contract: .anonymous)
        let (user, caller) = (guest.account.id, try caller(guest))
        var new = NewAccount(id: user, openedBy: .dlauth)
        (new.guest, new.attributes) = (caller, try Attributes(json: Array(#"{"a":1}"#.utf8).rawBytes))
        let before = try #require(await store.account(user)).entitlement.version
        let joined = try await store.open(new, with: passkey("a", of: user), spending: proof("1"), session: newSession(), at(11)).get()
        #expect(joined.account.id == user && joined.isNew && joined.account.attributes == new.attributes)
        let stored = try #require(await store.account(user))
        #expect(stored.passkeys == 1 && stored.entitlement.version > before && !GuestRule.isGuest(stored, hasIdentities: false))
        #expect(
            try await store.open(new, with: passkey("b", of: user), spending: proof("2"), session: newSession(), at(12))
                == .failure(.challenge), "it is a guest no more")
        let taker = try await store.opened("a@x")
        let merging = Merging(
            guest: caller.session, refresh: nil, into: taker.account.id, by: try self.caller(taker).session, TierOrder(["free"]))
        #expect(try await store.merge(merging, at(13)) == .notGuest)
        #expect(try await store.leave(caller, DeletionRule(graceSeconds: 0, recentSeconds: 1), at(600)) == .notRecent)
    }

    /// One touch within a session, for a route that demands a newer sign-in.
    @Test(arguments: Backend.allCases)
    func aSignInWithinASessionRenewsIt(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (ada, eva) = (try await opened(store, "a", newID()), try await opened(store, "b", newID()))
        let (mine, theirs) = (try caller(ada), try caller(eva))
        func signIn(
            _ seconds: Int64, _ present: CallerSession, _ contract: ContractID = .dlauth, factor: Bool = false, key: KeyThumbprint? = nil
        ) async throws -> Session {
            var session = newSession(contract)
            session.factorAt = factor ? at(seconds).now : nil
            session.deviceKey = key
            let used = passkey("a", of: ada.account.id)
            let outcome = try await store.signIn(used, spending: proof("\(seconds)"), session: session, present: present, at(seconds))
            return try #require(outcome.get().session)
        }
        let renewed = try await signIn(700, mine)
        #expect(renewed.id == mine.session && renewed.signedInAt == at(700).now && renewed.counter == ada.session?.counter)
        #expect(renewed.factorAt == nil)
        let proven = try await signIn(701, mine, factor: true)
        #expect(proven.id == mine.session && proven.factorAt == at(701).now)
        let stored = try #require(await store.session(mine.session)?.session)
        #expect(stored.signedInAt == at(701).now && stored.factorAt == at(701).now)
        #expect(try await store.sessions(of: ada.account.id, now: at(701).now).count == 1)
        // Of another account, contract or key, past its end, or ended: another is opened.
        var others = [try await signIn(702, theirs), try await signIn(703, mine, .password)]
        others.append(try await signIn(704, mine, key: KeyThumbprint(bytes: .init(repeating: 7, count: 32))))
        let end = stored.idleDeadline.seconds - at(0).now.seconds
        others.append(try await signIn(end, mine))
        _ = try await store.end(mine.session, .signOut, at(end + 1))
        others.append(try await signIn(end + 2, mine))
        #expect(Set(others.map(\.id) + [mine.session, theirs.session]).count == 7)
        #expect(try await store.session(theirs.session)?.session?.signedInAt == at(10).now)
    }

    /// No user who has just signed in is signed out for lack of use, or because the session was near its end.
    @Test(arguments: Backend.allCases)
    func aSessionThatASignInRenewsStaysOpenAsAfterARefresh(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await opened(store, "a", newID())
        let (user, mine) = (ada.account.id, try caller(ada))
        func signIn(_ seconds: Int64, _ present: WireID, _ contract: ContractID) async throws -> Session {
            let outcome = try await store.signIn(
                passkey("a", of: user), spending: proof("\(contract) \(seconds)"), session: newSession(contract),
                present: CallerSession(user: user, session: present), at(seconds))
            return try #require(outcome.get().session)
        }
        let month: Int64 = 30 * 86_400
        let renewed = try await signIn(month, mine.session, .dlauth)
        #expect(renewed.id == mine.session && renewed.lastUsedAt == at(month).now && renewed.deadline == at(2 * month).now)
        #expect(try await store.session(renewed.id)?.session == renewed)
        // Those whose end is fixed are renewed as long as they outlast the new access token: 7 days of the 30, and never.
        let fixed = try #require(await store.openSession(newSession(.password), of: user, at(10))?.session)
        let last = month + 10 - 7 * 86_400
        let kept = try await signIn(last, fixed.id, .password)
        #expect(kept.id == fixed.id && kept.lastUsedAt == at(last).now && kept.deadline == fixed.deadline)
        #expect(try await store.session(fixed.id)?.session == kept)
        let single = try #require(await store.openSession(newSession(.apple), of: user, at(last))?.session)
        for (before, contract) in [(fixed, ContractID.password), (single, .apple)] {
            let next = try await signIn(last + 1, before.id, contract)
            #expect(next.id != before.id && next.deadline > before.deadline)
        }
    }

    /// As with an email that a session adds: a thief of an old session gets no newer sign-in, and no second factor.
    @Test(arguments: Backend.allCases)
    func aPasskeyOfAnOldSessionCarriesItsSignIn(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let guest = try await store.opened(nil, hash: nil, contract: .anonymous, at: at(10))
        let (user, caller) = (guest.account.id, try caller(guest))
        func signIn(_ id: String, _ seconds: Int64) async throws -> [WallTime?] {
            var session = newSession()
            session.factorAt = at(seconds).now
            let used = try #require(await store.passkey(Array(id.utf8)))
            let proof = proof("\(id) \(seconds)")
            let opened = try await store.signIn(used, spending: proof, session: session, present: nil, at(seconds)).get().session
            return [opened?.signedInAt, opened?.factorAt]
        }
        // Ten minutes, and the five of a challenge.
        for (id, time, carried) in [("soon", 909, nil), ("late", 910, at(10).now)] as [(String, Int64, WallTime?)] {
            _ = try await store.add(passkey(id, of: user), by: caller, spending: proof(id), at(time)).get()
            #expect(try await store.passkey(Array(id.utf8))?.carriedAt == carried)
        }
        let free = 910 + at(0).contactAge
        #expect(try await signIn("soon", 911) == [at(911).now, at(911).now])
        #expect(try await signIn("late", free - 1) == [at(10).now, nil])
        #expect(try await signIn("late", free) == [at(free).now, at(free).now])

        let other = try await store.opened(nil, hash: nil, contract: .anonymous, at: at(10))
        var new = NewAccount(id: other.account.id, openedBy: .dlauth)
        new.guest = try self.caller(other)
        var session = newSession()
        session.factorAt = at(1_000).now
        let joined = try await store.open(
            new, with: passkey("guest", of: new.id), spending: proof("guest"), session: session, at(1_000)
        )
        .get()
        #expect(joined.session?.signedInAt == at(10).now && joined.session?.factorAt == nil)
        #expect(try await signIn("guest", 1_001) == [at(10).now, nil])
    }

    /// The owner of an email takes an account over, and the passkeys of the user before go.
    @Test(arguments: Backend.allCases)
    func aTakeOverDropsPasskeysAndASweepSpentProofs(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let thief = try await store.opened("a@x")
        let user = thief.account.id
        for number in 0..<Int(Passkey.most) {
            _ = try await store.add(passkey("\(number)", of: user), by: try caller(thief), spending: proof("\(number)"), at(11)).get()
        }
        let full = try await store.add(passkey("more", of: user), by: try caller(thief), spending: proof("more"), at(11))
        #expect(full == .failure(.full))
        let owner = try await store.signIn(
            identity(subject: "1", email: try email("a@x")), newUser: newID(), session: newSession(.provider), at(12))
        #expect(owner.account.id == user && owner.account.passkeys == 0)
        #expect(try await store.passkeys(of: user).isEmpty)
        #expect(try await store.account(user)?.passkeys == 0)
        let used = passkey("a", of: newID())
        let again = NewAccount(id: used.user, openedBy: .dlauth)
        try await store.sweep(now: at(359).now, stride: 1_000_000)
        let replayed = try await store.open(again, with: used, spending: proof("3"), session: newSession(), at(359))
        #expect(replayed == .failure(.challenge))
        try await store.sweep(now: at(360).now, stride: 1_000_000)
        _ = try await store.open(again, with: used, spending: proof("3"), session: newSession(), at(360)).get()
    }

    /// One challenge that is answered at two gateways at once opens one account.
    @Test(arguments: Backend.allCases)
    func aRacedChallengeIsSpentOnce(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let stores = [bench.store, try bench.another()]
        let known = try await opened(bench.store, "a", newID()).account.id
        for round in 0..<20 {
            let won = try await withThrowingTaskGroup(of: Bool.self) { group in
                for store in stores {
                    group.addTask {
                        let outcome = try await store.signIn(
                            passkey("a", of: known), spending: proof("race \(round)"), session: newSession(), present: nil, at(20))
                        if case .failure(let refusal) = outcome { return refusal != .challenge }
                        return true
                    }
                }
                return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            #expect(won == 1)
        }
    }
}
