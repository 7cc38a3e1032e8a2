import Credentials
import Testing
import Wire

@testable import Gate

/// Expired tokens of internal callers that sent a refresh token along.
@Suite struct RefreshTests {
    private static let user = "0193a1b2-0000-7000-8000-000000000001"
    private static let session = "0193a1b2-0000-7000-8000-0000000000aa"
    private static let otherID = "0193a1b2-0000-7000-8000-0000000000bb"
    private static let inside = "10.0.0.1"
    private static let sent = "X-Refresh-Token: r1"
    private static let outsideIssuer = "https://outside.test"
    private static let lostIssuer = "https://lost.test"

    private static func harness(_ rules: [RouteRule] = [rule("api", "/api/*")]) throws -> AdmissionHarness {
        var own = AdmissionHarness.trusted(name: "tollgate")
        own.isOwn = true
        let outside = AdmissionHarness.trusted(AdmissionHarness.otherKey, name: "outside", issuer: outsideIssuer)
        let lost = AdmissionHarness.trusted(AdmissionHarness.otherKey, name: "lost", issuer: lostIssuer)
        let inside = [CIDR(parsing: "10.0.0.0/8")].compactMap { $0 }
        let harness = AdmissionHarness(
            try Policy(
                rules: rules, trust: AdmissionHarness.trust([own, outside, lost]),
                internals: [InternalCaller(name: "backend", networks: inside)], hasAccounts: true, refreshers: ["outside"]))
        harness.admission.learn([UserTier(user: TokenUser(user), status: .tier(.lowest, until: .max), version: 1)])
        return harness
    }

    private static func token(
        _ subject: String = user, session: String? = session, lifetime: Int64 = -100, actor: String? = nil
    ) -> String {
        AdmissionHarness.token(subject, lifetime: lifetime) {
            $0.sessionID = session
            $0.tokenID = "t-\(lifetime)"
            $0.actorType = actor
            $0.actorID = actor
        }
    }

    private static func outside(
        _ subject: String = "u", session: String? = nil, lifetime: Int64 = -100, issuer: String = outsideIssuer
    ) -> String {
        AdmissionHarness.token(subject, lifetime: lifetime, issuer: issuer, key: AdmissionHarness.otherKey) { $0.sessionID = session }
    }

    private static func answer(_ access: String, _ refresh: String? = "r2", _ role: RefreshRole = .leader) -> RefreshAnswer {
        RefreshAnswer(.refreshed(RefreshedTokens(access: Array(access.utf8), refresh: refresh.map { Array($0.utf8) })), role)
    }

    // MARK: asking

    @Test(arguments: [AuthMode.required, .optional, .internal])
    func anExpiredTokenOfAnInternalCallerIsRefreshedFirst(_ auth: AuthMode) throws {
        let harness = try Self.harness([rule("api", "/api/*", auth: auth)])
        let own = harness.get("/api/x", token: Self.token(), Self.sent, from: Self.inside)
        #expect(own.verdict == .refresh)
        let ordered = RefreshOrder(issuer: "tollgate", isOwn: true, user: Self.user, session: Self.session, token: Array("r1".utf8))
        #expect(own.order == ordered)
        let outside = harness.get("/api/x", token: Self.outside(session: "s"), Self.sent, from: Self.inside)
        #expect(outside.order == RefreshOrder(issuer: "outside", isOwn: false, user: "u", session: "s", token: Array("r1".utf8)))
    }

    @Test func otherCallersAreRefusedWithoutARefresh() throws {
        let harness = try Self.harness([rule("api", "/api/*"), rule("open", "/open/*", auth: .optional)])
        #expect(harness.get("/api/x", token: Self.token(), Self.sent, from: "192.0.2.1").code == "TOKEN_EXPIRED")
        #expect(harness.get("/open/x", Self.sent, from: "192.0.2.1").status == 0)
    }

