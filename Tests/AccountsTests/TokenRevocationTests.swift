import Accounts
import Credentials
import MemoryStore
import Storage
import Testing
import Wire

/// Sign-out by a token (RFC 7009).
@Suite struct TokenRevocationTests {
    private let office: AccountsFixture

    init() throws { office = try AccountsFixture() }

    private func revoke(
        _ token: String, _ accessToken: RevokedAccessToken = .none, sessions: Sessions? = nil, caller: Caller? = nil
    ) async throws -> Revocation {
        let revocation = TokenRevocation(sessions: sessions ?? office.sessions, limiter: office.limiter)
        return try await revocation.revoke(token, caller: caller ?? office.caller) { _ in accessToken }
    }

    private func isOpen(_ signedIn: SignedIn) async throws -> Bool { try await office.sessions.open(signedIn.callerSession) != nil }

    @Test(arguments: [ContractID.dlauth, .provider, .password, .anonymous])
    func aRefreshTokenEndsItsSessionAlone(_ contract: ContractID) async throws {
        let ada = try await office.signUp("ada@x.org", contract: contract)
        let other = try await office.signIn("ada@x.org", "password123", contract: contract)
        let refresh = try #require(ada.grant?.tokens.refresh)
        #expect(try await revoke(refresh) == .ended)
        #expect(try await !isOpen(ada))
        #expect(try await isOpen(other))
        #expect(await office.recorder.ended.map(\.reason) == [.signOut])
        // The second time nothing is left to do.
        #expect(try await revoke(refresh) == .ended)
        #expect(await office.recorder.ended.count == 1)
    }

