import Accounts
import Credentials
import Testing
import Wire

/// Conformance of every store: accounts.
@Suite struct AccountConformanceTests {
    @Test(arguments: Backend.allCases)
    func anAccountIsKeptAsItWasOpened(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let metadata = #"{"firstName":"John","ä":"\u0000","x":1.50}"#
        var new = NewAccount(id: newID(), openedBy: .password, email: try email("Ada@Example.com"), passwordHash: "hash")
        new.username = try Username("Ada 🦆")
        new.metadata = Metadata(stored: Array(metadata.utf8))
        let session = newSession(.password)
        let opening = try await store.open(new, session: session, at(0))
        let account = new.account(now: at(0).now)
        #expect(opening == .opened(account, Session(session, user: new.id, now: at(0).now)))
        #expect(try await store.account(new.id) == account)
        #expect(try await store.account(email: try email("ADA@example.COM")) == account)
        #expect(try await store.session(session.id) == SignIn(account: account, session: Session(session, user: new.id, now: start)))
        #expect(try await store.account(newID()) == nil)
        #expect(try await store.account(email: try email("x@example.com")) == nil)
    }

    @Test(arguments: Backend.allCases)
    func theOperatorsSettingsAtCreationAreStored(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        var new = NewAccount(id: newID(), openedBy: nil, email: try email("a@x"))
        new.isEmailConfirmed = true
        new.tier = "premium"
        new.tierUntil = at(100).now
        _ = try await store.open(new, session: nil, at(1, from: nil))
        let account = try #require(try await store.account(new.id))
        #expect(account == new.account(now: at(1).now))
        #expect(account.emailConfirmedAt == at(1).now)
        #expect(try await store.standing(of: new.id)?.entitlement == Entitlement(tier: "premium", until: at(100).now, version: 1))
        #expect(try await store.setTier(nil, until: nil, of: new.id, at(2))?.version == 2)
        let events = try await store.auditEvents(of: new.id, before: nil, limit: 10)
        #expect(events.map(\.kind) == [.tierChanged, .tierChanged, .emailConfirmed, .accountOpened])
        #expect(events.map(\.detail) == [nil, "premium", nil, "operator"])
    }

    @Test(arguments: Backend.allCases)
    func anAccountNeedsNothing(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let first = try await store.opened(nil, hash: nil)
        let second = try await store.opened(nil, hash: nil)
        #expect(try await store.accounts(after: nil, limit: 10).map(\.id) == [first.account.id, second.account.id])
        #expect(try await store.accounts(after: first.account.id, limit: 10).map(\.id) == [second.account.id])
        #expect(try await store.accounts(after: nil, limit: 1).map(\.id) == [first.account.id])
        #expect(try await store.accounts(after: second.account.id, limit: 10).isEmpty)
    }

    @Test(arguments: Backend.allCases)
    func anEmailHasOneAccount(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let outcomes = try await withThrowingTaskGroup(of: Opening.self) { group in
            for number in 0..<50 {
                let text = number % 2 == 0 ? "ada@x.org" : "ADA@X.org"
                let new = NewAccount(id: newID(), openedBy: .password, email: try email(text), passwordHash: "h")
                group.addTask { try await store.open(new, session: newSession(.password), at(0)) }
            }
            return try await group.reduce(into: [Opening]()) { $0.append($1) }
        }
        #expect(outcomes.count { $0 == Opening.emailTaken } == 49)
        #expect(try await store.accounts(after: nil, limit: 100).count == 1)
    }

    @Test(arguments: Backend.allCases)
    func aCredentialIsFoundByEmailOrByTheOneUsername(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        for (address, username, hash) in [
            ("a@x", "Ada", "h1"), ("b@x", "Grace", "h2"), ("c@x", "grace", "h3"), ("d@x", "Joan", nil),
        ] as [(String, String, String?)] {
            var new = NewAccount(id: newID(), openedBy: nil, email: try email(address), passwordHash: hash)
            new.username = try Username(username)
            _ = try await store.open(new, session: nil, at(0))
        }
        func hash(_ name: SignInName) async throws -> String? { try await store.credential(for: name)?.hash }
        #expect(try await hash(.email(try email("B@x"))) == "h2")
        #expect(try await hash(.email(try email("d@x"))) == nil)
        #expect(try await hash(.email(try email("e@x"))) == nil)
        #expect(try await hash(.username(Username(stored: "ADA"))) == "h1")
        #expect(try await hash(.username(Username(stored: "grace"))) == nil)
        #expect(try await hash(.username(Username(stored: "joan"))) == nil)
    }

