import Accounts
import Credentials
import Testing
import Wire

/// Conformance of every store: subjects of outside issuers, and the sessions taken over from them.
@Suite struct OutsideConformanceTests {
    private let django = IdentitySource(stored: "django")

    private func key(_ subject: String, of source: String = "django") -> IdentityKey {
        IdentityKey(IdentitySource(stored: source), stored: subject)
    }

    /// Adds an account as an import does; returns its id.
    private func add(
        _ store: any AccountStore, id: WireID? = nil, email text: String? = nil, _ identities: [IdentityKey] = []
    ) async throws -> WireID {
        var account = ImportedAccount()
        account.id = id
        account.email = try text.map { try email($0) }
        account.identities = identities
        let newIDs = [newID()]
        #expect(try await store.add([account], newIDs: newIDs, at(0)) == [.create])
        return id ?? newIDs[0]
    }

    private func adopt(
        _ store: any AccountStore, _ key: IdentityKey, _ digest: [UInt8] = [1], _ contract: ContractID = .dlauth, at seconds: Int64 = 1
    ) async throws -> AdoptionOutcome {
        try await store.adopt(Adoption(digest: digest, key: key, session: newSession(contract)), at(seconds))
    }

    @Test(arguments: Backend.allCases) func aSubjectIsAnImportedIdOrAnIdentityOfItsIssuer(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let id = newID()
        let ada = try await add(store, id: id, [key("7"), IdentityKey(IdentitySource(.apple), stored: "s")])
        #expect(ada == id)
        #expect(try await store.subject(key("7")) == .account(id))
        #expect(try await store.subject(key(id.text)) == .account(id))
        #expect(try await store.subject(key(id.text.uppercased())) == .account(id))
        #expect(try await store.subject(key("7", of: "other")) == .unknown)
        #expect(try await store.subject(key("s")) == .unknown)
        #expect(try await store.subject(key(newID().text)) == .unknown)
        #expect(try await store.subject(key("")) == .unknown)
    }

    @Test(arguments: Backend.allCases) func noIssuerSpeaksForAnAccountThatWasOpenedHere(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let opened = try await bench.store.opened("a@x")
        #expect(try await bench.store.subject(key(opened.account.id.text)) == .refused)
        #expect(try await adopt(bench.store, key(opened.account.id.text)) == .refused)
    }

    /// The end of a ban needs no change.
    @Test(arguments: Backend.allCases) func subjectsOfABannedOrClosedAccountAreRefused(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let ada = try await add(bench.store, [key("7")])
        let refusing = ["banned_at = 1, banned_until = NULL", "banned_until = 9000000000000000", "banned_at = NULL, erased_at = 1"]
        for change in refusing {
            try bench.run("UPDATE accounts SET \(change)")
            #expect(try await bench.store.subject(key("7")) == .refused, "\(change)")
        }
        try bench.run("UPDATE accounts SET erased_at = NULL, banned_at = 1, banned_until = 2")
        #expect(try await bench.store.subject(key("7")) == .account(ada))
    }

    @Test(arguments: Backend.allCases) func aSubjectThatIsTwoAccountsIsNeither(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let ada = try await add(bench.store, id: newID())
        _ = try await add(bench.store, [key(ada.text)])
        #expect(try await bench.store.subject(key(ada.text)) == .refused)
        #expect(try await bench.store.subject(key(ada.text, of: "other")) == .account(ada))
    }

    @Test(arguments: Backend.allCases) func aDeletedAccountsSubjectsAreRefusedForGood(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await add(store, id: newID(), [key("7")])
        _ = try await store.delete(ada, at(10))
        #expect(try await store.subject(key("7")) == .refused)
        #expect(try await store.subject(key(ada.text)) == .refused)
        #expect(try await store.subject(key(ada.text, of: "other")) == .refused)
        try await store.sweep(now: at(1_000 * 86_400).now, stride: anyStride)
        #expect(try await store.subject(key("7")) == .refused)
        #expect(try await adopt(store, key("7")) == .refused)
    }

