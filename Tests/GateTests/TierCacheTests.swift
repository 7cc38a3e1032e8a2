import Credentials
import Testing
import Wire

@testable import Gate

/// Own tokens, with revoked sessions and tiers from the accounts.
@Suite struct TierCacheTests {
    private static let user = "0193a1b2-0000-7000-8000-000000000001"
    private static let session = "0193a1b2-0000-7000-8000-0000000000aa"
    private static let never = Int64.max

    private static func harness(_ rules: [RouteRule] = [rule("api", "/api/*")], hasAccounts: Bool = true) throws -> AdmissionHarness {
        var own = AdmissionHarness.trusted()
        own.isOwn = true
        let trust = AdmissionHarness.trust([own], requirements: RouteRule.requirements(of: rules))
        return AdmissionHarness(try Policy(rules: rules, trust: trust, hasAccounts: hasAccounts))
    }

    private static func token(_ subject: String = user, tier: String? = nil, session: String? = session, id: String? = nil) -> String {
        AdmissionHarness.token(subject, tier: tier) {
            $0.sessionID = session
            $0.tokenID = id
        }
    }

    private static func premium() -> RouteRule {
        var premium = rule("premium", "/premium/*")
        premium.tier = Tier(rawValue: 1)
        return premium
    }

    private func now(_ harness: AdmissionHarness) -> Int64 { harness.now.wall.seconds }

    // MARK: tiers

