import Credentials
import MemoryStore
import Storage
import Testing
import Wire

@testable import Accounts

/// Sessions once they are open.
@Suite struct SessionTests {
    private func refresh(_ office: AccountsFixture, _ token: String?, _ contract: ContractID = .dlauth) async throws -> Sessions.Granted {
        try await office.sessions.refresh(token ?? "none", contract: contract, caller: office.caller)
    }

    @Test func aRefreshBringsANewPairOfTheSameSession() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x")
        let next = try await refresh(office, first.grant?.tokens.refresh)
        #expect(next.account.id == first.account.id)
        #expect(next.grant.session.id == first.grant?.session.id)
        #expect(next.grant.tokens.refresh != first.grant?.tokens.refresh)
        #expect(try office.verified(next.grant.tokens.access).get().sessionID.text == first.grant?.session.id.text)
    }

    @Test func tokensAndSessionsLiveAsLongAsTheOperatorSays() async throws {
        var policies = SessionPolicies()
        policies[.dlauth].accessSeconds = 60
        policies[.dlauth].idleSeconds = 600
        let office = try AccountsFixture(policies: policies)
        let first = try await office.signUp("a@x")
        #expect(first.grant?.tokens.accessSeconds == 60)
        #expect(first.grant?.tokens.accessExpiresAt == office.clock.now.seconds + 60)
        office.clock.advance(seconds: 599)
        let next = try await refresh(office, first.grant?.tokens.refresh)
        #expect(next.grant.session.idleDeadline == office.clock.now.advanced(seconds: 600))
        office.clock.advance(seconds: 600)
        #expect(await fault { try await refresh(office, next.grant.tokens.refresh) } == RefreshTokenRefusal.expired)
        // Those of other contracts as their documents say.
        #expect(try await office.signUp("b@x", contract: .provider).grant?.tokens.accessSeconds == 3_600)
    }

    /// Upstreams rely on the token's `email_verified`; a token issued before the proof says false.
    @Test func aTokenSaysWhetherTheEmailIsProven() async throws {
        let office = try AccountsFixture()
        let signedIn = try await office.signUp("a@x")
        let session = try #require(signedIn.grant?.session)
        func isProven(_ change: (inout Account) -> Void) throws -> Bool {
            var account = signedIn.account
            change(&account)
            let token = try office.mint.pair(session, account, now: office.clock.now).access
            return try office.verified(token).get().isEmailProven
        }
        #expect(try !isProven { $0.emailConfirmedAt = nil })
        #expect(try isProven { $0.emailConfirmedAt = office.clock.now })
        #expect(try !isProven { ($0.email, $0.emailConfirmedAt) = (nil, office.clock.now) })
    }

    /// A gateway whose clock is so many seconds ahead refreshes for one whose clock is right: the grace is counted by the store's clock.
    @Test(arguments: [60, -3_600] as [Int64])
    func aWrongClockNeitherEndsNorExtendsTheGrace(_ ahead: Int64) async throws {
        let office = try AccountsFixture()
        let context = office.skewedContext(ahead: ahead)
        let clock = context.clock
        let wrong = Sessions(context: context, mint: office.mint)
        let spent = try await office.signUp("a@x").grant?.tokens.refresh ?? "none"
        let next = try await refresh(office, spent)
        try await office.sessions.confirm([ConfirmedPair(session: next.grant.session.id, counter: 2)])
        office.clock.advance(seconds: 10)
        let again = try await wrong.refresh(spent, contract: .dlauth, caller: office.caller)
        #expect(again.grant.tokens.refresh == next.grant.tokens.refresh)
        #expect(again.grant.tokens.accessExpiresAt == clock.now().wall.seconds + again.grant.tokens.accessSeconds)
        let used = try await wrong.refresh(again.grant.tokens.refresh ?? "none", contract: .dlauth, caller: office.caller)
        #expect(used.grant.session.rotatedAt == office.clock.now)
        try await office.sessions.confirm([ConfirmedPair(session: next.grant.session.id, counter: 3)])
        office.clock.advance(seconds: 30)
        let late = await fault { try await wrong.refresh(next.grant.tokens.refresh ?? "none", contract: .dlauth, caller: office.caller) }
        #expect(late == RefreshTokenRefusal.invalid)
        #expect(await office.recorder.ended.map(\.reason) == [.refreshReuse])
    }

    /// Its `exp` is that of the session's newest token, by which streams end, and `auth_time` is judged by the clock that judges `exp`.
    @Test(arguments: [60, -3_600] as [Int64])
    func aTokenTellsTheTimesOfItsSessionByTheGatewaysClock(_ ahead: Int64) async throws {
        let office = try AccountsFixture()
        let context = office.skewedContext(ahead: ahead)
        let sessions = Sessions(context: context, mint: office.mint)
        let own = { context.clock.now().wall }
        let openings = AnonymousAccounts(context: context, mint: office.mint, limiter: office.limiter)
        var granted = try await openings.open(contract: .dlauth, caller: office.caller).grant
        let signedIn = own().seconds
        for _ in 0..<2 {
            #expect(try await sessions.newestExpiry(of: granted.session.id) == granted.tokens.accessExpiresAt)
            let token = try office.verified(granted.tokens.access, at: own()).get()
            #expect(token.authenticatedAt == signedIn)
            office.clock.advance(seconds: 100)
            granted = try await sessions.refresh(granted.tokens.refresh ?? "none", contract: .dlauth, caller: office.caller).grant
        }
        // By a clock that has been set back since, it is not in the future.
        var session = granted.session
        session.signedInAt = office.clock.now.advanced(seconds: 9)
        let late = try office.mint.pair(session, try await office.signUp("a@x").account, now: office.clock.now)
        #expect(try office.verified(late.access).get().authenticatedAt == office.clock.now.seconds)
    }

    @Test func aLostAnswerIsGivenAgain() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x")
        let lost = try await refresh(office, first.grant?.tokens.refresh)
        for seconds: Int64 in [0, 1, 3_600, 86_400] {
            office.clock.advance(seconds: seconds)
            let again = try await refresh(office, first.grant?.tokens.refresh)
            #expect(again.grant.tokens.refresh == lost.grant.tokens.refresh)
            #expect(again.grant.tokens.accessExpiresAt == office.clock.now.seconds + 3_600)
        }
    }

    @Test func twoHundredParallelRefreshesTakeOneStepAndAgree() async throws {
        let office = try AccountsFixture()
        let token = try await office.signUp("a@x").grant?.tokens.refresh
        let tokens = try await withThrowingTaskGroup(of: Sessions.Granted.self) { group in
            for _ in 0..<200 { group.addTask { try await refresh(office, token) } }
            return try await group.reduce(into: [Sessions.Granted]()) { $0.append($1) }
        }
        #expect(Set(tokens.map(\.grant.tokens.refresh)).count == 1)
        #expect(Set(tokens.map(\.grant.session.counter)) == [2])
    }

    @Test func onceAPairWasSeenItsParentIsReuseAfterTheGrace() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x")
        let next = try await refresh(office, first.grant?.tokens.refresh)
        let seen = try office.verified(next.grant.tokens.access).get()
        let counter = try #require(AccessTokenID(parsing: seen.tokenID)?.counter)
        try await office.sessions.confirm([ConfirmedPair(session: next.grant.session.id, counter: counter)])
        office.clock.advance(seconds: 29)
        #expect(try await refresh(office, first.grant?.tokens.refresh).grant.tokens.refresh == next.grant.tokens.refresh)
        #expect(await office.recorder.ended.isEmpty)
        office.clock.advance(seconds: 1)
        #expect(await fault { try await refresh(office, first.grant?.tokens.refresh) } == RefreshTokenRefusal.invalid)
        #expect(await office.recorder.ended.map(\.reason) == [.refreshReuse])
        #expect(office.recorder.notices == [.refreshReuse(session: next.grant.session.id, user: next.account.id)])
        #expect(await fault { try await refresh(office, next.grant.tokens.refresh) } == RefreshTokenRefusal.invalid)
        #expect(await fault { try await office.sessions.current(first.callerSession) } == SessionRefusal.sessionEnded)
        #expect(try await office.directory.auditEvents(of: first.account.id).first?.kind == .refreshReuse)
    }

    @Test func aTokenSpentLongAgoEndsTheSession() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x")
        let second = try await refresh(office, first.grant?.tokens.refresh)
        let third = try await refresh(office, second.grant.tokens.refresh)
        // Events of one millisecond have no order.
        office.clock.advance(seconds: 1)
        #expect(await fault { try await refresh(office, first.grant?.tokens.refresh) } == RefreshTokenRefusal.invalid)
        #expect(await office.recorder.ended.map(\.reason) == [.refreshReuse])
        #expect(office.recorder.notices == [.refreshReuse(session: third.grant.session.id, user: third.account.id)])
        #expect(await fault { try await refresh(office, third.grant.tokens.refresh) } == RefreshTokenRefusal.invalid)
        #expect(try await office.directory.auditEvents(of: first.account.id).first?.kind == .refreshReuse)
    }

    @Test func aTokenOfAnotherContractIsRefusedAndTheSessionUnharmed() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x", contract: .dlauth)
        for contract in ContractID.allCases where contract != .dlauth {
            #expect(await fault { try await refresh(office, first.grant?.tokens.refresh, contract) } == RefreshTokenRefusal.invalid)
        }
        _ = try await refresh(office, first.grant?.tokens.refresh)
    }

    /// Forgeries are refused without asking the store, which would fail here.
    @Test func aForgeryDiesBeforeTheStore() async throws {
        let office = try AccountsFixture()
        let token = try #require(try await office.signUp("a@x").grant?.tokens.refresh)
        office.store.fail(Array(repeating: .failed("asked"), count: 10))
        for forged in ["", "v1.", token + "A", "v1." + String(repeating: "A", count: 62), "a.b.c"] {
            #expect(await fault { try await refresh(office, forged) } == RefreshTokenRefusal.invalid)
            #expect(await fault { try await refresh(office, forged, .password) } == RefreshTokenRefusal.invalid)
        }
        #expect(office.recorder.notices.isEmpty)
    }

    /// A refresh on behalf of a caller names the session; the token names its contract.
    @Test(arguments: [ContractID.dlauth, .password])
    func aTokenIsRefreshedForTheSessionThatItIsOf(_ contract: ContractID) async throws {
        let office = try AccountsFixture()
        let (ada, bob) = (try await office.signUp("a@x", contract: contract), try await office.signUp("b@x"))
        let token = try #require(ada.grant?.tokens.refresh)
        func refresh(_ token: String, of session: CallerSession) async throws -> Sessions.Granted {
            try await office.sessions.refresh(token, of: session, caller: office.caller)
        }
        #expect(await fault { try await refresh(token, of: bob.callerSession) } == RefreshTokenRefusal.invalid)
        let confused = CallerSession(user: bob.account.id, session: ada.callerSession.session)
        if contract == .password { #expect(await fault { try await refresh(token, of: confused) } == RefreshTokenRefusal.invalid) }
        #expect(await fault { try await refresh("none", of: ada.callerSession) } == RefreshTokenRefusal.invalid)
        let granted = try await refresh(token, of: ada.callerSession)
        #expect(granted.callerSession == ada.callerSession)
        #expect((granted.grant.tokens.refresh == token) == (contract == .password))
        office.clock.advance(seconds: 31 * 86_400)
        #expect(await fault { try await refresh(token, of: ada.callerSession) } != nil)
    }

    /// A refresh token that is a JWT names its contract like any other; only `password` issued those that do not.
    @Test func aJWTIsOfTheContractThatItNames() async throws {
        let office = try AccountsFixture()
        let ada = try await office.signUp("a@x", contract: .password)
        let session = ada.callerSession
        let now = office.clock.now
        let tokens = try RefreshJWTs(secret: AccountsFixture.secret, issuer: "https://gate.test")
        func token(_ contract: UInt8) throws -> String {
            try tokens.issue(
                user: session.user, session: session.session, contract: contract, id: "j", issuedAt: now.seconds,
                expiresAt: now.seconds + 60)
        }
        for contract in ContractID.allCases {
            let said = try office.mint.origin(of: try token(contract.rawValue), now: now)
            #expect(said.contract == contract && said.session == session.session)
        }
        #expect(await fault { try office.mint.origin(of: try token(99), now: now) } == RefreshTokenRefusal.invalid)
        for contract in ContractID.allCases where contract != .password {
            let foreign = try token(contract.rawValue)
            #expect(
                await fault { try await office.sessions.refresh(foreign, contract: .password, caller: office.caller) }
                    == RefreshTokenRefusal.invalid)
            #expect(
                await fault { try await office.sessions.refresh(foreign, of: session, caller: office.caller) }
                    == RefreshTokenRefusal.invalid)
        }
        let label = Array("tollgate refresh JWT".utf8)
        let secret = AccountsFixture.secret
        let derived = Digest.hmacSHA256(label.rawBytes, key: secret.rawBytes)
        let key = try SigningKey(secret: derived.rawBytes)
        var claims = TokenClaims(
            issuer: "https://gate.test", audience: "refresh", subject: session.user.text, issuedAt: now.seconds, expiresAt: now.seconds + 60
        )
        claims.sessionID = session.session.text
        claims.tokenType = "refresh"
        let older = try key.issue(claims)
        #expect(try office.mint.origin(of: older, now: now).contract == .password)
        #expect(try await office.sessions.refresh(older, contract: .password, caller: office.caller).callerSession == session)
    }

    @Test func aStoreThatIsAwayForAMomentIsWaitedFor() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x")
        office.store.fail(Array(repeating: .unavailable("away"), count: 4))
        _ = try await refresh(office, first.grant?.tokens.refresh)
        office.store.fail(Array(repeating: .unavailable("away"), count: 100))
        let before = office.clock.now
        #expect(await fault { try await refresh(office, first.grant?.tokens.refresh) } == AccountFailure.unavailable(retryAfterSeconds: 1))
        #expect(office.clock.now.seconds - before.seconds <= 2)
    }

    @Test func aStormGetsTheSamePairAndANotice() async throws {
        let office = try AccountsFixture()
        var granted = try await refresh(office, try await office.signUp("a@x").grant?.tokens.refresh)
        for _ in 0..<9 { granted = try await refresh(office, granted.grant.tokens.refresh) }
        for _ in 0..<5 {
            let again = try await refresh(office, granted.grant.tokens.refresh)
            #expect(again.grant.tokens.refresh == granted.grant.tokens.refresh)
        }
        #expect(office.recorder.notices.contains(.refreshStorm(session: granted.grant.session.id, contract: .dlauth)))
        office.clock.advance(seconds: 10)
        let calm = try await refresh(office, granted.grant.tokens.refresh)
        #expect(calm.grant.tokens.refresh != granted.grant.tokens.refresh)
    }

    @Test func theTokenOfThePasswordContractStaysForItsThirtyDays() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x", contract: .password)
        let token = first.grant?.tokens.refresh
        #expect(token?.hasPrefix("eyJ") == true)
        for day in 0..<29 {
            let again = try await refresh(office, token, .password)
            #expect(again.grant.tokens.refresh == token, "day \(day)")
            #expect(again.grant.tokens.accessSeconds == 7 * 86_400)
            office.clock.advance(seconds: 86_400)
        }
        office.clock.advance(seconds: 86_400)
        #expect(await fault { try await refresh(office, token, .password) } == RefreshTokenRefusal.expired)
    }

    @Test func noAccessTokenRefreshesAndNoRefreshTokenOpensARoute() async throws {
        let office = try AccountsFixture()
        for contract in [ContractID.password, .dlauth] {
            let tokens = try #require(try await office.signUp("\(contract)@x", contract: contract).grant?.tokens)
            #expect(await fault { try await refresh(office, tokens.access, contract) } == RefreshTokenRefusal.invalid)
            let verdict = office.verified(tokens.refresh ?? "")
            #expect((try? verdict.get()) == nil)
        }
    }

    @Test func anIdleSessionExpiresAndOneInUseDoesNot() async throws {
        let office = try AccountsFixture()
        var token = try await office.signUp("a@x").grant?.tokens.refresh
        for _ in 0..<3 {
            office.clock.advance(seconds: 29 * 86_400)
            token = try await refresh(office, token).grant.tokens.refresh
        }
        office.clock.advance(seconds: 30 * 86_400)
        #expect(await fault { try await refresh(office, token) } == RefreshTokenRefusal.expired)
    }

    @Test func signOutEndsTheSessionAndAnnouncesIt() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x")
        let other = try await office.signIn("a@x", "password123")
        try await office.sessions.signOut(first.callerSession, caller: office.caller)
        #expect(await office.recorder.ended.map(\.id) == [first.callerSession.session])
        #expect(await office.recorder.ended.map(\.reason) == [.signOut])
        #expect(await fault { try await refresh(office, first.grant?.tokens.refresh) } == RefreshTokenRefusal.invalid)
        #expect(await fault { try await office.sessions.current(first.callerSession) } == SessionRefusal.sessionEnded)
        _ = try await refresh(office, other.grant?.tokens.refresh)
        try await office.sessions.signOut(first.callerSession, caller: office.caller)
        #expect(await office.recorder.ended.count == 1)
        #expect(try await office.directory.endedSessions().map(\.id) == [first.callerSession.session])
    }

    @Test func everyoneSeesAndEndsTheirOwnSessionsAlone() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x").callerSession
        office.clock.advance(seconds: 1)
        let second = try await office.signIn("a@x", "password123").callerSession
        let stranger = try await office.signUp("b@x").callerSession
        #expect(try await office.sessions.all(first).map(\.id) == [second.session, first.session])
        #expect(try await office.sessions.all(stranger).map(\.id) == [stranger.session])
        for id in [second.session, UUID(high: 0, low: 0)] {
            #expect(try await office.sessions.end(id, stranger, caller: office.caller) == false)
        }
        #expect(await office.recorder.ended.isEmpty)
        #expect(try await office.sessions.end(second.session, first, caller: office.caller))
        #expect(await office.recorder.ended.map(\.id) == [second.session])
        #expect(try await office.sessions.end(second.session, first, caller: office.caller) == false)
        #expect(try await office.sessions.all(first).map(\.id) == [first.session])
        let ended = SessionRefusal.sessionEnded
        #expect(await fault { try await office.sessions.all(second) } == ended)
        #expect(await fault { try await office.sessions.end(first.session, second, caller: office.caller) } == ended)
        #expect(await fault { try await office.sessions.signOutEverywhere(second, caller: office.caller) } == ended)
        #expect(try await office.sessions.all(first).count == 1)
    }

    @Test func signingOutEverywhereEndsAllSessionsOfOneAccount() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x").callerSession
        let second = try await office.signIn("a@x", "password123").callerSession
        let other = try await office.signUp("b@x").callerSession
        try await office.sessions.signOutEverywhere(first, caller: office.caller)
        #expect(await Set(office.recorder.ended.map(\.id)) == [first.session, second.session])
        #expect(await office.recorder.ended.allSatisfy { $0.reason == .signOut })
        #expect(try await office.sessions.all(other).map(\.id) == [other.session])
    }

    @Test func theCurrentPairIsReturnedWithoutAnIncrement() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x")
        let current = try await office.sessions.current(first.callerSession)
        #expect(current.grant.tokens.refresh == first.grant?.tokens.refresh)
        #expect(current.grant.session.counter == 1)
        let stranger = CallerSession(user: UUID(high: 0, low: 0), session: first.callerSession.session)
        #expect(await fault { try await office.sessions.current(stranger) } == SessionRefusal.sessionEnded)
    }

    @Test func everyoneActsAsThemselvesAndElseByGrant() async throws {
        let office = try AccountsFixture()
        let caller = try await office.anonymous.open(contract: .anonymous, caller: office.caller).callerSession
        let own = try ActorName(type: "user", id: caller.user.text)
        let token = try office.verified(try await office.sessions.actorToken(own, caller: caller)).get()
        #expect(token.actorType.text == "user")
        #expect(token.actorID.text == caller.user.text)
        #expect(token.userID.text == caller.user.text)
        #expect(token.expiresAt == office.clock.now.seconds + 900)
        // As `UUID.uuidString` of Foundation writes it.
        let shouted = try ActorName(type: "user", id: caller.user.text.uppercased())
        let same = try office.verified(try await office.sessions.actorToken(shouted, caller: caller)).get()
        #expect(same.actorID.text == caller.user.text)
        let team = try ActorName(type: "team", id: "t1")
        #expect(await fault { try await office.sessions.actorToken(team, caller: caller) } == ActorTokenRefusal.notGranted)
        try await office.administration.grant(team, to: caller.user)
        #expect(try office.verified(try await office.sessions.actorToken(team, caller: caller)).get().actorType.text == "team")
        #expect(try await office.administration.revoke(team, from: caller.user))
        #expect(await fault { try await office.sessions.actorToken(team, caller: caller) } == ActorTokenRefusal.notGranted)
        let other = try ActorName(type: "user", id: UUID(high: 1, low: 1).text)
        #expect(await fault { try await office.sessions.actorToken(other, caller: caller) } == ActorTokenRefusal.notGranted)
    }

    @Test(arguments: [("", "x"), ("x", ""), ("a\u{0}", "x"), (" a", "x"), ("a", "x\n"), ("a", String(repeating: "x", count: 129))])
    func anActorsNameFitsAHeader(_ type: String, _ id: String) {
        #expect(throws: MalformedText.self) { try ActorName(type: type, id: id) }
    }
}
