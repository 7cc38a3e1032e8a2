import Credentials
import Storage
import Testing
import Wire

@testable import Accounts

/// Which users must have signed in lately.
@Suite struct RecentSignInTests {
    /// A user who cannot sign in again, since the configuration has passkeys no more, must be able to add another way.
    @Test func aUserWhosePasskeysAreOffNeedNotSignInAgain() async throws {
        let office = try AccountsFixture()
        let user = office.context.newID(office.clock.now)
        let passkey = Passkey(
            credentialID: [1], user: user, publicKey: [], algorithm: .ES256, signCount: 0, isBackupEligible: false, isBackedUp: false,
            aaguid: user, transports: [], name: "Phone", createdAt: office.clock.now)
        let opened = try await office.store.open(
            NewAccount(id: user, openedBy: .dlauth), with: passkey,
            spending: SpentProof(digest: [1], endsAt: office.clock.now.advanced(seconds: 300)),
            session: office.context.newSession(.dlauth, office.caller, office.clock.now), office.context.audit(office.caller)
        )
        .get()
        let caller = CallerSession(user: user, session: try #require(opened.session).id)
        var without = office.context
        without.ways.passkeys = false
        try await office.sessions.requireRecentSignIn(caller)
        office.clock.advance(seconds: Session.recentSeconds)
        let refusal = await fault { try await office.sessions.requireRecentSignIn(caller) }
        #expect(refusal == RecencyRefusal.notRecent(maxAge: 600))
        try await Sessions(context: without, mint: office.mint).requireRecentSignIn(caller)
    }

    /// Each way counts if a contract offers it.
    @Test func aWayThatNoContractOffersIsNoSignIn() throws {
        var account = NewAccount(id: UUID(high: 0, low: 1), openedBy: .dlauth).account(now: WallTime(seconds: 0))
        account.passkeys = 1
        var ways = SignInWays(passwords: true, emails: true, phones: true)
        #expect(account.hasSignIn([], ways))
        ways.passkeys = false
        #expect(!account.hasSignIn([], ways))
        (account.email, account.hasPassword) = (try EmailAddress("a@x"), true)
        #expect(account.hasSignIn([], ways))
        ways.passwords = false
        #expect(!account.hasSignIn([], ways), "the email is not proven")
        account.emailConfirmedAt = WallTime(seconds: 0)
        #expect(account.hasSignIn([], ways))
        ways.emails = false
        #expect(!account.hasSignIn([], ways))
    }
}
