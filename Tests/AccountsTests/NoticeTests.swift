import Credentials
import MemoryStore
import Testing
import Wire

@testable import Accounts
@testable import Storage

/// Mails that tell of changes, and the way back to a former email.
@Suite struct NoticeTests {
    private func notices(_ office: AccountsFixture) -> Notices {
        Notices(context: office.context, courier: office.recorder, limiter: office.limiter, secret: AccountsFixture.secret)
    }

    /// An account with a proven email.
    private func proven(_ office: AccountsFixture, _ text: String) async throws -> Sessions.Granted {
        _ = try await office.signUp(text)
        let recipient = Recipient.email(try EmailAddress(text))
        try await office.codes.send(.signUp, to: recipient, .holders, caller: office.caller)
        return try await office.codes.verify(
            office.recorder.code, .email, of: recipient, for: .signIn(caller: nil), contract: .dlauth, session: nil, caller: office.caller)
    }

    private func told(_ office: AccountsFixture) -> [Notice] {
        office.recorder.sent.compactMap { if case .notice(let notice, _) = $0.content { notice } else { nil } }
    }

    /// A gateway that ends between the commit and the mail, or before the mail server has it, loses none.
    @Test func aNoticeIsSentUntilItIsSettled() async throws {
        let office = try AccountsFixture(notices: [.password])
        let notices = notices(office)
        let ada = try await proven(office, "a@x")
        _ = try await office.passwords.changePassword(
            to: try Password("another password"), rules: .length, session: ada.callerSession, caller: office.caller)
        #expect(told(office).isEmpty)
        try await notices.sendDue()
        try await notices.sendDue()
        let notice = try #require(told(office).first)
        #expect(told(office).count == 1 && notice.kind == .passwordChanged && notice.recipient.text == "a@x")
        office.clock.advance(seconds: OutgoingSchedule.notices.pauses[0])
        try await notices.sendDue()
        #expect(told(office) == [notice, notice])
        office.recorder.settle(notice.id)
        office.store.fail([.unavailable("away")])
        #expect(await fault { try await notices.sendDue() } == AccountFailure.unavailable(retryAfterSeconds: 1))
        #expect(office.recorder.settledNotices == [notice.id], "the store does not know it yet")
        try await notices.sendDue()
        #expect(office.recorder.settledNotices.isEmpty)
        office.clock.advance(seconds: OutgoingSchedule.notices.pauses[0])
        try await notices.sendDue()
        #expect(told(office).count == 2)
    }

    /// Where any notice is sent; of their own changes users are told where the setting names the factor.
    @Test func aResetOfTheSecondFactorIsToldWhateverIsNamed() async throws {
        let office = try AccountsFixture(notices: [.password])
        let ada = try await proven(office, "a@x")
        var context = AccountContext(
            store: office.store, clock: office.clock.accountClock, random: { [UInt8](repeating: 1, count: $0) }, notice: { _ in })
        context.notices = [.password]
        let factors = Factors(
            context: context, sessions: office.sessions, limiter: office.limiter, secret: AccountsFixture.secret, issuer: "App")
        _ = try await factors.enrol(ada.callerSession, by: office.caller)
        let secret = [UInt8](repeating: 1, count: OneTimePassword.secretBytes)
        let code = OneTimePassword.code(of: secret, step: office.clock.now.seconds / 30)
        try await factors.prove(code, enrols: true, ada.callerSession, by: office.caller)
        try await notices(office).sendDue()
        #expect(told(office).isEmpty)
        #expect(try await office.administration.resetFactors(ada.account.id))
        try await notices(office).sendDue()
        #expect(told(office).map(\.kind) == [.factorRemoved])
    }

