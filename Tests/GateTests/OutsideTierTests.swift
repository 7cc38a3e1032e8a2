import Credentials
import Testing
import Wire

@testable import Gate

/// Tiers of outside issuers' users, from an account here or a tier server.
@Suite struct OutsideTierTests {
    private static let ownID = "0193a1b2-0000-7000-8000-000000000001"
    private static let premium = Tier(rawValue: 1)
    private static let held = TierStatus.tier(premium, until: .max)
    /// Of the trust line `twin`, which has the `iss` of `kept`.
    private static let twinKey = AdmissionHarness.makeKey("00000000000000000000000000000001")
    private static let ownKey = AdmissionHarness.makeKey("00000000000000000000000000000002")

    /// Trust lines with every source: `claimed`, `kept` and its twin of the same `iss` by account, `asked` by lookup, and the
    /// gateway's own tokens, whose issuer the trust line `alike` has, too.
    private static func harness(shadow: ShadowSet = []) throws -> AdmissionHarness {
        var own = AdmissionHarness.trusted(ownKey, name: "tollgate", issuer: "own")
        own.isOwn = true
        let issuers = [
            AdmissionHarness.trusted(name: "claimed", issuer: "claimed"), AdmissionHarness.trusted(name: "kept", issuer: "shared"),
            AdmissionHarness.trusted(twinKey, name: "twin", issuer: "shared"), AdmissionHarness.trusted(name: "asked", issuer: "asked"),
            AdmissionHarness.trusted(name: "alike", issuer: "own"), own,
        ]
        var tier = rule("premium", "/premium"), filter = rule("list", "/list")
        tier.tier = premium
        filter.filters = [try FilterPath(parsing: "tier")]
        filter.auth = .optional
        tier.shadow = shadow
        filter.shadow = shadow
        return AdmissionHarness(
            try Policy(
                rules: [rule("api", "/api/*"), tier, filter], trust: AdmissionHarness.trust(issuers), hasAccounts: true,
                tierSources: ["kept": .account, "twin": .account, "asked": .lookup, "alike": .account]))
    }

    private static func token(_ subject: String, of issuer: String, tier: String? = nil, key: SigningKey = AdmissionHarness.key) -> String {
        AdmissionHarness.token(subject, tier: tier, issuer: issuer, key: key)
    }

    private func tier(_ user: TokenUser, _ status: TierStatus = held, freshUntil: WallTime? = nil) -> UserTier {
        UserTier(user: user, status: status, version: 1, learnedAt: AdmissionHarness.now.wall.seconds, freshUntil: freshUntil)
    }

