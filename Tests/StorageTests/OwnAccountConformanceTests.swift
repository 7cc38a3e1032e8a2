import Accounts
import Credentials
import Testing
import Wire

/// Conformance of every store: what users change of their accounts.
@Suite struct OwnAccountConformanceTests {
    private let ways = SignInWays(passwords: true, emails: true, phones: true)

    private func caller(_ signIn: SignIn) throws -> CallerSession {
        CallerSession(user: signIn.account.id, session: try #require(signIn.session).id)
    }

    /// A merge of attributes counts for gateways, which order what they learn by the version.
    @Test(arguments: Backend.allCases)
    func attributesAreMerged(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let user = try await store.opened("a@x").account.id
        let steps = [
            (#"{"name":"Ada","n":[1,{"a":true}]}"#, #"{"name":"Ada","n":[1,{"a":true}]}"#),
            (#"{ "name" : null, "x" : 1.50e1 }"#, #"{"n":[1,{"a":true}],"x":1.50e1}"#),
            (#"{"n":false,"n":"é\n"}"#, #"{"n":"é\n","x":1.50e1}"#),
            (#"{}"#, #"{"n":"é\n","x":1.50e1}"#), (#"{"x":null,"n":null,"gone":null}"#, #"{}"#),
        ]
        for (number, (change, merged)) in steps.enumerated() {
            let before = try #require(await store.account(user))
            let changed = try await store.change(.merge(Array(change.utf8)), of: user, at(Int64(number)))
            let stored = try #require(await store.account(user))
            #expect(changed == .success(stored.attributes) && String(decoding: stored.attributes.json, as: UTF8.self) == merged)
            #expect((stored.entitlement.version > before.entitlement.version) == (stored.attributes != before.attributes))
        }
        let large = #"{"a":""# + String(repeating: "x", count: Attributes.largest) + #""}"#
        #expect(try await store.change(.merge(Array(large.utf8)), of: user, at(9)) == .failure(.tooLarge))
        #expect(try await store.change(.merge(Array("{}x".utf8)), of: user, at(9)) == .failure(.malformed))
        #expect(try await store.change(.merge(Array("{}".utf8)), of: newID(), at(9)) == nil)
        #expect(try await store.auditEvents(of: user, before: nil, limit: 9).count { $0.kind == .attributesChanged } == 4)
    }

    /// A linked identity signs in to the account from then on, but counts as no newer sign-in than the session that linked it.
    @Test(arguments: Backend.allCases)
    func anIdentityIsLinkedToOneAccount(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let first = try await store.opened(nil, hash: nil, contract: .anonymous, at: at(1))
        let second = try await store.opened("b@x", at: at(2))
        let proof = identity(subject: "1", email: try email("a@x"))
        guard case .success(let account) = try await store.link(proof, by: try caller(first), at(3)) else {
            Issue.record("it was not linked")
            return
        }
        #expect(account.email == (try email("a@x")) && account.emailConfirmedAt == at(3).now)
        #expect(try await store.account(first.account.id) == account)
        #expect(try await store.link(proof, by: try caller(first), at(4)) == .success(account))
        #expect(try await store.link(proof, by: try caller(second), at(4)) == .failure(.ofOtherAccount))
        let again = try await store.signIn(proof, newUser: newID(), session: newSession(.provider), at(5))
        #expect(again.account.id == first.account.id && again.session?.signedInAt == at(1).now)
        // An email that another account has stays there.
        let taken = identity(.apple, subject: "2", email: try email("b@x"))
        #expect(try await store.link(taken, by: try caller(first), at(6)) == .success(account))
        _ = try await store.end(try caller(second).session, .signOut, at(7))
        #expect(try await store.link(identity(subject: "9", email: nil), by: try caller(second), at(8)) == .failure(.sessionEnded))
        #expect(try await store.identities(of: second.account.id).isEmpty)
    }

    @Test(arguments: Backend.allCases)
    func theLastWayToSignInStays(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let none = SignInWays(passwords: false, emails: false, phones: false)
        let opened = try await store.opened(nil, hash: nil, contract: .anonymous)
        let caller = try caller(opened)
        func unlink(_ provider: Provider, _ ways: SignInWays, by caller: CallerSession) async throws -> UnlinkRefusal? {
            try await store.unlink(IdentitySource(provider), by: caller, ways, at(5)).refusal
        }
        _ = try await store.link(identity(subject: "1", email: nil), by: caller, at(1))
        #expect(try await unlink(.apple, ways, by: caller) == .notLinked)
        #expect(try await unlink(.google, ways, by: caller) == .last)
        _ = try await store.link(identity(.apple, subject: "2", email: nil), by: caller, at(2))
        let other = try #require(try await store.openSession(newSession(.provider), of: caller.user, at(4))?.session)
        #expect(try await unlink(.google, none, by: caller) == nil)
        #expect(try await store.sessions(of: caller.user, now: at(5).now).map(\.id) == [caller.session])
        let ended = try await store.endedSessions()
        #expect(ended.map(\.id) == [other.id] && ended.map(\.reason) == [.identityUnlinked])
        #expect(try await store.account(of: IdentityKey(IdentitySource(.google), stored: "1")) == nil)
        #expect(try await unlink(.apple, none, by: caller) == .last)
        // Its email is a way where codes are sent.
        _ = try await store.link(identity(.apple, subject: "2", email: try email("a@x")), by: caller, at(3))
        #expect(try await unlink(.apple, none, by: caller) == .last)
        #expect(try await unlink(.apple, ways, by: CallerSession(user: newID(), session: caller.session)) == .sessionEnded)
        #expect(try await unlink(.apple, ways, by: caller) == nil)
        #expect(try await store.identities(of: caller.user).isEmpty)
        let kinds = try await store.auditEvents(of: caller.user, before: nil, limit: 9).map(\.kind)
        #expect(kinds.count { $0 == .identityUnlinked } == 2 && kinds.count { $0 == .identityLinked } == 2)
    }

    /// Neither the account's first device is new, nor one that it was on before, nor the operator's.
    @Test(arguments: Backend.allCases)
    func aNewDeviceIsKnownAsSuch(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let opened = try await store.opened("a@x")
        let user = opened.account.id
        #expect(opened.session?.isNewDevice == false)
        func signIn(_ name: String?, _ agent: String?, at seconds: Int64) async throws -> Session {
            var session = NewSession(id: newID(), contract: .dlauth, device: agent)
            session.deviceName = name
            return try #require(
                try await store.signIn(user, proof: PasswordProof(hash: "hash"), session: session, at(seconds))?.session)
        }
        let steps: [(String?, String?, Bool)] = [
            (nil, "App/2.0", false), ("Ada's phone", "App/2.0", true), ("Ada's phone", nil, false), (nil, nil, true), (nil, nil, false),
            (nil, "curl/8", true), (nil, "App/1.0", false),
        ]
        for (number, (name, agent, isNew)) in steps.enumerated() {
            #expect(try await signIn(name, agent, at: Int64(number + 1)).isNewDevice == isNew, "\(number)")
        }
        // The name changes with a refresh, and is known from then on.
        let phone = try await signIn("Ada's phone", "App/2.0", at: 20)
        var request = RefreshRequest(session: phone.id, contract: .dlauth, counter: 1, rule: RefreshRule())
        request.deviceName = "Ada's new phone"
        _ = try await store.refresh(request, at(21))
        #expect(try await store.session(phone.id)?.session?.deviceName == "Ada's new phone")
        #expect(try await signIn("Ada's new phone", nil, at: 22).isNewDevice == false)
        let byOperator = AuditContext(now: at(23).now, address: nil, actor: .command)
        #expect(
            try await store.openSession(NewSession(id: newID(), contract: .dlauth, device: "x"), of: user, byOperator)?.session?.isNewDevice
                == false)
        let devices = try await store.devices(of: user)
        #expect(devices.map(\.label) == ["Ada's new phone", "Ada's phone", "App", "curl", ""])
        #expect(devices.first == KnownDevice(label: "Ada's new phone", firstSeenAt: at(21).now, lastSeenAt: at(22).now))
        for number in 0..<(KnownDevice.most + 5) { _ = try await signIn("device \(number)", nil, at: Int64(30 + number)) }
        #expect(try await store.devices(of: user).count == KnownDevice.most)
    }

    /// An account that is older than the list of devices was on those of its open sessions.
    @Test(arguments: Backend.allCases)
    func theDevicesOfOpenSessionsAreKnown(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let user = try await store.opened("a@x").account.id
        let byOperator = AuditContext(now: at(1).now, address: nil, actor: .command)
        let other = try await store.opened("b@x", at: byOperator).account.id
        var session = NewSession(id: newID(), contract: .dlauth, device: "Other/1")
        #expect(try await store.signIn(other, proof: PasswordProof(hash: "hash"), session: session, at(2))?.session?.isNewDevice == true)
        #expect(try await store.devices(of: other).map(\.label) == ["App", "Other"])
        session = NewSession(id: newID(), contract: .dlauth, device: "App/9")
        #expect(try await store.signIn(user, proof: PasswordProof(hash: "hash"), session: session, at(2))?.session?.isNewDevice == false)
        // Who proves the email takes the account over, and has none of the stranger's devices.
        let owner = try await store.signIn(
            identity(subject: "1", email: try email("a@x")), newUser: newID(),
            session: NewSession(id: newID(), contract: .provider, device: "Own/1"), at(3))
        #expect(owner.account.id == user && owner.session?.isNewDevice == false)
        #expect(try await store.devices(of: user).map(\.label) == ["Own"])
    }

    /// The last use never goes back, is no refresh, and decides which session is one too many.
    @Test(arguments: Backend.allCases)
    func theUseOfASessionIsNoted(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let opened = try await store.opened("a@x")
        let first = try #require(opened.session)
        func used() async throws -> WallTime? { try await store.session(first.id)?.session?.usedAt }
        for (seen, shown) in [(5, 5), (3, 5), (9, 9), (9, 9)] as [(Int64, Int64)] {
            try await store.saw([SessionUse(session: newID(), at: at(50).now), SessionUse(session: first.id, at: at(seen).now)])
            #expect(try await used() == at(shown).now)
        }
        #expect(try await store.session(first.id)?.session?.lastUsedAt == at(0).now)
        _ = try await store.refresh(first, 1, at: 20)
        #expect(try await used() == at(20).now)
        try await store.saw([SessionUse(session: first.id, at: at(15).now)])
        #expect(try await used() == at(20).now)
        let second = try #require(await store.openSession(newSession(), of: opened.account.id, at(30))?.session)
        try await store.saw([SessionUse(session: first.id, at: at(40).now)])
        var third = newSession()
        third.bound = SessionBound(2)
        _ = try await store.openSession(third, of: opened.account.id, at(41))
        let left = try await store.sessions(of: opened.account.id, now: at(41).now).map(\.id)
        #expect(Set(left) == [first.id, third.id] && !left.contains(second.id))
    }

    @Test(arguments: Backend.allCases)
    func guessesAtOneAccountHaveOneName(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        var account = NewAccount(
            id: newID(), openedBy: .dlauth, email: try email("a@x"), username: Username(stored: "Ada"), passwordHash: "h")
        _ = try await store.open(account, session: nil, at(0))
        account = NewAccount(id: newID(), openedBy: .dlauth, username: Username(stored: "bob"), passwordHash: "h")
        _ = try await store.open(account, session: nil, at(0))
        for id in [newID(), newID()] {
            account = NewAccount(id: id, openedBy: .dlauth, username: Username(stored: "twice"), passwordHash: "h")
            account.email = try email("\(id.text)@x")
            _ = try await store.open(account, session: nil, at(0))
        }
        let ada = GuessTarget.email(try email("a@x"))
        for (target, name) in [
            (.username(Username(stored: "ADA")), ada), (ada, ada), (.username(Username(stored: "bob")), .username(Username(stored: "bob"))),
            (.username(Username(stored: "twice")), .username(Username(stored: "twice"))),
            (.phone(PhoneNumber(stored: "+491512345678")), .phone(PhoneNumber(stored: "+491512345678"))),
        ] as [(GuessTarget, GuessTarget)] { #expect(try await store.guessTarget(target) == name) }
    }

    @Test(arguments: Backend.allCases)
    func allOtherSessionsEnd(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let opened = try await store.opened("a@x")
        let caller = try caller(opened)
        for seconds: Int64 in 1...3 { _ = try await store.openSession(newSession(), of: caller.user, at(seconds)) }
        var reader = try await ChangeReader(store)
        let ended = try await store.endSessions(of: caller.user, keeping: caller.session, .signOut, at(4))
        #expect(ended.count == 3 && !ended.contains { $0.id == caller.session })
        #expect(try await store.sessions(of: caller.user, now: at(4).now).map(\.id) == [caller.session])
        #expect(Set(try await reader.news()) == Set(ended.map { .ended($0) }))
        #expect(try await store.auditEvents(of: caller.user, before: nil, limit: 3).allSatisfy { $0.kind == .sessionEnded })
    }
}
