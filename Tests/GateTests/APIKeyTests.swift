import Credentials
import HTTP
@testable import Limits
import Testing
import Wire

@testable import Gate

/// `auth=key` and `auth=required,key`.
@Suite struct APIKeyTests {
    private static let now = AdmissionHarness.now.wall.seconds

    private static func route(_ name: String, _ auth: AuthMode, _ change: (inout RouteRule) -> Void = { _ in }) -> RouteRule {
        var made = rule(name, "/\(name)/*", auth: auth)
        made.errors = .problem
        change(&made)
        return made
    }

    private static func limit(_ text: String) -> LimitPolicy {
        do { return try LimitPolicy(parsing: text, tiers: .standard) } catch { preconditionFailure("\(error)") }
    }

    private static let rules = [
        route("key", .key), route("both", .requiredOrKey), route("token", .required), route("open", .none),
        route("paid", .requiredOrKey) { $0.tier = Tier(rawValue: 1) },
        route("scope", .key) { $0.scopes = ["feed:read"] },
        route("limited", .key) { $0.limits = [limit("5/m")] },
        route("kept", .requiredOrKey) { $0.forwardsAuthorization = true },
        route("claims", .requiredOrKey) { $0.claims = [ClaimRequirement(name: "a", value: "b")] },
        route("fresh", .requiredOrKey) { $0.maxAgeSeconds = 60 },
    ]

    private static func policy(premium: [String] = ["feed:read"]) throws -> Policy {
        var own = AdmissionHarness.trusted()
        own.isOwn = true
        let trust = Trust(
            issuers: [own, .apiKeys], requirements: RouteRule.requirements(of: rules), scopes: RouteRule.scopes(of: rules))
        return try Policy(rules: rules, trust: trust, tierScopes: [[], premium])
    }

    private static let texts = (0..<6).map { _ in APIKeyText.make(SecureRandom.bytes) }

    private static func key(
        _ number: Int, tier: String = "free", routes: [String] = [], rate: String? = nil, expiresAt: Int64 = KnownAPIKey.noEnd
    ) -> KnownAPIKey {
        var reader = APIKeyReader()
        let digest = texts[number].withRawBytes { reader.digest(of: $0)! }
        return KnownAPIKey(
            id: UUID(high: 7, low: UInt64(number)), digest: digest, tier: tier, routes: routes,
            rate: rate.flatMap { LimitRate(parsing: $0) },
            expiresAt: expiresAt)
    }

    private static let table = APIKeyTable([
        key(0), key(1, tier: "premium"), key(2, routes: ["both"]), key(3, rate: "2/m"), key(4, tier: "gold", expiresAt: now + 10),
    ])

    private static func harness() throws -> AdmissionHarness {
        let harness = AdmissionHarness(try policy())
        harness.admission.adopt(table)
        return harness
    }

    private static func field(_ number: Int) -> String { "X-Api-Key: \(texts[number])" }

