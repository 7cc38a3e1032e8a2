import Accounts
import Credentials
import Testing
import Wire

private let tiers = TierOrder(["free", "basic", "premium"])
private let bought = PurchaseKey(.apple, .production, "b")

extension AccountStore {
    /// Opens an account as an app's installation does.
    func guest(at seconds: Int64 = 0) async throws -> SignIn { try await opened(nil, hash: nil, contract: .anonymous, at: at(seconds)) }

    func merge(_ guest: SignIn, into account: SignIn, at seconds: Int64 = 10) async throws -> MergeOutcome {
        let session = try #require(guest.session).id
        return try await merge(Merging(guest: session, into: account.account.id, by: account.session?.id, tiers), at(seconds))
    }

    func merges(of account: WireID) async throws -> [WireID]? { try await standing(of: account)?.merges.map(\.from) }
}

/// Guests that are merged into accounts, in every store.
@Suite struct MergeConformanceTests {
    @Test(arguments: Backend.allCases) func allThatAGuestHasIsTheAccounts(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (guest, ada) = (try await store.guest(), try await store.opened("ada@x"))
        let (from, into) = (guest.account.id, ada.account.id)
        _ = try await store.claim(bought, [.status(bought, Sold.status(paid: ["b"]))], by: from)
        let actor = ActorName(storedType: "team", id: "7")
        _ = try await store.grant(actor, to: from, at(1))
        _ = try await store.setTier("premium", until: at(500).now, of: from, at(1))
        _ = try await store.setTier("basic", until: nil, of: into, at(1))
        try bench.run("UPDATE accounts SET attributes = CAST('{\"a\":1,\"b\":[2]}' AS \(backend.bytes)) WHERE email_key IS NULL")
        try bench.run("UPDATE accounts SET attributes = CAST('{\"b\":true}' AS \(backend.bytes)) WHERE email_key IS NOT NULL")
        var reader = try await ChangeReader(store)
        #expect(try await store.merge(guest, into: ada) == .merged(from: from, into: into, isRepeated: false))
        let merged = try #require(try await store.account(into))
        #expect(String(decoding: merged.attributes.json, as: UTF8.self) == #"{"b":true,"a":1}"#)
        #expect(merged.entitlement.tier == "premium" && merged.entitlement.until == at(500).now)
        #expect(merged.entitlement.purchased.count == 1)
        #expect(merged.merges == [Merge(from: from, until: at(10 + Merge.announcedSeconds).now)])
        #expect(try await store.grants(of: into) == [actor])
        #expect(try await store.account(from) == nil)
        #expect(try await store.account(mergedFrom: from) == merged)
        #expect(try await store.endedSessions().map(\.reason) == [.accountMerged])
        let news = try await reader.news()
        #expect(news.contains(.account(into, AccountStanding(merged))) && news.contains(.accountDeleted(from)))
        let events = try await store.auditEvents(of: into, before: nil, limit: 9).filter { $0.kind == .accountMerged }
        #expect(events.map(\.detail) == [from.text] && events.map(\.session) == [ada.session?.id])
        #expect(try await store.auditEvents(of: from, before: nil, limit: 9).allSatisfy { $0.address == nil })
        // The client has lost the answer.
        #expect(try await store.merge(guest, into: ada) == .merged(from: from, into: into, isRepeated: true))
        #expect(try await store.account(into) == merged)
    }