    @Test func anUncachedUserIsLookedUpAndTheAccountsTierCounts() throws {
        let harness = try Self.harness([Self.premium()])
        let token = Self.token(tier: "premium")
        #expect(harness.get("/premium/x", token: token).verdict == .lookUp)
        #expect(harness.get("/premium/x", token: token).verdict == .lookUp)
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: .tier(.lowest, until: Self.never), version: 1)])
        #expect(harness.get("/premium/x", token: token).code == "PREMIUM_REQUIRED")
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: .tier(Tier(rawValue: 1), until: Self.never), version: 2)])
        let judged = harness.get("/premium/x", token: token)
        #expect(judged.status == 0 && judged.source == .hit && judged.tier == Tier(rawValue: 1))
        #expect(judged.identity.suffix(2) == ["X-User-Tier: premium", "X-User-Premium: true"])
    }

    /// At the end of a grant where a lower one goes on the user is looked up again, and the answer of the same version counts, though the
    /// change was pushed.
    @Test func aGrantThatEndsGivesWayToALowerOne() throws {
        let harness = try Self.harness([Self.premium()])
        let (token, end) = (Self.token(), now(harness) + 10)
        func learn(_ tier: UInt8, until: Int64, freshUntil: WallTime? = nil, _ source: UserTier.Source) {
            harness.admission.learn([
                UserTier(
                    user: TokenUser(Self.user), status: .tier(Tier(rawValue: tier), until: until), version: 4, source: source,
                    learnedAt: now(harness), freshUntil: freshUntil)
            ])
        }
        learn(2, until: end, freshUntil: WallTime(seconds: end), .pushed)
        #expect(harness.get("/premium/x", token: token).tier == Tier(rawValue: 2))
        // A look-up that was under way changes nothing.
        learn(1, until: Self.never, .lookedUp)
        harness.now.wall = WallTime(microseconds: end * 1_000_000 - 1)
        #expect(harness.get("/premium/x", token: token).tier == Tier(rawValue: 2))
        harness.now.wall = WallTime(seconds: end)
        #expect(harness.get("/premium/x", token: token).verdict == .lookUp)
        learn(1, until: Self.never, .lookedUp)
        #expect(harness.get("/premium/x", token: token).tier == Tier(rawValue: 1))
    }

    // MARK: emails

    private static var emails: [RouteRule] {
        var mail = rule("mail", "/mail/*")
        mail.forwardsEmail = true
        return [rule("api", "/api/*"), mail]
    }

    private static func mailToken(_ email: String, isProven: Bool = true) -> String {
        AdmissionHarness.token(user) {
            $0.email = email
            $0.isEmailVerified = isProven
        }
    }

    private static func told(_ harness: AdmissionHarness, _ path: String, _ token: String) -> [String] {
        harness.get(path, token: token).identity.filter { $0.hasPrefix("X-User-Email") }
    }

    private static func learn(
        _ email: String?, _ harness: AdmissionHarness, source: UserTier.Source = .pushed, after seconds: Int64 = 0
    ) {
        harness.admission.learn([
            UserTier(
                user: TokenUser(user), status: .tier(.lowest, until: never), version: 1, source: source,
                learnedAt: harness.now.wall.seconds + seconds, email: email)
        ])
    }

    @Test func anEmailThatTheAccountHasNoMoreIsNotTold() throws {
        let harness = try Self.harness(Self.emails)
        let (old, new) = (Self.mailToken("old@x"), Self.mailToken("new@x"))
        let verified = "X-User-Email-Verified: true"
        Self.learn("old@x", harness, source: .lookedUp)
        #expect(Self.told(harness, "/api/x", old) == ["X-User-Email: old@x"])
        #expect(Self.told(harness, "/mail/x", old) == [verified, "X-User-Email: old@x"])
        Self.learn("new@x", harness)
        #expect(Self.told(harness, "/api/x", old) == [] && Self.told(harness, "/mail/x", old) == [])
        #expect(Self.told(harness, "/api/x", new) == ["X-User-Email: new@x"])
        #expect(harness.get("/api/x", token: old).hasIdentity("X-User-Id: \(Self.user)"), "the rest is told")
        let sentence = try #require(harness.get("/api/x", token: old).explanation.step("standing"))
        #expect(sentence.hasSuffix("the token's email is not the account's any more, so the upstream gets none"))
        Self.learn("", harness)
        #expect(Self.told(harness, "/api/x", new) == [])
        Self.learn(nil, harness)
        #expect(Self.told(harness, "/api/x", new) == ["X-User-Email: new@x"], "nobody knows better")
    }

    /// A route for one email is closed to a user who has given it up.
    @Test func aClaimedEmailThatTheAccountHasNoMoreOpensNoRoute() throws {
        var one = rule("one", "/one/*")
        one.claims = [ClaimRequirement(name: "email", value: "old@x")]
        var other = rule("other", "/other/*")
        other.claims = [ClaimRequirement(name: "iss", value: AdmissionHarness.issuer)]
        let harness = try Self.harness([one, other])
        let token = Self.mailToken("old@x")
        Self.learn("old@x", harness, source: .lookedUp)
        #expect(harness.get("/one/x", token: token).status == 0 && harness.get("/one/x", token: Self.mailToken("new@x")).status == 403)
        Self.learn("new@x", harness)
        #expect(harness.get("/one/x", token: token).status == 403 && harness.get("/other/x", token: token).status == 0)
        Self.learn(nil, harness)
        #expect(harness.get("/one/x", token: token).status == 0)
    }

    @Test func anEmailThatIsNotProvenIsToldAsSuch() throws {
        let harness = try Self.harness(Self.emails)
        Self.learn("", harness)
        let token = Self.mailToken("ada@x", isProven: false)
        #expect(Self.told(harness, "/mail/x", token) == ["X-User-Email-Verified: false", "X-User-Email: ada@x"])
    }

    /// Another gateway has changed the email and issued the token, and this one is about to be told.
    @Test func aTokenThatIsNewerThanWhatWasLookedUpIsBelieved() throws {
        let harness = try Self.harness(Self.emails)
        let token = Self.mailToken("new@x")
        Self.learn("old@x", harness, source: .lookedUp, after: -61)
        #expect(Self.told(harness, "/api/x", token) == ["X-User-Email: new@x"])
        Self.learn("old@x", harness, source: .lookedUp, after: -60)
        #expect(Self.told(harness, "/api/x", token) == [])
    }

    @Test func anExpiredSubscriptionIsTheLowestTier() throws {
        let harness = try Self.harness()
        harness.admission.learn([
            UserTier(user: TokenUser(Self.user), status: .tier(Tier(rawValue: 1), until: now(harness) + 5), version: 1)
        ])
        #expect(harness.get("/api/x", token: Self.token()).hasIdentity("X-User-Tier: premium"))
        harness.advance(milliseconds: 5_000)
        #expect(harness.get("/api/x", token: Self.token()).hasIdentity("X-User-Tier: free"))
    }

    @Test func anOlderVersionIsIgnored() throws {
        let harness = try Self.harness()
        let free = TierStatus.tier(.lowest, until: Self.never), premium = TierStatus.tier(Tier(rawValue: 1), until: Self.never)
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: premium, version: 7)])
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: free, version: 6)])
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: .unavailable(until: Self.never), version: 9)])
        #expect(harness.get("/api/x", token: Self.token()).hasIdentity("X-User-Tier: premium"))
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: free, version: 7)])
        #expect(harness.get("/api/x", token: Self.token()).hasIdentity("X-User-Tier: free"))
    }

    @Test func aPushedTierIsNotReplacedByALookupOfTheSameVersion() throws {
        let harness = try Self.harness()
        let free = TierStatus.tier(.lowest, until: Self.never), premium = TierStatus.tier(Tier(rawValue: 1), until: Self.never)
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: premium, version: 3, source: .pushed)])
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: free, version: 3, source: .lookedUp)])
        #expect(harness.get("/api/x", token: Self.token()).hasIdentity("X-User-Tier: premium"))
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: free, version: 3, source: .pushed)])
        #expect(harness.get("/api/x", token: Self.token()).hasIdentity("X-User-Tier: free"))
    }

    @Test func aForgottenUserIsLookedUpAgain() throws {
        let harness = try Self.harness()
        let premium = TierStatus.tier(Tier(rawValue: 1), until: Self.never)
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: premium, version: 9, source: .pushed)])
        harness.admission.forgetUsers()
        #expect(harness.get("/api/x", token: Self.token()).verdict == .lookUp)
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: .tier(.lowest, until: Self.never), version: 2)])
        #expect(harness.get("/api/x", token: Self.token()).hasIdentity("X-User-Tier: free"))
    }

    @Test func aDecisionSaysWhereItsTierComesFrom() throws {
        let harness = try Self.harness()
        let tier = TierStatus.tier(.lowest, until: Self.never)
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: tier, version: 1, source: .lookedUp, learnedAt: 17)])
        #expect(harness.get("/api/x", token: Self.token()).tierOrigin == .account(.lookedUp, at: 17))
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: tier, version: 2, source: .pushed, learnedAt: 18)])
        #expect(harness.get("/api/x", token: Self.token()).tierOrigin == .account(.pushed, at: 18))
        #expect(harness.get("/api/x", token: Self.token("ada", tier: "premium")).tierOrigin == .claim(.known))
        #expect(harness.get("/api/x").tierOrigin == .none)
    }

    @Test func withoutTheAccountsOnlyRoutesWithATierAre503() throws {
        let harness = try Self.harness([rule("api", "/api/*"), Self.premium()])
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: .unavailable(until: now(harness) + 1), version: 0)])
        let open = harness.get("/api/x", token: Self.token(tier: "premium"))
        #expect(open.status == 0 && open.tier == nil && open.hasIdentity("X-User-Id: \(Self.user)"))
        #expect(!open.identity.contains { $0.hasPrefix("X-User-Tier") || $0.hasPrefix("X-User-Premium") })
        let gated = harness.get("/premium/x", token: Self.token(tier: "premium"))
        #expect(gated.status == 503 && gated.headers == ["Retry-After: 1"] && gated.auth == .unavailable)
        harness.advance(milliseconds: 1_000)
        #expect(harness.get("/api/x", token: Self.token()).verdict == .lookUp)
    }

    /// The tier of the caller may fall while a filtered answer lasts.
    @Test func aFilteredAnswerNeedsTheTierThatItShows() throws {
        var filtered = rule("api", "/api/*", auth: .optional)
        filtered.filters = [try FilterPath(parsing: "tier")]
        let harness = try Self.harness([filtered])
        func learn(_ tier: Tier, version: Int64) {
            harness.admission.learn([UserTier(user: TokenUser(Self.user), status: .tier(tier, until: Self.never), version: version)])
        }
        learn(.lowest, version: 1)
        _ = harness.get("/api/x", token: Self.token())
        #expect(try #require(harness.streamLife).tier == nil)
        learn(Tier(rawValue: 1), version: 2)
        _ = harness.get("/api/x", token: Self.token())
        let life = try #require(harness.streamLife)
        #expect(harness.admission.state(of: life, isFiltered: true, at: harness.now.wall) == .live)
        learn(.lowest, version: 3)
        #expect(harness.admission.state(of: life, isFiltered: true, at: harness.now.wall) == .over(.tierLost))
        // `filter-strict=off` lets other content pass as it is.
        #expect(harness.admission.state(of: life, isFiltered: false, at: harness.now.wall) == .live)
    }

    /// Otherwise the user would be refused for as long as the clock was wrong.
    @Test func aFailedLookUpIsForgottenWhenTheClockIsSetBack() throws {
        let harness = try Self.harness([Self.premium()])
        let learned = now(harness)
        harness.admission.learn([
            UserTier(user: TokenUser(Self.user), status: .unavailable(until: learned + 1), version: -1, learnedAt: learned)
        ])
        #expect(harness.get("/premium/x", token: Self.token()).status == 503)
        harness.now.wall = WallTime(seconds: learned - 600)
        #expect(harness.get("/premium/x", token: Self.token()).verdict == .lookUp)
    }

    @Test func withoutAnAccountTheTokensClaimCounts() throws {
        let harness = try Self.harness()
        // A name that no account has, an account that does not exist, and a gateway without accounts.
        #expect(harness.get("/api/x", token: Self.token("ada", tier: "premium")).hasIdentity("X-User-Tier: premium"))
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: .noAccount, version: 0)])
        #expect(harness.get("/api/x", token: Self.token(tier: "premium")).hasIdentity("X-User-Tier: premium"))
        let bare = try Self.harness(hasAccounts: false)
        #expect(bare.get("/api/x", token: Self.token(tier: "premium")).hasIdentity("X-User-Tier: premium"))
    }

    @Test func tokensOfExternalIssuersAreNotLookedUp() throws {
        let harness = AdmissionHarness(try Policy(rules: [rule("api", "/api/*")], trust: AdmissionHarness.trust(), hasAccounts: true))
        harness.admission.revoke([RevokedSession(id: Self.session, until: Self.never)], at: now(harness))
        let judged = harness.get("/api/x", token: Self.token(tier: "premium"))
        #expect(judged.status == 0 && judged.hasIdentity("X-User-Tier: premium"))
    }

    // MARK: explanations

    @Test func theExplanationNamesTheSourceOfTheTierAndOfTheRevocation() throws {
        let harness = try Self.harness()
        harness.admission.learn([
            UserTier(
                user: TokenUser(Self.user), status: .tier(.lowest, until: .max), version: 1, source: .pushed, learnedAt: now(harness) - 3)
        ])
        let told = harness.get("/api/x", token: Self.token()).explanation.step("standing")
        #expect(told == "the tier is the account's, pushed 3 s ago, and the session is not known to have ended")
        harness.admission.revoke(
            [RevokedSession(id: Self.session, until: now(harness) + 100, endedAt: now(harness) - 7)], at: now(harness))
        let refused = harness.get("/api/x", token: Self.token()).explanation.step("standing")
        #expect(refused == "the session ended 7 s ago")
    }

    // MARK: sessions

    @Test func tokensOfARevokedSessionAreRefusedCachedOrNot() throws {
        let harness = try Self.harness(hasAccounts: false)
        let (remembered, fresh) = (Self.token(), Self.token(tier: "premium"))
        let other = Self.token(session: "0193a1b2-0000-7000-8000-0000000000bb")
        #expect(harness.get("/api/x", token: remembered).status == 0)
        harness.admission.revoke([RevokedSession(id: Self.session, until: now(harness) + 100)], at: now(harness))
        for token in [remembered, fresh, remembered, fresh] {
            let judged = harness.get("/api/x", token: token)
            #expect(judged.code == "TOKEN_REVOKED" && judged.auth == .refused && judged.reason == .revoked)
        }
        #expect(harness.get("/api/x", token: other).status == 0)
        #expect(harness.get("/api/x", token: Self.token(session: nil)).status == 0)
    }

    @Test func aFrequentUserStaysCached() {
        var tierCache = TierCache(capacity: 1_000)
        let regular = LimitKey(high: 1, low: 1)
        let nobody = UserTier(user: TokenUser(""), status: .noAccount, version: 0)
        tierCache.learn(nobody, of: regular)
        for index in 2..<20_000 {
            tierCache.learn(nobody, of: LimitKey(high: 2, low: UInt64(index) &* 0x9E37_79B9_7F4A_7C15))
            if index % 100 == 0 {
                let known = tierCache.entry(of: regular, at: WallTime(seconds: 0))?.status
                #expect(known == .noAccount)
            }
        }
        #expect(tierCache.count <= 1_001)
    }

    // MARK: delivery

    @Test func theFirstUseOfATokenConfirmsItsDelivery() throws {
        let harness = try Self.harness()
        let token = Self.token(id: "pair-7")
        #expect(harness.sighting("/api/x", token) == TokenDelivery(session: Self.session, token: "pair-7"))
        #expect(harness.sighting("/api/x", token) == nil)
        #expect(harness.sighting("/api/x", Self.token(session: nil)) == nil)
    }

    /// Its session's last use is true within a minute, and no request in between costs anything.
    @Test func aTokenInUseIsToldOfEachHalfMinute() throws {
        let harness = try Self.harness()
        let token = Self.token(id: "pair-7")
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: .tier(.lowest, until: .max), version: 1)])
        _ = harness.sighting("/api/x", token)
        for step in 0..<3 {
            harness.advance(milliseconds: 29_000)
            #expect(harness.sighting("/api/x", token) == nil, "\(step)")
            harness.advance(milliseconds: 1_000)
            #expect(harness.sighting("/api/x", token) == TokenDelivery(session: Self.session, token: ""), "\(step)")
            #expect(harness.sighting("/api/x", token) == nil, "\(step)")
        }
        #expect(harness.sighting("/api/x", Self.token(session: nil)) == nil)
    }
}