    /// The client of a lost answer holds the token before; presenting it is no reuse.
    @Test func aSpentRefreshTokenEndsItsSession() async throws {
        let ada = try await office.signUp("ada@x.org")
        let first = try #require(ada.grant?.tokens.refresh)
        let second = try await office.sessions.refresh(first, contract: .dlauth, caller: office.caller)
        _ = try await office.sessions.refresh(try #require(second.grant.tokens.refresh), contract: .dlauth, caller: office.caller)
        #expect(try await revoke(first) == .ended)
        #expect(try await !isOpen(ada))
        #expect(await office.recorder.ended.map(\.reason) == [.signOut])
    }

    /// A thief of both tokens does not sign the owner out.
    @Test func aSessionOfADeviceIsEndedByItsKeyAlone() async throws {
        let ada = try await office.signUp("ada@x.org", contract: .password)
        let refresh = try #require(ada.grant?.tokens.refresh)
        var (device, thief) = (office.caller, office.caller)
        (device.deviceKey, thief.deviceKey) = (
            KeyThumbprint(bytes: .init(repeating: 1, count: 32)), KeyThumbprint(bytes: .init(repeating: 2, count: 32))
        )
        _ = try await office.sessions.refresh(refresh, contract: .password, caller: device)
        for caller in [office.caller, thief] {
            #expect(try await revoke(refresh, caller: caller) == .unproven)
            #expect(try await revoke("a", .ofSession(ada.callerSession), caller: caller) == .unproven)
        }
        #expect(try await isOpen(ada))
        #expect(try await revoke(refresh, caller: device) == .ended)
        #expect(try await !isOpen(ada))
    }

    @Test func anAccessTokenEndsItsSession() async throws {
        let ada = try await office.signUp("ada@x.org")
        #expect(try await revoke("a", .ofSession(ada.callerSession)) == .ended)
        #expect(try await !isOpen(ada))
        #expect(try await revoke("a", .ofSession(ada.callerSession)) == .ended)
    }

    @Test func whatIsNoTokenOfOursEndsNothing() async throws {
        let ada = try await office.signUp("ada@x.org", contract: .password)
        let refresh = try #require(ada.grant?.tokens.refresh)
        let forged = String(refresh.dropLast(4)) + "AAAA"
        for text in ["", "x", "v1.x", "a.b.c", forged, try #require(ada.grant?.tokens.access)] {
            #expect(try await revoke(text) == .unknown)
        }
        #expect(try await revoke("minted", .withoutSession) == .unsupported)
        #expect(try await isOpen(ada))
        // A refresh token that is a JWT expires.
        office.clock.advance(seconds: 31 * 86_400)
        #expect(try await revoke(refresh) == .unknown)
    }

    @Test func onlyWhatIsNoTokenCountsAgainstTheAddress() async throws {
        let ada = try await office.signUp("ada@x.org")
        let refresh = try #require(ada.grant?.tokens.refresh)
        for _ in 0..<3 { _ = try await revoke(refresh) }
        _ = try await revoke("minted", .withoutSession)
        #expect(office.limiter.counted(.addressRevocations) == 0)
        let most = StrictLimiter.rates[.addressRevocations].burst
        for _ in 0..<most { _ = try await revoke("x") }
        #expect(office.limiter.counted(.addressRevocations) == most)
        #expect(await fault { try await revoke("x") } == AccountFailure.tooManyAttempts(retryAfterSeconds: 20))
        // Tokens of the gateway's own are no guesses, so those of others behind the same address still count.
        let access = try await office.signIn("ada@x.org", "password123")
        #expect(try await revoke("a", .ofSession(access.callerSession)) == .ended)
        let bob = try await office.signUp("bob@x.org", contract: .password)
        #expect(try await revoke(try #require(bob.grant?.tokens.refresh)) == .ended)
        for signedIn in [access, bob] { #expect(try await !isOpen(signedIn)) }
        #expect(try await revoke("minted", .withoutSession) == .unsupported)
        // One that only looks like a token of the gateway is a guess.
        #expect(
            await fault { try await revoke("v1." + refresh.dropFirst(3).reversed()) }
                == AccountFailure.tooManyAttempts(retryAfterSeconds: 20))
        // Guesses at passwords have a count of their own.
        #expect(office.limiter.counted(.addressFailures) == 0)
    }

    /// An app that holds its old issuer's refresh token signs out by it.
    @Test func anOutsideRefreshTokenEndsTheSessionThatItWasExchangedFor() async throws {
        let key = IdentityKey(IdentitySource(stored: "django"), stored: "7")
        let outside = OutsideRefresh(secret: AccountsFixture.secret, limiter: office.limiter) { token, _, _ in
            token == "old" ? .subject(key) : .refused
        }
        let sessions = Sessions(context: office.context, mint: office.mint, outside: outside)
        var account = ImportedAccount()
        account.identities = [key]
        let user = try await office.administration.create(account).id
        let granted = try await sessions.refresh("old", contract: .password, caller: office.caller)
        // Its opening was no sign-in, so its tokens do not say when there was one.
        #expect(granted.grant.session.signedInAt == nil)
        guard case .success(let token) = office.verified(granted.grant.tokens.access) else { return #expect(Bool(false)) }
        #expect(token.authenticatedAt == nil)
        #expect(try await revoke("never seen", sessions: sessions) == .unknown)
        #expect(try await revoke("old", sessions: sessions) == .ended)
        #expect(try await office.directory.sessions(of: user).isEmpty)
    }

    @Test func accessTokensSayWhenTheirUserSignedIn() async throws {
        let ada = try await office.signUp("ada@x.org")
        let signedInAt = office.clock.now.seconds
        var refresh = try #require(ada.grant?.tokens.refresh)
        for _ in 0..<3 {
            office.clock.advance(seconds: 1_000)
            let granted = try await office.sessions.refresh(refresh, contract: .dlauth, caller: office.caller)
            refresh = try #require(granted.grant.tokens.refresh)
            guard case .success(let token) = office.verified(granted.grant.tokens.access) else { return #expect(Bool(false)) }
            #expect(token.authenticatedAt == signedInAt && token.issuedAt == office.clock.now.seconds)
        }
        let again = try await office.signIn("ada@x.org", "password123")
        guard case .success(let token) = office.verified(try #require(again.grant?.tokens.access)) else { return #expect(Bool(false)) }
        #expect(token.authenticatedAt == office.clock.now.seconds)
    }
}
