import Accounts
import Credentials
import Storage
import TestServers
import Testing
import Wire

/// Conformance of every store: the search for accounts, addresses of sessions, and the audit log.
@Suite struct PeopleConformanceTests {
    private func person(
        _ store: any AccountStore, _ text: String?, username: String? = nil, given: String? = nil, family: String? = nil
    ) async throws -> WireID {
        let (id, address) = (newID(), try text.map { try email($0) })
        if given != nil || family != nil {
            let proof = IdentityProof(
                provider: .apple, subject: id.text, verifiedEmail: address, name: try PersonName(given: given, family: family),
                nameRule: .first)
            return try await store.signIn(proof, newUser: id, session: newSession(.provider), at(0)).account.id
        }
        var new = NewAccount(id: id, openedBy: .dlauth, email: address)
        if let username { new.username = try Username(username) }
        guard case .opened(let account, _) = try await store.open(new, session: nil, at(0)) else { throw Fault("\(text ?? "") is taken") }
        return account.id
    }

    private func found(_ text: String, _ store: any AccountStore) async throws -> [WireID] {
        try await store.accounts(matching: try AccountSearch(text)).accounts.map(\.id)
    }

    @Test(arguments: Backend.allCases)
    func peopleAreFoundByAPartOfWhatIsKnown(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await person(store, "Ada.Lovelace@example.org", given: "Ada", family: "Lovelace")
        let bob = try await person(store, "bob_100%@example.org", username: "Bobby")
        let ole = try await person(store, "bobX1005@example.com", given: "Ólafur", family: "Þór")
        for text in ["ada", "LOVELACE", "ada love", "a.love", " Lovelace ", ada.text, ada.text.uppercased(), "ada.lovelace@EXAMPLE.org"] {
            #expect(try await found(text, store) == [ada], "\(text)")
        }
        // Wildcards of SQL are ordinary characters.
        for text in ["b_1", "0%", "_100%", "bobby", "OBB"] { #expect(try await found(text, store) == [bob], "\(text)") }
        for text in ["%", "_"] { #expect(try await found(text, store) == [bob], "\(text)") }
        for text in ["\\", "%%", "'", "' OR 1=1 --", "org bob", "lovelace ada", "example.org\u{0}"] {
            let matches = try? await found(text, store)
            #expect(matches == [] || matches == nil, "\(text)")
        }
        for text in ["ólafur", "ÓLAFUR", "Ólafur", "þór", "fur þ"] { #expect(try await found(text, store) == [ole], "\(text)") }
        #expect(try await found("example.", store) == [ole, bob, ada], "the newest first")
        #expect(try await found("example.org", store) == [bob, ada])
        #expect(throws: MalformedText.self) { try AccountSearch(" \t ") }
        #expect(throws: MalformedText.self) { try AccountSearch("a\nb") }
        #expect(throws: MalformedText.self) { try AccountSearch(String(repeating: "a", count: 255)) }
    }

    @Test(arguments: Backend.allCases)
    func aSearchReturnsFiftyAndSaysThatThereAreMore(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        for number in 0..<50 { _ = try await person(store, "user\(number)@example.org") }
        let all = try await store.accounts(matching: try AccountSearch("user"))
        #expect(all.accounts.count == 50 && all.isWhole)
        let exact = try await person(store, "user@example.org")
        let more = try await store.accounts(matching: try AccountSearch("user@example.org"))
        #expect(more.accounts.map(\.id) == [exact] && more.isWhole)
        let some = try await store.accounts(matching: try AccountSearch("example"))
        #expect(some.accounts.count == 50 && !some.isWhole)
    }

    /// A whole email is found by its index among all accounts, a part among the newest 100,000, and the answer says so.
    /// Emails and usernames are folded as sign-in folds them.
    @Test func theLocaleOfADatabaseDoesNotCount() async throws {
        let cluster = try PostgresCluster.shared.get()
        try cluster.run("CREATE DATABASE plain TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'")
        let store = try Bench(url: cluster.url("plain")).store
        let ole = try await person(store, "ÓLaFUR@example.org", username: "ÞÓRstEINN")
        for text in ["ólafur", "ÓLAFUR", "laF", "þórste", "ÞÓRSTE"] { #expect(try await found(text, store) == [ole], "\(text)") }
    }

    @Test func aSearchOverManyAccountsIsBounded() async throws {
        let cluster = try PostgresCluster.shared.get()
        let name = try cluster.newDatabaseName()
        let bench = try Bench(url: cluster.url(name))
        defer { bench.end() }
        let store = bench.store
        let oldest = try await person(store, "the.first@example.org")
        let fill = """
            INSERT INTO accounts (id, created_at, updated_at, email, email_key, metadata, tier_version)
            SELECT decode(lpad(to_hex(4611686018427387904 + n), 16, '0') || '8000000000000000', 'hex'), 0, 0,
                'user' || n || '@example.org', 'user' || n || '@example.org', '{}', 0 FROM generate_series(1, 100000) n
            """
        try cluster.run(fill, in: name)
        let part = try await store.accounts(matching: try AccountSearch("the.first"))
        #expect(part.accounts.isEmpty && !part.isWhole)
        #expect(try await found("the.first@example.org", store) == [oldest])
        #expect(try await found("user99999@", store).count == 1)
        #expect(try await found("USER1@", store).count == 1)
    }

    @Test(arguments: Backend.allCases)
    func aSessionKeepsTheAddressOfItsLastUse(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let account = try await store.opened("a@x").account
        let first = try #require(IPAddress(parsing: "192.0.2.1"))
        for contract in [ContractID.dlauth, .password] {
            let new = NewSession(id: newID(), contract: contract, device: "App", address: first)
            _ = try await store.openSession(new, of: account.id, at(1))
            let address = { try await store.session(new.id)?.session?.address?.text }
            #expect(try await address() == "192.0.2.1")
            func refresh(_ counter: UInt64, _ seconds: Int64, from: String?) async throws {
                let request = RefreshRequest(
                    session: new.id, contract: contract, counter: contract == .dlauth ? counter : nil, rule: RefreshRule(graceSeconds: 0))
                let outcome = try await store.refresh(request, at(seconds, from: from))
                guard case .issued(let signIn, _) = outcome else { return #expect(Bool(false), "\(outcome)") }
                #expect(try await store.session(new.id) == signIn)
            }
            try await refresh(1, 100, from: "2001:db8::7")
            #expect(try await address() == "2001:db8::7")
            // The gateway's own refresh for a request of another server knows no address.
            try await refresh(2, 200, from: nil)
            #expect(try await address() == "2001:db8::7")
        }
        #expect(try await store.sessions(of: account.id, now: at(300).now).compactMap(\.address?.text) == ["2001:db8::7", "2001:db8::7"])
    }

    @Test(arguments: Backend.allCases)
    func theAuditLogIsReadPageByPage(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await store.opened("a@x", at: at(0)).account.id
        let bob = try await store.opened("b@x", at: at(1)).account.id
        for seconds: Int64 in 2..<6 { _ = try await store.setTier("plus", until: nil, of: seconds % 2 == 0 ? ada : bob, at(seconds)) }
        let all = try await store.auditEvents(of: nil, before: nil, limit: 100)
        #expect(all.map(\.user) == [bob, ada, bob, ada, bob, ada] && all.map(\.email) == ["b@x", "a@x", "b@x", "a@x", "b@x", "a@x"])
        #expect(all.map(\.id) == all.map(\.id).sorted().reversed() && Set(all.map(\.id)).count == 6)
        var paged: [AuditEvent] = []
        while true {
            let page = try await store.auditEvents(of: nil, before: paged.last?.id, limit: 4)
            paged += page
            if page.count < 4 { break }
        }
        #expect(paged == all)
        let own = try await store.auditEvents(of: ada, before: nil, limit: 2)
        #expect(own == all.filter { $0.user == ada }.prefix(2) + [])
        #expect(try await store.auditEvents(of: ada, before: own.last?.id, limit: 9).map(\.kind) == [.accountOpened])
    }

    @Test(arguments: Backend.allCases)
    func theAuthorOfAChangeIsRecorded(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await store.opened("a@x").account.id
        let actors: [AuditActor] = [.user, .command, .adminAPI(), .adminAPI(token: "billing"), .console, .store, .operator]
        for actor in actors {
            _ = try await store.setTier("plus", until: nil, of: ada, AuditContext(now: at(1).now, address: nil, actor: actor))
        }
        let events = try await store.auditEvents(of: ada, before: nil, limit: 9)
        #expect(Set(events.prefix(actors.count).map(\.actor)) == Set(actors))
        #expect(events.last?.actor == .user && events.last?.address?.text == "192.0.2.7")
    }

    @Test(arguments: Backend.allCases)
    func theAddressesOfADeletedAccountAreErased(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await store.opened("a@x").account.id
        let bob = try await store.opened("b@x").account.id
        _ = try await store.delete(ada, at(5, from: "192.0.2.9"))
        let events = try await store.auditEvents(of: ada, before: nil, limit: 9)
        #expect(events.map(\.kind) == [.accountDeleted, .accountClosed, .accountOpened])
        #expect(events.allSatisfy { $0.address == nil && $0.email == nil && $0.actor == .user })
        #expect(try await store.auditEvents(of: bob, before: nil, limit: 9).allSatisfy { $0.address != nil })
    }

    @Test(arguments: Backend.allCases)
    func addressesAreErasedAfterAYear(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await store.opened("a@x").account.id
        _ = try await store.setTier("plus", until: nil, of: ada, at(10))
        try await store.sweep(now: at(5 + AuditEvent.addressSeconds).now, stride: anyStride)
        let events = try await store.auditEvents(of: ada, before: nil, limit: 9)
        #expect(events.map { $0.address?.text } == ["192.0.2.7", nil] && events.map(\.actor) == [.user, .user])
    }

    @Test func oneSweepErasesAllOldAddressesHoweverMany() async throws {
        let cluster = try PostgresCluster.shared.get()
        let name = try cluster.newDatabaseName()
        let bench = try Bench(url: cluster.url(name))
        defer { bench.end() }
        let ada = try await bench.store.opened("a@x").account.id
        try cluster.run(
            """
            INSERT INTO audit_events (id, kind, at, account, session, address, detail, actor)
            SELECT uuid_send(gen_random_uuid()), kind, at, account, session, address, detail, actor FROM audit_events, generate_series(1, 20000)
            """, in: name)
        try await bench.store.sweep(now: at(5 + AuditEvent.addressSeconds).now, stride: anyStride)
        let events = try await bench.store.auditEvents(of: ada, before: nil, limit: 30_000)
        #expect(events.count == 20_001 && events.allSatisfy { $0.address == nil && $0.actor == .user })
    }

    /// Rows of earlier versions have no author: only users had an address.
    @Test func eventsOfEarlierVersionsHaveAnAuthor() async throws {
        let cluster = try PostgresCluster.shared.get()
        let name = try cluster.newDatabaseName()
        let bench = try Bench(url: cluster.url(name))
        defer { bench.end() }
        let ada = try await bench.store.opened("a@x").account.id
        _ = try await bench.store.setTier("plus", until: nil, of: ada, at(1, from: nil))
        try cluster.run("UPDATE audit_events SET actor = NULL", in: name)
        #expect(try await bench.store.auditEvents(of: ada, before: nil, limit: 9).map(\.actor) == [.operator, .user])
        _ = try await bench.store.delete(ada, at(2))
        let events = try await bench.store.auditEvents(of: ada, before: nil, limit: 9)
        #expect(events.map(\.actor) == [.user, .user, .operator, .user] && events.allSatisfy { $0.address == nil })
    }
}
