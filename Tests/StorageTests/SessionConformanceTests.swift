import Accounts
import Credentials
import Testing
import Wire

/// Conformance of every store: sessions.
@Suite struct SessionConformanceTests {
    /// The session that was not used for longest ends with the sign-in that is one too many, and gateways hear of it.
    @Test(arguments: Backend.allCases)
    func anAccountHasOnlySoManySessions(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let user = try await store.opened("a@x").account.id
        let other = try await store.opened("b@x")
        var ids = try await store.sessions(of: user, now: at(0).now).map(\.id)
        func open(_ session: NewSession, at seconds: Int64) async throws {
            var session = session
            session.bound = SessionBound(3)
            ids.append(session.id)
            _ = try await store.signIn(user, proof: PasswordProof(hash: "hash"), session: session, at(seconds))
        }
        for seconds: Int64 in 1...2 { try await open(newSession(), at: seconds) }
        // The oldest was used since, so the second one goes.
        _ = try await store.refresh(RefreshRequest(session: ids[0], contract: .dlauth, counter: 1, rule: RefreshRule()), at(3))
        var reader = try await ChangeReader(store)
        try await open(newSession(), at: 4)
        #expect(Set(try await store.sessions(of: user, now: at(4).now).map(\.id)) == [ids[0], ids[2], ids[3]])
        let news = try await reader.news()
        #expect(news.contains(.ended(EndedSession(id: ids[1], of: .dlauth, user: user, endedAt: at(4).now, reason: .revoked))), "\(news)")
        for seconds: Int64 in 5...9 { try await open(newSession(), at: seconds) }
        #expect(try await store.sessions(of: user, now: at(9).now).map(\.id) == ids.suffix(3).reversed())
        #expect(try await store.sessions(of: other.account.id, now: at(9).now).map(\.id) == [try #require(other.session?.id)])
    }

    /// A tier that has ended counts no longer.
    @Test(arguments: Backend.allCases)
    func theTierBoundsTheSessions(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let user = try await bench.store.opened("a@x").account.id
        func count(after seconds: Int64) async throws -> Int {
            for _ in 0..<6 {
                var session = newSession()
                session.bound = SessionBound(2, byTier: ["gold": 4])
                _ = try await bench.store.signIn(user, proof: PasswordProof(hash: "hash"), session: session, at(seconds))
            }
            return try await bench.store.sessions(of: user, now: at(seconds).now).count
        }
        #expect(try await count(after: 1) == 2)
        for (tier, until, sessions) in [("gold", at(100).now, 4), ("silver", nil, 2), ("gold", at(3).now, 2)] as [(String, WallTime?, Int)]
        {
            _ = try await bench.store.setTier(tier, until: until, of: user, at(2))
            #expect(try await count(after: 4) == sessions, "\(tier)")
        }
    }

