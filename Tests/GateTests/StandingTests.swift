import Credentials
import Testing
import Wire

@testable import Gate

/// Own tokens and what the accounts say of their sessions and users.
@Suite struct StandingTests {
    private static let user = "0193a1b2-0000-7000-8000-000000000001"
    private static let session = "0193a1b2-0000-7000-8000-0000000000aa"
    private static let never = Int64.max

    private static func house(_ rules: [RouteRule] = [rule("api", "/api/*")], hasAccounts: Bool = true) throws -> Gatehouse {
        var own = Gatehouse.trusted()
        own.isOwn = true
        return Gatehouse(try Policy(rules: rules, trust: Gatehouse.trust([own]), hasAccounts: hasAccounts))
    }

    private static func token(_ subject: String = user, tier: String? = nil, session: String? = session, id: String? = nil) -> String {
        Gatehouse.token(subject, tier: tier) {
            $0.sessionID = session
            $0.tokenID = id
        }
    }

    private static func premium() -> RouteRule {
        var premium = rule("premium", "/premium/*")
        premium.tier = Tier(rawValue: 1)
        return premium
    }

    private func now(_ house: Gatehouse) -> Int64 { house.now.wall.seconds }

    // MARK: tiers

    @Test func aUserNobodyKnowsIsLookedUpAndThenDecidedByTheAccount() throws {
        let house = try Self.house([Self.premium()])
        let token = Self.token(tier: "premium")
        #expect(house.get("/premium/x", token: token).verdict == .lookUp)
        #expect(house.get("/premium/x", token: token).verdict == .lookUp)
        house.admission.learn([UserStanding(user: Self.user, standing: .tier(.lowest, until: Self.never), version: 1)])
        #expect(house.get("/premium/x", token: token).code == "PREMIUM_REQUIRED")
        house.admission.learn([UserStanding(user: Self.user, standing: .tier(Tier(rawValue: 1), until: Self.never), version: 2)])
        let judged = house.get("/premium/x", token: token)
        #expect(judged.status == 0 && judged.source == .hit && judged.tier == Tier(rawValue: 1))
        #expect(judged.identity.suffix(2) == ["X-User-Tier: premium", "X-User-Premium: true"])
    }

    @Test func aSubscriptionThatIsOverIsNone() throws {
        let house = try Self.house()
        house.admission.learn([UserStanding(user: Self.user, standing: .tier(Tier(rawValue: 1), until: now(house) + 5), version: 1)])
        #expect(house.get("/api/x", token: Self.token()).hasIdentity("X-User-Tier: premium"))
        house.advance(milliseconds: 5_000)
        #expect(house.get("/api/x", token: Self.token()).hasIdentity("X-User-Tier: free"))
    }

    @Test func whatIsOlderThanWhatIsKnownIsPassedOver() throws {
        let house = try Self.house()
        let free = Standing.tier(.lowest, until: Self.never), premium = Standing.tier(Tier(rawValue: 1), until: Self.never)
        house.admission.learn([UserStanding(user: Self.user, standing: premium, version: 7)])
        house.admission.learn([UserStanding(user: Self.user, standing: free, version: 6)])
        house.admission.learn([UserStanding(user: Self.user, standing: .unavailable(until: Self.never), version: 9)])
        #expect(house.get("/api/x", token: Self.token()).hasIdentity("X-User-Tier: premium"))
        house.admission.learn([UserStanding(user: Self.user, standing: free, version: 7)])
        #expect(house.get("/api/x", token: Self.token()).hasIdentity("X-User-Tier: free"))
    }

    @Test func whatWasToldIsNotUndoneByAnAnswerThatItOvertook() throws {
        let house = try Self.house()
        let free = Standing.tier(.lowest, until: Self.never), premium = Standing.tier(Tier(rawValue: 1), until: Self.never)
        house.admission.learn([UserStanding(user: Self.user, standing: premium, version: 3, source: .pushed)])
        house.admission.learn([UserStanding(user: Self.user, standing: free, version: 3, source: .lookedUp)])
        #expect(house.get("/api/x", token: Self.token()).hasIdentity("X-User-Tier: premium"))
        house.admission.learn([UserStanding(user: Self.user, standing: free, version: 3, source: .pushed)])
        #expect(house.get("/api/x", token: Self.token()).hasIdentity("X-User-Tier: free"))
    }

