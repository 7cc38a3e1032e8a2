import Credentials
import MemoryStore
import Storage
import Testing
import Threads
import Wire

@testable import Accounts

/// Signing in by an ID token.
@Suite struct ProviderTests {
    private func office() throws -> AccountsFixture {
        let office = try AccountsFixture()
        for provider in Provider.documented {
            office.providers.offer(provider, keys: KeySet([office.providers.key.verificationKey]))
        }
        return office
    }

    private func signIn(
        _ office: AccountsFixture, _ provider: Provider = .google, subject: String, email: String? = nil, isVerified: Bool = true,
        name: PersonName? = nil, rule: NameRule = .first, contract: ContractID = .provider
    ) async throws -> SignedIn {
        let token = try office.providers.token(provider, subject: subject, email: email, isVerified: isVerified, at: office.clock.now)
        var request = ProviderSignIn.Request(provider: provider, idToken: token)
        request.name = name
        request.nameRule = rule
        return try await office.provider.signIn(request, contract: contract, caller: office.caller)
    }

    @Test func theAccountIsThatOfProviderAndSubject() async throws {
        let office = try office()
        let first = try await signIn(office, subject: "1", email: "a@x")
        #expect(first.isNew)
        #expect(first.account.email?.text == "a@x")
        #expect(first.account.emailConfirmedAt != nil)
        #expect(first.account.openedBy == .provider)
        let again = try await signIn(office, subject: "1", email: "other@x")
        #expect(!again.isNew)
        #expect(again.account.id == first.account.id)
        #expect(again.account.email?.text == "a@x")
        #expect(try await signIn(office, subject: "2").account.id != first.account.id)
        #expect(try await signIn(office, .apple, subject: "1").account.id != first.account.id)
    }

