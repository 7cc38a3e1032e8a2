import Credentials
import MemoryStore
import Storage
import Synchronization
import Testing
import Threads
import Wire

@testable import Accounts

/// Signing up and in with a password.
@Suite struct PasswordAccountTests {
    @Test func signUpOpensASessionAndSignInAnother() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("Ada@Example.com")
        #expect(first.isNew)
        #expect(first.account.email?.text == "Ada@example.com")
        #expect(first.account.emailConfirmedAt == nil)
        let again = try await office.signIn("ada@EXAMPLE.com", "password123")
        #expect(again.account.id == first.account.id)
        #expect(again.grant?.session.id != first.grant?.session.id)
        #expect(again.grant?.session.device == "App/1.0")
    }

    @Test func theAccessTokenNamesUserSessionAndEmail() async throws {
        let office = try AccountsFixture()
        let signedIn = try await office.signUp("ada@example.com")
        let tokens = try #require(signedIn.grant?.tokens)
        let token = try office.verified(tokens.access).get()
        #expect(token.userID.text == signedIn.account.id.text)
        #expect(token.sessionID.text == signedIn.grant?.session.id.text)
        #expect(token.email.text == "ada@example.com")
        #expect(token.tier.text == "")
        #expect(token.expiresAt == office.clock.now.seconds + 3_600)
        #expect(tokens.accessExpiresAt == token.expiresAt)
        #expect(tokens.accessSeconds == 3_600)
        #expect(AccessTokenID(parsing: token.tokenID)?.counter == 1)
    }

    @Test func anEmailHasOneAccount() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("ada@example.com")
        #expect(await fault { try await office.signUp("ADA@example.com") } == SignUpRefusal.emailTaken)
        #expect(office.limiter.counted(.addressFailures) == 1)
    }

    @Test func oneOfManyConcurrentSignUpsWithOneEmailSucceeds() async throws {
        let office = try AccountsFixture()
        let outcomes = await withTaskGroup(of: (any Error)?.self) { group in
            for _ in 0..<50 { group.addTask { await fault { try await office.signUp("ada@example.com") } } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.count { $0 == nil } == 1)
        #expect(outcomes.count { $0 == SignUpRefusal.emailTaken } == 49)
    }

    @Test func anUnfitPasswordOpensNoAccount() async throws {
        let office = try AccountsFixture()
        let registration = Registration(email: try EmailAddress("a@b"), password: try Password("12345678"))
        let refusal = await fault {
            try await office.passwords.signUp(registration, rules: .strict, contract: .password, caller: office.caller)
        }
        #expect(refusal == SignUpRefusal.unfitPassword([.tooCommon, .entirelyNumeric]))
        #expect(try await office.directory.account(email: try EmailAddress("a@b")) == nil)
    }

    /// The unknown email, the wrong password and the account without one answer alike, after the same work.
    @Test func refusalsDoNotRevealAccounts() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("ada@example.com")
        var bare = ImportedAccount()
        bare.email = try EmailAddress("no@password")
        _ = try await office.administration.create(bare)
        for email in ["ada@example.com", "nobody@example.com", "no@password"] {
            #expect(await fault { try await office.signIn(email, "another password") } == SignInRefusal.invalidCredentials)
        }
        #expect(office.limiter.counted(.accountFailures) == 3)
        #expect(office.limiter.counted(.addressFailures) == 3)
    }

    @Test func withoutAHashTheSameWorkIsDoneAndNoPasswordIsRight() async throws {
        let work = try AccountsFixture().work
        for stored in [nil, "", "$2b$12$abc"] {
            let check = try await work.check(try Password("password123"), against: stored, for: nil)
            #expect(!check.isRight)
        }
    }

    // MARK: one password, typed in two ways

    /// Keyboards differ in whether they send é as one code point or as two.
    private static let composed = "caf\u{E9} cr\u{E8}me"
    private static let decomposed = "cafe\u{301} cre\u{300}me"

    @Test(arguments: [(composed, decomposed), (decomposed, composed), (decomposed, decomposed)])
    func aPasswordIsTheSameHoweverItIsTyped(_ chosen: String, _ typed: String) async throws {
        let office = try AccountsFixture()
        let registration = Registration(email: try EmailAddress("a@x"), password: try Password(chosen))
        _ = try await office.passwords.signUp(registration, rules: .length, contract: .dlauth, caller: office.caller)
        let first = try await office.signIn("a@x", typed)
        _ = try await office.passwords.changePassword(
            to: try Password(chosen + "!"), rules: .length, session: first.callerSession, caller: office.caller)
        _ = try await office.signIn("a@x", typed + "!")
        try await office.reset.forgot(try EmailAddress("a@x"), caller: office.caller)
        _ = try await office.reset.reset(
            token: office.recorder.resetToken, to: try Password(chosen + "?"), rules: .length, contract: .dlauth,
            caller: office.caller)
        _ = try await office.signIn("a@x", typed + "?")
        #expect(await fault { try await office.signIn("a@x", "cafe creme?") } == SignInRefusal.invalidCredentials)
    }

    /// Imported hashes, and hashes from before passwords were composed, are of the typed form.
    @Test func aHashOfAnUncomposedPasswordIsReplaced() async throws {
        let office = try AccountsFixture()
        let typed = Array(Self.decomposed.utf8)
        var creation = ImportedAccount()
        creation.email = try EmailAddress("a@x")
        creation.passwordHash = try PasswordHash(of: typed.rawBytes, cost: Argon2Cost(kibibytes: 64, passes: 1, lanes: 1))
        _ = try await office.administration.create(creation)
        #expect(await fault { try await office.signIn("a@x", Self.composed) } == SignInRefusal.invalidCredentials)
        #expect(await fault { try await office.signIn("a@x", "cafe\u{300} cre\u{301}me") } == SignInRefusal.invalidCredentials)
        _ = try await office.signIn("a@x", Self.decomposed)
        _ = try await office.signIn("a@x", Self.composed)
        _ = try await office.signIn("a@x", Self.decomposed)
    }

    @Test func sixWrongGuessesPassAndSixtyDoNot() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("ada@example.com")
        for _ in 0..<6 { #expect(await fault { try await office.signIn("ada@example.com", "wrong") } == SignInRefusal.invalidCredentials) }
        _ = try await office.signIn("ada@example.com", "password123")
        var guesses = 6
        while await fault({ try await office.signIn("ada@example.com", "wrong") }) == SignInRefusal.invalidCredentials { guesses += 1 }
        #expect(guesses < 60)
        let refusal = await fault { try await office.signIn("ada@example.com", "password123") }
        #expect(refusal == AccountFailure.tooManyAttempts(retryAfterSeconds: 20))
        #expect(await fault { try await office.signIn("grace@example.com", "wrong") } == SignInRefusal.invalidCredentials)
    }

    @Test func anAddressThatGuessesAtManyAccountsIsStopped() async throws {
        let office = try AccountsFixture()
        var guesses = 0
        while await fault({ try await office.signIn("user\(guesses)@x", "wrong") }) == SignInRefusal.invalidCredentials { guesses += 1 }
        #expect(guesses < 200)
    }

    @Test func aHashOfAnOlderKindIsReplacedAtSignIn() async throws {
        let office = try AccountsFixture()
        let django = "pbkdf2_sha256$1000$seasalt$JgZryXe2Ga8ysg6XbzkLpTdyPQrHqsinbL9BnnhgX4A="
        let id = UUID(high: 0, low: 7)
        let imported = NewAccount(id: id, openedBy: nil, email: try EmailAddress("old@x"), passwordHash: django)
        _ = try await office.store.open(imported, session: nil, office.context.audit(office.caller))
        #expect(await fault { try await office.signIn("old@x", "letmein") } == SignInRefusal.invalidCredentials)
        #expect(try await office.signIn("old@x", "lètmein").account.id == id)
        let stored = try await office.store.credential(for: .email(try EmailAddress("old@x")))?.hash ?? ""
        #expect(stored.hasPrefix("$argon2id$"))
        #expect(try await office.signIn("old@x", "lètmein").account.id == id)
    }

    @Test func anUnprovenEmailGetsNoSessionIfItMustBeConfirmed() async throws {
        let office = try AccountsFixture()
        let registration = Registration(email: try EmailAddress("a@b"), password: try Password("password123"))
        let signedUp = try await office.passwords.signUp(
            registration, rules: .length, contract: .dlauth, mustConfirmEmail: true, caller: office.caller)
        #expect(signedUp.grant == nil)
        let name = SignInName.email(registration.email)
        let withheld = try await office.passwords.signIn(
            name, registration.password, contract: .dlauth, mustConfirmEmail: true, caller: office.caller)
        #expect(withheld.grant == nil)
        let recipient = Recipient.email(registration.email)
        try await office.codes.send(.signUp, to: recipient, .holders, caller: office.caller)
        _ = try await office.codes.verify(
            office.recorder.code, .signUp, of: recipient, for: .signIn(caller: nil), contract: .dlauth, session: nil,
            caller: office.caller)
        let signedIn = try await office.passwords.signIn(
            name, registration.password, contract: .dlauth, mustConfirmEmail: true, caller: office.caller)
        #expect(signedIn.grant != nil)
        #expect(signedIn.account.emailConfirmedAt == office.clock.now)
    }

    /// If emails must be proven, an unfinished sign-up does not block another.
    @Test func aSignUpThatWasNeverProvenGivesWayToAnother() async throws {
        let office = try AccountsFixture()
        func signUp(_ password: String) async throws -> SignedIn {
            let registration = Registration(email: try EmailAddress("a@b"), password: try Password(password))
            return try await office.passwords.signUp(
                registration, rules: .length, contract: .dlauth, mustConfirmEmail: true, caller: office.caller)
        }
        let first = try await signUp("password123")
        try await office.codes.send(.signUp, to: .email(try EmailAddress("a@b")), .holders, caller: office.caller)
        let older = office.recorder.code
        let second = try await signUp("another password")
        #expect(second.account.id == first.account.id && second.grant == nil)
        #expect(await fault { try await office.signIn("a@b", "password123") } == SignInRefusal.invalidCredentials)
        let recipient = Recipient.email(try EmailAddress("a@b"))
        let refusal = await fault {
            try await office.codes.verify(
                older, .signUp, of: recipient, for: .signIn(caller: nil), contract: .dlauth, session: nil, caller: office.caller)
        }
        #expect(refusal == CodeRefusal.invalidCode)
        // The account has a session from now on.
        _ = try await office.signIn("a@b", "another password")
        #expect(await fault { try await signUp("password123") } == SignUpRefusal.emailTaken)
    }

    @Test func aUsernameWillDoWhereOnlyOneHasIt() async throws {
        let office = try AccountsFixture()
        for (email, username) in [("a@x", "Ada"), ("b@x", "Grace"), ("c@x", "grace")] {
            var registration = Registration(email: try EmailAddress(email), password: try Password("password123"))
            registration.username = try Username(username)
            _ = try await office.passwords.signUp(registration, rules: .length, contract: .dlauth, caller: office.caller)
        }
        func signIn(_ username: String) async throws -> SignedIn {
            let name = SignInName.username(try #require(try Username(username)))
            return try await office.passwords.signIn(
                name, try Password("password123"), contract: .dlauth, caller: office.caller)
        }
        #expect(try await signIn("ADA").account.email?.text == "a@x")
        #expect(await fault { try await signIn("grace") } == SignInRefusal.invalidCredentials)
    }

    @Test func anotherPasswordEndsAllOtherSessions() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x")
        let second = try await office.signIn("a@x", "password123")
        let changed = try await office.passwords.changePassword(
            to: try Password("another password"), rules: .length, session: second.callerSession, caller: office.caller)
        #expect(changed.grant.session.id == second.grant?.session.id)
        #expect(changed.grant.tokens.refresh == second.grant?.tokens.refresh)
        #expect(await office.recorder.ended.map(\.id) == [first.callerSession.session])
        #expect(await fault { try await office.signIn("a@x", "password123") } == SignInRefusal.invalidCredentials)
        _ = try await office.signIn("a@x", "another password")
        let late = await fault {
            try await office.passwords.changePassword(
                to: try Password("third password"), rules: .length, session: first.callerSession, caller: office.caller)
        }
        #expect(late == PasswordChangeRefusal.sessionEnded)
    }

    @Test func morePasswordsThanMayWaitAreRefusedAtOnce() async throws {
        let office = try AccountsFixture(queue: 1, cost: .standard)
        let outcomes = await withTaskGroup(of: (any Error)?.self) { group in
            for number in 0..<50 { group.addTask { await fault { try await office.signIn("user\(number)@x", "wrong") } } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.contains { $0 == AccountFailure.overloaded(retryAfterSeconds: 1) })
        #expect(outcomes.contains { $0 == SignInRefusal.invalidCredentials })
        #expect(outcomes.allSatisfy { $0 == AccountFailure.overloaded(retryAfterSeconds: 1) || $0 == SignInRefusal.invalidCredentials })
    }

    @Test func aPasswordThatWaitedTooLongIsRefusedUnhashed() async throws {
        final class Salts: Sendable { let count = Mutex(0) }
        let salts = Salts()
        let random: RandomBytes = { count in
            salts.count.withLock { $0 += 1 }
            return [UInt8](repeating: 0, count: count)
        }
        let made = PasswordWork(threads: 1, queue: 8, patience: .zero, random: random, start: WorkerThread.start)
        let work = try #require(made)
        let password = try Password("password123")
        #expect(await fault { try await work.hash(password, for: nil) } == AccountFailure.overloaded(retryAfterSeconds: 1))
        #expect(await fault { try await work.check(password, against: nil, for: nil) } == AccountFailure.overloaded(retryAfterSeconds: 1))
        #expect(salts.count.withLock { $0 } == 0)
    }

    @Test func aStoreThatIsAwaySaysWhenToComeAgain() async throws {
        let office = try AccountsFixture()
        office.store.fail([.unavailable("gone")])
        #expect(await fault { try await office.signIn("a@x", "password123") } == AccountFailure.unavailable(retryAfterSeconds: 1))
        office.store.fail([.failed("no such table")])
        #expect(await fault { try await office.signIn("a@x", "password123") } == AccountFailure.broken)
        #expect(office.recorder.notices == [.storeAway("gone"), .storeFailed("no such table")])
    }
}

