import Credentials
import MemoryStore
import Storage
import Synchronization
import Testing
import Wire

@testable import Accounts

/// Limits on guesses, and the charges of attempts.
@Suite struct GuessTests {
    private func caller(_ address: String) -> Caller { Caller(address: IPAddress(parsing: address), device: nil) }

    private func guess(
        _ office: AccountsFixture, _ email: String = "ada@example.com", _ password: String = "wrong one", from address: String
    ) async -> (any Error)? {
        await fault {
            try await office.passwords.signIn(
                .email(try EmailAddress(email)), try Password(password), contract: .dlauth, caller: caller(address))
        }
    }

    /// How many wrong guesses in a row pass, each from an address of its own.
    private func guesses(_ office: AccountsFixture, at email: String = "ada@example.com", _ address: (Int) -> String) async -> Int {
        var count = 0
        while await guess(office, email, from: address(count)) == SignInRefusal.invalidCredentials { count += 1 }
        return count
    }

    private static func stranger(_ number: Int) -> String { "10.\(number / 250).0.\(number % 250)" }

    // MARK: at once

    private func atOnce(_ count: Int, _ body: @escaping @Sendable (Int) async -> (any Error)?) async -> [(any Error)?] {
        await withTaskGroup(of: (any Error)?.self) { group in
            for number in 0..<count { group.addTask { await body(number) } }
            return await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test func fiveHundredGuessesAtOnceAtOneAccountAreThirtyTwo() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("ada@example.com")
        let outcomes = await atOnce(500) { _ in await guess(office, from: "10.0.0.1") }
        // 30 of all addresses together, and 2 as a newcomer.
        #expect((30...32).contains(outcomes.count { $0 == SignInRefusal.invalidCredentials }))
        #expect(
            outcomes.allSatisfy { $0 == SignInRefusal.invalidCredentials || $0 == AccountFailure.tooManyAttempts(retryAfterSeconds: 20) })
        #expect(await guess(office, from: "10.0.0.1") == AccountFailure.tooManyAttempts(retryAfterSeconds: 20))
    }

