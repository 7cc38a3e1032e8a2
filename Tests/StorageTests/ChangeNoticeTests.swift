import Accounts
import Credentials
import Storage
import Testing
import Threads
import Wire

/// The notices that a store gives its own program, compared with the log that the database's triggers keep: a statement that
/// names other rows than it writes fails here.
@Suite struct ChangeNoticeTests {
    /// A store, the notices of its changes, and its change log.
    private struct Watched {
        let store: SQLStore
        let heard = Noted<[[WireID]]>([])
        private var reader: ChangeReader

        init(_ bench: Bench) async throws {
            let location = bench.location
            let heard = heard
            let opened = location.open(
                connections: 2, start: WorkerThread.start, onChange: { accounts in heard.change { $0.append(accounts) } })
            store = try #require(opened)
            reader = try await ChangeReader(bench.store)
        }

        /// Runs an operation and compares its notices with its entries in the change log.
        mutating func run<Value>(_ name: String, _ body: (SQLStore) async throws -> Value) async throws -> Value {
            heard.change { $0 = [] }
            let value = try await body(store)
            let (told, news) = (heard.now, try await reader.news())
            #expect(told.count == (news.isEmpty ? 0 : 1), "\(name): told \(told), logged \(news)")
            let logged = news.compactMap { change -> WireID? in
                switch change {
                case .account(let user, _), .accountDeleted(let user): user
                case .ended, .secrets, .switches, .apiKeys, .factor, .identity, .fence: nil
                }
            }
            let accounts: [WireID] = told.flatMap { $0 }
            #expect(Set(accounts) == Set(logged), "\(name)")
            #expect(Set(accounts).count == accounts.count, "\(name): an account is told once")
            return value
        }

        func heardOf(_ users: WireID...) -> Bool { heard.now == [users] }
        var heardNothing: Bool { heard.now.isEmpty }
    }

    private let right = [UInt8](repeating: 1, count: 32)

    private func redeem(
        _ recipient: Recipient, _ purpose: CodePurpose, _ proof: ContactProof, caller: UUID? = nil, digest: [UInt8]? = nil
    ) -> CodeRedemption {
        CodeRedemption(
            recipient: recipient, guess: CodeGuess(triedAs: purpose) { _ in digest ?? right }, proof: proof, callerSession: caller,
            session: newSession())
    }

    private func code(_ purpose: CodePurpose, _ recipient: Recipient) -> PendingCode {
        PendingCode(purpose: purpose, recipient: recipient.key, digest: right, expiresAt: at(600).now)
    }