    @Test(arguments: Backend.allCases)
    func aConcurrentlyChangedPasswordDoesNotSignIn(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let user = try await store.opened("a@x", hash: "old").account.id
        let session = newSession()
        let signIn = try await store.signIn(user, proof: PasswordProof(hash: "old", replacement: "new"), session: session, at(1))
        #expect(signIn?.session?.id == session.id)
        #expect(try await store.credential(for: .email(try email("a@x")))?.hash == "new")
        #expect(try await store.signIn(user, proof: PasswordProof(hash: "old"), session: newSession(), at(2)) == nil)
        let withheld = try await store.signIn(user, proof: PasswordProof(hash: "new"), session: nil, at(3))
        #expect(withheld != nil && withheld?.session == nil)
        #expect(try await store.signIn(newID(), proof: PasswordProof(hash: "new"), session: newSession(), at(3)) == nil)
    }

    @Test(arguments: Backend.allCases)
    func anotherPasswordEndsTheOtherSessions(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let first = try await store.opened("a@x")
        let stranger = try await store.opened("b@x")
        let user = first.account.id
        let others = try await [newSession(), newSession()].asyncMap {
            try await store.signIn(user, proof: PasswordProof(hash: "hash"), session: $0, at(1))?.session?.id
        }
        let kept = try #require(first.session?.id)
        let done = try await store.setPassword("new", of: user, keeping: kept, at(2))
        #expect(done?.session?.id == kept)
        #expect(done?.ended.map(\.id) == others.compactMap { $0 })
        #expect(done?.ended.allSatisfy { $0.reason == .passwordChanged && $0.user == user } == true)
        #expect(done?.account.updatedAt == at(2).now)
        #expect(try await store.sessions(of: user, now: at(2).now).map(\.id) == [kept])
        #expect(try await store.setPassword("x", of: user, keeping: stranger.session?.id ?? kept, at(3)) == nil)
        #expect(try await store.setPassword("x", of: user, keeping: newID(), at(3)) == nil)
        #expect(try await store.credential(for: .email(try email("a@x")))?.hash == "new")
    }

    @Test(arguments: Backend.allCases)
    func deletingAnAccountTakesAllItHas(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let first = try await store.opened("a@x")
        let user = first.account.id
        _ = try await store.grant(ActorName(type: "team", id: "1"), to: user, at(0))
        let proof = identity(subject: "1", email: nil)
        let linked = try await store.signIn(proof, newUser: newID(), session: newSession(.provider), at(1))
        #expect(try await store.delete(user, at(2))?.map(\.id) == first.sessionIDs)
        #expect(try await store.delete(user, at(2)) == nil)
        #expect(try await store.account(user) == nil)
        #expect(try await store.session(first.session?.id ?? user) == nil)
        #expect(try await store.grants(of: user).isEmpty)
        #expect(try await store.endedSessions().map(\.reason) == [.accountDeleted])
        #expect(try await store.auditEvents(of: user, before: nil, limit: 1).map(\.kind) == [.accountDeleted])
        _ = try await store.delete(linked.account.id, at(3))
        let again = try await store.signIn(proof, newUser: newID(), session: newSession(.provider), at(4))
        #expect(again.isNew)
    }