    @Test(arguments: ["ada@example.com", "nobody@example.com"])
    func fiveHundredAtOnceFromManyAddressesAreFifty(_ email: String) async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("ada@example.com")
        let outcomes = await atOnce(500) { await guess(office, email, from: Self.stranger($0)) }
        #expect(outcomes.count { $0 == SignInRefusal.invalidCredentials } == 50)
    }

    @Test func anAccountHasOneAllowanceWhateverItIsCalled() async throws {
        let office = try AccountsFixture()
        var registration = Registration(email: try EmailAddress("ada@example.com"), password: try Password("password123"))
        registration.username = Username(stored: "ada")
        _ = try await office.passwords.signUp(registration, rules: .length, contract: .dlauth, caller: caller("192.0.2.1"))
        let outcomes = await atOnce(200) { number in
            let name: SignInName =
                number.isMultiple(of: 2) ? .email(EmailAddress(stored: "ada@example.com")) : .username(Username(stored: "Ada"))
            return await fault {
                try await office.passwords.signIn(name, try Password("wrong one"), contract: .dlauth, caller: caller(Self.stranger(number)))
            }
        }
        #expect(outcomes.count { $0 == SignInRefusal.invalidCredentials } == 50)
    }

    /// Codes by SMS and passwords guess at the same account.
    @Test func aPhoneGivesNoSecondAllowance() async throws {
        let office = try AccountsFixture()
        let signedIn = try await office.signUp("ada@example.com")
        let phone = Recipient.phone(try PhoneNumber("+491512345678"))
        let session = CallerSession(user: signedIn.account.id, session: try #require(signedIn.grant?.session).id)
        try await office.codes.send(.phoneChange, to: phone, .anyone, caller: office.caller)
        _ = try await office.codes.verify(
            office.recorder.code, .phoneChange, of: phone, for: .change(caller: session.user), contract: .dlauth, session: session,
            caller: office.caller)
        try await office.codes.send(.sms, to: phone, .holders, caller: office.caller)
        let outcomes = await atOnce(200) { number in
            if number.isMultiple(of: 2) { return await guess(office, from: Self.stranger(number)) }
            return await fault {
                try await office.codes.verify(
                    "000000", .sms, of: phone, for: .signIn(caller: nil), contract: .dlauth, session: nil,
                    caller: caller(Self.stranger(number)))
            }
        }
        let judged = outcomes.count { $0 == SignInRefusal.invalidCredentials || $0 == CodeRefusal.invalidCode }
        #expect(judged == 50)
    }

    @Test func rightGuessesCostNothingHoweverManyComeAtOnce() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("ada@example.com")
        for _ in 0..<4 {
            let outcomes = await atOnce(30) { _ in await guess(office, "ada@example.com", "password123", from: "10.0.0.1") }
            #expect(outcomes.allSatisfy { $0 == nil })
        }
        for kind in [AttemptBucket.Kind.accountFailures, .addressFailures, .newcomerFailures] {
            #expect(office.limiter.counted(kind) == 0)
        }
    }

    /// A guess that cannot be judged is refunded.
    @Test func faultsOfOursAreGivenBack() async throws {
        let office = try AccountsFixture(queue: 1, cost: Argon2Cost(kibibytes: 8_192, passes: 1, lanes: 1))
        let outcomes = await atOnce(60) { number in await guess(office, "user\(number)@x", from: "10.0.0.1") }
        let judged = outcomes.count { $0 == SignInRefusal.invalidCredentials }
        #expect(
            judged < 60
                && outcomes.allSatisfy { $0 == SignInRefusal.invalidCredentials || $0 == AccountFailure.overloaded(retryAfterSeconds: 1) })
        #expect(office.limiter.counted(.accountFailures) == judged)
        #expect(office.limiter.counted(.addressFailures) == judged)
        office.store.fail([.unavailable("gone")])
        #expect(await guess(office, from: "10.0.0.2") == AccountFailure.unavailable(retryAfterSeconds: 1))
        #expect(office.limiter.counted(.accountFailures) == judged)
    }

    // MARK: only who guessed is kept out

    @Test func anAttackFromOneAddressDoesNotLockOutOthers() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("ada@example.com")
        #expect(await guesses(office) { _ in "10.0.0.1" } == 30)
        for address in ["192.0.2.7", "198.51.100.1", "2001:db8::1"] {
            #expect(await guess(office, "ada@example.com", "password123", from: address) == nil)
            // One who mistypes it once may try again.
            #expect(await guess(office, from: address) == SignInRefusal.invalidCredentials)
            #expect(await guess(office, "ada@example.com", "password123", from: address) == nil)
        }
        #expect(
            await guess(office, "ada@example.com", "password123", from: "10.0.0.1") == AccountFailure.tooManyAttempts(retryAfterSeconds: 20)
        )
    }

    @Test func anAddressWithTwoWrongGuessesIsNoNewcomer() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("ada@example.com")
        for _ in 0..<2 { #expect(await guess(office, from: "198.51.100.1") == SignInRefusal.invalidCredentials) }
        #expect(await guesses(office) { _ in "10.0.0.1" } == 28)
        #expect(
            await guess(office, "ada@example.com", "password123", from: "198.51.100.1")
                == AccountFailure.tooManyAttempts(retryAfterSeconds: 20))
        // At other accounts it has not guessed.
        #expect(await guess(office, "bob@example.com", from: "198.51.100.1") == SignInRefusal.invalidCredentials)
    }

    @Test func manyAddressesKeepOutOnlyThoseThatTheAccountDoesNotKnow() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("ada@example.com")
        #expect(await guesses(office, Self.stranger) == 50)
        #expect(
            await guess(office, "ada@example.com", "password123", from: "198.51.100.1")
                == AccountFailure.tooManyAttempts(retryAfterSeconds: 20))
        // `office.caller` signed up from here; and it may err five times.
        for _ in 0..<7 { #expect(await guess(office, "ada@example.com", "password123", from: "192.0.2.7") == nil) }
        for _ in 0..<5 { #expect(await guess(office, from: "192.0.2.7") == SignInRefusal.invalidCredentials) }
        #expect(
            await guess(office, "ada@example.com", "password123", from: "192.0.2.7")
                == AccountFailure.tooManyAttempts(retryAfterSeconds: 20))
    }

    /// Known and unknown accounts alike, call by call.
    @Test func anUnknownAccountBehavesLikeAKnownOne() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("ada@example.com")
        for number in 0..<60 {
            let answers = [
                await guess(office, "ada@example.com", from: Self.stranger(number)),
                await guess(office, "nobody@example.com", from: Self.stranger(number + 500)),
            ]
            #expect("\(String(describing: answers[0]))" == "\(String(describing: answers[1]))", "\(number)")
        }
    }

    @Test func strangersCannotMakeTheStoreLookAsOftenAsTheyLike() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("ada@example.com")
        _ = await guesses(office, Self.stranger)
        let before = office.store.calls
        for _ in 0..<100 { #expect(await guess(office, from: "203.0.113.9") == AccountFailure.tooManyAttempts(retryAfterSeconds: 20)) }
        #expect(office.store.calls == before + 5)
        #expect(office.limiter.counted(.addressFailures) == 50)
    }

    @Test func anUnavailableStoreRefundsTheFamiliarCharge() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("ada@example.com")
        _ = await guesses(office, Self.stranger)
        for _ in 0..<9 {
            office.store.fail([.unavailable("gone")])
            #expect(
                await guess(office, "ada@example.com", "password123", from: "192.0.2.7") == AccountFailure.unavailable(retryAfterSeconds: 1)
            )
        }
        #expect(await guess(office, "ada@example.com", "password123", from: "192.0.2.7") == nil)
    }

    @Test func aCodeIsLetInLikeAPassword() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("ada@example.com")
        _ = await guesses(office, Self.stranger)
        let recipient = Recipient.email(try EmailAddress("ada@example.com"))
        try await office.codes.send(.email, to: recipient, .holders, caller: office.caller)
        func verify(_ address: String) async -> (any Error)? {
            await fault {
                try await office.codes.verify(
                    office.recorder.code, .email, of: recipient, for: .signIn(caller: nil), contract: .dlauth, session: nil,
                    caller: caller(address))
            }
        }
        #expect(await verify("203.0.113.9") == AccountFailure.tooManyAttempts(retryAfterSeconds: 20))
        #expect(await verify("192.0.2.7") == nil)
    }

    @Test(
        arguments: [
            ([(.signedIn, "192.0.2.7")], "192.0.2.7", true), ([(.accountOpened, "192.0.2.7")], "192.0.2.8", false),
            ([(.passwordReset, "192.0.2.7"), (.signedIn, nil)], "192.0.2.7", true), ([(.signedIn, nil)], "192.0.2.7", false),
            ([(.signedIn, "2001:db8::1")], "2001:db8::ffff:1", true), ([(.signedIn, "2001:db8::1")], "2001:db8:0:1::1", false),
            // Events before a take-over were not caused by the present owner.
            ([(.signedIn, "192.0.2.1"), (.accountTaken, "192.0.2.1"), (.signedIn, "192.0.2.7")], "192.0.2.7", false),
            ([(.signedIn, "192.0.2.1"), (.accountTaken, "192.0.2.1"), (.signedIn, "192.0.2.7")], "192.0.2.1", true),
            ([(.refreshReuse, "192.0.2.7"), (.sessionEnded, "192.0.2.7")], "192.0.2.7", false), ([], "192.0.2.7", false),
        ] as [([(AuditEvent.Kind, String?)], String, Bool)])
    func anAddressIsFamiliarFromSignIns(_ events: [(AuditEvent.Kind, String?)], _ address: String, _ isKnown: Bool) throws {
        let events = events.map { kind, address in
            AuditEvent(
                id: UUID(high: 0, low: 0), kind, at: WallTime(seconds: 0), user: nil, address: address.flatMap { IPAddress(parsing: $0) })
        }
        #expect(AddressHistory.knows(try #require(IPAddress(parsing: address)), events) == isKnown)
    }
}

