import Accounts
import Credentials
import Testing
import Wire

@testable import Storage

/// Conformance of every store: notices, and the way back that one of them opens.
@Suite struct NoticeConformanceTests {
    private func audit(_ seconds: Int64) -> AuditContext {
        var audit = at(seconds)
        audit.notices = Set(NoticeTopic.allCases)
        return audit
    }

    private func proven(_ text: String, _ store: any AccountStore, isProven: Bool = true) async throws -> (user: WireID, session: WireID) {
        var new = NewAccount(id: newID(), openedBy: .dlauth, email: try email(text), passwordHash: "hash")
        new.isEmailConfirmed = isProven
        guard case .opened(let account, let session?) = try await store.open(new, session: newSession(), at(0)) else {
            throw Fault("\(text) is taken")
        }
        return (account.id, session.id)
    }

    /// To an email, or to a number that begins with `+`.
    private func move(_ user: WireID, to text: String, by session: WireID, _ store: any AccountStore, at seconds: Int64) async throws {
        let recipient = Recipient(stored: text)
        let purpose = if case .email = recipient { CodePurpose.emailChange } else { CodePurpose.phoneChange }
        let digest = [UInt8](repeating: 1, count: 32)
        _ = try await store.putCode(
            PendingCode(purpose: purpose, recipient: recipient.key, digest: digest, expiresAt: at(seconds + 600).now))
        let redemption = CodeRedemption(
            recipient: recipient, guess: CodeGuess(triedAs: purpose) { _ in digest }, proof: .change(caller: user),
            callerSession: session, session: newSession())
        #expect(try await store.redeem(redemption, audit(seconds)).signIn?.account.recipients.contains(recipient) == true)
    }

    /// A phone is told where there is no proven email, and of what a thief may have done alone.
    @Test(arguments: Backend.allCases)
    func anotherPhoneIsToldToEmailAndFormerPhone(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        for (text, isProven) in [("a@x", true), ("b@x", false)] {
            let (user, session) = try await proven(text, store, isProven: isProven)
            let phones = ["+49151100\(isProven ? 1 : 2)", "+49151200\(isProven ? 1 : 2)"]
            try await move(user, to: phones[0], by: session, store, at: 10)
            #expect(try await claimed(store, at: 10).map(\.recipient.text) == (isProven ? [text] : []))
            try await move(user, to: phones[1], by: session, store, at: 20)
            try await move(user, to: phones[1], by: session, store, at: 30)
            let told = try await claimed(store, at: 30)
            #expect(told.map(\.recipient.text) == (isProven ? [text] : []) + [phones[0]])
            #expect(told.allSatisfy { $0.kind == .phoneChanged })
            #expect(try await store.setPassword("new", of: user, keeping: session, audit(40)) != nil)
            #expect(try await claimed(store, at: 40).map(\.recipient.text) == [isProven ? text : phones[1]])
        }
    }

    private func claimed(_ store: any AccountStore, at seconds: Int64) async throws -> [Notice] {
        try await store.claimNotices(at: at(seconds).now, limit: 50)
    }

    private func run(_ store: any AccountStore, _ sql: String, _ values: [SQLValue]) async throws {
        let store = try #require(store as? SQLStore)
        _ = try await store.database.write { transaction throws(SQLFault) in try transaction.change(.unlogged, sql, values) }
    }