    /// A thief may hold a refresh token that was spent: it merges nothing, and its session ends as at a refresh.
    @Test(arguments: Backend.allCases) func aSpentRefreshTokenProvesNoGuest(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (guest, ada) = (try await store.guest(), try await store.opened("ada@x"))
        let session = try #require(guest.session).id
        func token(_ counter: UInt64) -> RefreshRequest {
            RefreshRequest(session: session, contract: .anonymous, counter: counter, rule: RefreshRule(graceSeconds: 0))
        }
        func merge(_ counter: UInt64) async throws -> MergeOutcome {
            try await store.merge(
                Merging(guest: session, refresh: token(counter), into: ada.account.id, by: ada.session?.id, tiers), at(20))
        }
        for counter: UInt64 in 1...3 { _ = try await store.refresh(token(counter), at(Int64(counter))) }
        #expect(try await merge(9) == .noGuest)
        #expect(try await merge(1) == .noGuest)
        #expect(try await store.session(session) == nil)
        #expect(try await store.auditEvents(of: guest.account.id, before: nil, limit: 1).map(\.kind) == [.refreshReuse])
        #expect(try await store.account(guest.account.id) != nil)
        let other = try await store.guest()
        let newest = RefreshRequest(session: try #require(other.session).id, contract: .anonymous, counter: 1, rule: RefreshRule())
        let merging = Merging(guest: newest.session, refresh: newest, into: ada.account.id, by: ada.session?.id, tiers)
        #expect(try await store.merge(merging, at(30)) == .merged(from: other.account.id, into: ada.account.id, isRepeated: false))
    }

    @Test(arguments: Backend.allCases) func onlyAGuestIsMerged(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (ada, bob, guest) = (try await store.opened("ada@x"), try await store.opened("bob@x"), try await store.guest())
        let linked = try await store.guest()
        var proof = identity(subject: "1", email: nil)
        proof.guest = CallerSession(user: linked.account.id, session: try #require(linked.session).id)
        _ = try await store.signIn(proof, newUser: newID(), session: newSession(.provider), at(1))
        for other in [bob, linked, ada] { #expect(try await store.merge(other, into: ada) == .notGuest) }
        #expect(try await store.merge(guest, into: ada, at: 400 * 86_400) == .noCaller, "the caller's session is over")
        let gone = SignIn(account: ada.account, session: bob.session)
        #expect(try await store.merge(guest, into: gone) == .noCaller, "the session is another account's")
        _ = try await store.end(try #require(guest.session).id, .signOut, at(2))
        #expect(try await store.merge(guest, into: ada) == .noGuest)
        #expect(try await store.account(guest.account.id) != nil)
        #expect(try await store.merges(of: ada.account.id) == [])
    }

    @Test(arguments: Backend.allCases) func anAnnouncementEndsWhenItIsTakenOrOver(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        // A guest of a guest: both are announced of the account in the end.
        let (first, second, ada) = (try await store.guest(), try await store.guest(), try await store.opened("ada@x"))
        let (one, two, into) = (first.account.id, second.account.id, ada.account.id)
        _ = try await store.merge(first, into: second, at: 10)
        #expect(try await store.mergeDone(from: one, to: into, at(11)) == false, "it is announced of the guest")
        _ = try await store.merge(second, into: ada, at: 20)
        #expect(try await store.merges(of: into) == [one, two])
        #expect(try await store.account(mergedFrom: one)?.id == into)
        #expect(try await store.mergeDone(from: one, to: two, at(21)) == false, "that guest has ended")
        let version = try await store.standing(of: into)?.entitlement.version ?? 0
        #expect(try await store.mergeDone(from: one, to: into, at(22)))
        #expect(try await store.mergeDone(from: one, to: into, at(23)) == false)
        #expect(try await store.merges(of: into) == [two])
        #expect(try await store.standing(of: into)?.entitlement.version == version + 1)

        func swept(_ seconds: Int64) async throws -> [UntakenMerge] { try await store.sweep(now: at(seconds).now, stride: anyStride) }
        let end = Merge.announcedSeconds + 20
        #expect(try await swept(end - 1) == [])
        #expect(try await store.merges(of: into) == [two])
        #expect(try await swept(end) == [UntakenMerge(from: two, into: into)])
        #expect(try await store.merges(of: into) == [])
        #expect(try await swept(end + 1) == [])
        #expect(try await store.account(mergedFrom: two)?.id == into)
        #expect(try await swept(Merge.aliasSeconds + 20) == [])
        for id in [one, two] { #expect(try await store.account(mergedFrom: id) == nil) }
    }

    /// Two accounts want one guest at once, on two gateways, again and again.
    @Test(arguments: Backend.allCases) func ofTwoMergesAtOnceOneIsMade(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let (store, other) = (bench.store, try bench.another())
        let guest = try await store.guest()
        let (ada, bob) = (try await store.opened("ada@x"), try await store.opened("bob@x"))
        let outcomes = try await withThrowingTaskGroup(of: MergeOutcome.self) { group in
            for number in 0..<8 {
                group.addTask { try await (number % 2 == 0 ? store : other).merge(guest, into: number % 4 < 2 ? ada : bob) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        let made = outcomes.filter { if case .merged(_, _, isRepeated: false) = $0 { true } else { false } }
        #expect(made.count == 1 && outcomes.filter { $0 == .notGuest }.count == 4, "\(outcomes)")
        let (own, others) = (try await store.merges(of: ada.account.id) ?? [], try await store.merges(of: bob.account.id) ?? [])
        #expect(own + others == [guest.account.id])
        await other.close()
    }

    @Test(arguments: Backend.allCases) func soManyMergesAreAnnouncedAtOnce(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let ada = try await bench.store.opened("ada@x")
        for _ in 0..<GuestRule.mostMerges { _ = try await bench.store.merge(try await bench.store.guest(), into: ada) }
        let one = try await bench.store.guest()
        #expect(try await bench.store.merge(one, into: ada, at: 11) == .full(until: at(10 + Merge.announcedSeconds).now))
        #expect(try await bench.store.account(one.account.id) != nil)
    }

    // MARK: guests that become accounts

    @Test(arguments: Backend.allCases) func aGuestKeepsItsIDWithItsFirstIdentity(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        func signIn(_ subject: String, _ text: String?, by guest: SignIn) async throws -> SignIn {
            var proof = identity(subject: subject, email: try text.map(email))
            proof.guest = CallerSession(user: guest.account.id, session: try #require(guest.session).id)
            return try await store.signIn(proof, newUser: newID(), session: newSession(.provider), at(5))
        }
        let guest = try await store.guest()
        let joined = try await signIn("1", "ada@x", by: guest)
        #expect(joined.account.id == guest.account.id && !joined.isNew && joined.session?.user == guest.account.id)
        #expect(joined.account.email?.text == "ada@x" && joined.account.emailConfirmedAt != nil)
        #expect(try await store.session(try #require(guest.session).id) != nil, "the app goes on with the tokens it has")
        // It is known now, and so is the email: neither is implied to be the next guest's.
        let next = try await store.guest()
        for (subject, text) in [("1", "ada@x"), ("2", "ada@x")] {
            #expect(try await signIn(subject, text, by: next).account.id == guest.account.id)
        }
        #expect(try await store.account(next.account.id) != nil)
        // So does one who has the email unproven: it is taken over, as without a guest.
        let squatter = try await store.opened("bob@x")
        #expect(try await signIn("3", "bob@x", by: next).account.id == squatter.account.id)
        #expect(try await signIn("4", nil, by: next).account.id == next.account.id)
        #expect(try await signIn("5", nil, by: next).isNew, "no guest any more")
        let late = try await store.guest()
        _ = try await store.end(try #require(late.session).id, .signOut, at(4))
        #expect(try await signIn("6", nil, by: late).isNew, "its session has ended")
    }

    @Test(arguments: Backend.allCases) func aGuestKeepsItsIDWithAPassword(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        func signUp(_ text: String, by guest: SignIn) async throws -> SignIn? {
            var new = NewAccount(
                id: newID(), openedBy: .dlauth, email: try email(text), username: try Username("ada"), passwordHash: "h",
                metadata: Metadata(stored: Array(#"{"k":1}"#.utf8)))
            new.guest = CallerSession(user: guest.account.id, session: try #require(guest.session).id)
            guard case .opened(let account, let session) = try await store.open(new, session: newSession(), at(5)) else { return nil }
            return SignIn(account: account, session: session)
        }
        let guest = try await store.guest()
        let ada = try #require(try await signUp("ada@x", by: guest))
        #expect(ada.account.id == guest.account.id && ada.session?.user == guest.account.id)
        #expect(try await store.account(guest.account.id) == ada.account)
        #expect(ada.account.hasPassword && ada.account.emailConfirmedAt == nil && ada.account.metadata != .empty)
        #expect(try await store.credential(for: .email(try email("ada@x")))?.user == guest.account.id)
        let next = try await store.guest()
        #expect(try await signUp("ada@x", by: next) == nil, "the email is taken")
        #expect(try await signUp("bob@x", by: ada)?.account.id != guest.account.id, "no guest any more")
    }
}

extension Backend {
    /// The type of bytes in statements that are written by hand.
    fileprivate var bytes: String {
        switch self {
        case .sqlite: "BLOB"
        case .postgres: "BYTEA"
        }
    }
}