/// Charges of messages and new accounts.
@Suite struct AttemptCostTests {
    @Test func aMessageThatWasNotSentCostsNothingUnlessThatWouldTell() async throws {
        let office = try AccountsFixture()
        let recipient = Recipient.phone(try PhoneNumber("+491512345678"))
        office.store.fail([.unavailable("gone")])
        #expect(
            await fault { try await office.codes.send(.sms, to: recipient, .holders, caller: office.caller) }
                == AccountFailure.unavailable(retryAfterSeconds: 1))
        for kind in [AttemptBucket.Kind.recipientMessages, .addressMessages, .smsBudget] { #expect(office.limiter.counted(kind) == 0) }
        // No account has that number: nothing is sent, and the caller's charges do not reveal it.
        try await office.codes.send(.sms, to: recipient, .holders, caller: office.caller)
        #expect(office.recorder.sent.isEmpty)
        #expect(office.limiter.counted(.smsBudget) == 0)
        #expect(office.limiter.counted(.recipientMessages) == 1 && office.limiter.counted(.addressMessages) == 1)
        try await office.reset.forgot(try EmailAddress("nobody@x"), caller: office.caller)
        #expect(office.limiter.counted(.recipientMessages) == 2)
    }

    /// Each change drops the codes that were sent: without a bound, a squatter could keep the owner from proving her email.
    @Test func oneAccountChangesItsPasswordSoOftenAndNoMore() async throws {
        let office = try AccountsFixture()
        let (squatter, other) = (try await office.signUp("ada@example.com"), try await office.signUp("bob@example.com"))
        func change(_ signedIn: SignedIn, _ number: Int) async throws -> (any Error)? {
            let session = try #require(signedIn.grant?.session)
            return await fault {
                try await office.passwords.changePassword(
                    to: Password("password number \(number)"), rules: .length,
                    session: CallerSession(user: signedIn.account.id, session: session.id), caller: office.caller)
            }
        }
        for number in 0..<10 { #expect(try await change(squatter, number) == nil) }
        #expect(try await change(squatter, 10) == AccountFailure.tooManyAttempts(retryAfterSeconds: 20))
        #expect(try await change(other, 0) == nil)
    }

    @Test func whenTheBudgetIsSpentNoMoreSMSGoToAnybody() async throws {
        let office = try AccountsFixture()
        var refused = 0
        for number in 0..<80 {
            let recipient = Recipient.phone(try PhoneNumber("+49151\(1_000_000 + number)"))
            let address = Caller(address: IPAddress(v4: UInt32(number)), device: nil)
            let outcome = await fault { try await office.codes.send(.phoneChange, to: recipient, .anyone, caller: address) }
            if outcome == AccountFailure.tooManyAttempts(retryAfterSeconds: 20) { refused += 1 } else { #expect(outcome == nil) }
        }
        #expect(refused == 30 && office.recorder.sent.count == 50)
        #expect(office.limiter.counted(.recipientMessages) == 50, "what the budget refuses is charged nowhere")
        try await office.codes.send(.email, to: .email(try EmailAddress("a@x")), .anyone, caller: office.caller)
        #expect(office.recorder.sent.count == 51, "mail goes on")
    }

    @Test func onlyAccountsThatWereOpenedCount() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("ada@example.com")
        #expect(office.limiter.counted(.addressOpenings) == 1 && office.limiter.counted(.addressFailures) == 0)
        #expect(await fault { try await office.signUp("ada@example.com") } == SignUpRefusal.emailTaken)
        #expect(office.limiter.counted(.addressOpenings) == 1 && office.limiter.counted(.addressFailures) == 1)
        office.store.fail([.failed("full")])
        #expect(await fault { try await office.signUp("bob@example.com") } == AccountFailure.broken)
        office.store.fail([.unavailable("gone")])
        #expect(
            await fault { try await office.anonymous.open(contract: .anonymous, caller: office.caller) }
                == AccountFailure.unavailable(retryAfterSeconds: 1))
        #expect(office.limiter.counted(.addressOpenings) == 1 && office.limiter.counted(.addressFailures) == 1)
        _ = try await office.anonymous.open(contract: .anonymous, caller: office.caller)
        #expect(office.limiter.counted(.addressOpenings) == 2)
    }

