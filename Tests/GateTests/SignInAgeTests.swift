import Credentials
import Testing
import Wire

@testable import Gate

/// `max-age=`: how long ago the user may have signed in (RFC 9470).
@Suite struct SignInAgeTests {
    private static let now = AdmissionHarness.now.wall.seconds

    private static func route(_ name: String = "r", _ pattern: String = "/r/*", auth: AuthMode = .required, maxAge: UInt32 = 300, errors: Dialect = .problem) -> RouteRule {
        var rule = rule(name, pattern, auth: auth)
        rule.maxAgeSeconds = maxAge
        rule.errors = errors
        return rule
    }

    /// A token whose user signed in so many seconds ago.
    private static func token(_ age: Int64?, _ change: (inout TokenClaims) -> Void = { _ in }) -> String {
        AdmissionHarness.token(lifetime: 3_600) {
            $0.authenticatedAt = age.map { now - $0 }
            change(&$0)
        }
    }

    private static let challenge =
        #"WWW-Authenticate: Bearer realm="tollgate", error="insufficient_user_authentication", error_description="A more recent sign-in is required", max_age="300""#

    /// Ages in seconds, and whether the token passes. The clocks of other issuers may be 30 s ahead.
    @Test(arguments: [
        (0, true), (299, true), (300, true), (301, false), (3_600, false), (604_800, false), (-1, true), (-30, true), (-31, false),
        (-604_800, false), (nil, false),
    ] as [(Int64?, Bool)])
    func theAgeOfTheSignInDecides(_ age: Int64?, _ passes: Bool) throws {
        let judged = try AdmissionHarness([Self.route()]).get("/r/x", token: Self.token(age))
        #expect(judged.status == (passes ? 0 : 401))
        guard !passes else { return }
        #expect(judged.code == "UNAUTHORIZED" && judged.reason == .signInTooOld && judged.auth == .refused)
        #expect(judged.headers == [Self.challenge])
    }

    @Test(arguments: [#""1800000000""#, "true", #"["1800000000"]"#, "null"])
    func aTimeThatIsNoNumberIsNone(_ value: String) throws {
        let payload = #"{"iss":"\#(AdmissionHarness.issuer)","sub":"u","exp":\#(Self.now + 60),"auth_time":\#(value)}"#
        let token = Self.signed(payload, by: "0123456789abcdef0123456789abcdef")
        #expect(try AdmissionHarness([Self.route()]).get("/r/x", token: token).reason == .signInTooOld)
    }

    private static func signed(_ payload: String, by secret: String) -> String {
        func encoded(_ text: String) -> String { text.withRawBytes { Base64URL.encode($0) } }
        let input = encoded(#"{"alg":"HS256"}"#) + "." + encoded(payload)
        let mac = input.withRawBytes { input in secret.withRawBytes { Digest.hmacSHA256(input, key: $0) } }
        return input + "." + Base64URL.encode(mac.rawBytes)
    }

    @Test func theTokenItselfMayBeYoung() throws {
        let harness = try AdmissionHarness([Self.route(), rule("plain", "/plain/*")])
        let refreshed = Self.token(400) { $0.issuedAt = Self.now }
        #expect(harness.get("/plain/x", token: refreshed).status == 0)
        // From the cache as well.
        for _ in 0..<2 { #expect(harness.get("/r/x", token: refreshed).status == 401) }
    }

    @Test func itPassesUntilItIsTooOld() throws {
        let harness = try AdmissionHarness([Self.route()])
        let token = Self.token(0)
        #expect(harness.get("/r/x", token: token).status == 0)
        harness.advance(milliseconds: 300_999)
        #expect(harness.get("/r/x", token: token).status == 0)
        harness.advance(milliseconds: 1)
        #expect(harness.get("/r/x", token: token).status == 401)
    }

    @Test(arguments: [AuthMode.required, .optional])
    func anAnonymousCallerNeedsAToken(_ auth: AuthMode) throws {
        let judged = try AdmissionHarness([Self.route(auth: auth)]).get("/r/x")
        #expect(judged.code == "UNAUTHORIZED" && judged.reason == .missing && judged.headers == [#"WWW-Authenticate: Bearer realm="tollgate""#])
    }

    @Test func aRouteWithoutIdentityCannotHaveOne() {
        #expect(throws: RouteFault.identityNeeded("r")) { try Policy(rules: [Self.route(auth: .none)], trust: AdmissionHarness.trust()) }
    }

    /// Signing in again would not help a caller whose tier or claims do not suffice.
    @Test func tierAndClaimsComeFirst() throws {
        var premium = Self.route()
        premium.tier = Tier(rawValue: 1)
        var claim = Self.route("c", "/c/*")
        claim.claims = [ClaimRequirement(name: "role", value: "admin")]
        let harness = try AdmissionHarness([premium, claim])
        #expect(harness.get("/r/x", token: Self.token(400)).code == "PREMIUM_REQUIRED")
        #expect(harness.get("/c/x", token: Self.token(400)).code == "FORBIDDEN")
        #expect(harness.get("/r/x", token: Self.token(400) { $0.tier = "premium" }).reason == .signInTooOld)
    }

    @Test func aRefusalChargesNoLimit() throws {
        var limited = Self.route()
        limited.limits = [try LimitPolicy(parsing: "1/h", tiers: .standard)]
        let harness = try AdmissionHarness([limited])
        for _ in 0..<3 { #expect(harness.get("/r/x", token: Self.token(400)).status == 401) }
        #expect(harness.get("/r/x", token: Self.token(10)).status == 0)
    }

    @Test func theChallengeSaysHowOldItMayBe() throws {
        let judged = try AdmissionHarness([Self.route()]).get("/r/x", token: Self.token(400))
        #expect(judged.code == "UNAUTHORIZED" && judged.headers == [Self.challenge])
    }

    @Test func explainSaysHowOldItIs() throws {
        let harness = try AdmissionHarness([Self.route()])
        func step(_ token: String?) -> String? { harness.get("/r/x", token: token).explanation.step("sign-in") }
        #expect(step(Self.token(400)) == "at most 300 s ago is needed, it was 400 s ago")
        #expect(step(Self.token(20)) == "at most 300 s ago is needed, it was 20 s ago")
        #expect(step(Self.token(nil)) == "at most 300 s ago is needed, the token has no auth_time")
        #expect(step(Self.token(-90)) == "at most 300 s ago is needed, auth_time is 90 s in the future")
        #expect(step(nil) == "at most 300 s ago is needed")
    }
}

extension Verdict {
    fileprivate var refused: Refusal? { if case .refuse(let refusal) = self { refusal } else { nil } }
}
