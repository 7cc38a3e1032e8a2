import Credentials
import Testing
import Wire

@testable import Gate

/// `max-age=`. `Cases/sign-in.md` says which sign-ins are too old.
@Suite struct SignInAgeTests {
    private static let now = AdmissionHarness.now.wall.seconds

    private static func route(
        _ name: String = "r", _ pattern: String = "/r/*", auth: AuthMode = .required, maxAge: UInt32 = 300, errors: Dialect = .problem
    ) -> RouteRule {
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

    @Test func aRouteWithoutIdentityCannotHaveOne() {
        #expect(throws: RouteFault.identityNeeded("r")) { try Policy(rules: [Self.route(auth: .none)], trust: AdmissionHarness.trust()) }
    }

    @Test func theChallengeSaysHowOldItMayBe() throws {
        let judged = try AdmissionHarness([Self.route()]).get("/r/x", token: Self.token(400))
        #expect(judged.code == "UNAUTHORIZED" && judged.headers == [Self.challenge])
    }
}

extension Verdict {
    fileprivate var refused: Refusal? { if case .refuse(let refusal) = self { refusal } else { nil } }
}