    /// Each change has a version of its own, is logged for gateways and in the audit log.
    @Test(arguments: Backend.allCases) func attributesAreReplacedAndMerged(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let user = try await store.opened("a@x").account.id
        var reader = try await ChangeReader(store)
        func json(_ text: String) -> [UInt8] { Array(text.utf8) }
        #expect(try await store.standing(of: user)?.attributes == Attributes.none)
        let first = Attributes(stored: json(#"{"role":"editor","plan":1}"#))
        #expect(try await store.change(.replace(first), of: user, at(5)) == .success(first))
        var standing = try #require(try await store.standing(of: user))
        #expect(standing.attributes == first && standing.entitlement.version == 1)
        #expect(try await reader.news() == [.account(user, standing)])
        let merged = Attributes(stored: json(#"{"role":"admin"}"#))
        #expect(try await store.change(.merge(json(#"{"plan":null,"role":"admin"}"#)), of: user, at(6)) == .success(merged))
        standing = try #require(try await store.standing(of: user))
        #expect(standing.attributes == merged && standing.entitlement.version == 2)
        #expect(try await reader.news() == [.account(user, standing)])
        // A change that changes nothing, or does not fit, is none.
        #expect(try await store.change(.merge(json("{}")), of: user, at(7)) == .success(merged))
        #expect(try await store.change(.merge(json("[]")), of: user, at(7)) == .failure(.malformed))
        #expect(try await store.change(.merge(json("{}")), of: newID(), at(7)) == nil)
        #expect(try await reader.news().isEmpty)
        #expect(try await store.account(user)?.attributes == merged)
        #expect(try await store.auditEvents(of: user, before: nil, limit: 10).map(\.kind).filter { $0 == .attributesChanged }.count == 2)
        #expect(try await store.change(.replace(.none), of: user, at(8)) == .success(.none))
        #expect(try await store.standing(of: user)?.attributes == Attributes.none)
    }

    @Test(arguments: Backend.allCases) func anAccountThatIsTakenLosesItsAttributes(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let user = try await store.opened("a@x", contract: .password).account.id
        _ = try await store.change(.merge(Array(#"{"role":"editor"}"#.utf8)), of: user, at(1))
        let proof = IdentityProof(provider: .google, subject: "s", verifiedEmail: try email("a@x"), name: nil, nameRule: .first)
        _ = try await store.signIn(proof, newUser: newID(), session: newSession(.provider), at(2))
        #expect(try await store.account(user)?.attributes == Attributes.none)
    }

    @Test(arguments: Backend.allCases)
    func tiersCountTheirChanges(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let user = try await store.opened("a@x").account.id
        let other = try await store.opened("b@x").account.id
        #expect(try await store.standing(of: user)?.entitlement == Entitlement.none)
        let until = WallTime(microseconds: 1_800_000_000_123_456)
        let first = try await store.setTier("premium", until: until, of: user, at(5))
        #expect(first == Entitlement(tier: "premium", until: until, version: 1))
        let second = try await store.setTier(nil, until: nil, of: user, at(6))
        #expect(second == Entitlement(tier: nil, until: nil, version: 2))
        _ = try await store.setTier("gold", until: nil, of: other, at(7))
        #expect(try await store.account(user)?.entitlement == second)
        #expect(try await store.standing(of: user)?.entitlement == second)
        #expect(try await store.setTier("gold", until: nil, of: newID(), at(8)) == nil)
        #expect(try await store.standing(of: newID()) == nil)
    }

    @Test(arguments: Backend.allCases)
    func grantsComeAndGo(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let user = try await store.opened(nil).account.id
        let team = try ActorName(type: "team", id: "ä 1")
        let club = try ActorName(type: "club", id: "2")
        #expect(try await store.grant(team, to: user, at(1)))
        #expect(try await store.grant(team, to: user, at(2)))
        #expect(try await store.grant(club, to: user, at(3)))
        #expect(try await !store.grant(team, to: newID(), at(3)))
        #expect(try await store.grants(of: user) == [club, team])
        #expect(try await store.holdsGrant(team, user: user))
        #expect(try await !store.holdsGrant(ActorName(type: "team", id: "2"), user: user))
        #expect(try await store.revoke(team, from: user, at(4)))
        #expect(try await !store.revoke(team, from: user, at(5)))
        #expect(try await !store.holdsGrant(team, user: user))
    }

    @Test(arguments: Backend.allCases)
    func auditEventsAreReadNewestFirst(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let first = try await store.opened("a@x")
        let user = first.account.id
        _ = try await store.setTier("premium", until: nil, of: user, at(1, from: nil))
        _ = try await store.endSessions(of: user, .revoked, at(2, from: "2001:db8::1"))
        let events = try await store.auditEvents(of: user, before: nil, limit: 10)
        #expect(events.map(\.kind) == [.sessionEnded, .tierChanged, .accountOpened])
        #expect(events.map(\.detail) == ["revoked", "premium", "dlauth"])
        #expect(events.map { $0.address?.text } == ["2001:db8::1", nil, "192.0.2.7"])
        #expect(events.map(\.session) == [first.session?.id, nil, first.session?.id])
        #expect(events.map(\.at) == [at(2).now, at(1).now, at(0).now])
        #expect(try await store.auditEvents(of: user, before: nil, limit: 1).map(\.kind) == [.sessionEnded])
        #expect(try await store.auditEvents(of: newID(), before: nil, limit: 1).isEmpty)
    }

    @Test(arguments: Backend.allCases)
    func signInAddressesAreRead(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        var new = NewAccount(id: newID(), openedBy: .dlauth, email: try email("Ada@x"), passwordHash: "hash")
        new.username = try Username("Ada")
        _ = try await store.open(new, session: newSession(), at(0, from: "192.0.2.1"))
        _ = try await store.opened("b@x")
        _ = try await store.signIn(new.id, proof: PasswordProof(hash: "hash"), session: newSession(), at(1, from: "192.0.2.2"))
        _ = try await store.signIn(new.id, proof: PasswordProof(hash: "hash"), session: newSession(), at(2, from: "2001:db8::1"))
        _ = try await store.endSessions(of: new.id, .revoked, at(3, from: "192.0.2.3"))
        func signIns(_ target: GuessTarget, limit: Int = 10) async throws -> [AuditEvent] {
            try await store.signIns(of: target, limit: limit)
        }
        let byEmail = try await signIns(.email(try email("ADA@x")))
        #expect(byEmail.map(\.kind) == [.signedIn, .signedIn, .accountOpened])
        #expect(byEmail.map { $0.address?.text } == ["2001:db8::1", "192.0.2.2", "192.0.2.1"])
        #expect(byEmail.allSatisfy { $0.user == new.id })
        #expect(try await signIns(.username(Username(stored: "ADA"))) == byEmail)
        #expect(try await signIns(.email(try email("ada@x")), limit: 2) == Array(byEmail.prefix(2)))
        #expect(try await signIns(.email(try email("nobody@x"))).isEmpty)
        #expect(try await signIns(.username(Username(stored: "nobody"))).isEmpty)
        #expect(try await signIns(.phone(PhoneNumber(stored: "+491512345678"))).isEmpty)
    }

    @Test(arguments: Backend.allCases)
    func anIdentityIsHeldFromItsFirstSignInOn(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        #expect(try await store.account(of: IdentityKey(IdentitySource(.google), stored: "1")) == nil)
        let linked = try await store.signIn(identity(subject: "1", email: nil), newUser: newID(), session: newSession(.provider), at(1))
        #expect(try await store.account(of: IdentityKey(IdentitySource(.google), stored: "1")) != nil)
        #expect(try await store.account(of: IdentityKey(IdentitySource(.apple), stored: "1")) == nil)
        #expect(try await store.account(of: IdentityKey(IdentitySource(.google), stored: "2")) == nil)
        _ = try await store.delete(linked.account.id, at(2))
        #expect(try await store.account(of: IdentityKey(IdentitySource(.google), stored: "1")) == nil)
    }
}

func identity(
    _ provider: Provider = .google, subject: String, email: EmailAddress?, name: PersonName? = nil, rule: NameRule = .first
) -> IdentityProof {
    IdentityProof(provider: provider, subject: subject, verifiedEmail: email, name: name, nameRule: rule)
}

extension Array {
    func asyncMap<Value>(_ body: (Element) async throws -> Value) async rethrows -> [Value] {
        var values: [Value] = []
        for element in self { values.append(try await body(element)) }
        return values
    }
}