    @Test(arguments: Backend.allCases)
    func aNewPasswordIsToldToAProvenAddress(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (user, session) = try await proven("A@x", store)
        let stranger = try await proven("b@x", store, isProven: false)
        let stopped = try await proven("c@x", store)
        try await run(store, "UPDATE accounts SET mail_stopped_at = 1 WHERE id = $1", [.id(stopped.user)])
        try await run(store, "UPDATE accounts SET language = 'de' WHERE id = $1", [.id(user)])
        _ = try await store.setPassword("new", of: user, keeping: session, at(5))
        #expect(try await claimed(store, at: 10) == [], "it is off")
        for account in [(user, session), stranger, stopped] {
            #expect(try await store.setPassword("new", of: account.0, keeping: account.1, audit(10)) != nil)
        }
        let told = try await claimed(store, at: 10)
        let expected = Notice(
            id: told.first?.id ?? newID(), kind: .passwordChanged, recipient: .email(try email("A@x")), language: "de", detail: nil,
            address: IPAddress(parsing: "192.0.2.7"), at: at(10).now)
        #expect(told == [expected])
        #expect(try await claimed(store, at: 609) == [], "a gateway sends it")
        #expect(try await claimed(store, at: 610) == [expected], "that gateway is gone")
        try await store.settleNotices([expected.id])
        #expect(try await claimed(store, at: 10_000) == [])
        #expect(try await store.wayBack(by: expected.id, now: at(20).now) == nil)
        #expect(try await store.setPassword("newer", of: user, keeping: session, audit(20_000)) != nil)
        #expect(try await store.outgoing().first == OutgoingState(.notices, waiting: 1, since: at(20_000).now))
        #expect(try await store.giveUp(at: at(20_000 + Notice.keptSeconds - 1).now) == [:])
        #expect(try await store.giveUp(at: at(20_000 + Notice.keptSeconds).now) == [.notices: 1])
        #expect(try await claimed(store, at: 20_000 + Notice.keptSeconds) == [])
    }

    @Test(arguments: Backend.allCases)
    func aProviderThatIsLinkedOrUnlinkedIsTold(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        func proof(_ provider: Provider, subject: String = "1", email text: String? = nil) throws -> IdentityProof {
            IdentityProof(provider: provider, subject: subject, verifiedEmail: try text.map { try email($0) }, name: nil, nameRule: .first)
        }
        let (user, session) = try await proven("a@x", store)
        let caller = CallerSession(user: user, session: session)
        for _ in 0..<2 { _ = try await store.link(try proof(.google), by: caller, audit(1)) }
        // A sign-in links to the account that has the proven email, and is its own sign-up without one.
        for (time, address) in [(2, "a@x"), (3, "a@x"), (4, "new@x")] as [(Int64, String)] {
            let proof = try proof(.apple, subject: address, email: address)
            _ = try await store.signIn(proof, newUser: newID(), session: newSession(.apple), audit(time))
        }
        let ways = SignInWays(passwords: true, emails: true, phones: true)
        #expect(try await store.unlink(IdentitySource(.google), by: caller, ways, audit(5)).refusal == nil)
        let told = try await claimed(store, at: 10)
        #expect(told.map(\.kind) == [.identityLinked, .identityLinked, .identityUnlinked])
        #expect(told.map(\.detail) == ["google", "apple", "google"] && told.allSatisfy { $0.recipient.text == "a@x" })
    }

