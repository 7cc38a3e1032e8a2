import Accounts
import Credentials
import Testing
import Wire

/// Conformance of every store: codes and reset tokens.
@Suite struct ContactConformanceTests {
    private let right = [UInt8](repeating: 1, count: 32)
    private let wrong = [UInt8](repeating: 2, count: 32)

    private func put(
        _ store: any AccountStore, _ recipient: Recipient, _ purpose: CodePurpose = .email, digest: [UInt8]? = nil,
        at seconds: Int64 = 0
    ) async throws -> Account? {
        try await store.putCode(
            PendingCode(purpose: purpose, recipient: recipient.key, digest: digest ?? right, expiresAt: at(seconds + 600).now))
    }

    private func redeem(
        _ store: any AccountStore, _ recipient: Recipient, _ proof: ContactProof, _ purpose: CodePurpose = .email,
        digest: [UInt8]? = nil, contract: ContractID = .dlauth, callerSession: UUID? = nil, at seconds: Int64 = 10
    ) async throws -> Redemption {
        let redemption = CodeRedemption(
            recipient: recipient, guess: CodeGuess(triedAs: purpose) { _ in digest ?? right }, proof: proof,
            callerSession: callerSession, session: newSession(contract))
        return try await store.redeem(redemption, at(seconds))
    }

    private func mail(_ text: String) throws -> Recipient { .email(try email(text)) }

    @Test(arguments: Backend.allCases)
    func aCodeWorksOnce(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let user = try await store.opened("a@x").account.id
        let recipient = try mail("A@x")
        #expect(try await put(store, recipient, .signUp)?.id == user)
        let proven = try await redeem(store, recipient, .signIn(caller: nil), .signUp).signIn
        #expect(proven?.account.emailConfirmedAt == at(10).now)
        #expect(proven?.account.hasPassword == true)
        #expect(try await store.account(user) == proven?.account)
        #expect(try await store.session(proven?.session?.id ?? newID())?.account.id == user)
        #expect(try await redeem(store, recipient, .signIn(caller: nil), .signUp) == .wrongCode)
        #expect(try await put(store, try mail("nobody@x")) == nil)
    }

    /// Gateways compare the emails of tokens with it.
    @Test(arguments: Backend.allCases)
    func aProvenEmailIsPartOfTheStandingAndItsChangesAreLogged(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let user = try await store.opened("a@x").account.id
        #expect(try await store.standing(of: user) == AccountStanding(.none))
        var reader = try await ChangeReader(store)
        let (old, new) = (try mail("a@x"), try mail("B@y"))
        _ = try await put(store, old, .signUp)
        let session = try #require(try await redeem(store, old, .signIn(caller: nil), .signUp).signIn?.session?.id)
        let proven = AccountStanding(.none, email: try email("a@x"))
        let first = Set(try await reader.news())
        #expect(first.contains(.account(user, proven)))
        #expect(try await store.standing(of: user) == proven)
        _ = try await put(store, new, .emailChange)
        #expect(try await redeem(store, new, .change(caller: user), .emailChange, callerSession: session).signIn != nil)
        let changed = AccountStanding(.none, email: try email("B@y"))
        let second = Set(try await reader.news())
        #expect(second.contains(.account(user, changed)))
        #expect(try await store.standing(of: user) == changed)
    }