    @Test(arguments: Backend.allCases)
    func everyOperationReportsTheAccountsItChanges(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        var watched = try await Watched(bench)
        // Signing up and in, by password and provider.
        let ada = try await watched.run("open") { try await $0.opened("ada@x") }
        #expect(watched.heardNothing, "nobody remembers an account that was not there")
        let user = ada.account.id
        _ = try await watched.run("sign in") {
            try await $0.signIn(user, proof: PasswordProof(hash: "hash"), session: newSession(), at(1))
        }
        _ = try await watched.run("sign in, with another hash") {
            try await $0.signIn(user, proof: PasswordProof(hash: "hash", replacement: "newer"), session: newSession(), at(1))
        }
        #expect(watched.heardOf(user))
        let session = try #require(ada.session?.id)
        _ = try await watched.run("set the password") { try await $0.setPassword("other", of: user, keeping: session, at(2)) }
        #expect(watched.heardOf(user))
        let grace = try await watched.run("open by a provider") {
            try await $0.signIn(
                identity(subject: "1", email: try email("grace@x")), newUser: newID(), session: newSession(.provider), at(3))
        }
        let name = try PersonName(given: "Grace", family: nil)
        _ = try await watched.run("a name") {
            try await $0.signIn(
                identity(subject: "1", email: nil, name: name), newUser: newID(), session: newSession(.provider), at(3))
        }
        #expect(watched.heardOf(grace.account.id))
        _ = try await watched.run("link") {
            try await $0.signIn(
                identity(.apple, subject: "2", email: try email("grace@x")), newUser: newID(), session: newSession(.provider), at(3))
        }
        _ = try await watched.run("take over by a provider") {
            try await $0.signIn(identity(subject: "3", email: try email("ada@x")), newUser: newID(), session: newSession(.provider), at(4))
        }
        #expect(watched.heardOf(user))
        // Sessions.
        _ = try await watched.run("refresh") { try await $0.refresh(grace.session, 1, .provider, at: 5) }
        #expect(watched.heardNothing)
        try await watched.run("confirm") { try await $0.confirm([ConfirmedPair(session: grace.session?.id ?? session, counter: 2)]) }
        _ = try await watched.run("reuse") { try await $0.refresh(grace.session, 1, .provider, at: 500) }
        #expect(watched.heardOf())
        let open = try await watched.store.sessions(of: user, now: at(5).now).map(\.id)
        _ = try await watched.run("end") { try await $0.end(try #require(open.first), .signOut, at(6)) }
        #expect(watched.heardOf())
        _ = try await watched.run("end all") { try await $0.endSessions(of: grace.account.id, .revoked, at(6)) }
        #expect(watched.heardOf())
        _ = try await watched.run("end none") { try await $0.endSessions(of: grace.account.id, .revoked, at(6)) }
        #expect(watched.heardNothing)
    }

    @Test(arguments: Backend.allCases)
    func everyProofIsReported(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        var watched = try await Watched(bench)
        let (signedUp, taken, released, mover) = (
            try await watched.store.opened("signed-up@x"), try await watched.store.opened("taken@x"),
            try await watched.store.opened("released@x"), try await watched.store.opened(nil)
        )
        func mail(_ name: String) throws -> Recipient { .email(try email("\(name)@x")) }
        for (name, purpose) in [("signed-up", CodePurpose.signUp), ("taken", .email), ("released", .emailChange)] {
            _ = try await watched.run("put a code") { try await $0.putCode(code(purpose, try mail(name))) }
            #expect(watched.heardNothing)
            _ = try await watched.run("a wrong code") {
                try await $0.redeem(redeem(try mail(name), purpose, .signIn(caller: nil), digest: [2]), at(1))
            }
            #expect(watched.heardNothing)
        }
        _ = try await watched.run("complete") { try await $0.redeem(redeem(try mail("signed-up"), .signUp, .signIn(caller: nil)), at(2)) }
        #expect(watched.heardOf(signedUp.account.id))
        _ = try await watched.run("take over") { try await $0.redeem(redeem(try mail("taken"), .email, .signIn(caller: nil)), at(2)) }
        #expect(watched.heardOf(taken.account.id))
        _ = try await watched.run("attach and release") {
            let proof = ContactProof.change(caller: mover.account.id)
            return try await $0.redeem(redeem(try mail("released"), .emailChange, proof, caller: mover.session?.id), at(2))
        }
        #expect(watched.heardOf(released.account.id, mover.account.id))
        _ = try await watched.store.putCode(code(.email, try mail("taken")))
        _ = try await watched.run("sign in by a code") {
            try await $0.redeem(redeem(try mail("taken"), .email, .signIn(caller: nil)), at(3))
        }
        #expect(watched.heardNothing)
        let phone = Recipient.phone(try PhoneNumber("+491512345678"))
        _ = try await watched.store.putCode(code(.phoneChange, phone))
        _ = try await watched.run("join a phone") {
            let proof = ContactProof.change(caller: mover.account.id)
            return try await $0.redeem(redeem(phone, .phoneChange, proof, caller: mover.session?.id), at(3))
        }
        #expect(watched.heardOf(mover.account.id))
        for (name, number) in [("taken", 1), ("fresh", 2)] as [(String, UInt8)] {
            if name == "fresh" { _ = try await watched.store.opened("fresh@x") }
            let token = PendingReset(digest: [number], email: try email("\(name)@x"), expiresAt: at(600).now)
            let user = try #require(try await watched.run("put a token") { try await $0.putResetToken(token) }?.id)
            _ = try await watched.run("reset") { try await $0.resetPassword(digest: [number], hash: "h", session: newSession(), at(4)) }
            #expect(watched.heardOf(user))
        }
    }

    @Test(arguments: Backend.allCases)
    func everyOperatorChangeIsReported(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        var watched = try await Watched(bench)
        var new = NewAccount(id: newID(), openedBy: .dlauth, email: try email("a@x"), passwordHash: "hash")
        new.replacesUnfinishedSignUp = true
        let (first, user) = (new, new.id)
        _ = try await watched.run("open") { try await $0.open(first, session: nil, at(0)) }
        let again = NewAccount(id: newID(), openedBy: .dlauth, email: try email("a@x"), passwordHash: "other")
        #expect(try await watched.run("taken") { try await $0.open(again, session: nil, at(0)) } == .emailTaken)
        _ = try await watched.run("anew") { try await $0.open(first, session: nil, at(1)) }
        #expect(watched.heardOf(user))
        _ = try await watched.run("tier") { try await $0.setTier("premium", until: nil, of: user, at(2)) }
        #expect(watched.heardOf(user))
        _ = try await watched.run("no tier") { try await $0.setTier("premium", until: nil, of: newID(), at(2)) }
        #expect(watched.heardNothing)
        let team = try ActorName(type: "team", id: "1")
        _ = try await watched.run("grant") { try await $0.grant(team, to: user, at(2)) }
        _ = try await watched.run("revoke") { try await $0.revoke(team, from: user, at(2)) }
        #expect(watched.heardNothing)
        for version: Int64 in [0, 1] {
            _ = try await watched.run("keep") { try await $0.keep([1], as: "a", after: version) }
            #expect(watched.heardOf())
            _ = try await watched.run("keep too late") { try await $0.keep([1], as: "a", after: version) }
            #expect(watched.heardNothing)
        }
        let subject = IdentityKey(IdentitySource(stored: "django"), stored: "42")
        let bare = newID()
        _ = try await watched.run("tier of a subject") {
            try await $0.setTier("premium", until: nil, of: subject, newUser: bare, at(2))
        }
        #expect(watched.heardOf(), "of nothing that was cached of the account, which is new")
        _ = try await watched.run("another") { try await $0.setTier(nil, until: nil, of: subject, newUser: newID(), at(2)) }
        #expect(watched.heardOf(bare))
        try await watched.run("forget") { try await $0.forget(subject) }
        #expect(watched.heardOf())
        _ = try await watched.run("delete the subject's account") { try await $0.delete(bare, at(2)) }
        #expect(watched.heardOf(bare))
        let ban = Ban(bannedAt: at(3).now, until: nil, reason: nil)
        _ = try await watched.run("ban") { try await $0.ban(ban, user, at(3)) }
        #expect(watched.heardOf(user))
        _ = try await watched.run("unban") { try await $0.unban(user, at(3)) }
        #expect(watched.heardOf(user))
        let opened = try await watched.store.openSession(newSession(), of: user, at(3))
        let caller = CallerSession(user: user, session: try #require(opened?.session).id)
        _ = try await watched.run("leave") { try await $0.leave(caller, DeletionRule(graceSeconds: 1), at(3)) }
        #expect(watched.heardOf(user))
        _ = try await watched.run("open again") { try await $0.openSession(newSession(), of: user, at(3)) }
        #expect(watched.heardOf(user))
        _ = try await watched.run("delete") { try await $0.delete(user, at(3)) }
        #expect(watched.heardOf(user))
        _ = try await watched.run("delete none") { try await $0.delete(user, at(3)) }
        _ = try await watched.run("sweep") { try await $0.sweep(now: at(86_400 * 90).now, stride: anyStride) }
        #expect(watched.heardNothing)
    }
}
