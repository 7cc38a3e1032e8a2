import Accounts
import Credentials
import MemoryStore
import Storage
import Synchronization
import Testing
import Wire

/// Refresh tokens of an outside issuer, exchanged for sessions here.
@Suite struct OutsideSessionTests {
    /// An outside issuer that answers as the test says, and counts.
    private final class Issuer: Sendable {
        private let answers = Mutex<[String: OutsideRefresh.Outcome]>([:])
        private let asked = Mutex<[String]>([])

        func say(_ outcome: OutsideRefresh.Outcome, to token: String) { answers.withLock { $0[token] = outcome } }
        var questions: [String] { asked.withLock { $0 } }

        func redeem(_ token: String) -> OutsideRefresh.Outcome {
            asked.withLock { $0.append(token) }
            return answers.withLock { $0[token] } ?? .refused
        }
    }

    private let office: AccountsFixture
    private let issuer = Issuer()
    private let key = IdentityKey(IdentitySource(stored: "django"), stored: "7")

    init() throws { office = try AccountsFixture() }

    private var sessions: Sessions {
        let issuer = issuer
        let outside = OutsideRefresh(secret: AccountsFixture.secret, limiter: office.limiter) { token, _, _ in issuer.redeem(token) }
        return Sessions(context: office.context, mint: office.mint, outside: outside)
    }

    private func add() async throws -> UUID {
        var account = ImportedAccount()
        account.identities = [key]
        return try await office.administration.create(account).id
    }

    private func refresh(_ token: String, _ contract: ContractID = .dlauth) async throws -> Sessions.Granted {
        try await sessions.refresh(token, contract: contract, caller: office.caller)
    }