    /// Many share an address, and who has an account is let in when others may open no more.
    @Test func aProvidersUserIsLetInWhereNoneMayBeOpened() async throws {
        let office = try AccountsFixture()
        office.providers.offer(.google, keys: KeySet([office.providers.key.verificationKey]))
        func signIn(_ subject: String) async throws -> SignedIn {
            let token = try office.providers.token(.google, subject: subject, at: office.clock.now)
            return try await office.provider.signIn(
                ProviderSignIn.Request(provider: .google, idToken: token), contract: .provider, caller: office.caller)
        }
        #expect(try await signIn("ada").isNew)
        for _ in 0..<5 { #expect(try await !signIn("ada").isNew) }
        #expect(office.limiter.counted(.addressOpenings) == 1 && office.limiter.counted(.addressFailures) == 0)
        for _ in 1..<100 { _ = try await office.anonymous.open(contract: .anonymous, caller: office.caller) }
        #expect(await fault { try await signIn("bob") } == AccountFailure.tooManyAttempts(retryAfterSeconds: 20))
        #expect(try await !signIn("ada").isNew)
        #expect(await fault { try await office.signUp("eve@example.com") } == AccountFailure.tooManyAttempts(retryAfterSeconds: 20))
        #expect(office.limiter.counted(.addressFailures) == 0)
    }
}
