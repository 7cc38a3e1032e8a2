import Credentials
import MemoryStore
import Storage
import Testing
import Wire

@testable import Accounts

/// Codes by mail and SMS, and whom they lead where.
@Suite struct CodeTests {
    private func verify(
        _ office: AccountsFixture, _ code: String, _ purpose: CodePurpose, _ recipient: Recipient, _ proof: ContactProof,
        _ contract: ContractID = .dlauth, session: CallerSession? = nil
    ) async throws -> Sessions.Granted {
        try await office.codes.verify(
            code, purpose, of: recipient, for: proof, contract: contract, session: session, caller: office.caller)
    }

    private func email(_ text: String) throws -> Recipient { .email(try EmailAddress(text)) }

    @Test func aCodeIsSixDigitsAndWorksOnce() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x")
        let recipient = try email("a@x")
        try await office.codes.send(.email, to: recipient, .holders, caller: office.caller)
        let code = office.recorder.code
        #expect(code.utf8.count == 6 && code.allSatisfy(\.isNumber))
        let granted = try await verify(office, code, .email, recipient, .signIn(caller: nil))
        #expect(granted.account.id == first.account.id)
        #expect(granted.account.emailConfirmedAt == office.clock.now)
        #expect(await fault { try await verify(office, code, .email, recipient, .signIn(caller: nil)) } == CodeRefusal.invalidCode)
    }

    @Test func aSignUpThatCannotSendItsCodeIsNoFailure() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("a@x")
        office.store.fail([.unavailable("gone")])
        await office.codes.sendForSignUp(to: try EmailAddress("a@x"), caller: office.caller)
        #expect(office.recorder.sent.isEmpty && office.recorder.notices == [.storeAway("gone")])
        await office.codes.sendForSignUp(to: try EmailAddress("a@x"), caller: office.caller)
        _ = try await verify(office, office.recorder.code, .email, try email("a@x"), .signIn(caller: nil))
    }

    /// Redeeming the code of one's own sign-up keeps the password just chosen, whatever purpose the app names.
    @Test(arguments: [CodePurpose.signUp, .email, .recovery])
    func completingTheSignUpKeepsThePasswordAndEndsTheOlderSessions(_ triedAs: CodePurpose) async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x")
        let recipient = try email("a@x")
        try await office.codes.send(.signUp, to: recipient, .holders, caller: office.caller)
        let proven = try await verify(office, office.recorder.code, triedAs, recipient, .signIn(caller: nil))
        #expect(proven.account.emailConfirmedAt == office.clock.now && proven.account.hasPassword)
        #expect(await office.recorder.ended.map(\.id) == [first.callerSession.session])
        #expect(await fault { try await office.sessions.current(first.callerSession) } == SessionRefusal.sessionEnded)
        _ = try await office.signIn("a@x", "password123")
        // Once it is proven, a code signs in and no more.
        try await office.codes.send(.signUp, to: recipient, .holders, caller: office.caller)
        _ = try await verify(office, office.recorder.code, triedAs, recipient, .signIn(caller: nil))
        _ = try await office.sessions.current(proven.callerSession)
    }

    @Test(arguments: [CodePurpose.signUp, .email, .recovery])
    func aSignedInCallerConfirmsTheirAccountUnchanged(_ purpose: CodePurpose) async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x")
        let other = try await office.signIn("a@x", "password123")
        let recipient = try email("a@x")
        try await office.codes.send(purpose, to: recipient, .holders, caller: office.caller)
        let proven = try await verify(
            office, office.recorder.code, purpose, recipient, .signIn(caller: first.account.id), session: first.callerSession)
        #expect(proven.account.emailConfirmedAt == office.clock.now && proven.account.hasPassword)
        #expect(proven.callerSession == first.callerSession)
        _ = try await office.sessions.current(other.callerSession)
        #expect(await office.recorder.ended.isEmpty)
    }

    /// Five guesses at all codes together, in whatever order of types.
    @Test func fiveGuessesCountOverAllTypesOfACode() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("a@x")
        let recipient = try email("a@x")
        var codes: [CodePurpose: String] = [:]
        for purpose in [CodePurpose.signUp, .email, .recovery] {
            try await office.codes.send(purpose, to: recipient, .holders, caller: office.caller)
            codes[purpose] = office.recorder.code
        }
        let wrong = try #require((0...3).map { "00000\($0)" }.first { !codes.values.contains($0) })
        for purpose in [CodePurpose.signUp, .email, .recovery, .email, .email] {
            #expect(await fault { try await verify(office, wrong, purpose, recipient, .signIn(caller: nil)) } == CodeRefusal.invalidCode)
        }
        for (purpose, code) in codes {
            #expect(await fault { try await verify(office, code, purpose, recipient, .signIn(caller: nil)) } == CodeRefusal.invalidCode)
        }
    }

    @Test func fiveWrongTriesKillACode() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("a@x")
        let recipient = try email("a@x")
        try await office.codes.send(.email, to: recipient, .holders, caller: office.caller)
        let wrong = office.recorder.code == "000000" ? "000001" : "000000"
        for _ in 0..<5 {
            #expect(await fault { try await verify(office, wrong, .email, recipient, .signIn(caller: nil)) } == CodeRefusal.invalidCode)
        }
        #expect(
            await fault { try await verify(office, office.recorder.code, .email, recipient, .signIn(caller: nil)) }
                == CodeRefusal.invalidCode)
        #expect(office.limiter.counted(.accountFailures) == 6)
    }

    @Test func aNewCodeKillsTheOlderOne() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("a@x")
        let recipient = try email("a@x")
        try await office.codes.send(.email, to: recipient, .holders, caller: office.caller)
        let older = office.recorder.code
        repeat {
            try await office.codes.send(.email, to: recipient, .holders, caller: Caller(address: nil, device: nil))
        } while office.recorder.code == older
        #expect(await fault { try await verify(office, older, .email, recipient, .signIn(caller: nil)) } == CodeRefusal.invalidCode)
        _ = try await verify(office, office.recorder.code, .email, recipient, .signIn(caller: nil))
    }

    @Test func aCodeLivesTenMinutesForItsPurposeAndRecipient() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("a@x")
        _ = try await office.signUp("b@x")
        let recipient = try email("a@x")
        try await office.codes.send(.email, to: recipient, .holders, caller: office.caller)
        let code = office.recorder.code
        #expect(await fault { try await verify(office, code, .recovery, recipient, .signIn(caller: nil)) } == CodeRefusal.invalidCode)
        let other = try email("b@x")
        #expect(await fault { try await verify(office, code, .email, other, .signIn(caller: nil)) } == CodeRefusal.invalidCode)
        office.clock.advance(seconds: 600)
        #expect(await fault { try await verify(office, code, .email, recipient, .signIn(caller: nil)) } == CodeRefusal.invalidCode)
    }

    @Test func onlyAccountsGetCodesUnlessAnyoneMay() async throws {
        let office = try AccountsFixture()
        let recipient = try email("nobody@x")
        try await office.codes.send(.email, to: recipient, .holders, caller: office.caller)
        #expect(office.recorder.sent.isEmpty)
        try await office.codes.send(.link, to: recipient, .anyone, caller: office.caller)
        #expect(office.recorder.sent.count == 1)
    }

    /// `ADA@x` may be another mailbox than `ada@x`: codes go to the address as the account spells it.
    @Test func aCodeForAnAccountGoesToItsEmailAsTheAccountSpellsIt() async throws {
        let office = try AccountsFixture()
        _ = try await office.signUp("ada@x")
        for (purpose, audience) in [(CodePurpose.email, Codes.Audience.holders), (.link, .anyone)] {
            try await office.codes.send(purpose, to: try email("ADA@x"), audience, caller: office.caller)
            #expect(office.recorder.sent.last?.recipient == (try email("ada@x")))
        }
    }

    /// An account created with another person's email: when its owner proves it, the creator keeps nothing.
    @Test func provingAnEmailTakesOverAnAccountThatNeverProvedIt() async throws {
        let office = try AccountsFixture()
        let squatter = try await office.signUp("owner@x", contract: .password)
        let recipient = try email("owner@x")
        try await office.codes.send(.link, to: recipient, .anyone, caller: office.caller)
        let owner = try await verify(office, office.recorder.code, .link, recipient, .signIn(caller: nil), .anonymous)
        #expect(owner.account.id == squatter.account.id)
        #expect(!owner.account.hasPassword)
        #expect(await fault { try await office.signIn("owner@x", "password123") } == SignInRefusal.invalidCredentials)
        let token = squatter.grant?.tokens.refresh ?? ""
        #expect(
            await fault { try await office.sessions.refresh(token, contract: .password, caller: office.caller) }
                == RefreshTokenRefusal.invalid)
        #expect(await office.recorder.ended.map(\.id) == [squatter.callerSession.session])
        #expect(await office.recorder.ended.map(\.reason) == [.accountTaken])
        _ = try await office.sessions.current(owner.callerSession)
    }

    @Test func anAnonymousAccountGetsItsEmail() async throws {
        let office = try AccountsFixture()
        let caller = try await office.anonymous.open(contract: .anonymous, caller: office.caller)
        let recipient = try email("a@x")
        try await office.codes.send(.link, to: recipient, .anyone, caller: office.caller)
        let linked = try await verify(
            office, office.recorder.code, .link, recipient, .link(caller: caller.account.id), .anonymous,
            session: caller.callerSession)
        #expect(linked.account.id == caller.account.id)
        #expect(linked.account.email?.text == "a@x")
        #expect(linked.account.emailConfirmedAt != nil)
        #expect(linked.grant.session.id == caller.grant.session.id)
        #expect(linked.grant.tokens.refresh == caller.grant.tokens.refresh)
    }

    @Test func theOwnerOfAnEmailIsSignedInToTheAccountThatHasIt() async throws {
        let office = try AccountsFixture()
        let recipient = try email("a@x")
        let first = try await office.anonymous.open(contract: .anonymous, caller: office.caller)
        try await office.codes.send(.link, to: recipient, .anyone, caller: office.caller)
        _ = try await verify(
            office, office.recorder.code, .link, recipient, .link(caller: first.account.id), .anonymous, session: first.callerSession)
        let second = try await office.anonymous.open(contract: .anonymous, caller: office.caller)
        try await office.codes.send(.link, to: recipient, .anyone, caller: office.caller)
        let granted = try await verify(
            office, office.recorder.code, .link, recipient, .link(caller: second.account.id), .anonymous, session: second.callerSession)
        #expect(granted.account.id == first.account.id)
        #expect(granted.grant.session.id != second.grant.session.id)
        _ = try await office.sessions.current(first.callerSession)
    }

    @Test func withoutAnAccountThereIsNothingToSignInTo() async throws {
        let office = try AccountsFixture()
        let recipient = try email("nobody@x")
        try await office.codes.send(.link, to: recipient, .anyone, caller: office.caller)
        #expect(
            await fault { try await verify(office, office.recorder.code, .link, recipient, .signIn(caller: nil), .anonymous) }
                == CodeRefusal.contact(.noAccount))
    }

    @Test func aCallerWhoseSessionHasEndedProvesNothing() async throws {
        let office = try AccountsFixture()
        let caller = try await office.anonymous.open(contract: .anonymous, caller: office.caller)
        try await office.sessions.signOut(caller.callerSession, caller: office.caller)
        let recipient = try email("a@x")
        try await office.codes.send(.link, to: recipient, .anyone, caller: office.caller)
        let refusal = await fault {
            try await verify(
                office, office.recorder.code, .link, recipient, .link(caller: caller.account.id), .anonymous,
                session: caller.callerSession)
        }
        #expect(refusal == CodeRefusal.contact(.callerGone))
    }

    @Test func anEmailMovesOnlyByAProof() async throws {
        let office = try AccountsFixture()
        let mover = try await office.signUp("old@x")
        let squatter = try await office.signUp("new@x")
        let recipient = try email("new@x")
        let proof = ContactProof.change(caller: mover.account.id)
        try await office.codes.send(.emailChange, to: recipient, .anyone, caller: office.caller)
        let moved = try await verify(office, office.recorder.code, .emailChange, recipient, proof, session: mover.callerSession)
        #expect(moved.account.id == mover.account.id)
        #expect(moved.account.email?.text == "new@x")
        #expect(try await office.directory.account(squatter.account.id)?.email == nil)
        #expect(await office.recorder.ended.map(\.user) == [squatter.account.id])
        #expect(await fault { try await office.signIn("old@x", "password123") } == SignInRefusal.invalidCredentials)
        _ = try await office.signIn("new@x", "password123")
        let third = try await office.signUp("third@x")
        try await office.codes.send(.emailChange, to: recipient, .anyone, caller: office.caller)
        let refusal = await fault {
            try await verify(
                office, office.recorder.code, .emailChange, recipient, .change(caller: third.account.id),
                session: third.callerSession)
        }
        #expect(refusal == CodeRefusal.contact(.taken))
    }

    @Test func aPhoneJoinsAnAccountAndThenSignsIn() async throws {
        let office = try AccountsFixture()
        let caller = try await office.signUp("a@x")
        let phone = Recipient.phone(try PhoneNumber("+49 151 2345678"))
        try await office.codes.send(.phoneChange, to: phone, .anyone, caller: office.caller)
        let joined = try await verify(
            office, office.recorder.code, .phoneChange, phone, .change(caller: caller.account.id), session: caller.callerSession)
        #expect(joined.account.phone?.text == "+491512345678")
        #expect(joined.account.phoneConfirmedAt != nil)
        try await office.codes.send(.sms, to: phone, .holders, caller: office.caller)
        #expect(office.recorder.sent.last?.recipient == phone)
        let signedIn = try await verify(office, office.recorder.code, .sms, phone, .signIn(caller: nil))
        #expect(signedIn.account.id == caller.account.id)
        #expect(signedIn.grant.session.id != caller.grant?.session.id)
        let other = try await office.signUp("b@x")
        try await office.codes.send(.phoneChange, to: phone, .anyone, caller: office.caller)
        let refusal = await fault {
            try await verify(
                office, office.recorder.code, .phoneChange, phone, .change(caller: other.account.id), session: other.callerSession)
        }
        #expect(refusal == CodeRefusal.contact(.taken))
    }

    @Test func threeCodesInARowPass() async throws {
        let office = try AccountsFixture()
        let recipient = try email("a@x")
        for _ in 0..<3 { try await office.codes.send(.link, to: recipient, .anyone, caller: office.caller) }
        var sent = 3
        while await fault({ try await office.codes.send(.link, to: recipient, .anyone, caller: office.caller) }) == nil { sent += 1 }
        #expect(sent < 10)
    }
}