    /// A valid ID token costs its holder nothing and the store a session each time.
    @Test func oneIdentitySignsInOnlySoOften() async throws {
        let office = try office()
        let most = StrictLimiter.rates[.identitySignIns].burst
        for _ in 0..<most { _ = try await signIn(office, subject: "1") }
        await #expect(throws: AccountError<ProviderRefusal>.failed(.tooManyAttempts(retryAfterSeconds: 20))) {
            try await signIn(office, subject: "1")
        }
        #expect(office.limiter.counted(.addressFailures) == 0, "it is no failure of the address, at which others sign in")
        for provider in Provider.documented { _ = try await signIn(office, provider, subject: "2") }
        _ = try await signIn(office, .apple, subject: "1")
    }

    @Test func theSameVerifiedEmailLinks() async throws {
        let office = try office()
        let google = try await signIn(office, subject: "1", email: "a@x")
        let apple = try await signIn(office, .apple, subject: "9", email: "A@x")
        #expect(apple.account.id == google.account.id)
        #expect(!apple.isNew)
        _ = try await office.sessions.current(google.callerSession)
    }

    @Test func anEmailThatTheProviderDoesNotVouchForLinksNothing() async throws {
        let office = try office()
        let first = try await signIn(office, subject: "1", email: "a@x")
        let second = try await signIn(office, .apple, subject: "9", email: "a@x", isVerified: false)
        #expect(second.account.id != first.account.id)
        #expect(second.account.email == nil)
    }

    @Test func aVerifiedEmailTakesOverAnAccountThatNeverProvedIt() async throws {
        let office = try office()
        let squatter = try await office.signUp("owner@x", contract: .password)
        // Events of one millisecond have no order.
        office.clock.advance(seconds: 1)
        let owner = try await signIn(office, subject: "1", email: "owner@x")
        #expect(owner.account.id == squatter.account.id)
        #expect(owner.account.emailConfirmedAt != nil)
        #expect(await fault { try await office.signIn("owner@x", "password123") } == SignInRefusal.invalidCredentials)
        #expect(await office.recorder.ended.map(\.reason) == [.accountTaken])
        let kinds = try await office.directory.auditEvents(of: owner.account.id).map(\.kind)
        #expect(kinds == [.signedIn, .identityLinked, .accountTaken, .accountOpened])
    }

    @Test func theNameIsThatOfTheFirstSignInThatCarriesOne() async throws {
        let office = try office()
        #expect(try await signIn(office, subject: "1").account.name == nil)
        let ada = try PersonName(given: "Ada", family: "Lovelace")
        #expect(try await signIn(office, subject: "1", name: ada).account.name == ada)
        let grace = try PersonName(given: "Grace", family: nil)
        #expect(try await signIn(office, subject: "1", name: grace).account.name == ada)
        #expect(try await signIn(office, subject: "1", name: grace, rule: .firstOrFresh).account.name == grace)
        office.clock.advance(seconds: 5)
        #expect(try await signIn(office, subject: "1", name: ada, rule: .firstOrFresh).account.name == grace)
    }

    @Test func aTokenThatDoesNotHoldIsRefusedAndCounted() async throws {
        let office = try office()
        let forged = try office.providers.token(.google, subject: "1", at: office.clock.now, key: try SigningKey.generate(.ES256))
        for token in ["", "x.y.z", forged] {
            let request = ProviderSignIn.Request(provider: .google, idToken: token)
            #expect(
                await fault { try await office.provider.signIn(request, contract: .provider, caller: office.caller) }
                    == ProviderRefusal.identityRefused)
        }
        #expect(office.limiter.counted(.addressFailures) == 3)
    }

    /// Someone who has got hold of an ID token is not recently signed in by it.
    @Test func aTokenThatIsSentAgainIsNoNewerSignIn() async throws {
        let office = try office()
        let issuedAt = office.clock.now
        let authenticatedAt = WallTime(seconds: issuedAt.seconds - 1_000)
        let plain = try office.providers.token(.google, subject: "1", at: issuedAt)
        let dated = try office.providers.token(.apple, subject: "1", at: issuedAt, authenticatedAt: authenticatedAt)
        func signedInAt(_ provider: Provider, _ token: String) async throws -> Int64? {
            let request = ProviderSignIn.Request(provider: provider, idToken: token)
            let signedIn = try await office.provider.signIn(request, contract: .provider, caller: office.caller)
            let access = try office.verified(try #require(signedIn.grant?.tokens.access)).get()
            #expect(access.authenticatedAt == signedIn.grant?.session.signedInAt?.seconds && access.issuedAt == office.clock.now.seconds)
            return access.authenticatedAt
        }
        for _ in 0..<2 {
            #expect(try await signedInAt(.google, plain) == issuedAt.seconds)
            #expect(try await signedInAt(.apple, dated) == authenticatedAt.seconds)
            office.clock.advance(seconds: 300)
        }
        // The provider's clock is ahead.
        let ahead = try office.providers.token(.google, subject: "1", at: WallTime(seconds: office.clock.now.seconds + 30))
        #expect(try await signedInAt(.google, ahead) == office.clock.now.seconds)
    }

    @Test func aTokenOfOneProviderIsNoneOfAnother() async throws {
        let office = try office()
        let token = try office.providers.token(.google, subject: "1", at: office.clock.now)
        let request = ProviderSignIn.Request(provider: .apple, idToken: token)
        #expect(
            await fault { try await office.provider.signIn(request, contract: .apple, caller: office.caller) }
                == ProviderRefusal.identityRefused)
    }

    @Test func aProviderThatIsNotSetUpIsOff() async throws {
        let office = try AccountsFixture()
        #expect(!office.provider.offers(.apple))
        let request = ProviderSignIn.Request(provider: .apple, idToken: "x")
        #expect(
            await fault { try await office.provider.signIn(request, contract: .apple, caller: office.caller) }
                == ProviderRefusal.providerOff)
    }

    @Test func keysThatCannotBeHadAreNotTheCallersFault() async throws {
        let office = try AccountsFixture()
        office.providers.offer(.google, keys: nil)
        let refusal = await fault { try await signIn(office, subject: "1") }
        #expect(refusal == ProviderRefusal.keysUnavailable)
        #expect(office.providers.refetches == 1)
        #expect(office.limiter.counted(.addressFailures) == 0)
    }

    @Test func aNewKeyOfTheProviderIsFetchedOnce() async throws {
        let office = try office()
        let newKey = try SigningKey.generate(.RS256)
        office.providers.bringNext(.google, keys: KeySet([newKey.verificationKey]))
        let token = try office.providers.token(.google, subject: "1", at: office.clock.now, key: newKey)
        let request = ProviderSignIn.Request(provider: .google, idToken: token)
        _ = try await office.provider.signIn(request, contract: .provider, caller: office.caller)
        #expect(office.providers.refetches == 1)
    }

    @Test func theAppleContractGivesOneTokenForAWeek() async throws {
        let office = try office()
        let signedIn = try await signIn(office, .apple, subject: "1", contract: .apple)
        let tokens = try #require(signedIn.grant?.tokens)
        #expect(tokens.refresh == nil)
        #expect(tokens.accessSeconds == 7 * 86_400)
    }
}