    /// Request fields and the expected refusal: everything but expiry is refused without a refresh.
    @Test func onlyAnExpiredTokenIsRefreshed() throws {
        let harness = try Self.harness()
        func refusal(_ token: String, _ header: String = Self.sent) -> String {
            let judged = harness.get("/api/x", token: token, header, from: Self.inside)
            return judged.verdict == .refresh ? "refresh" : judged.code
        }
        #expect(refusal(Self.token(lifetime: 60)) == "")
        #expect(refusal(AdmissionHarness.token(Self.user, lifetime: -100, key: AdmissionHarness.otherKey)) == "UNAUTHORIZED")
        #expect(refusal(AdmissionHarness.token(Self.user, lifetime: -100, issuer: "https://nobody.test")) == "UNAUTHORIZED")
        #expect(refusal("bad") == "UNAUTHORIZED")
        #expect(refusal(Self.outside(issuer: Self.lostIssuer)) == "TOKEN_EXPIRED")
        // A token without a session of this gateway cannot be refreshed.
        #expect(refusal(Self.token(session: nil)) == "TOKEN_EXPIRED")
        #expect(refusal(Self.token(session: "s")) == "TOKEN_EXPIRED")
        #expect(refusal(Self.token("minted")) == "TOKEN_EXPIRED")
        // A refresh never issues a token with an actor.
        #expect(refusal(Self.token(actor: "admin")) == "TOKEN_EXPIRED")
        #expect(refusal(Self.token(), "Accept: */*") == "TOKEN_EXPIRED")
        #expect(refusal(Self.token(), "X-Refresh-Token:") == "TOKEN_EXPIRED")
        #expect(refusal(Self.token(), "X-Refresh-Token: r1\nX-Refresh-Token: r1") == "TOKEN_EXPIRED")
        #expect(refusal(Self.token(), "X-Refresh-Token: r 1") == "TOKEN_EXPIRED")
        #expect(refusal(Self.token(), "X-Refresh-Token: " + String(repeating: "r", count: 8_193)) == "TOKEN_EXPIRED")
        #expect(refusal(Self.token()) == "refresh")
    }

    @Test func aRevokedSessionIsNotRefreshed() throws {
        let harness = try Self.harness()
        harness.admission.revoke([RevokedSession(id: Self.session, until: .max)], at: harness.now.wall.seconds)
        #expect(harness.get("/api/x", token: Self.token(), Self.sent, from: Self.inside).code == "TOKEN_REVOKED")
        let late = harness.get("/api/x", token: Self.token(), Self.sent, from: Self.inside, refresh: Self.answer(Self.token(lifetime: 900)))
        #expect(late.code == "TOKEN_REVOKED" && late.refreshLines == [])
    }

    @Test(arguments: [AuthMode.required, .optional, .internal])
    func aRefreshTokenAloneIsNoIdentity(_ auth: AuthMode) throws {
        let harness = try Self.harness([rule("api", "/api/*", auth: auth)])
        let judged = harness.get("/api/x", Self.sent, from: Self.inside)
        #expect(judged.status == 401 && judged.code == "UNAUTHORIZED")
    }

    @Test func aRouteWithoutAuthenticationRefreshesNothing() throws {
        let harness = try Self.harness([rule("api", "/api/*", auth: .none)])
        #expect(harness.get("/api/x", token: Self.token(), Self.sent, from: Self.inside).status == 0)
    }

    // MARK: answers