    @Test(arguments: Backend.allCases)
    func oneOfManyConcurrentRedemptionsSucceeds(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        _ = try await store.opened("a@x")
        let recipient = try mail("a@x")
        _ = try await put(store, recipient)
        let outcomes = try await withThrowingTaskGroup(of: Redemption.self) { group in
            for _ in 0..<20 { group.addTask { try await redeem(store, recipient, .signIn(caller: nil)) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.count { $0.signIn != nil } == 1)
        #expect(outcomes.count { $0 == .wrongCode } == 19)
    }

    @Test(arguments: Backend.allCases)
    func fiveWrongTriesKillACodeAndANewOneLives(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        _ = try await store.opened("a@x")
        let recipient = try mail("a@x")
        _ = try await put(store, recipient)
        for _ in 0..<4 { #expect(try await redeem(store, recipient, .signIn(caller: nil), digest: wrong) == .wrongCode) }
        _ = try await put(store, recipient)
        for _ in 0..<5 { #expect(try await redeem(store, recipient, .signIn(caller: nil), digest: wrong) == .wrongCode) }
        #expect(try await redeem(store, recipient, .signIn(caller: nil)) == .wrongCode)
        _ = try await put(store, recipient, digest: wrong)
        #expect(try await redeem(store, recipient, .signIn(caller: nil)) == .wrongCode)
        #expect(try await redeem(store, recipient, .signIn(caller: nil), digest: wrong).signIn != nil)
    }

    @Test(arguments: Backend.allCases)
    func aCodeCountsForItsPurposeAndTime(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        _ = try await store.opened("a@x")
        let recipient = try mail("a@x")
        _ = try await put(store, recipient)
        _ = try await put(store, recipient, .recovery, digest: wrong)
        #expect(try await redeem(store, recipient, .signIn(caller: nil), .recovery) == .wrongCode)
        #expect(try await redeem(store, recipient, .signIn(caller: nil), .recovery, digest: wrong, at: 599).signIn != nil)
        #expect(try await redeem(store, recipient, .signIn(caller: nil), at: 600) == .wrongCode)
        _ = try await put(store, recipient)
        try await store.sweep(now: at(599).now, stride: anyStride)
        #expect(try await redeem(store, recipient, .signIn(caller: nil), at: 599).signIn != nil)
    }

    @Test(arguments: Backend.allCases)
    func fiveWrongTriesKillEveryCodeOfTheRecipientAndNoOther(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        for name in ["a@x", "b@x"] {
            _ = try await store.opened(name)
            for purpose in [CodePurpose.signUp, .email, .recovery, .link] { _ = try await put(store, try mail(name), purpose) }
        }
        let recipient = try mail("a@x")
        for purpose in [CodePurpose.signUp, .email, .recovery, .link, .emailChange] {
            #expect(try await redeem(store, recipient, .signIn(caller: nil), purpose, digest: wrong) == .wrongCode)
        }
        for purpose in [CodePurpose.signUp, .email, .recovery, .link] {
            #expect(try await redeem(store, recipient, .signIn(caller: nil), purpose) == .wrongCode, "\(purpose)")
        }
        #expect(try await redeem(store, try mail("b@x"), .signIn(caller: nil), .link).signIn != nil)
    }

    /// Parallel guesses, as several types at once, get no more tries than one after the other.
    @Test(arguments: Backend.allCases)
    func parallelGuessesShareTheFiveTries(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        _ = try await store.opened("a@x")
        let recipient = try mail("a@x")
        let purposes = [CodePurpose.signUp, .email, .recovery]
        for purpose in purposes { _ = try await put(store, recipient, purpose) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<4 {
                group.addTask { _ = try await redeem(store, recipient, .signIn(caller: nil), purposes[number % 3], digest: wrong) }
            }
            try await group.waitForAll()
        }
        #expect(try await redeem(store, recipient, .signIn(caller: nil), .email, digest: wrong) == .wrongCode)
        #expect(try await redeem(store, recipient, .signIn(caller: nil), .email) == .wrongCode)
    }

    /// An account with an unproven email and everything that a signed-in user can add.
    private func squat(_ store: any AccountStore, _ address: String) async throws -> SignIn {
        var new = NewAccount(id: newID(), openedBy: .dlauth, email: try email(address), passwordHash: "squatter's")
        new.username = try Username("mallory")
        new.metadata = Metadata(stored: Array(#"{"planted":true}"#.utf8))
        new.tier = "premium"
        let session = newSession()
        guard case .opened(let account, _) = try await store.open(new, session: session, at(0)) else { throw Fault("taken") }
        _ = try await store.grant(ActorName(type: "team", id: "1"), to: account.id, at(0))
        let phone = Recipient.phone(try PhoneNumber("+491512345678"))
        _ = try await put(store, phone, .phoneChange)
        let joined = try await redeem(
            store, phone, .change(caller: account.id), .phoneChange, callerSession: session.id, at: 1
        ).signIn
        for purpose in [CodePurpose.signUp, .email, .recovery] { _ = try await put(store, try mail(address), purpose) }
        _ = try await put(store, phone, .sms)
        _ = try await store.putResetToken(PendingReset(digest: wrong, email: try email(address), expiresAt: at(600).now))
        return try #require(joined)
    }

    /// Ways to prove an email without a session of the account that was opened with it.
    enum Way: CaseIterable { case code, recovery, link, linkOfAnother, provider, reset }

    private func prove(_ way: Way, _ store: any AccountStore, _ address: String) async throws -> SignIn? {
        let recipient = try mail(address)
        switch way {
        case .code: return try await redeem(store, recipient, .signIn(caller: nil)).signIn
        case .recovery: return try await redeem(store, recipient, .signIn(caller: nil), .recovery).signIn
        case .link:
            _ = try await put(store, recipient, .link)
            return try await redeem(store, recipient, .signIn(caller: nil), .link, contract: .anonymous).signIn
        case .linkOfAnother:
            let other = try await store.opened(nil, hash: nil, contract: .anonymous)
            _ = try await put(store, recipient, .link)
            return try await redeem(
                store, recipient, .link(caller: other.account.id), .link, contract: .anonymous, callerSession: other.session?.id
            ).signIn
        case .provider:
            let proof = identity(subject: address, email: try email(address))
            return try await store.signIn(proof, newUser: newID(), session: newSession(.provider), at(10))
        case .reset:
            let token = PendingReset(digest: right, email: try email(address), expiresAt: at(600).now)
            _ = try await store.putResetToken(token)
            return try await store.resetPassword(digest: right, hash: "owner's", session: newSession(), at(10))
        }
    }

    @Test(arguments: Backend.allCases, Way.allCases)
    func aTakeOverRemovesAllDataAndCredentials(_ backend: Backend, _ way: Way) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let squatter = try await squat(store, "a@x")
        let owner = try #require(try await prove(way, store, "A@x"))
        var expected = squatter.account
        expected.strip(at: at(10).now)
        expected.emailConfirmedAt = at(10).now
        if way == .reset { (expected.hasPassword, expected.passwordSetAt) = (true, at(10).now) }
        #expect(owner.account == expected)
        #expect(owner.account.entitlement.tier == "premium")
        #expect(try await store.account(expected.id) == expected)
        #expect(owner.ended.map(\.id) == squatter.sessionIDs)
        #expect(owner.ended.allSatisfy { $0.reason == .accountTaken })
        #expect(try await store.sessions(of: expected.id, now: at(10).now).map(\.id) == owner.sessionIDs)
        #expect(try await store.grants(of: expected.id).isEmpty)
        #expect(try await store.identities(of: expected.id).map(\.key.subject) == (way == .provider ? ["A@x"] : []))
        let hash = try await store.credential(for: .email(try email("a@x")))?.hash
        #expect(hash == (way == .reset ? "owner's" : nil))
        #expect(try await store.credential(for: .username(Username(stored: "mallory"))) == nil)
        let proof = PasswordProof(hash: "squatter's")
        #expect(try await store.signIn(expected.id, proof: proof, session: newSession(), at(11)) == nil)
        #expect(try await store.setPassword("x", of: expected.id, keeping: try #require(squatter.session?.id), at(11)) == nil)
        try await nothingIsPending(store, "a@x")
        let phone = Recipient.phone(try PhoneNumber("+491512345678"))
        #expect(try await redeem(store, phone, .signIn(caller: nil), .sms, at: 11) == .wrongCode)
        #expect(try await put(store, phone, .sms) == nil)
        #expect(try await store.auditEvents(of: expected.id, before: nil, limit: 9).map(\.kind).contains(.accountTaken))
    }

    private func nothingIsPending(_ store: any AccountStore, _ address: String) async throws {
        for purpose in [CodePurpose.signUp, .email, .recovery, .link] {
            #expect(try await redeem(store, try mail(address), .signIn(caller: nil), purpose, at: 11) == .wrongCode, "\(purpose)")
        }
        #expect(try await !store.holdsResetToken(digest: wrong, now: at(11).now))
    }

    /// While the owner proves the email, the squatter does everything that a session allows, at the same time.
    @Test(arguments: Backend.allCases)
    func nothingThatTheSquatterDoesMeanwhileOutlivesTheProof(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        for round in 0..<30 {
            let (address, phone) = ("a\(round)@x", Recipient.phone(try PhoneNumber("+4915100000\(10 + round)")))
            let squatter = try await store.opened(address, hash: "squatter's")
            let (user, session) = (squatter.account.id, try #require(squatter.session?.id))
            let own = try mail("own\(round)@x")
            _ = try await put(store, try mail(address))
            _ = try await put(store, phone, .phoneChange)
            _ = try await put(store, own, .emailChange)
            let proof = ContactProof.change(caller: user)
            let owner = try await withThrowingTaskGroup(of: Redemption?.self) { group in
                group.addTask {
                    _ = try await redeem(store, phone, proof, .phoneChange, callerSession: session); return nil
                }
                group.addTask {
                    _ = try await store.setPassword("squatter's too", of: user, keeping: session, at(10)); return nil
                }
                group.addTask {
                    _ = try await store.signIn(user, proof: PasswordProof(hash: "squatter's"), session: newSession(), at(10))
                    return nil
                }
                group.addTask {
                    _ = try await store.refresh(squatter.session, 1, at: 10); return nil
                }
                if round % 2 == 0 {
                    group.addTask {
                        _ = try await redeem(store, own, proof, .emailChange, callerSession: session); return nil
                    }
                }
                group.addTask { try await redeem(store, try mail(address), .signIn(caller: nil)) }
                return try await group.reduce(nil) { $0 ?? $1 }
            }
            // Before the proof the squatter may have gone away with the account, or ended the code by another password.
            guard let owner = owner?.signIn else { continue }
            let account = try #require(try await store.account(email: try email(address)))
            #expect(account.id == owner.account.id && account == owner.account)
            #expect(account.phone == nil && !account.hasPassword)
            #expect(try await store.sessions(of: account.id, now: at(10).now).map(\.id) == owner.sessionIDs)
        }
    }

    /// The sign-up stays; data added after it without a proof is removed.
    @Test(arguments: Backend.allCases)
    func aCodeOfASignUpConfirmsItAsItStands(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let opened = try await squat(store, "a@x")
        // Of another text than the code of the sign-up: those are tried as well.
        for purpose in [CodePurpose.email, .recovery] { _ = try await put(store, try mail("a@x"), purpose, digest: wrong) }
        let completed = try #require(try await redeem(store, try mail("a@x"), .signIn(caller: nil), .email).signIn)
        var expected = opened.account
        expected.dropPhone()
        expected.emailConfirmedAt = at(10).now
        expected.updatedAt = at(10).now
        #expect(completed.account == expected)
        #expect(completed.ended.map(\.id) == opened.sessionIDs)
        #expect(try await store.account(expected.id) == expected)
        #expect(try await store.credential(for: .email(try email("a@x")))?.hash == "squatter's")
        #expect(try await store.sessions(of: expected.id, now: at(10).now).map(\.id) == completed.sessionIDs)
    }

    @Test(arguments: Backend.allCases)
    func aSignedInCallerConfirmsTheirAccountUnchanged(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let opened = try await squat(store, "a@x")
        let other = newSession()
        _ = try await store.signIn(opened.account.id, proof: PasswordProof(hash: "squatter's"), session: other, at(5))
        let proof = ContactProof.signIn(caller: opened.account.id)
        let proven = try await redeem(store, try mail("a@x"), proof, callerSession: opened.session?.id).signIn
        var expected = opened.account
        expected.emailConfirmedAt = at(10).now
        expected.updatedAt = at(10).now
        #expect(proven?.account == expected)
        var session = try #require(opened.session)
        _ = session.renewSignIn(by: nil, at: at(10).now, idleSeconds: newSession().idleSeconds)
        #expect(session.signedInAt == at(10).now && session.lastUsedAt == at(10).now)
        #expect(proven?.session == session && proven?.ended == [])
        #expect(try await store.session(other.id) != nil)
        // A session that has ended proves nothing.
        _ = try await store.end(other.id, .signOut, at(10))
        #expect(try await redeem(store, try mail("a@x"), proof, .recovery, callerSession: other.id) == .refused(.callerGone))
    }

    @Test(arguments: Backend.allCases)
    func aReplacedPasswordDropsCodesAndResetTokens(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let changed = try await squat(store, "a@x")
        _ = try await store.setPassword("new", of: changed.account.id, keeping: try #require(changed.session?.id), at(10))
        try await nothingIsPending(store, "a@x")
        let phone = Recipient.phone(try PhoneNumber("+491512345678"))
        #expect(try await redeem(store, phone, .signIn(caller: nil), .sms, at: 11) == .wrongCode)
        // Of an account that is proven as well.
        let proof = ContactProof.signIn(caller: changed.account.id)
        _ = try await put(store, try mail("a@x"))
        _ = try await redeem(store, try mail("a@x"), proof, callerSession: changed.session?.id)
        for digest in [right, wrong] {
            _ = try await store.putResetToken(PendingReset(digest: digest, email: try email("a@x"), expiresAt: at(600).now))
        }
        for purpose in [CodePurpose.signUp, .email, .recovery] { _ = try await put(store, try mail("A@x"), purpose) }
        #expect(try await store.resetPassword(digest: right, hash: "newer", session: newSession(), at(10)) != nil)
        try await nothingIsPending(store, "a@x")
        // And a hash of a newer kind in place of an older one is no other password.
        _ = try await store.putResetToken(PendingReset(digest: wrong, email: try email("a@x"), expiresAt: at(600).now))
        let same = PasswordProof(hash: "newer", replacement: "newer still")
        _ = try await store.signIn(changed.account.id, proof: same, session: newSession(), at(11))
        #expect(try await store.holdsResetToken(digest: wrong, now: at(11).now))
    }

    /// A code or token that went to an email before its account was opened opens nothing of it.
    @Test(arguments: Backend.allCases)
    func anAccountBeginsWithoutCodes(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let first = try await squat(store, "a@x")
        _ = try await store.delete(first.account.id, at(5))
        try await nothingIsPending(store, "a@x")
        for purpose in [CodePurpose.signUp, .email, .recovery, .link] { _ = try await put(store, try mail("a@x"), purpose) }
        _ = try await store.putResetToken(PendingReset(digest: wrong, email: try email("a@x"), expiresAt: at(600).now))
        _ = try await store.opened("A@x")
        try await nothingIsPending(store, "a@x")
    }

    /// Nor does one that gets its email in another way.
    @Test(arguments: Backend.allCases)
    func anEmailJoinsAnAccountWithoutTheCodesThatWereSentThereBefore(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let caller = try await store.opened(nil, hash: nil)
        let hidden = try await store.signIn(identity(subject: "2", email: nil), newUser: newID(), session: newSession(.provider), at(1))
        for name in ["attached@x", "opened@x", "completed@x"] {
            for purpose in [CodePurpose.link, .email, .emailChange] { _ = try await put(store, try mail(name), purpose) }
        }
        let proof = ContactProof.change(caller: caller.account.id)
        _ = try await redeem(store, try mail("attached@x"), proof, .emailChange, callerSession: caller.session?.id)
        for (subject, name) in [("1", "opened@x"), ("2", "completed@x")] {
            let proof = identity(subject: subject, email: try email(name))
            _ = try await store.signIn(proof, newUser: newID(), session: newSession(.provider), at(2))
        }
        #expect(try await store.account(hidden.account.id)?.email == (try email("completed@x")))
        for name in ["attached@x", "opened@x", "completed@x"] { try await nothingIsPending(store, name) }
    }

    /// A reset token of the address that an account gives up, or gets, opens nothing any more.
    @Test(arguments: Backend.allCases)
    func anEmailThatChangesHandsTakesNoResetTokenAlong(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let caller = try await store.opened("old@x", hash: nil)
        let tokens: [(name: String, digest: [UInt8])] = [("old@x", [1]), ("new@x", [2])]
        for token in tokens {
            _ = try await store.putResetToken(
                PendingReset(digest: token.digest, email: try email(token.name), expiresAt: at(600).now))
        }
        _ = try await put(store, try mail("new@x"), .emailChange)
        let proof = ContactProof.change(caller: caller.account.id)
        _ = try await redeem(store, try mail("new@x"), proof, .emailChange, callerSession: caller.session?.id)
        #expect(try await store.account(caller.account.id)?.email == (try email("new@x")))
        for token in tokens { #expect(try await !store.holdsResetToken(digest: token.digest, now: at(2).now), "\(token.name)") }
    }

    @Test(arguments: Backend.allCases)
    func anUnusedSignUpIsReplaced(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        func signUp(_ hash: String, anew: Bool = true, _ contract: ContractID = .dlauth) async throws -> Opening {
            var new = NewAccount(id: newID(), openedBy: contract, email: try email("a@x"), passwordHash: hash)
            new.metadata = Metadata(stored: Array(#"{"by":"\#(hash)"}"#.utf8))
            new.replacesUnfinishedSignUp = anew
            return try await store.open(new, session: nil, at(anew ? 2 : 1))
        }
        guard case .opened(let first, nil) = try await signUp("first") else { throw Fault("taken") }
        for purpose in [CodePurpose.signUp, .email, .recovery] { _ = try await put(store, try mail("a@x"), purpose) }
        _ = try await store.putResetToken(PendingReset(digest: wrong, email: try email("a@x"), expiresAt: at(600).now))
        #expect(try await signUp("x", anew: false) == .emailTaken)
        #expect(try await signUp("x", .password) == .emailTaken)
        guard case .opened(let second, nil) = try await signUp("second") else { throw Fault("taken") }
        #expect(second.id == first.id && second.emailConfirmedAt == nil)
        #expect(String(decoding: second.metadata.json, as: UTF8.self) == #"{"by":"second"}"#)
        #expect(try await store.account(first.id) == second)
        #expect(try await store.credential(for: .email(try email("a@x")))?.hash == "second")
        #expect(try await store.signIn(first.id, proof: PasswordProof(hash: "first"), session: newSession(), at(3)) == nil)
        try await nothingIsPending(store, "a@x")
        // With a session, and then with a proven email.
        let session = newSession()
        _ = try await store.signIn(first.id, proof: PasswordProof(hash: "second"), session: session, at(3))
        #expect(try await signUp("x") == .emailTaken)
        _ = try await store.end(session.id, .signOut, at(4))
        _ = try await put(store, try mail("a@x"), .signUp)
        let proven = try #require(try await redeem(store, try mail("a@x"), .signIn(caller: nil), .signUp).signIn)
        _ = try await store.endSessions(of: proven.account.id, .signOut, at(11))
        #expect(try await signUp("x") == .emailTaken)
        #expect(try await store.credential(for: .email(try email("a@x")))?.hash == "second")
    }

    @Test(arguments: Backend.allCases)
    func anEmailJoinsTheCallersAccountAndSession(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let caller = try await store.opened(nil, hash: nil, contract: .anonymous)
        let recipient = try mail("a@x")
        let proof = ContactProof.link(caller: caller.account.id)
        #expect(try await put(store, recipient, .link) == nil)
        let joined = try await redeem(
            store, recipient, proof, .link, contract: .anonymous, callerSession: caller.session?.id
        ).signIn
        #expect(joined?.account.id == caller.account.id)
        #expect(joined?.account.email == (try email("a@x")))
        #expect(joined?.session == caller.session)
        #expect(try await store.account(caller.account.id) == joined?.account)
        _ = try await put(store, recipient, .link)
        let other = try await redeem(store, recipient, proof, .link, contract: .dlauth, callerSession: caller.session?.id).signIn
        #expect(other?.session?.contract == .dlauth)
        _ = try await put(store, recipient, .link)
        #expect(try await redeem(store, recipient, proof, .link, callerSession: newID()) == .refused(.callerGone))
    }

    /// A code is a sign-in also with a session, if it was sent to an address that the account had before.
    @Test(arguments: Backend.allCases)
    func aCodeRenewsTheSignInOfTheCallersSession(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let opened = try await store.opened("a@x")
        let (user, id) = (opened.account.id, try #require(opened.session?.id))
        let other = newSession()
        _ = try await store.openSession(other, of: user, at(1))
        func signedInAt(_ session: UUID) async throws -> WallTime? { try await store.session(session)?.session?.signedInAt }
        func prove(_ address: String, _ proof: ContactProof, at seconds: Int64) async throws -> SignIn {
            _ = try await put(store, try mail(address))
            return try #require(try await redeem(store, try mail(address), proof, callerSession: id, at: seconds).signIn)
        }
        for (seconds, proof) in [(30, ContactProof.signIn(caller: user)), (40, .link(caller: user))] {
            let proven = try await prove("a@x", proof, at: Int64(seconds))
            #expect(proven.session?.id == id && proven.session?.signedInAt == at(Int64(seconds)).now)
            #expect(proven.session?.lastUsedAt == at(Int64(seconds)).now, "its new tokens count")
            #expect(try await store.session(id)?.session == proven.session)
        }
        // An address that the account only gets, and one that it got so.
        for (address, proof) in [
            ("b@x", ContactProof.link(caller: user)), ("c@x", .change(caller: user)), ("c@x", .change(caller: user)),
            ("c@x", .signIn(caller: user)),
        ] {
            #expect(try await prove(address, proof, at: 50).session?.signedInAt == at(40).now)
            #expect(try await signedInAt(id) == at(40).now)
        }
        #expect(try await signedInAt(other.id) == at(1).now)
        // A refresh keeps it.
        _ = try await store.refresh(RefreshRequest(session: id, contract: .dlauth, counter: 1, rule: RefreshRule()), at(90))
        #expect(try await signedInAt(id) == at(40).now)
    }

    /// A thief of a session sets a password, an email and by it a password and an identity: none of them is a newer sign-in.
    @Test(arguments: Backend.allCases)
    func whatASessionSetsCarriesItsSignInOn(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let opened = try await store.opened("a@x")
        let (user, id) = (opened.account.id, try #require(opened.session?.id))
        let thief = try email("thief@x")
        func password(_ hash: String, at seconds: Int64) async throws -> WallTime? {
            try await store.signIn(user, proof: PasswordProof(hash: hash), session: newSession(), at(seconds))?.session?.signedInAt
        }
        func code(
            _ address: String, _ proof: ContactProof = .signIn(caller: nil), _ session: WireID? = nil, in contract: ContractID = .dlauth,
            at seconds: Int64
        ) async throws -> WallTime? {
            _ = try await put(store, try mail(address), at: seconds)
            let redemption = try await redeem(store, try mail(address), proof, contract: contract, callerSession: session, at: seconds)
            return redemption.signIn?.session?.signedInAt
        }
        func identity(at seconds: Int64) async throws -> WallTime? {
            let proof = IdentityProof(provider: .google, subject: "thief", verifiedEmail: thief, name: nil, nameRule: .first)
            return try await store.signIn(proof, newUser: newID(), session: newSession(.provider), at(seconds)).session?.signedInAt
        }
        #expect(try await code("a@x", .signIn(caller: user), id, at: 40) == at(40).now)
        #expect(try await password("hash", at: 50) == at(50).now)
        _ = try await store.setPassword("set", of: user, keeping: id, at(100))
        #expect(try await password("set", at: 110) == at(40).now)
        // The address from before is a sign-in yet.
        #expect(try await code("a@x", at: 120) == at(120).now)
        // Under another contract the proof of a change opens a session.
        #expect(try await code("thief@x", .change(caller: user), id, in: .anonymous, at: 200) == at(40).now)
        #expect(try await store.account(user)?.email == thief)
        #expect(try await code("thief@x", at: 210) == at(40).now)
        #expect(try await code("thief@x", .signIn(caller: user), id, at: 220) == at(40).now)
        #expect(try await identity(at: 230) == at(40).now)
        #expect(try await identity(at: 240) == at(40).now)
        _ = try await store.putResetToken(PendingReset(digest: wrong, email: thief, expiresAt: at(600).now))
        let reset = try await store.resetPassword(digest: wrong, hash: "reset", session: newSession(), at(250))
        #expect(try await password("reset", at: 260) == at(40).now)
        #expect(reset?.session?.signedInAt == at(40).now)
        #expect(try await store.account(user) == reset?.account)
        // A credential that a session set, and one that followed from it, is a way to sign in like any other after that time.
        let week: Int64 = 7 * 86_400
        #expect(try await password("reset", at: 249 + week) == at(40).now)
        #expect(try await password("reset", at: 250 + week) == at(250 + week).now)
        #expect(try await identity(at: 229 + week) == at(40).now)
        #expect(try await identity(at: 230 + week) == at(230 + week).now)
        #expect(try await code("thief@x", at: 199 + week) == at(40).now)
        #expect(try await code("thief@x", at: 200 + week) == at(200 + week).now)
        _ = try await store.putResetToken(PendingReset(digest: wrong, email: thief, expiresAt: at(2 * week).now))
        let late = try await store.resetPassword(digest: wrong, hash: "reset", session: newSession(), at(300 + week))
        #expect(late?.session?.signedInAt == at(300 + week).now)
        #expect(try await password("reset", at: 310 + week) == at(310 + week).now)
        // Of a session that does not know when its user signed in.
        var session = newSession()
        session.signIn = .unknown
        _ = try await store.openSession(session, of: user, at(300))
        _ = try await store.setPassword("again", of: user, keeping: session.id, at(310))
        #expect(try await password("again", at: 320) == nil)
        // Set by one who proves an address from before: as new.
        let other = try await store.opened("b@x").account.id
        _ = try await store.putResetToken(PendingReset(digest: wrong, email: try email("b@x"), expiresAt: at(600).now))
        _ = try await store.resetPassword(digest: wrong, hash: "proven", session: newSession(), at(330))
        let proven = try await store.signIn(other, proof: PasswordProof(hash: "proven"), session: newSession(), at(340))
        #expect(proven?.session?.signedInAt == at(340).now)
    }

    @Test(arguments: Backend.allCases)
    func anAddressMovesByAProof(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let mover = try await store.opened("old@x")
        let squatter = try await squat(store, "new@x")
        let recipient = try mail("new@x")
        let proof = ContactProof.change(caller: mover.account.id)
        _ = try await put(store, recipient, .emailChange)
        let moved = try await redeem(store, recipient, proof, .emailChange, callerSession: mover.session?.id).signIn
        #expect(moved?.account.email == (try email("new@x")))
        #expect(moved?.ended.map(\.id) == squatter.sessionIDs)
        var released = squatter.account
        released.strip(at: at(10).now)
        released.email = nil
        #expect(try await store.account(squatter.account.id) == released)
        let third = try await store.opened("third@x")
        _ = try await put(store, recipient, .emailChange)
        let taken = try await redeem(
            store, recipient, .change(caller: third.account.id), .emailChange, callerSession: third.session?.id)
        #expect(taken == .refused(.taken))
    }

    @Test(arguments: Backend.allCases)
    func aPhoneJoinsAnAccount(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let caller = try await store.opened("a@x")
        let phone = Recipient.phone(try PhoneNumber("+491512345678"))
        _ = try await put(store, phone, .phoneChange)
        let joined = try await redeem(
            store, phone, .change(caller: caller.account.id), .phoneChange, callerSession: caller.session?.id
        ).signIn
        #expect(joined?.account.phoneConfirmedAt == at(10).now)
        #expect(joined?.account.emailConfirmedAt == nil)
        #expect(try await store.account(caller.account.id) == joined?.account)
        #expect(try await put(store, phone, .sms)?.id == caller.account.id)
        #expect(try await redeem(store, phone, .signIn(caller: nil), .sms).signIn?.account == joined?.account)
        let nobody = Recipient.phone(try PhoneNumber("+491510000000"))
        _ = try await put(store, nobody, .sms)
        #expect(try await redeem(store, nobody, .signIn(caller: nil), .sms) == .refused(.noAccount))
    }

    @Test(arguments: Backend.allCases)
    func aResetTokenWorksOnce(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let first = try await store.opened("a@x", hash: "old")
        let token = PendingReset(digest: right, email: try email("A@x"), expiresAt: at(600).now)
        let second = PendingReset(digest: wrong, email: try email("a@x"), expiresAt: at(600).now)
        #expect(try await store.putResetToken(token)?.id == first.account.id)
        _ = try await store.putResetToken(second)
        #expect(try await store.holdsResetToken(digest: right, now: at(599).now))
        #expect(try await !store.holdsResetToken(digest: right, now: at(600).now))
        #expect(try await store.resetPassword(digest: right, hash: "new", session: newSession(), at(600)) == nil)
        let session = newSession()
        let done = try await store.resetPassword(digest: right, hash: "new", session: session, at(10))
        #expect(done?.session?.id == session.id)
        #expect(done?.ended.map(\.id) == first.sessionIDs)
        #expect(done?.account.emailConfirmedAt == at(10).now)
        #expect(try await store.account(first.account.id) == done?.account)
        #expect(try await store.credential(for: .email(try email("a@x")))?.hash == "new")
        for digest in [right, wrong] {
            #expect(try await store.resetPassword(digest: digest, hash: "x", session: newSession(), at(11)) == nil)
        }
        let nobody = PendingReset(digest: right, email: try email("nobody@x"), expiresAt: at(600).now)
        #expect(try await store.putResetToken(nobody) == nil)
        #expect(try await store.resetPassword(digest: right, hash: "x", session: newSession(), at(11)) == nil)
    }
}
