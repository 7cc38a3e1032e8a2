import Credentials
import Testing
import Wire

@testable import Gate

/// `scope=`: of outside tokens their own, of own users those of their tier as it is now.
@Suite struct ScopeTests {
    private static let ada = UUID(high: 0x0193_a1b2_0000_7000, low: 0x8000_0000_0000_0001)

    private static func route(_ name: String, _ scopes: [String], auth: AuthMode = .required) -> RouteRule {
        var made = rule(name, "/\(name)/*", auth: auth)
        made.scopes = scopes
        return made
    }

    private static let rules = [
        route("read", ["feed:read"]), route("both", ["feed:read", "feed:write"]), route("may", ["feed:read"], auth: .optional),
        route("plain", []),
    ]

    private static func policy(
        _ rules: [RouteRule] = rules, _ tiers: [[String]] = [["feed:read"], ["feed:read", "feed:write"]]
    ) throws -> Policy {
        var own = AdmissionHarness.trusted()
        own.isOwn = true
        let outside = AdmissionHarness.trusted(AdmissionHarness.otherKey, name: "out", issuer: "https://out.test")
        return try Policy(
            rules: rules, trust: Trust(issuers: [own, outside], scopes: RouteRule.scopes(of: rules)), hasAccounts: true, tierScopes: tiers)
    }

    private static func outside(_ claim: String = "scope", _ value: TokenClaims.Value) -> String {
        AdmissionHarness.token("42", issuer: "https://out.test", key: AdmissionHarness.otherKey) { _ = $0.add(claim, value) }
    }

    private static func learn(_ harness: AdmissionHarness, _ tier: UInt8, version: Int64) {
        harness.admission.learn([
            UserTier(
                user: TokenUser(ada.text), status: .tier(Tier(rawValue: tier), until: .max), version: version, source: .pushed,
                learnedAt: harness.now.wall.seconds)
        ])
    }

    @Test(
        arguments: [
            ("/read/x", "scope", .string("feed:read"), true), ("/read/x", "scope", .string("a feed:read b"), true),
            ("/read/x", "scope", .string("feed:read2 xfeed:read feed"), false), ("/read/x", "scope", .string(""), false),
            ("/read/x", "scp", .string("feed:read x"), true), ("/read/x", "scp", .strings(["x", "feed:read"]), true),
            ("/read/x", "scp", .strings(["x feed:read"]), false), ("/read/x", "scopes", .string("feed:read"), false),
            ("/both/x", "scope", .string("feed:read"), false), ("/both/x", "scope", .string("feed:write  feed:read"), true),
            ("/read/x", "scp", .boolean(true), false), ("/plain/x", "scope", .string(""), true),
        ] as [(String, String, TokenClaims.Value, Bool)])
    func anOutsideTokenHasThoseOfItsClaims(_ path: String, _ claim: String, _ value: TokenClaims.Value, _ passes: Bool) throws {
        let harness = AdmissionHarness(try Self.policy())
        // The second time from the cache of tokens.
        for _ in 0..<2 {
            let judged = harness.get(path, token: Self.outside(claim, value))
            #expect(judged.code == (passes ? "" : "FORBIDDEN") && judged.reason == (passes ? .none : .scope))
        }
    }

    @Test func theChallengeNamesTheScopesOfTheRoute() throws {
        let harness = AdmissionHarness(try Self.policy())
        let judged = harness.get("/both/x", token: Self.outside("scope", .string("feed:read")))
        #expect(
            judged.headers == [
                #"WWW-Authenticate: Bearer realm="tollgate", error="insufficient_scope", error_description="The caller lacks a required scope", scope="feed:read feed:write""#
            ])
        #expect(judged.explanation.step("scope") == "feed:read feed:write is needed, and the token does not give it")
        #expect(harness.get("/may/x").code == "UNAUTHORIZED" && harness.get("/may/x").reason == .missing)
        let held = harness.get("/read/x", token: Self.outside("scope", .string("feed:read")))
        #expect(held.explanation.step("scope") == "feed:read is needed, and the token gives it")
        #expect(throws: RouteFault.identityNeeded("r")) { try Self.policy([Self.route("r", ["a"], auth: .none)]) }
    }

    /// The claims of own tokens do not count.
    @Test func anOwnUserHasThoseOfTheTierAsItIsNow() throws {
        let harness = AdmissionHarness(try Self.policy())
        let token = AdmissionHarness.token(Self.ada.text) { _ = $0.add("scope", .string("feed:read feed:write")) }
        Self.learn(harness, 0, version: 1)
        #expect(harness.get("/read/x", token: token).status == 0)
        let life = try #require(harness.streamLife)
        let refused = harness.get("/both/x", token: token)
        #expect(
            refused.reason == .scope && refused.explanation.step("scope") == "feed:read feed:write is needed, and the tier does not give it"
        )
        Self.learn(harness, 1, version: 2)
        #expect(harness.get("/both/x", token: token).status == 0)
        let writer = try #require(harness.streamLife)
        func state(_ life: StreamLife) -> StreamLife.State { harness.admission.state(of: life, at: harness.now.wall) }
        #expect(state(writer) == .live)
        Self.learn(harness, 0, version: 3)
        #expect(state(writer) == .over(.tierLost) && state(life) == .live)
        // A reload gives scopes other bits, and takes one of a tier.
        var moved = life
        let former = harness.admission.policy
        let next = try Self.policy([Self.route("first", ["z"])] + Self.rules, [["feed:read", "z"], []])
        harness.admission.adopt(next)
        moved.adopt(next, insteadOf: former)
        Self.learn(harness, 0, version: 4)
        #expect(state(moved) == .live)
        Self.learn(harness, 1, version: 5)
        #expect(state(moved) == .over(.tierLost))
        #expect(harness.get("/read/x", token: token).reason == .scope)
        let unknown = UserTier(user: TokenUser(UUID(high: 1, low: 2).text), status: .unavailable(until: .max), version: 1)
        harness.admission.learn([unknown])
        #expect(harness.get("/read/x", token: AdmissionHarness.token(unknown.user.id)).code == "UNAVAILABLE")
    }
}