    @Test func theRequestGoesOnWithTheNewIdentity() throws {
        let harness = try Self.harness()
        let fresh = Self.token(lifetime: 900)
        let judged = harness.get("/api/x", token: Self.token(), Self.sent, from: Self.inside, refresh: Self.answer(fresh, "r2", .follower))
        #expect(judged.status == 0 && judged.auth == .accepted && judged.refreshRole == .follower)
        #expect(judged.hasIdentity("X-User-Id: \(Self.user)") && judged.hasIdentity("X-User-Tier: free"))
        let (first, last) = ("Cache-Control: no-store", "X-New-Token-Expires-At: \(AdmissionHarness.now.wall.seconds + 900)")
        #expect(judged.refreshLines == [first, "X-New-Access-Token: \(fresh)", "X-New-Refresh-Token: r2", last])
        let kept = harness.get("/api/x", token: Self.token(), Self.sent, from: Self.inside, refresh: Self.answer(fresh, nil))
        #expect(kept.refreshLines == [first, "X-New-Access-Token: \(fresh)", last])
    }

    /// A pair is delivered when its client uses it, not when the gateway verifies it.
    @Test func aRefreshedTokenIsDeliveredOnlyWhenItsClientUsesIt() throws {
        let harness = try Self.harness()
        let fresh = Self.token(lifetime: 900)
        _ = harness.get("/api/x", token: Self.token(), Self.sent, from: Self.inside, refresh: Self.answer(fresh))
        #expect(harness.sighting("/api/x", fresh) == TokenDelivery(session: Self.session, token: "t-900"))
        #expect(harness.sighting("/api/x", fresh) == nil)
    }

    @Test func theTierIsStillLookedUpAfterARefresh() throws {
        let harness = try Self.harness()
        let fresh = Self.token(Self.otherID, lifetime: 900)
        let asked = harness.get("/api/x", token: Self.token(Self.otherID), Self.sent, from: Self.inside, refresh: Self.answer(fresh))
        #expect(asked.verdict == .lookUp && asked.userID == Self.otherID)
        harness.admission.learn([UserTier(user: TokenUser(Self.otherID), status: .tier(.lowest, until: .max), version: 1)])
        let judged = harness.get("/api/x", token: Self.token(Self.otherID), Self.sent, from: Self.inside, refresh: Self.answer(fresh))
        #expect(judged.status == 0 && judged.refreshLines.count == 4)
    }

    @Test func aRefusalAfterTheRefreshStillReturnsTheNewTokens() throws {
        var premium = rule("premium", "/premium/*")
        premium.tier = Tier(rawValue: 1)
        let harness = try Self.harness([premium])
        let judged = harness.get(
            "/premium/x", token: Self.token(), Self.sent, from: Self.inside, refresh: Self.answer(Self.token(lifetime: 900)))
        #expect(judged.code == "PREMIUM_REQUIRED" && judged.refreshLines.count == 4)
    }

    @Test func newTokensOfAnotherUserAreRefused() throws {
        let harness = try Self.harness()
        func judged(_ sent: String, _ got: String) -> Judged {
            harness.get("/api/x", token: sent, Self.sent, from: Self.inside, refresh: Self.answer(got))
        }
        let strangers: [(String, String)] = [
            (Self.token(), Self.token(Self.otherID, lifetime: 900)),
            (Self.token(), Self.token(session: Self.otherID, lifetime: 900)),
            (Self.token(), Self.outside(Self.user, session: Self.session, lifetime: 900)),
            (Self.token(), Self.token(lifetime: 900, actor: "admin")),
            (Self.outside(), Self.outside("v", lifetime: 900)),
            (Self.outside(session: "s"), Self.outside(session: "t", lifetime: 900)),
        ]
        for (sent, got) in strangers {
            let judged = judged(sent, got)
            #expect(judged.status == 401 && judged.code == "TOKEN_EXPIRED" && judged.reason == .refreshMismatch)
            #expect(judged.identity == [] && judged.refreshLines == [] && judged.userID == "")
        }
        #expect(judged(Self.outside(session: "s"), Self.outside(lifetime: 900)).status == 0)
        #expect(judged(Self.outside(), Self.outside(session: "s", lifetime: 900)).status == 0)
    }