/// The operator's changes, and anonymous accounts.
@Suite struct AdministrationTests {
    @Test func aTierCountsAtOnceForTheSameToken() async throws {
        let office = try AccountsFixture()
        let user = try await office.signUp("a@x").account.id
        let mark = try await office.directory.changes(since: nil).next
        #expect(try await office.directory.standing(of: user)?.entitlement == Entitlement.none)
        let until = WallTime(seconds: office.clock.now.seconds + 100)
        let set = try await office.administration.setTier("premium", until: until, of: user)
        #expect(set == Entitlement(tier: "premium", until: until, version: 1))
        #expect(try await office.directory.standing(of: user)?.entitlement == set)
        #expect(try await office.directory.changes(since: mark).changes.map(\.change) == [.account(user, AccountStanding(set))])
        let nobody = UUID(high: 0, low: 0)
        #expect(
            await fault { try await office.administration.setTier("premium", until: nil, of: nobody) }
                == AdministrationRefusal.noSuchAccount)
        #expect(try await office.directory.standing(of: nobody) == nil)
    }

    @Test func revokingEndsAllSessions() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x")
        let second = try await office.signIn("a@x", "password123")
        #expect(try await office.administration.revoke(first.account.id) == 2)
        #expect(await Set(office.recorder.ended.map(\.id)) == [first.callerSession.session, second.callerSession.session])
        #expect(try await office.directory.sessions(of: first.account.id).isEmpty)
        let third = try await office.signIn("a@x", "password123")
        #expect(try await office.administration.revoke(session: third.callerSession.session))
        #expect(try await !office.administration.revoke(session: third.callerSession.session))
    }

    @Test func deletingLeavesNothingButTheEndedSessions() async throws {
        let office = try AccountsFixture()
        let first = try await office.signUp("a@x")
        try await office.administration.delete(first.account.id)
        #expect(try await office.directory.account(first.account.id) == nil)
        #expect(try await office.directory.endedSessions().map(\.reason) == [.accountDeleted])
        #expect(await fault { try await office.sessions.current(first.callerSession) } == SessionRefusal.sessionEnded)
        #expect(await fault { try await office.administration.delete(first.account.id) } == AdministrationRefusal.noSuchAccount)
        _ = try await office.signUp("a@x")
    }

    @Test func theOperatorOpensAccountsToo() async throws {
        let office = try AccountsFixture()
        var creation = ImportedAccount()
        creation.email = try EmailAddress("a@x")
        creation.username = try Username("ada")
        let account = try await office.administration.create(creation, password: try Password("correct horse"))
        #expect(account.openedBy == nil)
        #expect(account.emailConfirmedAt == nil)
        #expect(account.entitlement == Entitlement.none)
        #expect(try await office.signIn("a@x", "correct horse").account.id == account.id)
        var taken = ImportedAccount()
        taken.email = try EmailAddress("A@x")
        let second = taken
        #expect(await fault { try await office.administration.create(second) } == CreationRefusal.emailTaken(by: account.id))
        #expect(try await office.directory.accounts().map(\.id) == [account.id])
    }

    @Test func anEmailThatTheOperatorConfirmsIsProvenFromTheStart() async throws {
        let office = try AccountsFixture()
        let until = WallTime(seconds: office.clock.now.seconds + 100)
        var creation = ImportedAccount()
        creation.email = try EmailAddress("a@x")
        creation.isEmailConfirmed = true
        creation.tier = "premium"
        creation.tierUntil = until
        let account = try await office.administration.create(creation)
        #expect(account.emailConfirmedAt == office.clock.now)
        #expect(try await office.directory.standing(of: account.id)?.entitlement == Entitlement(tier: "premium", until: until, version: 1))
        let events = try await office.directory.auditEvents(of: account.id)
        #expect(events.map(\.kind) == [.tierChanged, .emailConfirmed, .accountOpened])
        #expect(events.map(\.detail) == ["premium", nil, "operator"])
    }

    @Test func anImportedHashOpensTheDoorAndIsReplacedThen() async throws {
        let office = try AccountsFixture()
        var creation = ImportedAccount()
        creation.email = try EmailAddress("a@x")
        let django = "pbkdf2_sha256$1$salt$xOEfG6ymEDJ8fNSD2M6IJ0r8bE5FeVaxgYMnZIVZPek="
        creation.passwordHash = PasswordHash(parsing: django)
        let account = try await office.administration.create(creation)
        #expect(account.hasPassword)
        #expect(try await office.store.credential(for: .email(try EmailAddress("a@x")))?.hash == django)
        #expect(try await office.signIn("a@x", "correct horse").account.id == account.id)
        #expect(try await office.store.credential(for: .email(try EmailAddress("a@x")))?.hash.hasPrefix("$argon2id$") == true)
    }

    @Test func theOperatorChoosesNoWeakPasswordEither() async throws {
        let office = try AccountsFixture()
        for (password, expected) in [
            ("short", PasswordFault.tooShort), ("password123", .tooCommon), ("83749283749", .entirelyNumeric),
            ("ada@example.org", .sameAsEmail),
        ] {
            var creation = ImportedAccount()
            creation.email = try EmailAddress("ada@example.org")
            let weak = creation
            #expect(
                await fault { try await office.administration.create(weak, password: try Password(password)) }
                    == CreationRefusal.unfitPassword([expected]))
        }
        #expect(try await office.directory.accounts().isEmpty)
    }

    @Test func openingAccountsOutOfNothingIsBounded() async throws {
        let office = try AccountsFixture()
        var opened = 0
        while await fault({ try await office.anonymous.open(contract: .anonymous, caller: office.caller) }) == nil { opened += 1 }
        #expect((50..<200).contains(opened))
    }
}

