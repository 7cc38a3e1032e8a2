import Credentials
import MemoryStore
import Storage
import Synchronization
import Testing
import Wire

@testable import Accounts

/// Leaving, and what it asks of Apple.
@Suite struct LeavingTests {
    /// Apple's server: it answers as it is told to.
    private final class ScriptedApple: AppleTokens {
        let fault = Mutex<AppleTokenFault?>(nil)
        let calls = Mutex<[String]>([])
        let whenAsked = Mutex<@Sendable () -> Void>({})

        func redeem(code: String, client: String) async throws(AppleTokenFault) -> String {
            try note("redeem \(code) of \(client)")
            return "refresh of \(code)"
        }

        func revoke(token: String, client: String) async throws(AppleTokenFault) { try note("revoke \(token) of \(client)") }

        private func note(_ call: String) throws(AppleTokenFault) {
            calls.withLock { $0.append(call) }
            whenAsked.withLock { $0 }()
            if let fault = fault.withLock({ $0 }) { throw fault }
        }

        var news: [String] {
            calls.withLock { calls in
                defer { calls = [] }; return calls
            }
        }
    }

    private let office: AccountsFixture
    private let apple = ScriptedApple()
    private let vault = AppleVault(secret: AccountsFixture.secret, clients: ["app"])

    init() throws {
        office = try AccountsFixture()
        office.providers.offer(.apple, keys: KeySet([office.providers.key.verificationKey]))
    }

    private var rounds: LeavingRounds {
        LeavingRounds(context: office.context) { [apple, vault] in AppleDesk(tokens: apple, vault: vault) }
    }

    private func signIn(code: String?, vault: AppleVault? = nil, guest: CallerSession? = nil) async throws -> SignedIn {
        let token = try office.providers.token(.apple, subject: "1", at: office.clock.now)
        var request = ProviderSignIn.Request(provider: .apple, idToken: token)
        (request.authorizationCode, request.guest) = (code, guest)
        return try await provider(vault).signIn(request, contract: .apple, caller: office.caller)
    }

    private func provider(_ vault: AppleVault? = nil) -> ProviderSignIn {
        ProviderSignIn(
            context: office.context, mint: office.mint, keys: office.providers, limiter: office.limiter, vault: vault ?? self.vault)
    }

