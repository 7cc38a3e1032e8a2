import Credentials
import HTTP
import Testing
import Wire

@testable import Gate

/// Routes that ask for an attestation of the app.
@Suite struct AttestationTests {
    private static let appCheck = AdmissionHarness.makeKey("the key of the one who attests apps")
    private static let issuer = "https://attest.test"

    /// The issuers of bearers and of two attestations of one issuer, which differ in their audience.
    private static func trust(_ key: SigningKey? = appCheck, version: Int = 1) -> Trust {
        let attesting = ["one", "two"].map { name in
            var issuer = AdmissionHarness.trusted(key, name: "attest-\(name)", issuer: issuer)
            (issuer.audiences, issuer.use) = ([name], .attestation)
            return issuer
        }
        return AdmissionHarness.trust([AdmissionHarness.trusted()] + attesting)
    }

    private static func harness(
        _ shadow: ShadowSet = [], trust: Trust = trust(), isOnce: Bool = false, limits: [LimitPolicy] = []
    ) throws -> AdmissionHarness {
        var rules = ["one", "two", "three"].map { name in
            var rule = GateTests.rule(name, "/\(name)/*", auth: .optional)
            (rule.attestation, rule.shadow, rule.cors) = (
                AttestationRule(name: name, field: "X-Check", isOnce: isOnce), shadow, CORSRule(.any)
            )
            rule.limits = limits
            return rule
        }
        rules.append(GateTests.rule("plain", "/plain/*"))
        return try AdmissionHarness(rules, trust: trust)
    }

    private static func token(
        _ audience: String = "one", lifetime: Int64 = 600, issuer: String? = issuer, key: SigningKey = appCheck, id: String? = nil
    ) -> String {
        AdmissionHarness.token("1:2:ios:3", lifetime: lifetime, issuer: issuer, key: key) { ($0.audience, $0.tokenID) = (audience, id) }
    }

    @Test func aRequestPassesByTheAttestationOfItsRoute() throws {
        let harness = try Self.harness()
        let (good, bearer) = (Self.token(), AdmissionHarness.token())
        let rows: [(path: String, field: String, says: String)] = [
            ("one", "X-Check: \(good)", "ok"), ("one", "x-check: \(good)", "ok"), ("one", "X-Check: \(good)", "ok"),
            ("one", "A: b", "missing"),
            ("one", "X-Check: \(good)\nX-Check: \(good)", "missing"), ("one", "X-Check:", "missing"),
            ("one", "X-Check: Bearer \(good)", "malformed"),
            ("one", "X-Check: \(Self.token(lifetime: -61))", "expired"), ("one", "X-Check: \(Self.token("two"))", "wrong_audience"),
            ("two", "X-Check: \(good)", "wrong_audience"), ("two", "X-Check: \(Self.token("two"))", "ok"),
            ("one", "X-Check: \(Self.token(key: AdmissionHarness.otherKey))", "bad_signature"),
            ("one", "X-Check: \(Self.token(key: AdmissionHarness.otherKey))", "bad_signature"),
            ("one", "X-Check: \(Self.token(issuer: "https://attest.test/"))", "wrong_issuer"),
            ("one", "X-Check: \(bearer)", "wrong_issuer"),
            ("three", "X-Check: \(good)", "wrong_issuer"),
        ]
        for row in rows {
            let judged = harness.get("/\(row.path)/x", row.field)
            let passes = row.says == "ok"
            #expect(judged.status == (passes ? 0 : 403) && judged.code == (passes ? "" : "ATTESTATION_REQUIRED"), "\(row)")
            #expect(judged.explanation.step("attest") == "\(row.path), X-Check: \(row.says)" && judged.headers.isEmpty, "\(row)")
            #expect(judged.auth == (passes ? .anonymous : .notLooked) && judged.identity.isEmpty)
        }
        let both = harness.get("/one/x", token: bearer, "X-Check: \(good)")
        #expect(both.status == 0 && both.userID == "user-1" && both.hasIdentity("X-User-Id: user-1"))
        let preflight = harness.ask("OPTIONS /one/x HTTP/1.1\nHost: h\nOrigin: https://a.test\nAccess-Control-Request-Method: GET")
        #expect(
            preflight.status == 0
                && preflight.answerLines.contains { $0.hasPrefix("Access-Control-Allow-Headers") && $0.hasSuffix("X-Check") })
    }