    @Test func whatIsForgottenIsLookedUpAnew() throws {
        let house = try Self.house()
        let premium = Standing.tier(Tier(rawValue: 1), until: Self.never)
        house.admission.learn([UserStanding(user: Self.user, standing: premium, version: 9, source: .pushed)])
        house.admission.forgetUsers()
        #expect(house.get("/api/x", token: Self.token()).verdict == .lookUp)
        house.admission.learn([UserStanding(user: Self.user, standing: .tier(.lowest, until: Self.never), version: 2)])
        #expect(house.get("/api/x", token: Self.token()).hasIdentity("X-User-Tier: free"))
    }

    @Test func aDecisionSaysWhereItsTierComesFrom() throws {
        let house = try Self.house()
        let tier = Standing.tier(.lowest, until: Self.never)
        house.admission.learn([UserStanding(user: Self.user, standing: tier, version: 1, source: .lookedUp, learnedAt: 17)])
        #expect(house.get("/api/x", token: Self.token()).tierOrigin == .account(.lookedUp, at: 17))
        house.admission.learn([UserStanding(user: Self.user, standing: tier, version: 2, source: .pushed, learnedAt: 18)])
        #expect(house.get("/api/x", token: Self.token()).tierOrigin == .account(.pushed, at: 18))
        #expect(house.get("/api/x", token: Self.token("ada", tier: "premium")).tierOrigin == .claim)
        #expect(house.get("/api/x").tierOrigin == .none)
    }

    @Test func whereTheAccountsCannotBeAskedOnlyWhatNeedsTheTierWaits() throws {
        let house = try Self.house([rule("api", "/api/*"), Self.premium()])
        house.admission.learn([UserStanding(user: Self.user, standing: .unavailable(until: now(house) + 1), version: 0)])
        let open = house.get("/api/x", token: Self.token(tier: "premium"))
        #expect(open.status == 0 && open.tier == nil && open.hasIdentity("X-User-Id: \(Self.user)"))
        #expect(!open.identity.contains { $0.hasPrefix("X-User-Tier") || $0.hasPrefix("X-User-Premium") })
        let gated = house.get("/premium/x", token: Self.token(tier: "premium"))
        #expect(gated.status == 503 && gated.headers == ["Retry-After: 1"] && gated.auth == .unavailable)
        house.advance(milliseconds: 1_000)
        #expect(house.get("/api/x", token: Self.token()).verdict == .lookUp)
    }

    @Test func withoutAnAccountTheTokensOwnClaimCounts() throws {
        let house = try Self.house()
        // A name that no account has, an account that does not exist, and a gateway without accounts.
        #expect(house.get("/api/x", token: Self.token("ada", tier: "premium")).hasIdentity("X-User-Tier: premium"))
        house.admission.learn([UserStanding(user: Self.user, standing: .noAccount, version: 0)])
        #expect(house.get("/api/x", token: Self.token(tier: "premium")).hasIdentity("X-User-Tier: premium"))
        let bare = try Self.house(hasAccounts: false)
        #expect(bare.get("/api/x", token: Self.token(tier: "premium")).hasIdentity("X-User-Tier: premium"))
    }

    @Test func tokensOfOtherIssuersAreNoneOfTheAccountsBusiness() throws {
        let house = Gatehouse(try Policy(rules: [rule("api", "/api/*")], trust: Gatehouse.trust(), hasAccounts: true))
        house.admission.revoke([RevokedSession(id: Self.session, until: Self.never)], at: now(house))
        let judged = house.get("/api/x", token: Self.token(tier: "premium"))
        #expect(judged.status == 0 && judged.hasIdentity("X-User-Tier: premium"))
    }