    @Test func theSourceOfTheLineSaysWhoseTierCounts() throws {
        let harness = try Self.harness()
        let claimed = harness.get("/premium", token: Self.token("42", of: "claimed", tier: "premium"))
        #expect(claimed.status == 0 && claimed.tierOrigin == .claim(.known))
        for (issuer, name) in [("shared", "kept"), ("asked", "asked")] {
            let token = Self.token("42", of: issuer, tier: "premium")
            #expect(harness.get("/premium", token: token).verdict == .lookUp)
            harness.admission.learn([tier(TokenUser("42", of: name), .tier(.lowest, until: .max))])
            #expect(harness.get("/premium", token: token).code == "PREMIUM_REQUIRED", "a claim does not count")
            harness.admission.learn([tier(TokenUser("42", of: name))])
            let judged = harness.get("/premium", token: token)
            #expect(judged.status == 0 && judged.hasIdentity("X-User-Tier: premium") && judged.hasIdentity("X-User-Id: 42"))
        }
        #expect(
            harness.get("/api/x", token: Self.token("42", of: "shared")).tierOrigin
                == .account(.lookedUp, at: AdmissionHarness.now.wall.seconds))
        #expect(harness.get("/api/x", token: Self.token("42", of: "asked")).tierOrigin == .lookup(at: AdmissionHarness.now.wall.seconds))
    }

    @Test func aSubjectWithoutAnAccountHasTheLowestTierWhateverItClaims() throws {
        let harness = try Self.harness()
        harness.admission.learn([tier(TokenUser("42", of: "kept"), .noAccount)])
        let token = Self.token("42", of: "shared", tier: "premium")
        #expect(harness.get("/premium", token: token).code == "PREMIUM_REQUIRED")
        #expect(harness.get("/api/x", token: token).hasIdentity("X-User-Tier: free"))
    }

    /// One name, many people: each trust line's users are apart, also where two have one `iss` or the gateway's own.
    @Test func theSameSubjectOfTwoIssuersSharesNoTier() throws {
        let harness = try Self.harness()
        let id = Self.ownID
        harness.admission.learn([tier(TokenUser(id, of: "kept"))])
        #expect(harness.get("/premium", token: Self.token(id, of: "shared")).status == 0)
        let others = [
            Self.token(id, of: "shared", key: Self.twinKey), Self.token(id, of: "asked"), Self.token(id, of: "own", key: Self.ownKey),
            Self.token(id, of: "own"),
        ]
        for other in others { #expect(harness.get("/premium", token: other).verdict == .lookUp) }
        #expect(harness.get("/premium", token: Self.token(id, of: "claimed")).code == "PREMIUM_REQUIRED")
        harness.admission.learn([tier(TokenUser(id))])
        #expect(harness.get("/premium", token: Self.token(id, of: "own", key: Self.ownKey)).status == 0)
        #expect(
            harness.get("/premium", token: Self.token(id, of: "own")).verdict == .lookUp, "an outside subject that is an own account's id")
        harness.admission.learn([tier(TokenUser(id, of: "claimed")), tier(TokenUser(id, of: "gone"))])
        #expect(harness.get("/premium", token: Self.token(id, of: "claimed")).code == "PREMIUM_REQUIRED", "its claim counts alone")
    }

    /// `é` is one character or two to Swift's strings; to an issuer the two are different people.
    @Test func subjectsThatOnlyLookAlikeAreApart() throws {
        let harness = try Self.harness()
        #expect(TokenUser("\u{E9}", of: "kept") != TokenUser("e\u{301}", of: "kept"))
        harness.admission.learn([tier(TokenUser("\u{E9}", of: "kept"))])
        #expect(harness.get("/premium", token: Self.token("\u{E9}", of: "shared")).status == 0)
        #expect(harness.get("/premium", token: Self.token("e\u{301}", of: "shared")).verdict == .lookUp)
    }

    /// The user that is looked up is the one whose tier is waited for, whatever the subject is made of.
    @Test func whoIsLookedUpIsWhoWaits() throws {
        let harness = try Self.harness()
        let subjects = [
            "a", " a", "a ", "a:b", "%61", "a,b", "\"a\"", "\u{E9}", "e\u{301}", "\u{1F600}", String(repeating: "x", count: 3_000),
        ]
        for (subject, issuer) in subjects.flatMap({ subject in ["shared", "asked"].map { (subject, $0) } }) {
            let judged = harness.get("/premium", token: Self.token(subject, of: issuer))
            guard judged.verdict == .lookUp else {
                #expect(judged.status == 401, "\(subject)")
                continue
            }
            #expect(harness.user == TokenUser(subject, of: issuer == "shared" ? "kept" : "asked"))
            harness.admission.learn([tier(harness.user)])
            #expect(harness.get("/premium", token: Self.token(subject, of: issuer)).status == 0, "\(subject)")
        }
    }

    @Test func anAnswerCountsForItsTimeAndStaysWhileTheNextFails() throws {
        let harness = try Self.harness()
        let user = TokenUser("42", of: "asked"), token = Self.token("42", of: "asked")
        let start = harness.now.wall
        harness.admission.learn([tier(user, freshUntil: WallTime(microseconds: start.microseconds + 60_000_000))])
        harness.advance(milliseconds: 59_999)
        #expect(harness.get("/premium", token: token).status == 0)
        harness.advance(milliseconds: 1)
        #expect(harness.get("/premium", token: token).verdict == .lookUp)
        harness.admission.learn([tier(user, .unavailable(until: harness.now.wall.seconds + 1))])
        let stale = harness.get("/premium", token: token)
        #expect(stale.status == 0 && stale.tierOrigin == .lookup(at: start.seconds))
        harness.advance(milliseconds: 1_000)
        #expect(harness.get("/premium", token: token).verdict == .lookUp, "it is asked again")
        harness.admission.learn([tier(user, .tier(.lowest, until: .max), freshUntil: WallTime(seconds: start.seconds + 100))])
        #expect(harness.get("/premium", token: token).code == "PREMIUM_REQUIRED")
    }

    @Test func whatIsForgottenDoesNotCountEvenWhileTheLookupFails() throws {
        let harness = try Self.harness()
        let user = TokenUser("42", of: "asked"), token = Self.token("42", of: "asked")
        harness.admission.learn([tier(user), tier(TokenUser("43", of: "asked"))])
        harness.admission.forget([user, TokenUser("44", of: "asked"), TokenUser("42", of: "gone")])
        #expect(harness.get("/premium", token: token).verdict == .lookUp)
        #expect(harness.get("/premium", token: Self.token("43", of: "asked")).status == 0)
        harness.admission.learn([tier(user, .unavailable(until: harness.now.wall.seconds + 1))])
        #expect(harness.get("/premium", token: token).status == 503)
    }

    @Test func withNoTierKnownOnlyRoutesThatNeedItAre503() throws {
        for (issuer, name) in [("shared", "kept"), ("asked", "asked")] {
            let harness = try Self.harness()
            let token = Self.token("42", of: issuer, tier: "premium")
            harness.admission.learn([tier(TokenUser("42", of: name), .unavailable(until: harness.now.wall.seconds + 1))])
            for path in ["/premium", "/list"] {
                let judged = harness.get(path, token: token)
                #expect(judged.status == 503 && judged.headers == ["Retry-After: 1"] && judged.auth == .unavailable, "\(path)")
            }
            let open = harness.get("/api/x", token: token)
            #expect(open.status == 0 && open.tier == .lowest && open.tierOrigin == .none)
            #expect(open.identity.suffix(2) == ["X-User-Tier: free", "X-User-Premium: false"])
            #expect(harness.get("/list").status == 0, "anonymous callers have the lowest tier")
        }
        let shadowed = try Self.harness(shadow: [.tier, .filter])
        shadowed.admission.learn([tier(TokenUser("42", of: "asked"), .unavailable(until: .max))])
        for path in ["/premium", "/list"] { #expect(shadowed.get(path, token: Self.token("42", of: "asked")).tier == .lowest) }
    }

    @Test func anotherSourceDropsWhatWasLearned() throws {
        let harness = try Self.harness()
        harness.admission.learn([tier(TokenUser("42", of: "kept"))])
        let policy = harness.admission.policy
        harness.admission.adopt(try policy.replacing(trust: policy.trust, version: 2))
        #expect(harness.get("/premium", token: Self.token("42", of: "shared")).status == 0, "keys alone change nothing")
        harness.admission.adopt(
            try Policy(rules: policy.rules, trust: policy.trust, hasAccounts: true, tierSources: ["kept": .lookup]))
        #expect(harness.get("/premium", token: Self.token("42", of: "shared")).verdict == .lookUp)
        #expect(harness.get("/premium", token: Self.token("42", of: "asked", tier: "premium")).status == 0, "now a claim counts")
    }

    @Test func theExplanationSaysWhereTheTierCameFrom() throws {
        let harness = try Self.harness()
        func told(_ token: String) -> String? { harness.get("/api/x", token: token).explanation.step("standing") }
        #expect(told(Self.token("42", of: "claimed", tier: "premium")) == "the tier is what the token claims")
        #expect(told(Self.token("42", of: "claimed")) == "the token claims no tier, so it is the lowest")
        #expect(
            told(Self.token("42", of: "claimed", tier: "gold"))
                == "the token claims a tier that is none of TOLLGATE_TIERS, so it is the lowest")
        harness.admission.learn([
            tier(TokenUser("1", of: "kept")), tier(TokenUser("2", of: "kept"), .noAccount), tier(TokenUser("1", of: "asked")),
            tier(TokenUser("2", of: "asked"), .unavailable(until: .max)), tier(TokenUser("3", of: "kept"), .unavailable(until: .max)),
        ])
        harness.advance(milliseconds: 3_000)
        #expect(told(Self.token("1", of: "shared")) == "the tier is the account's, looked up 3 s ago")
        #expect(told(Self.token("2", of: "shared")) == "no tier was set here for kept:2, so it is the lowest, looked up 3 s ago")
        #expect(told(Self.token("3", of: "shared")) == "the accounts are unavailable, the tier is unknown")
        #expect(told(Self.token("1", of: "asked")) == "the tier is the answer of the tier server of asked, asked 3 s ago")
        #expect(told(Self.token("2", of: "asked")) == "the tier server of asked does not answer, the tier is unknown")
    }
}