    private func leave(_ signedIn: SignedIn, _ rule: DeletionRule = DeletionRule()) async throws -> WallTime? {
        let session = CallerSession(user: signedIn.account.id, session: try #require(signedIn.grant).session.id)
        return try await Leaving(context: office.context, rule: rule).leave(session, caller: office.caller)
    }

    @Test func aCodeIsExchangedAfterTheSignInAndItsTokenRevokedAtTheDeletion() async throws {
        let signedIn = try await signIn(code: "c1")
        #expect(apple.news == [], "Apple delays no sign-in")
        await rounds.round()
        #expect(apple.news == ["redeem c1 of app"])
        await rounds.round()
        #expect(apple.news == [])
        #expect(try await leave(signedIn) == nil)
        await rounds.round()
        #expect(apple.news == ["revoke refresh of c1 of app"])
        await rounds.round()
        #expect(apple.news == [])
        #expect(office.recorder.notices == [.outgoing(.appleTokens, .exchanged, 1), .outgoing(.appleTokens, .revoked, 1)])
    }

    /// However the identity comes to the account.
    @Test(arguments: [true, false])
    func aCodeOfALinkOrOfAGuestIsExchangedToo(_ isLink: Bool) async throws {
        let anonymous = AnonymousAccounts(context: office.context, mint: office.mint, limiter: office.limiter)
        let opened = try await anonymous.open(contract: .anonymous, caller: office.caller)
        let guest = CallerSession(user: opened.account.id, session: opened.grant.session.id)
        if isLink {
            var request = ProviderSignIn.Request(
                provider: .apple, idToken: try office.providers.token(.apple, subject: "1", at: office.clock.now))
            request.authorizationCode = "c1"
            _ = try await provider().link(request, to: guest, caller: office.caller)
        } else {
            #expect(try await signIn(code: "c1", guest: guest).account.id == guest.user)
        }
        await rounds.round()
        _ = try await Leaving(context: office.context, rule: DeletionRule()).leave(guest, caller: office.caller)
        await rounds.round()
        #expect(apple.news == ["redeem c1 of app", "revoke refresh of c1 of app"])
    }

    /// Apple takes a code once: what it gave is kept as soon as the store is back.
    @Test(arguments: [4, 5])
    func aTokenThatTheStoreDoesNotTakeIsWrittenAgain(_ failures: Int) async throws {
        let signedIn = try await signIn(code: "c1")
        let store = office.store
        apple.whenAsked.withLock { $0 = { store.fail(Array(repeating: .unavailable("away"), count: failures)) } }
        await rounds.round()
        apple.whenAsked.withLock { $0 = {} }
        apple.fault.withLock { $0 = .refused }
        office.clock.advance(seconds: 60)
        await rounds.round()
        apple.fault.withLock { $0 = nil }
        _ = try await leave(signedIn)
        await rounds.round()
        let isKept = failures < 5
        #expect(apple.news == ["redeem c1 of app", isKept ? "revoke refresh of c1 of app" : "redeem c1 of app"])
        #expect(office.recorder.notices.contains(.outgoing(.appleTokens, .givenUp, 1)) == !isKept)
    }

    @Test func appleIsAskedAgainUntilItAnswers() async throws {
        let signedIn = try await signIn(code: "c1")
        await rounds.round()
        apple.fault.withLock { $0 = .unavailable("down") }
        _ = try await leave(signedIn)
        _ = apple.news
        var asked = 0
        for _ in 0..<29 * 24 {
            await rounds.round()
            asked += apple.news.count
            office.clock.advance(seconds: 3_600)
        }
        #expect((100...140).contains(asked), "\(asked)")
        #expect(office.recorder.notices.contains(.appleAway("down")))
        apple.fault.withLock { $0 = nil }
        for _ in 0..<7 {
            await rounds.round()
            office.clock.advance(seconds: 3_600)
        }
        #expect(apple.news == ["revoke refresh of c1 of app"])
    }

    @Test func aRevocationIsGivenUpAfterThirtyDays() async throws {
        let signedIn = try await signIn(code: "c1")
        await rounds.round()
        apple.fault.withLock { $0 = .unavailable("down") }
        _ = try await leave(signedIn)
        office.clock.advance(seconds: AppleToken.revocationSeconds)
        // Also if the key was taken away.
        await LeavingRounds(context: office.context).round()
        #expect(office.recorder.notices == [.outgoing(.appleTokens, .exchanged, 1), .outgoing(.appleTokens, .givenUp, 1)])
    }

    @Test func anExchangeThatIsUnderWayAtTheEndIsKept() async throws {
        let signedIn = try await signIn(code: "c1")
        let rounds = self.rounds
        apple.whenAsked.withLock { $0 = { rounds.stop() } }
        rounds.start()
        await rounds.ended()
        _ = try await leave(signedIn)
        await rounds.round()
        #expect(apple.news == ["redeem c1 of app", "revoke refresh of c1 of app"])
    }

    /// Apple has taken it the first time.
    @Test func aCodeThatIsRefusedAtTheSecondTryIsLost() async throws {
        _ = try await signIn(code: "c1")
        for fault in [AppleTokenFault.unavailable("down"), .refused] {
            apple.fault.withLock { $0 = fault }
            await rounds.round()
            office.clock.advance(seconds: 60)
        }
        #expect(office.recorder.notices == [.appleAway("down"), .outgoing(.appleTokens, .givenUp, 1)])
    }

    @Test func whatAppleDoesNotKnowIsDropped() async throws {
        let signedIn = try await signIn(code: "forged")
        apple.fault.withLock { $0 = .refused }
        await rounds.round()
        _ = try await leave(signedIn)
        await rounds.round()
        #expect(apple.news == ["redeem forged of app"] && office.recorder.notices == [])
    }

    @Test func aCodeThatCannotBeApplesIsIgnored() async throws {
        for code in ["", String(repeating: "c", count: 1_025)] { _ = try await signIn(code: code) }
        _ = try await signIn(code: "c1", vault: AppleVault(secret: AccountsFixture.secret, clients: ["other"]))
        _ = try await signIn(code: nil)
        await rounds.round()
        #expect(apple.news == [])
        // Sealed with another secret.
        _ = try await signIn(code: "c1", vault: AppleVault(secret: [1, 2, 3], clients: ["app"]))
        await rounds.round()
        #expect(apple.news == [] && office.recorder.notices == [.appleAway("a token was sealed with another secret")])
    }

    @Test func closedAccountsAreErasedWhenTheirTimeComes() async throws {
        let signedIn = try await signIn(code: nil)
        let end = try #require(try await leave(signedIn, DeletionRule(graceSeconds: 100)))
        #expect(end == office.clock.now.advanced(seconds: 100))
        office.clock.advance(seconds: 99)
        await rounds.round()
        #expect(try await office.store.account(signedIn.account.id) != nil)
        office.clock.advance(seconds: 1)
        office.store.fail([.unavailable("away")])
        await rounds.round()
        #expect(try await office.store.account(signedIn.account.id) != nil)
        await rounds.round()
        #expect(try await office.store.account(signedIn.account.id) == nil)
    }

    /// Accounts whose time has come.
    private func closed(_ count: Int) async throws -> [UUID] {
        var users: [UUID] = []
        for number in 0..<UInt64(count) {
            let user = UUID(high: 7, low: number)
            let account = NewAccount(id: user, openedBy: .dlauth, email: try EmailAddress("u\(number)@x"), passwordHash: "hash")
            let session = NewSession(id: UUID(high: 8, low: number), contract: .dlauth, device: nil)
            let audit = office.context.audit(by: .user)
            _ = try await office.store.open(account, session: session, audit)
            _ = try await office.store.leave(CallerSession(user: user, session: session.id), DeletionRule(graceSeconds: 1), audit)
            users.append(user)
        }
        office.clock.advance(seconds: 1)
        return users
    }

    private func left(of users: [UUID]) async throws -> Int {
        var left = 0
        for user in users where try await office.store.account(user) != nil { left += 1 }
        return left
    }

    /// Nor is Apple's token held up, whatever the erasure threw.
    @Test func accountsThatCannotBeErasedHoldUpNoOtherOne() async throws {
        let (users, store) = (try await closed(102), office.store)
        _ = try await signIn(code: "c1")
        store.fail([.unavailable("away")])
        await rounds.round()
        #expect(try await left(of: users) == 102)
        #expect(apple.news == ["redeem c1 of app"])
        store.afterNextCall { store.fail((0..<100).map { $0 % 2 == 0 ? .busy("its row is locked") : .failed("broken") }) }
        await rounds.round()
        #expect(try await left(of: users) == 100)
        await rounds.round()
        #expect(try await left(of: users) == 0)
    }

    @Test func aForgerOfNotificationsFillsTheBucketOfItsAddress() async throws {
        let notices = AppleNotices(
            context: office.context, keys: office.providers, limiter: office.limiter,
            ways: SignInWays(passwords: true, emails: true, phones: true), rule: DeletionRule())
        let forged = try office.providers.token(.apple, subject: "1", at: office.clock.now, key: try SigningKey.generate(.ES256))
        let burst = Int(StrictLimiter.rates[.addressFailures].burst)
        for attempt in 0...burst {
            let fault: AccountError<NoticeRefusal> =
                attempt < burst ? .refused(.notAuthentic) : .failed(.tooManyAttempts(retryAfterSeconds: 20))
            await #expect(throws: fault) { try await notices.take(forged, caller: office.caller) }
        }
        #expect(office.providers.refetches == burst)
        let other = Caller(address: IPAddress(parsing: "192.0.2.8"), device: nil)
        await #expect(throws: AccountError<NoticeRefusal>.refused(.notAuthentic)) { try await notices.take(forged, caller: other) }
    }

    @Test func nothingIsSentToARelayAddressThatIsOff() async throws {
        let relay = "z@privaterelay.appleid.com"
        let token = try office.providers.token(.apple, subject: "1", email: relay, at: office.clock.now)
        _ = try await office.provider.signIn(
            ProviderSignIn.Request(provider: .apple, idToken: token), contract: .apple, caller: office.caller)
        let notices = AppleNotices(
            context: office.context, keys: office.providers, limiter: office.limiter,
            ways: SignInWays(passwords: true, emails: true, phones: true), rule: DeletionRule())
        let email = try EmailAddress(relay)
        for (type, sent) in [("email-disabled", 0), ("email-enabled", 2), ("a-new-kind", 4)] {
            office.clock.advance(seconds: 3_600)
            var claims = TokenClaims(
                issuer: "https://apple.test", audience: "app", subject: "", issuedAt: office.clock.now.seconds, expiresAt: 0)
            let event = #"{"type":"\#(type)","sub":"1","email":"\#(relay)","event_time":\#(office.clock.now.seconds)}"#
            _ = claims.add("events", .string(event))
            try await notices.take(try office.providers.key.issue(claims), caller: office.caller)
            try await office.codes.send(.recovery, to: .email(email), .holders, caller: office.caller)
            try await office.reset.forgot(email, caller: office.caller)
            #expect(office.recorder.sent.count == sent, "\(type)")
        }
        #expect(office.limiter.counted(.addressFailures) == 0)
    }
}