/// A new password for who forgot the old one.
@Suite struct PasswordResetTests {
    private func reset(_ office: AccountsFixture, _ token: String, _ password: String = "brand new one") async throws -> Sessions.Granted {
        try await office.reset.reset(
            token: token, to: try Password(password), rules: .length, contract: .dlauth, caller: office.caller)
    }

    @Test func theTokenFromTheMailSetsAPasswordOnce() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x")
        try await office.reset.forgot(try EmailAddress("A@x"), caller: office.caller)
        let token = office.recorder.resetToken
        #expect(office.recorder.sent.map(\.recipient) == [.email(try EmailAddress("a@x"))])
        let done = try await reset(office, token)
        #expect(done.account.emailConfirmedAt != nil)
        #expect(await office.recorder.ended.map(\.id) == [first.callerSession.session])
        _ = try await office.signIn("a@x", "brand new one")
        #expect(await fault { try await office.signIn("a@x", "password123") } == SignInRefusal.invalidCredentials)
        #expect(await fault { try await reset(office, token) } == PasswordResetRefusal.invalidToken)
    }

    /// A mail sent before the change cannot undo it.
    @Test func anotherPasswordEndsTheTokensThatWereSentBefore() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x")
        try await office.reset.forgot(try EmailAddress("a@x"), caller: office.caller)
        let token = office.recorder.resetToken
        _ = try await office.passwords.changePassword(
            to: try Password("another password"), rules: .length, session: first.callerSession, caller: office.caller)
        #expect(await fault { try await reset(office, token) } == PasswordResetRefusal.invalidToken)
        _ = try await office.signIn("a@x", "another password")
    }

    @Test func aResetTakesOverAnAccountWithAnUnprovenEmail() async throws {
        let office = try AccountsFixture()
        var registration = Registration(email: try EmailAddress("owner@x"), password: try Password("password123"))
        registration.username = try Username("mallory")
        let json = Array(#"{"planted":1}"#.utf8)
        registration.metadata = try Metadata(json: json.rawBytes)
        let squatter = try await office.passwords.signUp(registration, rules: .length, contract: .password, caller: office.caller)
        try await office.reset.forgot(registration.email, caller: office.caller)
        let done = try await reset(office, office.recorder.resetToken)
        #expect(done.account.id == squatter.account.id && done.account.hasPassword)
        #expect(done.account.username == nil && done.account.metadata == .empty)
        #expect(await office.recorder.ended.map(\.reason) == [.accountTaken])
        // Once it is proven, only the password is another.
        try await office.reset.forgot(registration.email, caller: office.caller)
        #expect(
            try await reset(office, office.recorder.resetToken, "yet another").account.emailConfirmedAt == done.account.emailConfirmedAt)
        #expect(await office.recorder.ended.map(\.reason) == [.accountTaken, .passwordChanged])
    }

    @Test func forgottenPasswordsDoNotRevealAccounts() async throws {
        let office = try AccountsFixture()
        try await office.reset.forgot(try EmailAddress("nobody@x"), caller: office.caller)
        #expect(office.recorder.sent.isEmpty)
    }

    @Test func aTokenIsGoodForAnHour() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("a@x")
        try await office.reset.forgot(try EmailAddress("a@x"), caller: office.caller)
        office.clock.advance(seconds: 3_600)
        #expect(await fault { try await reset(office, office.recorder.resetToken) } == PasswordResetRefusal.invalidToken)
    }

    @Test func anUnfitPasswordDoesNotUseTheTokenUp() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("a@x")
        try await office.reset.forgot(try EmailAddress("a@x"), caller: office.caller)
        let token = office.recorder.resetToken
        #expect(await fault { try await reset(office, token, "short") } == PasswordResetRefusal.unfitPassword([.tooShort]))
        _ = try await reset(office, token)
    }

    @Test func madeUpResetTokensAreRefused() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("a@x")
        for token in ["", "x", String(repeating: "A", count: 43), "nül\u{0}"] {
            #expect(await fault { try await reset(office, token) } == PasswordResetRefusal.invalidToken)
        }
        #expect(office.limiter.counted(.addressFailures) == 4)
    }

    @Test func threeMailsInARowPass() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("a@x")
        for _ in 0..<3 { try await office.reset.forgot(try EmailAddress("a@x"), caller: office.caller) }
        #expect(office.recorder.sent.count == 3)
        var mails = 3
        while await fault({ try await office.reset.forgot(try EmailAddress("a@x"), caller: office.caller) }) == nil { mails += 1 }
        #expect(mails < 10)
    }
}