    @Test func theUserIsToldOfAPasskeyThatTheOperatorRemoves() async throws {
        let office = try AccountsFixture()
        let ada = try await proven(office, "a@x")
        let passkey = Passkey(
            credentialID: [1], user: ada.account.id, publicKey: [], algorithm: .ES256, signCount: 0, isBackupEligible: false,
            isBackedUp: false, aaguid: ada.account.id, transports: [], name: "Ada's phone", createdAt: office.clock.now)
        let proof = SpentProof(digest: [1], endsAt: office.clock.now.advanced(seconds: 300))
        _ = try await office.store.add(passkey, by: ada.callerSession, spending: proof, office.context.audit(office.caller)).get()
        #expect(try await office.administration.removePasskey([2], of: ada.account.id) == false)
        #expect(try await office.administration.removePasskey([1], of: ada.account.id))
        try await notices(office).sendDue()
        #expect(told(office).map(\.kind) == [.passkeyRemoved] && told(office).first?.recipient.text == "a@x")
    }

    @Test func aFormerEmailTakesItsAccountBack() async throws {
        let office = try AccountsFixture(notices: [.email])
        let notices = notices(office)
        let ada = try await proven(office, "a@x")
        let recipient = Recipient.email(try EmailAddress("b@x"))
        try await office.codes.send(.emailChange, to: recipient, .anyone, caller: office.caller)
        _ = try await office.codes.verify(
            office.recorder.code, .emailChange, of: recipient, for: .change(caller: ada.account.id), contract: .dlauth,
            session: ada.callerSession, caller: office.caller)
        try await notices.sendDue()
        let sent = office.recorder.sent.suffix(2)
        #expect(sent.map(\.recipient.key) == ["a@x", "b@x"])
        guard case .notice(_, let token?)? = sent.first?.content, case .notice(_, nil)? = sent.last?.content else {
            return #expect(Bool(false), "\(sent)")
        }
        #expect(try await notices.leadsBack(token))
        // A random token has every beginning and end at times.
        let (start, end) = (token.hasPrefix("B") ? "C" : "B", token.hasSuffix("AA") ? "BA" : "AA")
        for wrong in ["", "x", String(token.dropLast()), token + "A", String(token.reversed()), start + token.dropFirst()] {
            #expect(try await !notices.leadsBack(wrong), "\(wrong)")
        }
        #expect(try await notices.takeBack(String(token.dropLast(2)) + end, caller: office.caller) == nil)
        #expect(office.limiter.counted(.addressFailures) == 1, "guesses are limited")
        let back = try #require(try await notices.takeBack(token, caller: office.caller))
        #expect(back.account.email?.text == "a@x" && back.hadPassword)
        #expect(await fault { try await office.sessions.current(ada.callerSession) } == SessionRefusal.sessionEnded)
        #expect(await fault { try await office.signIn("a@x", "password123") } == SignInRefusal.invalidCredentials)
        #expect(try await !notices.leadsBack(token))
        #expect(try await notices.takeBack(token, caller: office.caller) == nil)
        // The password is chosen anew.
        try await office.reset.forgot(try EmailAddress("a@x"), caller: office.caller)
        _ = try await office.reset.reset(
            token: office.recorder.resetToken, to: try Password("password456"), rules: .length, contract: .dlauth, caller: office.caller)
        _ = try await office.signIn("a@x", "password456")
    }

    /// Nothing is sent to a relay address that forwards nothing.
    @Test func aStoppedAddressGetsNoMail() async throws {
        let office = try AccountsFixture(notices: [.password])
        let ada = try await proven(office, "a@x")
        let count = office.recorder.sent.count
        let user = ada.account.id
        _ = try await office.store.database.write { sql throws(SQLFault) in
            try sql.change(.unlogged, "UPDATE accounts SET mail_stopped_at = 1 WHERE id = $1", [.id(user)])
        }
        let recipient = Recipient.email(try EmailAddress("a@x"))
        for audience in [Codes.Audience.holders, .anyone] {
            try await office.codes.send(.email, to: recipient, audience, caller: office.caller)
        }
        try await office.reset.forgot(try EmailAddress("a@x"), caller: office.caller)
        _ = try await office.passwords.changePassword(
            to: try Password("another password"), rules: .length, session: ada.callerSession, caller: office.caller)
        try await notices(office).sendDue()
        #expect(office.recorder.sent.count == count)
    }
}