    // MARK: what is told of them

    @Test func itIsToldWhereATierAndTheEndOfASessionComeFrom() throws {
        let house = try Self.house()
        house.admission.learn([
            UserStanding(user: Self.user, standing: .tier(.lowest, until: .max), version: 1, source: .pushed, learnedAt: now(house) - 3)
        ])
        let told = house.get("/api/x", token: Self.token()).explanation.step("standing")
        #expect(told == "the tier is the account's, told 3 s ago, and no end of the session was told")
        house.admission.revoke(
            [RevokedSession(id: Self.session, until: now(house) + 100, endedAt: now(house) - 7)], at: now(house))
        let refused = house.get("/api/x", token: Self.token()).explanation.step("standing")
        #expect(refused == "the session ended 7 s ago, as this gateway was told")
    }

    // MARK: sessions

    @Test func theTokensOfASessionThatEndedAreRefusedWhetherRememberedOrNot() throws {
        let house = try Self.house(hasAccounts: false)
        let (remembered, fresh) = (Self.token(), Self.token(tier: "premium"))
        let other = Self.token(session: "0193a1b2-0000-7000-8000-0000000000bb")
        #expect(house.get("/api/x", token: remembered).status == 0)
        house.admission.revoke([RevokedSession(id: Self.session, until: now(house) + 100)], at: now(house))
        for token in [remembered, fresh, remembered, fresh] {
            let judged = house.get("/api/x", token: token)
            #expect(judged.code == "TOKEN_REVOKED" && judged.auth == .refused && judged.reason == .revoked)
        }
        #expect(house.get("/api/x", token: other).status == 0)
        #expect(house.get("/api/x", token: Self.token(session: nil)).status == 0)
    }

    @Test func anEndedSessionIsRememberedUntilItsLastTokenIsOver() {
        var revoked = RevokedSessions()
        let keys = (0..<10_000).map { LimitKey(high: UInt64($0), low: UInt64($0) &* 0x9E37_79B9_7F4A_7C15) }
        for (index, key) in keys.enumerated() { revoked.insert(key, until: index % 2 == 0 ? 50 : 5_000, at: 0) }
        #expect(keys.allSatisfy { revoked.contains($0) })
        revoked.insert(keys[0], until: 10, at: 0)
        // What is over leaves when room is wanted, and nothing else does.
        for index in 10_000..<30_000 {
            revoked.insert(LimitKey(high: 1, low: UInt64(index) &* 0x9E37_79B9_7F4A_7C15), until: 5_000, at: 100)
        }
        #expect(revoked.count == 25_000)
        #expect(keys.enumerated().allSatisfy { revoked.contains($1) == ($0 % 2 == 1) })
        revoked.insert(keys[0], until: 100, at: 100)
        #expect(!revoked.contains(keys[0]))
    }

    @Test func whoComesOftenStaysKnown() {
        var standings = Standings(capacity: 1_000)
        let regular = LimitKey(high: 1, low: 1)
        let nobody = UserStanding(user: "", standing: .noAccount, version: 0)
        standings.learn(nobody, of: regular)
        for index in 2..<20_000 {
            standings.learn(nobody, of: LimitKey(high: 2, low: UInt64(index) &* 0x9E37_79B9_7F4A_7C15))
            if index % 100 == 0 {
                let known = standings.standing(of: regular, at: 0)?.standing
                #expect(known == .noAccount)
            }
        }
        #expect(standings.count <= 1_001)
    }

    // MARK: sightings

    @Test func theFirstSightOfATokenIsTold() throws {
        let house = try Self.house()
        let token = Self.token(id: "pair-7")
        #expect(house.sighting("/api/x", token) == TokenSighting(session: Self.session, token: "pair-7"))
        #expect(house.sighting("/api/x", token) == nil)
        #expect(house.sighting("/api/x", Self.token(session: nil)) == nil)
    }
}
