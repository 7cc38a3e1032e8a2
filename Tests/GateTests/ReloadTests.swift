import Credentials
import Testing
import Wire

@testable import Gate

@Suite struct ReloadTests {
    private let rules = [rule("api", "/api/*")]

    private func source(_ harness: AdmissionHarness, _ token: String) -> String {
        let judged = harness.get("/api/x", token: token)
        return judged.status == 0 ? "\(judged.source)" : judged.code
    }

    private func policy(_ issuers: [TrustedIssuer], skew: Int64 = 30, tiers: TierList = .standard) throws -> Policy {
        try Policy(tiers: tiers, rules: rules, trust: Trust(issuers: issuers, clockSkewSeconds: skew))
    }

    @Test func aReloadThatChangesNothingKeepsTheTokens() throws {
        let harness = try AdmissionHarness(rules)
        let token = AdmissionHarness.token()
        #expect([source(harness, token), source(harness, token)] == ["miss", "hit"])
        harness.admission.adopt(try policy([AdmissionHarness.trusted()]))
        #expect(source(harness, token) == "hit")
        // The same secret, loaded again, is the same key.
        let again = AdmissionHarness.makeKey("0123456789abcdef0123456789abcdef")
        harness.admission.adopt(try policy([AdmissionHarness.trusted(again)]))
        #expect(source(harness, token) == "hit")
    }

    @Test func aRetiredKeyTakesItsTokensWithIt() throws {
        let both = TrustedIssuer(
            name: "test", issuer: AdmissionHarness.issuer, audiences: [], algorithms: .hmac,
            keys: KeySet([AdmissionHarness.key.verificationKey, AdmissionHarness.otherKey.verificationKey]))
        let harness = try AdmissionHarness(rules, trust: AdmissionHarness.trust([both]))
        let tokens = [AdmissionHarness.token(), AdmissionHarness.token(key: AdmissionHarness.otherKey)]
        #expect(tokens.map { source(harness, $0) } == ["miss", "miss"])
        harness.admission.adopt(try policy([AdmissionHarness.trusted(AdmissionHarness.otherKey)]))
        #expect(tokens.map { source(harness, $0) } == ["UNAUTHORIZED", "hit"])
    }

    @Test func aKeyThatMovesToAnotherIssuerInvalidatesItsTokens() throws {
        let second = "https://second.test"
        let before = [AdmissionHarness.trusted(), AdmissionHarness.trusted(AdmissionHarness.otherKey, name: "second", issuer: second)]
        let after = [
            AdmissionHarness.trusted(AdmissionHarness.otherKey),
            AdmissionHarness.trusted(AdmissionHarness.key, name: "second", issuer: second),
        ]
        let harness = try AdmissionHarness(rules, trust: AdmissionHarness.trust(before))
        let token = AdmissionHarness.token()
        #expect(source(harness, token) == "miss")
        harness.admission.adopt(try policy(after))
        #expect(source(harness, token) == "UNAUTHORIZED")
    }

    @Test func otherRulesMeanThatEveryTokenIsJudgedAnew() throws {
        let token = AdmissionHarness.token()
        func after(_ change: (inout TrustedIssuer) -> Void = { _ in }, skew: Int64 = 30, tiers: TierList = .standard) throws -> String {
            let harness = try AdmissionHarness(rules)
            _ = source(harness, token)
            var issuer = AdmissionHarness.trusted()
            change(&issuer)
            harness.admission.adopt(try policy([issuer], skew: skew, tiers: tiers))
            return source(harness, token)
        }
        #expect(try after() == "hit")
        #expect(try after({ $0.audiences = ["x"] }) == "UNAUTHORIZED")
        #expect(try after({ $0.algorithms = .rsa }) == "UNAUTHORIZED")
        #expect(try after({ $0.userClaim = "uid" }) == "UNAUTHORIZED")
        #expect(try after({ $0.issuer = "https://other.test" }) == "UNAUTHORIZED")
        #expect(try after({ $0.maxLifetimeSeconds = 10 }) == "UNAUTHORIZED")
        #expect(try after({ $0.tierClaim = "level" }) == "miss")
        #expect(try after({ $0.emailClaim = "mail" }) == "miss")
        #expect(try after({ $0.name = "renamed" }) == "miss")
        #expect(try after({ $0.isOwn = true }) == "miss")
        #expect(try after(skew: 60) == "miss")
        #expect(try after(tiers: TierList(["free", "plus", "premium"])) == "miss")
    }

    /// The mask of a cached token refers to the old requirements, in their old order.
    @Test func otherRequirementsMeanThatEveryTokenIsJudgedAnew() throws {
        var claiming = rule("api", "/api/*")
        claiming.claims = [ClaimRequirement(name: "role", value: "admin")]
        var other = claiming
        other.claims = [ClaimRequirement(name: "role", value: "owner")]
        let harness = try AdmissionHarness([claiming])
        let token = AdmissionHarness.token { _ = $0.add("role", .string("admin")) }
        #expect([source(harness, token), source(harness, token)] == ["miss", "hit"])
        let trust = AdmissionHarness.trust(requirements: RouteRule.requirements(of: [other]))
        harness.admission.adopt(try Policy(rules: [other], trust: trust))
        #expect(source(harness, token) == "FORBIDDEN")
    }

    @Test func theCacheNeverAnswersPastExpiry() throws {
        let harness = try AdmissionHarness(rules)
        let token = AdmissionHarness.token(lifetime: 10)
        #expect([source(harness, token), source(harness, token)] == ["miss", "hit"])
        harness.advance(milliseconds: 9_999)
        #expect(source(harness, token) == "hit")
        harness.advance(milliseconds: 1)
        // Within the leeway the token is verified each time.
        #expect([source(harness, token), source(harness, token)] == ["miss", "miss"])
        harness.advance(milliseconds: 31_000)
        #expect(source(harness, token) == "TOKEN_EXPIRED")
    }

    @Test func manyUsersShareASmallCache() throws {
        let policy = try policy([AdmissionHarness.trusted()])
        let harness = AdmissionHarness(policy, cacheCapacity: 10)
        let tokens = (0..<30).map { AdmissionHarness.token("user-\($0)") }
        for _ in 0..<3 {
            for (user, token) in tokens.enumerated() { #expect(harness.get("/api/x", token: token).userID == "user-\(user)") }
        }
        #expect(harness.admission.cachedTokens == 10)
        #expect(harness.admission.cacheEvictions == 80)
    }

    @Test func aRequirementTheTrustDoesNotKnowIsAFault() {
        var claiming = rule("api", "/api/*")
        claiming.claims = [ClaimRequirement(name: "role", value: "admin")]
        #expect(throws: RouteFault.unknownRequirement("api", claim: "role")) {
            try Policy(rules: [claiming], trust: AdmissionHarness.trust())
        }
    }
}
