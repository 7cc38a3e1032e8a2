import Credentials
import Testing
import Wire

@testable import Gate

@Suite struct ReloadTests {
    private let rules = [rule("api", "/api/*")]

    private func source(_ house: Gatehouse, _ token: String) -> String {
        let judged = house.get("/api/x", token: token)
        return judged.status == 0 ? "\(judged.source)" : judged.code
    }

    private func policy(_ issuers: [TrustedIssuer], skew: Int64 = 30, tiers: TierList = .standard) throws -> Policy {
        try Policy(tiers: tiers, rules: rules, trust: Trust(issuers: issuers, clockSkewSeconds: skew))
    }

    @Test func aReloadThatChangesNothingKeepsTheTokens() throws {
        let house = try Gatehouse(rules)
        let token = Gatehouse.token()
        #expect([source(house, token), source(house, token)] == ["miss", "hit"])
        house.admission.adopt(try policy([Gatehouse.trusted()]))
        #expect(source(house, token) == "hit")
        // The same secret, loaded again, is the same key.
        let again = Gatehouse.makeKey("0123456789abcdef0123456789abcdef")
        house.admission.adopt(try policy([Gatehouse.trusted(again)]))
        #expect(source(house, token) == "hit")
    }

    @Test func aRetiredKeyTakesItsTokensWithIt() throws {
        let both = TrustedIssuer(
            name: "test", issuer: Gatehouse.issuer, audiences: [], algorithms: .hmac,
            keys: KeySet([Gatehouse.key.verificationKey, Gatehouse.otherKey.verificationKey]))
        let house = try Gatehouse(rules, trust: Gatehouse.trust([both]))
        let tokens = [Gatehouse.token(), Gatehouse.token(key: Gatehouse.otherKey)]
        #expect(tokens.map { source(house, $0) } == ["miss", "miss"])
        house.admission.adopt(try policy([Gatehouse.trusted(Gatehouse.otherKey)]))
        #expect(tokens.map { source(house, $0) } == ["UNAUTHORIZED", "hit"])
    }

    @Test func aKeyThatMovesToAnotherIssuerVouchesForNothingItDidBefore() throws {
        let second = "https://second.test"
        let before = [Gatehouse.trusted(), Gatehouse.trusted(Gatehouse.otherKey, name: "second", issuer: second)]
        let after = [Gatehouse.trusted(Gatehouse.otherKey), Gatehouse.trusted(Gatehouse.key, name: "second", issuer: second)]
        let house = try Gatehouse(rules, trust: Gatehouse.trust(before))
        let token = Gatehouse.token()
        #expect(source(house, token) == "miss")
        house.admission.adopt(try policy(after))
        #expect(source(house, token) == "UNAUTHORIZED")
    }

    @Test func otherRulesMeanThatEveryTokenIsJudgedAnew() throws {
        let token = Gatehouse.token()
        func after(_ change: (inout TrustedIssuer) -> Void = { _ in }, skew: Int64 = 30, tiers: TierList = .standard) throws -> String {
            let house = try Gatehouse(rules)
            _ = source(house, token)
            var issuer = Gatehouse.trusted()
            change(&issuer)
            house.admission.adopt(try policy([issuer], skew: skew, tiers: tiers))
            return source(house, token)
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

    /// The mask of a remembered token answers for the old requirements, in their old order.
    @Test func otherRequirementsMeanThatEveryTokenIsJudgedAnew() throws {
        var claiming = rule("api", "/api/*")
        claiming.claims = [ClaimRequirement(name: "role", value: "admin")]
        var other = claiming
        other.claims = [ClaimRequirement(name: "role", value: "owner")]
        let house = try Gatehouse([claiming])
        let token = Gatehouse.token { _ = $0.add("role", .string("admin")) }
        #expect([source(house, token), source(house, token)] == ["miss", "hit"])
        let trust = Gatehouse.trust(requirements: RouteRule.requirements(of: [other]))
        house.admission.adopt(try Policy(rules: [other], trust: trust))
        #expect(source(house, token) == "FORBIDDEN")
    }

    @Test func theCacheNeverAnswersPastExpiry() throws {
        let house = try Gatehouse(rules)
        let token = Gatehouse.token(lifetime: 10)
        #expect([source(house, token), source(house, token)] == ["miss", "hit"])
        house.advance(milliseconds: 9_999)
        #expect(source(house, token) == "hit")
        house.advance(milliseconds: 1)
        // Within the leeway it is the verifier that answers, each time.
        #expect([source(house, token), source(house, token)] == ["miss", "miss"])
        house.advance(milliseconds: 31_000)
        #expect(source(house, token) == "TOKEN_EXPIRED")
    }

    @Test func manyUsersShareASmallCache() throws {
        let policy = try policy([Gatehouse.trusted()])
        let house = Gatehouse(policy, cacheCapacity: 10)
        let tokens = (0..<30).map { Gatehouse.token("user-\($0)") }
        for _ in 0..<3 {
            for (user, token) in tokens.enumerated() { #expect(house.get("/api/x", token: token).userID == "user-\(user)") }
        }
        #expect(house.admission.cachedTokens == 10)
        #expect(house.admission.cacheEvictions == 80)
    }

    @Test func aRequirementTheTrustDoesNotKnowIsAFault() {
        var claiming = rule("api", "/api/*")
        claiming.claims = [ClaimRequirement(name: "role", value: "admin")]
        #expect(throws: RouteFault.unknownRequirement("api", claim: "role")) {
            try Policy(rules: [claiming], trust: Gatehouse.trust())
        }
    }
}