    @Test(arguments: Backend.allCases)
    func twoHundredParallelRefreshesTakeOneStep(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let session = try await store.opened("a@x").session
        let outcomes = try await withThrowingTaskGroup(of: RefreshOutcome.self) { group in
            for _ in 0..<200 { group.addTask { try await store.refresh(session, 1, at: 5) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.count { $0.verdict == .rotate } == 1)
        #expect(outcomes.count { $0.verdict == .again } == 199)
        #expect(outcomes.allSatisfy { $0.counter == 2 })
        #expect(try await store.session(session?.id ?? newID())?.session?.counter == 2)
    }

    @Test(arguments: Backend.allCases)
    func severalGatewaysTakeOneStepTogether(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let session = try await bench.store.opened("a@x").session
        let gateways = try (0..<4).map { _ in try bench.another() }
        let outcomes = try await withThrowingTaskGroup(of: RefreshOutcome.self) { group in
            for number in 0..<200 { group.addTask { try await gateways[number % 4].refresh(session, 1, at: 5) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.count { $0.verdict == .rotate } == 1)
        #expect(outcomes.allSatisfy { $0.counter == 2 })
    }

    /// A refresh is no sign-in, a session that continues one of another issuer has none, and none is in the future.
    @Test(arguments: Backend.allCases)
    func aSessionKeepsTheTimeOfItsSignIn(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let account = try await store.opened("a@x").account
        let times: [(SignInTime, WallTime?)] = [
            (.opening, at(5).now), (.unknown, nil), (.at(at(3).now), at(3).now), (.at(at(9).now), at(5).now),
        ]
        for (time, signedInAt) in times {
            var new = NewSession(id: newID(), contract: .dlauth, device: nil)
            new.signIn = time
            let opened = try await store.openSession(new, of: account.id, at(5))
            #expect(opened?.session?.signedInAt == signedInAt)
            _ = try await store.refresh(RefreshRequest(session: new.id, contract: .dlauth, counter: 1, rule: RefreshRule()), at(90))
            #expect(try await store.session(new.id)?.session?.signedInAt == signedInAt)
        }
    }

    @Test(arguments: Backend.allCases)
    func theOperatorOpensASessionOfItsOwnLength(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let account = try await store.opened("a@x").account
        let new = NewSession(id: newID(), contract: .dlauth, device: nil, idleSeconds: 100)
        let opened = try await store.openSession(new, of: account.id, AuditContext(now: at(5).now, address: nil, actor: .command))
        #expect(opened?.account == account && opened?.session?.idleDeadline == at(105).now)
        #expect(try await store.session(new.id) == opened)
        let request = RefreshRequest(session: new.id, contract: .dlauth, counter: 1, rule: RefreshRule(), idleSeconds: 50)
        _ = try await store.refresh(request, at(20))
        #expect(try await store.session(new.id)?.session?.idleDeadline == at(70).now)
        #expect(try await store.endSessions(of: account.id, .revoked, at(21)).contains { $0.id == new.id })
        #expect(try await store.openSession(NewSession(id: newID(), contract: .dlauth, device: nil), of: newID(), at(5)) == nil)
    }

    @Test(arguments: Backend.allCases)
    func aChainIsWalkedAsTheRuleSays(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let opened = try await store.opened("a@x")
        let session = opened.session
        let id = try #require(session?.id)
        let rotated = try await store.refresh(session, 1, at: 10)
        guard case .issued(let signIn, .rotate) = rotated else { return #expect(Bool(false), "\(rotated)") }
        #expect(signIn.account == opened.account)
        #expect(signIn.session?.lastUsedAt == at(10).now)
        #expect(signIn.session?.idleDeadline == at(10 + 30 * 86_400).now)
        #expect(try await store.session(id)?.session == signIn.session)
        #expect(try await store.refresh(session, 1, at: 1_000).verdict == .again)
        try await store.confirm([ConfirmedPair(session: id, counter: 1)])
        #expect(try await store.refresh(session, 1, at: 1_000).verdict == .again)
        try await store.confirm([ConfirmedPair(session: id, counter: 2), ConfirmedPair(session: newID(), counter: 1)])
        #expect(try await store.session(id)?.session?.isConfirmed == true)
        #expect(try await store.refresh(session, 1, at: 39).verdict == .again)
        #expect(try await store.refresh(session, 3, at: 1_000) == .refused(.ahead))
        #expect(try await store.refresh(session, 2, .provider, at: 1_000) == .refused(.wrongContract))
        #expect(try await store.refresh(session, 2, at: 1_000).counter == 3)
        #expect(try await store.refresh(nil, 1, at: 1_000) == .refused(.noSession))
        let reused = try await store.refresh(session, 1, at: 1_001)
        let ended = EndedSession(id: id, of: .dlauth, user: opened.account.id, endedAt: at(1_001).now, reason: .refreshReuse)
        #expect(reused == .reused(ended))
        #expect(try await store.refresh(session, 3, at: 1_002) == .refused(.noSession))
        #expect(try await store.endedSessions() == [ended])
        let kinds = try await store.auditEvents(of: opened.account.id, before: nil, limit: 10).map(\.kind)
        #expect(kinds == [.refreshReuse, .refreshAhead, .accountOpened])
    }

    /// The token before the current one, whose successor is known to have arrived.
    @Test(arguments: Backend.allCases)
    func aTokenWhoseSuccessorHasArrivedEndsTheSession(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let opened = try await store.opened("a@x")
        let (session, id) = (opened.session, try #require(opened.session?.id))
        #expect(try await store.refresh(session, 1, at: 10).verdict == .rotate)
        #expect(try await store.refresh(session, 1, at: 1_000).verdict == .again, "its answer may have been lost")
        try await store.confirm([ConfirmedPair(session: id, counter: 2)])
        let ended = EndedSession(id: id, of: .dlauth, user: opened.account.id, endedAt: at(1_000).now, reason: .refreshReuse)
        #expect(try await store.refresh(session, 1, at: 1_000) == .reused(ended))
        #expect(try await store.refresh(session, 2, at: 1_000) == .refused(.noSession))
        #expect(try await store.endedSessions() == [ended])
        let kinds = try await store.auditEvents(of: opened.account.id, before: nil, limit: 10).map(\.kind)
        #expect(kinds == [.refreshReuse, .accountOpened])
    }

    @Test(arguments: Backend.allCases)
    func aTokenThatStaysTakesNoStep(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let session = try await store.opened("a@x", contract: .password).session
        for seconds: Int64 in [5, 86_400 * 29] {
            let outcome = try await store.refresh(session, nil, .password, at: seconds)
            #expect(outcome.verdict == .keep)
            #expect(outcome.counter == 1)
        }
        #expect(try await store.session(session?.id ?? newID())?.session?.lastUsedAt == at(86_400 * 29).now)
        #expect(try await store.refresh(session, nil, .password, at: 86_400 * 30) == .refused(.expired))
    }

    @Test(arguments: Backend.allCases)
    func aStormTakesNoStep(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let session = try await store.opened("a@x").session
        for counter: UInt64 in 1...10 { #expect(try await store.refresh(session, counter, at: 1).verdict == .rotate) }
        #expect(try await store.refresh(session, 11, at: 2).verdict == .storm)
        #expect(try await store.refresh(session, 11, at: 2).counter == 11)
        #expect(try await store.refresh(session, 11, at: 11).counter == 12)
    }

    @Test(arguments: Backend.allCases)
    func endedSessionsAreKept(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let first = try await store.opened("a@x")
        let user = first.account.id
        let more = [newSession(), newSession()]
        for session in more { _ = try await store.signIn(user, proof: PasswordProof(hash: "hash"), session: session, at(1)) }
        #expect(try await store.sessions(of: user, now: at(1).now).map(\.id) == [more[1].id, more[0].id] + first.sessionIDs)
        let ended = try await store.end(more[0].id, .signOut, at(2))
        #expect(ended == EndedSession(id: more[0].id, of: .dlauth, user: user, endedAt: at(2).now, reason: .signOut))
        #expect(try await store.end(more[0].id, .signOut, at(3)) == nil)
        let rest = try await store.endSessions(of: user, .revoked, at(4))
        #expect(rest.map(\.id) == first.sessionIDs + [more[1].id])
        #expect(try await store.endSessions(of: user, .revoked, at(5)).isEmpty)
        #expect(try await store.endedSessions() == [try #require(ended)] + rest)
        #expect(try await store.sessions(of: user, now: at(5).now).isEmpty)
    }

    @Test(arguments: Backend.allCases)
    func expiredRowsAreSwept(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let old = try await store.opened("a@x", contract: .apple)
        let live = try await store.opened("b@x", contract: .dlauth)
        _ = try await store.end(try #require(try await store.opened("c@x").session?.id), .signOut, at(0))
        let week: Int64 = 7 * 86_400
        try await store.sweep(now: at(2 * week - 1).now, stride: anyStride)
        #expect(try await store.session(try #require(old.session?.id)) != nil)
        #expect(try await store.sessions(of: old.account.id, now: at(week).now).isEmpty)
        try await store.sweep(now: at(2 * week).now, stride: anyStride)
        #expect(try await store.session(try #require(old.session?.id)) == nil)
        #expect(try await store.session(try #require(live.session?.id)) != nil)
        #expect(try await store.endedSessions().isEmpty)
        #expect(try await store.account(old.account.id) != nil)
    }

    /// An access token may outlive its session's last refresh, and must be refused when its user is revoked.
    @Test(arguments: Backend.allCases)
    func aSessionThatExpiredCanStillBeEnded(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let opened = try await store.opened("a@x", contract: .password)
        let ended = try await store.endSessions(of: opened.account.id, .revoked, at(31 * 86_400))
        #expect(ended.map(\.id) == opened.sessionIDs)
    }
}