    @Test func theNextRefreshIsOurs() async throws {
        let user = try await add()
        issuer.say(.subject(key), to: "old")
        let first = try await refresh("old")
        #expect(first.account.id == user && first.grant.session.contract == .dlauth)
        let second = try await refresh(try #require(first.grant.tokens.refresh))
        #expect(second.grant.session.id == first.grant.session.id && second.grant.session.counter == 2)
        #expect(issuer.questions == ["old"])
        #expect(try await office.directory.sessions(of: user).count == 1)
    }

    /// An issuer that answers 429 judges nothing; made-up tokens must not reach it without bound then.
    @Test func whatTheIssuerDoesNotJudgeCountsForItsAddress() async throws {
        for number in 0..<200 {
            issuer.say(.unavailable(retryAfterSeconds: 1), to: "made up \(number)")
            _ = try? await refresh("made up \(number)")
        }
        #expect(issuer.questions.count == 150)
        let other = Caller(address: IPAddress(parsing: "203.0.113.9"), device: nil)
        issuer.say(.unavailable(retryAfterSeconds: 1), to: "other")
        _ = try? await sessions.refresh("other", contract: .dlauth, caller: other)
        #expect(issuer.questions.last == "other")
        #expect(office.limiter.counted(.addressFailures) == 0)
    }

    /// An issuer that has said when it wants to be asked again got none of these.
    @Test func whatAPausedIssuerDoesNotGetIsNotCounted() async throws {
        issuer.say(.paused(retryAfterSeconds: 7), to: "old")
        for _ in 0..<200 { #expect(await fault { try await refresh("old") } == AccountFailure.unavailable(retryAfterSeconds: 7)) }
        #expect(office.limiter.counted(.addressUnjudged) == 0 && office.limiter.counted(.addressFailures) == 0)
    }

    /// An answer that the app did not get is given again, without asking the issuer, which may have spent the token.
    @Test func aLostAnswerIsGivenAgain() async throws {
        _ = try await add()
        issuer.say(.subject(key), to: "old")
        let first = try await refresh("old")
        issuer.say(.refused, to: "old")
        let again = try await refresh("old")
        #expect(again.grant.tokens.refresh == first.grant.tokens.refresh && again.grant.session == first.grant.session)
        #expect(issuer.questions == ["old"])
    }

    /// Apps of `password` keep the refresh token that they have.
    @Test func inAContractThatDoesNotRotateTheOldTokenNamesTheSessionFromThenOn() async throws {
        let user = try await add()
        issuer.say(.subject(key), to: "old")
        let first = try await refresh("old", .password)
        try await sessions.confirm([ConfirmedPair(session: first.grant.session.id, counter: 1)])
        office.clock.advance(seconds: 20 * 86_400)
        #expect(try await refresh("old", .password).grant.session.id == first.grant.session.id)
        office.clock.advance(seconds: 11 * 86_400)
        #expect(await fault { try await refresh("old", .password) } == RefreshTokenRefusal.expired)
        #expect(issuer.questions == ["old"])
        #expect(try await office.directory.sessions(of: user).isEmpty)
    }

    @Test func aSpentTokenThatComesBackLaterEndsTheSession() async throws {
        _ = try await add()
        issuer.say(.subject(key), to: "old")
        let first = try await refresh("old")
        try await sessions.confirm([ConfirmedPair(session: first.grant.session.id, counter: 1)])
        office.clock.advance(seconds: 31)
        #expect(await fault { try await refresh("old") } == RefreshTokenRefusal.invalid)
        #expect(await office.recorder.ended.map(\.reason) == [.refreshReuse])
        #expect(await fault { try await refresh(first.grant.tokens.refresh ?? "") } == RefreshTokenRefusal.invalid)
        #expect(issuer.questions == ["old"])
    }

    @Test func aRefusalIsOneAndAnIssuerThatIsDownIsNone() async throws {
        _ = try await add()
        #expect(await fault { try await refresh("spent") } == RefreshTokenRefusal.invalid)
        issuer.say(.unavailable(retryAfterSeconds: 3), to: "old")
        #expect(await fault { try await refresh("old") } == AccountFailure.unavailable(retryAfterSeconds: 3))
        issuer.say(.subject(IdentityKey(key.source, stored: "8")), to: "stranger")
        #expect(await fault { try await refresh("stranger") } == RefreshTokenRefusal.invalid)
        #expect(office.limiter.counted(.addressFailures) == 1)
    }

    /// A 429 would have the app sign its user out.
    @Test func anAddressWithTooManyRefusedTokensIsToldToWait() async throws {
        var failures = 0
        while true {
            let error = await fault { try await refresh("guess") }
            if error == AccountFailure.overloaded(retryAfterSeconds: 20) { break }
            #expect(error == RefreshTokenRefusal.invalid)
            failures += 1
            guard failures < 1_000 else { return #expect(Bool(false), "no end of guesses") }
        }
        #expect(issuer.questions.count == failures)
    }

    @Test func tokensOfOursAreShownToNoIssuer() async throws {
        let signedIn = try await office.signUp("a@x", contract: .password)
        let jwt = try #require(signedIn.grant?.tokens.refresh)
        let opaque = try #require(try await office.signUp("b@x").grant?.tokens.refresh)
        for token in [jwt, opaque, "v1.forged"] {
            #expect(await fault { try await refresh(token, .provider) } == RefreshTokenRefusal.invalid)
        }
        office.clock.advance(seconds: 31 * 86_400)
        #expect(await fault { try await refresh(jwt, .password) } == RefreshTokenRefusal.expired)
        #expect(await fault { try await refresh(jwt, .dlauth) } == RefreshTokenRefusal.invalid)
        #expect(issuer.questions.isEmpty)
    }

    @Test func aTokenOfAnotherContractIsRefusedAndItsSessionUnharmed() async throws {
        _ = try await add()
        issuer.say(.subject(key), to: "old")
        let first = try await refresh("old")
        #expect(await fault { try await refresh("old", .provider) } == RefreshTokenRefusal.invalid)
        #expect(try await refresh("old").grant.session == first.grant.session)
    }

    @Test func signingOutEndsBothTokens() async throws {
        let user = try await add()
        issuer.say(.subject(key), to: "old")
        let token = OutsideToken(user: user, id: UUID(high: 1, low: 2), expiresAt: office.clock.now.seconds + 600)
        try await sessions.signOut(token, refreshToken: "old", caller: office.caller)
        #expect(await office.recorder.ended.map(\.id) == [token.id])
        #expect(await fault { try await refresh("old") } == RefreshTokenRefusal.invalid)
        #expect(issuer.questions.isEmpty)
    }

    @Test func noStoreNoQuestion() async throws {
        office.store.fail(Array(repeating: .unavailable("away"), count: 100))
        #expect(await fault { try await refresh("old") } == AccountFailure.unavailable(retryAfterSeconds: 1))
        #expect(issuer.questions.isEmpty)
    }

    @Test func anAccountThatIsDeletedMeanwhileGetsNoSession() async throws {
        let user = try await add()
        issuer.say(.subject(key), to: "old")
        let first = try await refresh("old")
        _ = try await office.administration.delete(user)
        for token in ["old", first.grant.tokens.refresh ?? "", "another"] {
            issuer.say(.subject(key), to: "another")
            #expect(await fault { try await refresh(token) } == RefreshTokenRefusal.invalid)
        }
        #expect(try await office.directory.accounts().isEmpty)
    }

    /// A payment service names the user as the old service did, also after the old sessions have ended: a second account would
    /// leave the first without its tier.
    @Test func aTierThatIsSetForAnIdIsThatOfTheImportedAccount() async throws {
        var line = ImportedAccount()
        line.id = UUID(high: 0x0193_a1b2_0000_7000, low: 0x8000_0000_0000_0001)
        let ada = try await office.administration.create(line).id
        let key = IdentityKey(IdentitySource(stored: "django"), stored: ada.text)
        #expect(try await office.administration.setTier("premium", until: nil, of: key, allowsAccountID: true).id == ada)
        _ = try await office.administration.revoke(ada)
        #expect(try await office.directory.subject(key) == .refused)
        #expect(try await office.administration.setTier("gold", until: nil, of: key, allowsAccountID: true).id == ada)
        #expect(try await office.directory.account(of: key, allowsAccountID: true)?.entitlement.tier == "gold")
        #expect(try await office.directory.account(of: key) == nil)
        #expect(try await office.directory.accounts().map(\.id) == [ada])
    }

    /// An account that was opened here is not the issuer's, whatever its subjects are.
    @Test func aSubjectThatIsTheIdOfAnAccountOfOursIsAnother() async throws {
        let own = try await office.signUp("a@x").account.id
        let key = IdentityKey(IdentitySource(stored: "django"), stored: own.text)
        #expect(try await office.directory.account(of: key, allowsAccountID: true) == nil)
        #expect(try await office.administration.setTier("premium", until: nil, of: key, allowsAccountID: true).id != own)
        #expect(try await office.directory.standing(of: own)?.entitlement == Entitlement.none)
    }
}