    @Test func aDefiniteRefusalIs401() throws {
        let judged = try Self.harness().get(
            "/api/x", token: Self.token(), Self.sent, from: Self.inside, refresh: RefreshAnswer(.refused, .leader))
        #expect(judged.status == 401 && judged.code == "TOKEN_EXPIRED" && judged.refreshRole == .leader)
        #expect(judged.identity == [])
    }

    @Test func anUnavailableAuthServerIs503() throws {
        let harness = try Self.harness()
        let unknown = AdmissionHarness.token("u", lifetime: 900, issuer: Self.outsideIssuer)
        let answers =
            [RefreshAnswer(.unavailable(retryAfterSeconds: 1), .leader)]
            + ["nonsense", Self.outside(lifetime: -100), unknown].map { Self.answer($0) }
        for answer in answers {
            let judged = harness.get("/api/x", token: Self.outside(), Self.sent, from: Self.inside, refresh: answer)
            #expect(judged.status == 503 && judged.code == "UNAVAILABLE" && judged.headers.contains("Retry-After: 1"))
            #expect(judged.reason == .refreshUnavailable && judged.refreshLines == [] && judged.identity == [])
        }
    }

    // MARK: streams

    @Test func aStreamEndsWithItsOwnTokenAndSession() throws {
        var kept = rule("kept", "/kept/*")
        kept.streams.expiry = .keep
        let harness = try Self.harness([rule("api", "/api/*"), kept])
        let now = AdmissionHarness.now.wall.seconds
        _ = harness.get("/api/x", token: Self.token(lifetime: 10))
        let life = try #require(harness.streamLife)
        #expect(life.expiresAt == now + 10 && life.leeway == 30 && life.extendingSession == UUID(parsing: Self.session))
        #expect(harness.admission.state(of: life, at: AdmissionHarness.now.wall) == .live)
        harness.admission.revoke([RevokedSession(id: Self.session, until: .max)], at: now)
        #expect(harness.admission.state(of: life, at: AdmissionHarness.now.wall) == .over(.sessionEnded))
        _ = harness.get("/kept/x", token: Self.token(lifetime: 10))
        #expect(harness.streamLife == nil)
        _ = harness.get("/api/x", token: Self.outside(lifetime: 10))
        let outside = try #require(harness.streamLife)
        #expect(outside.expiresAt == now + 10 && outside.extendingSession == nil)
    }

    /// The tier that a stream needs under `a b c`, another list, and what it needs then.
    static let tierLists: [(need: String, list: [String], then: String)] = [
        ("b", ["a", "b", "c"], "b"), ("b", ["a", "x", "b", "c"], "b"), ("b", ["b", "a", "c"], "b"),
        // A tier that is gone: the next higher one, or else the highest.
        ("b", ["a", "c"], "c"), ("b", ["a", "c", "d"], "c"), ("c", ["a", "b"], "b"), ("c", ["x", "y"], "y"),
    ]

    @Test(arguments: tierLists) func aStreamNeedsATierByItsName(_ need: String, _ list: [String], _ then: String) throws {
        let (before, after) = (try TierList(["a", "b", "c"]), try TierList(list))
        let least = try #require(before.rank(of: need))
        func life(least: Tier, shown: Tier) -> StreamLife {
            let tier = StreamLife.TierNeed(least: least, shown: shown, user: LimitKey(high: 1, low: 2), claimed: max(least, shown))
            return StreamLife(
                expiresAt: 0, leeway: 0, extendingSession: nil, session: nil, subject: nil, apiKey: nil, tier: tier, isOwn: true)
        }
        var routed = life(least: least, shown: .lowest)
        routed.adopt(after, insteadOf: before)
        #expect(routed.tier?.least == after.rank(of: then) && routed.tier?.shown == .lowest)
        #expect(routed.tier?.claimed == after.rank(of: need) ?? .lowest)
        var filtered = life(least: .lowest, shown: least)
        filtered.adopt(after, insteadOf: before)
        #expect(filtered.tier?.shown == after.rank(of: then) && filtered.tier?.least == .lowest)
    }
}