    @Test func aKeyIsAUserOfItsOwn() throws {
        let judged = try Self.harness().get("/key/x", Self.field(1))
        #expect(judged.status == 0 && judged.auth == .accepted && judged.tier == Tier(rawValue: 1))
        #expect(
            judged.identity == [
                "X-User-Id: 00000000-0000-0007-0000-000000000001", "X-Token-Issuer: key", "X-User-Tier: premium", "X-User-Premium: true",
            ])
        #expect(judged.explanation.step("identity") == "API key 00000000-0000-0007-0000-000000000001, tier premium")
        #expect(judged.explanation.step("standing") == "the tier is the key's")
    }

    /// The field's name, what comes besides, and the answer.
    @Test(
        arguments: [
            ("/key/x", "X-Api-Key: 0", 0, AuthReason.none), ("/key/x", "x_api.key: 0", 0, .none),
            ("/key/x", "Authorization: Bearer 0", 0, .none),
            ("/both/x", "Authorization: bearer 0", 0, .none), ("/both/x", "Authorization: Bearer T", 0, .none),
            ("/both/x", "X-Api-Key: 2", 0, .none),
            ("/key/x", "X-Api-Key: 2", 403, .keyRoute), ("/key/x", "X-Api-Key: 5", 401, .key),
            ("/key/x", "Authorization: Bearer T", 401, .key),
            ("/key/x", "X-Api-Key: T", 401, .key), ("/key/x", "X-Api-Key:", 401, .key),
            ("/both/x", "Authorization: Bearer tg_x", 401, .key),
            ("/key/x", "X-A: b", 401, .missing), ("/both/x", "X-A: b", 401, .missing), ("/key/x", "Authorization: Basic 0", 401, .missing),
            ("/token/x", "Authorization: Bearer 0", 401, .malformed), ("/token/x", "X-Api-Key: 0", 401, .missing),
            ("/both/x", "X-Api-Key: 0\nX-Api-Key: 0", 400, .severalAuthorizations),
            ("/both/x", "X-Api-Key: 0\nX_Api_Key: 1", 400, .severalAuthorizations),
            ("/both/x", "X-Api-Key: 0\nAuthorization: Bearer T", 400, .severalAuthorizations),
            ("/key/x", "X-Api-Key: 0\nAuthorization: Bearer 0", 400, .severalAuthorizations),
            ("/key/x", "X-Api-Key: 0\nAuthorization: Basic YTpi", 0, .none),
            ("/paid/x", "X-Api-Key: 0", 403, .tier), ("/paid/x", "X-Api-Key: 1", 0, .none), ("/scope/x", "X-Api-Key: 0", 403, .scope),
            ("/scope/x", "X-Api-Key: 1", 0, .none), ("/claims/x", "X-Api-Key: 0", 403, .claims),
            ("/fresh/x", "X-Api-Key: 0", 401, .signInTooOld),
            ("/open/x", "X-Api-Key: 5", 0, .none),
        ] as [(String, String, UInt16, AuthReason)])
    func credentialsAreReadInOneWay(_ path: String, _ fields: String, _ status: UInt16, _ reason: AuthReason) throws {
        var sent = fields.replacing(" T", with: " " + AdmissionHarness.token())
        for number in Self.texts.indices { sent = sent.replacing(" \(number)", with: " " + Self.texts[number]) }
        let judged = try Self.harness().get(path, sent)
        #expect(judged.status == status && judged.reason == reason)
    }

    @Test func theAnswerSaysThatAKeyIsTaken() throws {
        #expect("\(Refusal.unauthorized(.key).sentence)" == "A valid API key is required.")
        for (path, sentence) in [("/key/x", "An API key is required."), ("/both/x", "An access token is required.")] {
            let judged = try Self.harness().get(path)
            #expect(judged.explanation.step("verdict") == "refused: 401 UNAUTHORIZED, \(sentence)")
            // A client that sent nothing is told of no error (RFC 6750, 3.1).
            #expect(judged.headers.filter { $0.hasPrefix("WWW-Authenticate") } == [#"WWW-Authenticate: Bearer realm="tollgate""#])
        }
    }

    @Test func neitherTheKeyNorItsFieldReachesTheUpstream() throws {
        for (path, fields) in [("/kept/x", "Authorization: Bearer \(Self.texts[0])"), ("/kept/x", Self.field(0))] {
            #expect(try !Self.harness().get(path, fields).forwardsAuthorization)
        }
        #expect(try Self.harness().get("/kept/x", token: AdmissionHarness.token()).forwardsAuthorization)
        let plan = try #require(try Self.policy().plans[1].requestFields)
        var edits = FieldEdits()
        plan.apply(to: &edits, requestID: RawSpan(), user: RawSpan(), tier: "")
        #expect(["X-Api-Key", "x_api_key", "X.API.KEY"].allSatisfy { name in name.withRawBytes { edits.removes(.other, $0) } })
    }

    @Test func aKeyEndsAndIsRevoked() throws {
        let harness = AdmissionHarness(try Self.policy())
        #expect(harness.get("/key/x", Self.field(4)).code == "UNAVAILABLE")
        #expect(harness.get("/key/x", "X-Api-Key: tg_guess").reason == .key)
        harness.admission.adopt(Self.table)
        let judged = harness.get("/key/x", Self.field(4))
        #expect(judged.status == 0 && judged.tier == .lowest)
        #expect(judged.explanation.step("standing") == "the key's tier is none of TOLLGATE_TIERS, so it is the lowest")
        let life = try #require(harness.streamLife)
        func state() -> StreamLife.State { harness.admission.state(of: life, at: harness.now.wall) }
        #expect(life.expiresAt == Self.now + 10 && life.leeway == 0 && state() == .live)
        harness.advance(milliseconds: 10_000)
        #expect(harness.get("/key/x", Self.field(4)).reason == .keyEnded)
        harness.admission.adopt(APIKeyTable([Self.key(0)]))
        #expect(state() == .over(.sessionEnded) && harness.get("/key/x", Self.field(4)).reason == .key)
    }

    /// A reload that takes a scope of the key's tier ends its streams, as it refuses its requests.
    @Test func aStreamOfAKeyEndsWhenItsTierGivesAScopeNoMore() throws {
        let harness = try Self.harness()
        harness.admission.adopt(APIKeyTable([Self.key(0, tier: "premium")]))
        #expect(harness.get("/scope/x", Self.field(0)).status == 0)
        var life = try #require(harness.streamLife)
        func state() -> StreamLife.State { harness.admission.state(of: life, at: harness.now.wall) }
        #expect(state() == .live)
        let former = harness.admission.policy
        let next = try Self.policy(premium: [])
        harness.admission.adopt(next)
        life.adopt(next, insteadOf: former)
        #expect(state() == .over(.tierLost) && harness.get("/scope/x", Self.field(0)).reason == .scope)
    }

    /// The key's own limit counts over all routes, beside those of the route; the fields tell of the tightest.
    @Test func aKeyBringsItsOwnLimit() throws {
        let harness = try Self.harness()
        let first = harness.get("/key/x", Self.field(3))
        #expect(
            first.limitLines == [
                #"RateLimit-Policy: "key";q=2;w=60"#, #"RateLimit: "key";r=1;t=30"#, "X-RateLimit-Limit: 2", "X-RateLimit-Remaining: 1",
                "X-RateLimit-Reset: 30",
            ])
        #expect(first.explanation.step("limit") == "2/m of the key itself: 1 left")
        #expect(harness.keys("/limited/x", Self.field(3)).count == 2 && harness.keys("/limited/x", Self.field(0)).count == 1)
        #expect(harness.keys("/key/x", Self.field(0)).isEmpty)
        let second = harness.get("/limited/x", Self.field(3))
        #expect(second.status == 0 && second.limitLines.contains("X-RateLimit-Limit: 2"))
        let refused = harness.get("/both/x", Self.field(3))
        #expect(refused.code == "RATE_LIMITED" && refused.headers == ["Retry-After: 30"])
        #expect(harness.get("/limited/x", Self.field(0)).limitLines.contains("X-RateLimit-Limit: 5"))
        var note = DecisionRecord()
        harness.record("GET /both/x HTTP/1.1\nHost: h\n\(Self.field(3))", in: &note)
        var hottest = HottestKeys()
        hottest.count(note, policy: harness.admission.policy, at: harness.now.wall)
        #expect(hottest.keys(at: harness.now.wall).map(\.key.policy) == ["key"])
    }

    @Test func aRouteWithKeysLeavesRoomForTheirLimit() {
        let rates = (1...4).map { Self.limit("\($0)/m") }
        #expect(throws: RouteFault.tooManyLimits("r")) {
            try Policy(rules: [Self.route("r", .key) { $0.limits = rates }], trust: Trust(issuers: [.apiKeys]))
        }
    }
}