    @Test(arguments: Backend.allCases)
    func aNewEmailIsToldToBothAddressesAndTheFormerHasAWayBack(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (user, session) = try await proven("a@x", store)
        try await move(user, to: "b@x", by: session, store, at: 100)
        try await move(user, to: "c@x", by: session, store, at: 200)
        let told = try await claimed(store, at: 200)
        let words = told.map { "\($0.kind.rawValue) \($0.recipient.text)" }
        #expect(words == ["email-left a@x", "email-changed b@x", "email-left b@x", "email-changed c@x"])
        let (first, second) = (told[0].id, told[2].id)
        for (subject, time) in [("old", 50 - Notice.keptSeconds), ("new", 150)] {
            try await run(
                store, "INSERT INTO identities (provider, subject, account, linked_at) VALUES ('google', $1, $2, $3)",
                [.text(subject), .id(user), .time(at(time).now)])
        }
        try await run(
            store, "UPDATE accounts SET phone = '+4915112345678', phone_confirmed_at = $2 WHERE id = $1", [.id(user), .time(at(210).now)])
        // The last way first: it leads to the address before, and leaves the earlier way open.
        #expect(try await store.wayBack(by: second, now: at(300).now) == (try email("b@x")))
        let returned = try await store.takeBack(by: second, audit(300))
        #expect(
            returned?.account.email?.text == "b@x" && returned?.hadPassword == true && returned?.account.emailConfirmedAt == at(300).now)
        #expect(try await store.account(user) == returned?.account)
        #expect(returned?.account.hasPassword == false && returned?.account.phone == nil)
        #expect(try await store.sessions(of: user, now: at(300).now) == [])
        #expect(try await store.endedSessions().map(\.reason) == [.accountTaken])
        #expect(try await store.identities(of: user).map(\.key.subject) == ["old"], "a thief may link one shortly before the change")
        #expect(try await store.takeBack(by: second, audit(301)) == nil, "it was used")
        #expect(try await store.takeBack(by: first, audit(302))?.account.email?.text == "a@x")
        #expect(try await store.identities(of: user).map(\.key.subject) == ["old"])
        #expect(try await claimed(store, at: 302) == [], "the address that was given up is not told")
    }

    @Test(arguments: Backend.allCases)
    func theWayBackEndsWithItsTimeAndWithAnotherOwner(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        var ways: [WireID] = []
        for name in ["late", "taken", "squatted"] {
            let (user, session) = try await proven("\(name)@x", store)
            try await move(user, to: "\(name)@y", by: session, store, at: 100)
        }
        let told = try await claimed(store, at: 100).filter { $0.kind == .emailLeft }
        for name in ["late", "taken", "squatted"] { ways.append(try #require(told.first { $0.recipient.text == "\(name)@x" }).id) }
        let end = 100 + Notice.keptSeconds
        #expect(try await store.takeBack(by: ways[0], audit(end)) == nil)
        #expect(try await store.wayBack(by: ways[0], now: at(end).now) == nil)
        _ = try await proven("taken@x", store)
        #expect(try await store.takeBack(by: ways[1], audit(300)) == nil)
        // An address that was only claimed is no obstacle.
        let squatter = try await proven("squatted@x", store, isProven: false)
        #expect(try await store.takeBack(by: ways[2], audit(300))?.account.email?.text == "squatted@x")
        #expect(try await store.account(squatter.user)?.email == nil)
        try await store.sweep(now: at(end - 1).now, stride: anyStride)
        #expect(try await store.wayBack(by: ways[0], now: at(end - 1).now) != nil)
        try await store.sweep(now: at(end).now, stride: anyStride)
        #expect(try await store.wayBack(by: ways[0], now: at(end - 1).now) == nil)
    }

    @Test(arguments: Backend.allCases)
    func twoGatewaysTakeEachNoticeAndEachWayOnce(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let (store, other) = (bench.store, try bench.another())
        for name in ["a", "b", "c"] {
            let (user, session) = try await proven("\(name)@x", store)
            try await move(user, to: "\(name)@y", by: session, store, at: 100)
        }
        async let here = claimed(store, at: 100)
        async let there = claimed(other, at: 100)
        let all = try await here + there
        #expect(Set(all.map(\.id)).count == 6 && all.count == 6)
        let way = try #require(all.first { $0.kind == .emailLeft }?.id)
        async let one = store.takeBack(by: way, audit(200))
        async let two = other.takeBack(by: way, audit(200))
        #expect(try await [one, two].count { $0 != nil } == 1)
        await other.close()
    }

    @Test(arguments: Backend.allCases)
    func aFloodOfNewDevicesIsNotTold(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (user, _) = try await proven("a@x", store)
        let account = try #require(try await store.account(user))
        let sql = try #require(store as? SQLStore)
        let audit = audit(10)
        for number in 0..<25 {
            try await sql.database.write { transaction throws(SQLFault) in
                try transaction.notify(.newDevice, account, detail: "Phone \(number)", audit)
            }
        }
        let told = try await claimed(store, at: 10)
        #expect(told.count == 20 && Set(told.map(\.detail)) == Set((0..<20).map { "Phone \($0)" }))
        // They go with their account.
        _ = try await store.delete(user, at(20))
        #expect(try await claimed(store, at: 1_000) == [])
    }
}