    /// An issuer and a provider whose lines have one name know different persons, and an erased provider's subject leaves nothing.
    @Test(arguments: Backend.allCases) func aProviderIsNotTheIssuerOfItsName(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let (store, provider) = (bench.store, try #require(Provider(rawValue: "django")))
        let own = IdentityKey(IdentitySource(provider), stored: "7")
        let signedIn = try await store.signIn(
            identity(provider, subject: "7", email: nil), newUser: newID(), session: newSession(.provider), at(1))
        #expect(try await store.identities(of: signedIn.account.id).map(\.key) == [own])
        #expect(own.source.name == "django" && own.source != django && !own.source.isIssuer && django.isIssuer)
        #expect(try await store.subject(key("7")) == .unknown)
        #expect(try await store.account(of: key("7")) == nil)
        let imported = try await add(store, id: newID(), [key("7"), IdentityKey(IdentitySource(provider), stored: "8")])
        #expect(try await store.subject(key("7")) == .account(imported))
        #expect(try await store.account(of: own)?.id == signedIn.account.id)
        _ = try await store.delete(signedIn.account.id, at(10))
        #expect(try await store.account(of: own) == nil)
        #expect(try await store.subject(key("7")) == .account(imported))
        let again = try await store.signIn(
            identity(provider, subject: "7", email: nil), newUser: newID(), session: newSession(.provider), at(11))
        #expect(again.isNew)
        // An issuer's subject that its deleted account had stays refused; the provider's is not kept.
        _ = try await store.delete(imported, at(12))
        #expect(try await store.subject(key("7")) == .refused)
        #expect(try await store.subject(IdentityKey(IdentitySource(provider), stored: "8")) == .unknown)
    }

    /// A payment service that tells of a deleted user's tier does not let the user in.
    @Test(arguments: Backend.allCases) func aTierForADeletedAccountsSubjectOpensNothing(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await add(store, id: newID(), [key("7")])
        _ = try await store.delete(ada, at(10))
        for subject in ["7", ada.text] {
            _ = try await store.setTier("premium", until: nil, of: key(subject), newUser: newID(), at(11))
            #expect(try await store.entitlement(of: key(subject))?.tier == "premium")
            #expect(try await store.subject(key(subject)) == .refused)
            #expect(try await adopt(store, key(subject)) == .refused)
        }
        _ = try await store.setTier("premium", until: nil, of: key("8"), newUser: newID(), at(11))
        guard case .account = try await store.subject(key("8")) else { return #expect(Bool(false)) }
    }

    @Test(arguments: Backend.allCases) func whatEndsAllSessionsEndsThoseElsewhereToo(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await add(store, id: newID(), [key("7")])
        let mark = try await store.changes(since: nil).next
        _ = try await store.endSessions(of: ada, .revoked, at(10))
        #expect(try await store.subject(key("7")) == .refused)
        #expect(try await store.subject(key(ada.text)) == .refused)
        #expect(try await adopt(store, key("7")) == .refused)
        // Gateways hear of it.
        let changed = try await store.changes(since: mark).changes.map(\.change)
        #expect(changed.contains { if case .account(ada, _) = $0 { true } else { false } })
    }

    @Test(arguments: Backend.allCases) func aTakenOverAccountIsNoLongerItsOldSubjects(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await add(store, id: newID(), email: "a@x", [key("7")])
        let proof = IdentityProof(provider: .apple, subject: "1", verifiedEmail: try email("a@x"), name: nil, nameRule: .first)
        #expect(try await store.signIn(proof, newUser: newID(), session: newSession(.provider), at(5)).account.id == ada)
        #expect(try await store.subject(key("7")) == .refused)
        #expect(try await store.subject(key(ada.text)) == .refused)
    }

    // MARK: adoption

    @Test(arguments: Backend.allCases) func ofManyAtOnceOneOpensTheSession(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let stores = try (0..<4).map { _ in try bench.another() }
        let ada = try await add(bench.store, [key("7")])
        let outcomes = try await withThrowingTaskGroup(of: AdoptionOutcome.self) { group in
            for number in 0..<20 { group.addTask { try await adopt(stores[number % 4], key("7")) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        let signIns = outcomes.compactMap { if case .adopted(let signIn) = $0 { signIn } else { nil } }
        #expect(signIns.count == 1 && signIns.first?.account.id == ada)
        let session = try #require(signIns.first?.session)
        #expect(session.contract == .dlauth && session.user == ada && session.counter == 1)
        #expect(try await bench.store.session(session.id)?.session?.signedInAt == session.signedInAt)
        #expect(outcomes.count { $0 == .known(AdoptedToken(session: session.id)) } == 19)
        #expect(try await bench.store.adopted([1]) == AdoptedToken(session: session.id))
        #expect(try await bench.store.adopted([2]) == nil)
        #expect(try await bench.store.sessions(of: ada, now: at(2).now).map(\.id) == [session.id])
        #expect(
            try await bench.store.auditEvents(of: ada, before: nil, limit: 1).map { "\($0.kind.rawValue) \($0.detail ?? "")" } == [
                "signed-in django"
            ])
    }

    /// The outside token is the predecessor of the session's first: handed out again until that is delivered, later reuse.
    @Test(arguments: Backend.allCases) func anAdoptedTokenIsTheFirstOfTheChain(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        _ = try await add(store, [key("7")])
        guard case .adopted(let signIn) = try await adopt(store, key("7")) else { return #expect(Bool(false)) }
        #expect(try await store.refresh(signIn.session, 0, at: 500).verdict == .again)
        try await store.confirm([ConfirmedPair(session: try #require(signIn.session?.id), counter: 1)])
        #expect(try await store.refresh(signIn.session, 0, at: 20).verdict == .again)
        guard case .reused = try await store.refresh(signIn.session, 0, at: 500) else { return #expect(Bool(false)) }
        #expect(try await adopt(store, key("7")) == .known(AdoptedToken(session: signIn.session?.id)))
    }

    // MARK: sign-out

    @Test(arguments: Backend.allCases) func aSignedOutTokenIsListedUntilItHasExpired(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await add(store, [key("7")])
        let expiry = at(30 * 86_400).now
        let ended = EndedSession(id: newID(), user: ada, endedAt: at(10).now, reason: .signOut, expiresAt: expiry)
        let mark = try await store.changes(since: nil).next
        try await store.end(ended, refreshToken: [9], at(10))
        try await store.end(ended, refreshToken: [9], at(11))
        // The linked identity is a change as well, which PostgreSQL may report again.
        let changes = try await store.changes(since: mark).changes.map(\.change)
        #expect(changes.filter { if case .ended = $0 { true } else { false } } == [.ended(ended)])
        // Longer than any of our own.
        let late = at(20 * 86_400).now
        try await store.sweep(now: late, stride: anyStride)
        #expect(try await store.endedSessions() == [ended])
        try await store.sweep(now: at(31 * 86_400).now, stride: anyStride)
        #expect(try await store.endedSessions().isEmpty)
        // The refresh token that came along.
        #expect(try await store.adopted([9]) == AdoptedToken(session: nil))
        #expect(try await adopt(store, key("7"), [9]) == .known(AdoptedToken(session: nil)))
        #expect(try await store.subject(key("7")) == .account(ada))
        #expect(try await store.auditEvents(of: ada, before: nil, limit: 10).count { $0.kind == .sessionEnded } == 1)
    }

    @Test(arguments: Backend.allCases) func aSignOutEndsTheSessionOfItsRefreshTokenAndNoOthers(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (ada, bob) = (try await add(store, [key("7")]), try await add(store, [key("8")]))
        guard case .adopted(let hers) = try await adopt(store, key("7"), [7]),
            case .adopted(let his) = try await adopt(store, key("8"), [8])
        else { return #expect(Bool(false)) }
        func signOut(_ user: WireID, _ digest: [UInt8]) async throws {
            try await store.end(
                EndedSession(id: newID(), user: user, endedAt: at(10).now, reason: .signOut, expiresAt: at(60).now), refreshToken: digest,
                at(10))
        }
        try await signOut(ada, [8])
        #expect(try await store.session(try #require(his.session?.id)) != nil)
        try await signOut(ada, [7])
        #expect(try await store.session(try #require(hers.session?.id)) == nil)
        #expect(try await store.session(try #require(his.session?.id))?.account.id == bob)
    }
}