    /// Neither before nor after it has passed as one, in either cache.
    @Test func anAttestationIsNoBearerAndABearerIsNoAttestation() throws {
        let harness = try Self.harness()
        let (good, bearer) = (Self.token(), AdmissionHarness.token())
        for _ in 0..<2 {
            #expect(
                harness.get("/plain/x", token: good).status == 401 && harness.get("/one/x", token: good, "X-Check: \(good)").status == 401)
            #expect(harness.get("/one/x", "X-Check: \(bearer)").status == 403)
            #expect(harness.get("/plain/x", token: bearer).status == 0 && harness.get("/one/x", "X-Check: \(good)").status == 0)
        }
    }

    @Test func keysThatWereNeverFetchedAre503AndANewKeySetCounts() throws {
        let harness = try Self.harness(trust: Self.trust(nil))
        let asked = harness.get("/one/x", "X-Check: \(Self.token())")
        #expect(asked.status == 503 && asked.issuerToRefetch == 1 && asked.headers == ["Retry-After: 10"])
        let verdict = try #require(asked.explanation.step("verdict"))
        #expect(verdict.contains("The attestation of the app cannot be checked") && !verdict.contains("access token"))
        #expect(harness.get("/one/x").status == 403 && harness.get("/plain/x", token: AdmissionHarness.token()).status == 0)
        let fetched = try harness.admission.policy.replacing(trust: Self.trust(), version: 2)
        harness.admission.adopt(fetched)
        #expect(harness.get("/one/x", "X-Check: \(Self.token())").status == 0)
        // A key that is gone takes its cached attestations with it.
        harness.admission.adopt(try fetched.replacing(trust: Self.trust(AdmissionHarness.otherKey), version: 3))
        #expect(harness.get("/one/x", "X-Check: \(Self.token())").status == 403)
        harness.admission.adopt(fetched)
        #expect(harness.get("/one/x", "X-Check: \(Self.token())").status == 0)
        harness.advance(milliseconds: 631_000)
        #expect(harness.get("/one/x", "X-Check: \(Self.token())").explanation.step("attest") == "one, X-Check: expired")
    }

    @Test func shadowModeJudgesAndLetsPass() throws {
        for (trust, field, says) in [
            (Self.trust(), "A: b", "missing"), (Self.trust(nil), "X-Check: \(Self.token())", "keys_unavailable"),
            (Self.trust(), "X-Check: x", "malformed"),
        ] {
            let judged = try Self.harness(.attestation, trust: trust).get("/one/x", field)
            #expect(judged.status == 0 && judged.shadowed == .attestation)
            #expect(judged.explanation.step("attest") == "one, X-Check: \(says), shadow mode lets it pass")
            #expect(judged.explanation.step("identity") != nil)
        }
    }

    @Test func whereItCountsOnceATokenPassesOnce() throws {
        let harness = try Self.harness(isOnce: true)
        let ask = { (token: String) in
            let judged = harness.get("/one/x", "X-Check: \(token)")
            return "\(judged.status) \(judged.explanation.step("attest")?.dropFirst("one, X-Check: ".count) ?? "")"
        }
        for token in [Self.token(id: "1"), Self.token(id: "2"), Self.token()] {
            #expect([token, token].map(ask) == ["0 ok, counts once", "403 used"])
        }
        #expect(harness.get("/one/x", "X-Check: \(Self.token(id: "1"))").code == "ATTESTATION_REQUIRED")
        // Another token with the same id, up to the last second of its life.
        #expect(ask(Self.token(lifetime: 900, id: "1")) == "403 used")
        harness.advance(milliseconds: 599_000)
        #expect(ask(Self.token(id: "1")) == "403 used" && ask(Self.token(lifetime: 900, id: "1")) == "403 used")
        harness.advance(milliseconds: 60_000)
        #expect(ask(Self.token(id: "1")) == "403 expired")
    }

    /// A request that is refused for another reason leaves the token as it was.
    @Test func aTokenThatCountsOnceIsUsedWithTheLimits() throws {
        let harness = try Self.harness(
            isOnce: true, limits: [LimitPolicy](repeating: try LimitPolicy(parsing: "2/h", tiers: .standard), count: 4))
        let ask = { (id: String) in harness.get("/one/x", "X-Check: \(Self.token(id: id))").code }
        #expect(
            ["1", "1", "2", "1", "3", "3"].map(ask) == [
                "", "ATTESTATION_REQUIRED", "", "ATTESTATION_REQUIRED", "RATE_LIMITED", "RATE_LIMITED",
            ])
        harness.advance(milliseconds: 1_800_000)
        let later = Self.token(lifetime: 3_600, id: "3")
        #expect(harness.get("/one/x", "X-Check: \(later)").code == "" && harness.get("/one/x", "X-Check: \(later)").status == 403)
    }

    @Test func shadowModeLooksAtTheUseAndLetsPass() throws {
        let harness = try Self.harness(.attestation, isOnce: true)
        let judged = (0..<2).map { _ in harness.get("/one/x", "X-Check: \(Self.token(id: "1"))") }
        #expect(judged.map(\.status) == [0, 0] && judged.map(\.shadowed) == [[], .attestation])
        #expect(judged[1].explanation.step("attest") == "one, X-Check: used, shadow mode lets it pass")
    }

    /// A path that an upstream may read as that of an attested route is refused.
    @Test func anAttestedRouteIsStricter() throws {
        var open = GateTests.rule("open", "/api/*", auth: .none), attested = GateTests.rule("attested", "/api/gold/*", auth: .none)
        attested.attestation = AttestationRule(name: "one", field: "X-Check")
        for (shadow, status) in [([], 400), (.attestation, 0)] as [(ShadowSet, UInt16)] {
            attested.shadow = shadow
            let harness = try AdmissionHarness([open, attested], trust: Self.trust())
            #expect(harness.get("/api/Gold/x").status == status && harness.get("/api/silver").status == 0)
        }
        open.attestation = attested.attestation
        #expect(try AdmissionHarness([open, attested], trust: Self.trust()).get("/api/Gold/x", "X-Check: \(Self.token())").status == 0)
    }
}