/// Calls that block, on threads of their own.
@Suite struct BlockingPoolTests {
    private func pool(threads: Int = 2, capacity: Int = 100) throws -> BlockingPool<Int> {
        try #require(BlockingPool(name: "test", threads: threads, capacity: capacity, start: WorkerThread.start) { 0 })
    }

    @Test func eachThreadKeepsItsResource() async throws {
        let pool = try pool(threads: 1)
        for expected in 1...3 {
            let count = try await pool.run { resource in
                resource += 1
                return resource
            }
            #expect(count == expected)
        }
        pool.close()
    }

    @Test func queuedCallsAreDoneBeforeThePoolCloses() async throws {
        let pool = try pool()
        let sum = await withTaskGroup(of: Int.self) { group in
            for number in 0..<50 { group.addTask { (try? await pool.run { _ in number }) ?? 0 } }
            return await group.reduce(0, +)
        }
        #expect(sum == 1_225)
        pool.close()
        await #expect(throws: BlockingPool<Int>.Fault.closed) { try await pool.run { _ in } }
    }

    /// Its calls run on the thread that it is on, and what they have begun together is ended once, when no task goes on.
    @Test func aTaskThatPrefersThePoolKeepsItsThread() async throws {
        let made = BlockingPool<[Int]>(
            name: "test", threads: 1, capacity: 1, start: WorkerThread.start, make: { [0] },
            flush: { counts in
                if counts.last != 0 { counts.append(0) }
                return nil
            })
        let pool = try #require(made)
        await withTaskExecutorPreference(pool.executor()) {
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<20 {
                    group.addTask {
                        #expect(pool.isCurrent)
                        for _ in 0..<2 { try? await pool.run { $0[$0.count - 1] += 1 } }
                    }
                }
            }
        }
        #expect(!pool.isCurrent)
        // The thread may not have come to that yet.
        for _ in 0..<100_000 where try await pool.run({ $0 }).count == 1 { await Task.yield() }
        #expect(try await pool.run { $0 } == [40, 0])
        pool.close()
        // Tasks go on elsewhere, and their calls are refused.
        let refusal = await withTaskExecutorPreference(pool.executor()) {
            do throws(BlockingPool<[Int]>.Fault) { return try await pool.run { _ in BlockingPool<[Int]>.Fault?.none } } catch {
                return error
            }
        }
        #expect(refusal == .closed)
    }

    /// Others would wait for a slow signature.
    @Test(arguments: [(SigningAlgorithm.ES256, true), (.RS256, false)])
    func aSlowSignatureIsMadeElsewhere(_ algorithm: SigningAlgorithm, _ isOnPool: Bool) async throws {
        let (office, pool, key) = (try AccountsFixture(), try pool(), try SigningKey.generate(algorithm))
        let mint = TokenMint(
            issuer: "https://gate.test", audience: "tollgate", signingKey: { key },
            refreshKeys: RefreshTokenKeys(secret: AccountsFixture.secret),
            refreshJWTs: try RefreshJWTs(secret: AccountsFixture.secret, issuer: "https://gate.test"))
        let wasOnPool = try await withTaskExecutorPreference(pool.executor()) {
            try await office.context.signing(by: mint, pool.isCurrent)
        }
        #expect(wasOnPool == isOnPool)
        pool.close()
    }

    @Test func withoutThreadsThereIsNoPool() {
        let pool = BlockingPool<Int>(name: "test", threads: 2, capacity: 1, start: { _, _ in nil }) { 0 }
        #expect(pool == nil)
    }
}
