import Credentials
import Testing
import Wire

@testable import Gate

/// `Cases/admission.md` has most requests.
@Suite struct AdmissionTests {
    /// `email_verified` as the token says it, and whether the email counts as proven in a token of an own key and of an outside
    /// issuer.
    static let proofs: [(claim: TokenClaims.Value?, own: Bool, outside: Bool)] = [
        (nil, false, true), (.boolean(true), true, true), (.string("true"), true, true), (.boolean(false), false, false),
        (.string("false"), false, false), (.string("False"), false, false), (.string("no"), false, false), (.integer(0), false, false),
        (.integer(1), false, true), (.string("True"), false, true), (.strings(["true"]), false, false),
    ]

    @Test(arguments: proofs, [true, false])
    func onlyAProvenEmailGoesUpstreamUnlessTheRouteAsksForAll(
        _ proof: (claim: TokenClaims.Value?, own: Bool, outside: Bool), _ isOwn: Bool
    ) throws {
        var all = rule("all", "/all")
        all.forwardsEmail = true
        var issuer = AdmissionHarness.trusted()
        issuer.isOwn = isOwn
        let harness = try AdmissionHarness([rule("proven", "/proven"), all], trust: AdmissionHarness.trust([issuer]))
        let token = AdmissionHarness.token {
            $0.email = "a@b.test"
            if let claim = proof.claim { _ = $0.add("email_verified", claim) }
        }
        let isProven = isOwn ? proof.own : proof.outside
        let email = "X-User-Email: a@b.test"
        // The same remembered token on both routes, in any order.
        for _ in 0..<2 {
            let strict = harness.get("/proven", token: token).identity.filter { $0.hasPrefix("X-User-Email") }
            #expect(strict == (isProven ? [email] : []))
            let open = harness.get("/all", token: token).identity.filter { $0.hasPrefix("X-User-Email") }
            #expect(Set(open) == [email, "X-User-Email-Verified: \(isProven)"] && open.count == 2)
        }
    }

    /// One remembered token on routes that get its name, its email, both or neither.
    @Test func aDisplayNameGoesUpstreamWhereTheRouteAsksForIt() throws {
        let rules = [("/none", false, false), ("/name", true, false), ("/mail", false, true), ("/both", true, true)].map {
            path, name, mail in
            var rule = rule(String(path.dropFirst()), path)
            (rule.forwardsName, rule.forwardsEmail) = (name, mail)
            return rule
        }
        let names: [(TokenClaims.Value, String?)] = [
            (.string("Zoë de l'Été"), "Zo%C3%AB%20de%20l%27%C3%89t%C3%A9"), (.string("a\r\nX-User-Id: b"), nil), (.string(" "), nil),
            (.string("%41~"), "%2541~"), (.string(""), nil), (.integer(7), nil), (.string(String(repeating: "n", count: 257)), nil),
        ]
        for (claim, sent) in names {
            let name = sent.map { ["X-User-Name: \($0)"] } ?? []
            for isProven in [true, false] {
                let harness = try AdmissionHarness(rules)
                let token = AdmissionHarness.token {
                    $0.email = "a@b.test"
                    $0.isEmailVerified = isProven
                    _ = $0.add("name", claim)
                }
                let proven = isProven ? ["X-User-Email: a@b.test"] : []
                let all = ["X-User-Email-Verified: \(isProven)", "X-User-Email: a@b.test"]
                for (path, expected) in [("/none", proven), ("/name", name + proven), ("/mail", all), ("/both", name + all)] {
                    let told = harness.get(path, token: token).identity
                    #expect(Array(told.prefix(expected.count + 1)) == expected + ["X-User-Id: user-1"], "\(path) \(claim)")
                    #expect(told.suffix(3) == ["X-Token-Issuer: https://issuer.test", "X-User-Tier: free", "X-User-Premium: false"])
                }
            }
        }
    }

    @Test func bracesInsideASegmentAreNoPathToStrip() {
        var stripped = rule("strip", "/p/*", auth: .none)
        stripped.strip = "/p{kind}"
        #expect(throws: RouteFault.badStrip("strip", "/p{kind}")) { try AdmissionHarness([stripped]) }
    }

    @Test(arguments: [AuthMode.required, .optional])
    func aBadTokenIs401EvenWhereNoneIsNeeded(_ mode: AuthMode) throws {
        let harness = try AdmissionHarness([rule("api", "/api/*", auth: mode)])
        let good = AdmissionHarness.token()
        let bad = [
            "", "x", "a.b.c", good + "x", String(good.dropLast()), " ", good + " " + good, "\t" + good,
            AdmissionHarness.token(key: AdmissionHarness.otherKey), AdmissionHarness.token(issuer: "https://else.test"),
        ]
        for token in bad {
            let judged = harness.get("/api/x", "Authorization: bearer \(token)")
            #expect(judged.status == 401 && judged.code == "UNAUTHORIZED", "\(token)")
            #expect(judged.headers[0].contains("error=\"invalid_token\", error_description=\""), "\(token)")
            #expect(judged.identity == [])
        }
        #expect(harness.get("/api/x", "Authorization: Bearer\t\(good)").status == 401)
        #expect(harness.get("/api/x", "Authorization: Bearer").status == 401)
    }

    @Test func keysThatWereNeverFetchedAre503AndNever401() throws {
        let harness = try AdmissionHarness([rule("api", "/api/*")], trust: AdmissionHarness.trust([AdmissionHarness.trusted(nil)]))
        let judged = harness.get("/api/x", token: AdmissionHarness.token())
        #expect(judged.status == 503 && judged.code == "UNAVAILABLE" && judged.headers == ["Retry-After: 10"])
        #expect(judged.issuerToRefetch == 0 && judged.auth == .unavailable)
        #expect(harness.get("/api/x").status == 401)
    }

    @Test func anUnknownKeyAsksForItsIssuersKeys() throws {
        let generated = try SigningKey.generate(.HS256)
        let trust = AdmissionHarness.trust([
            AdmissionHarness.trusted(issuer: "https://first.test"), AdmissionHarness.trusted(try SigningKey.generate(.HS256)),
        ])
        let harness = try AdmissionHarness([rule("api", "/api/*")], trust: trust)
        let judged = harness.get("/api/x", token: AdmissionHarness.token(key: generated))
        #expect(judged.status == 401 && judged.issuerToRefetch == 1)
    }

    @Test func theIssuersNameStandsInWhereTokensHaveNoIss() throws {
        let trust = AdmissionHarness.trust([AdmissionHarness.trusted(name: "legacy", issuer: nil)])
        let harness = try AdmissionHarness([rule("api", "/api/*")], trust: trust)
        #expect(harness.get("/api/x", token: AdmissionHarness.token(issuer: nil)).hasIdentity("X-Token-Issuer: legacy"))
    }

    @Test func aRouteThatNeverLooksCannotAskForATier() throws {
        var contradiction = rule("api", "/api/*", auth: .none)
        contradiction.tier = .lowest
        #expect(throws: RouteFault.identityNeeded("api")) { try AdmissionHarness([contradiction]) }
    }

    @Test func aLocalTargetIsAnsweredAsOne() throws {
        var local = rule("jwks", "GET /.well-known/jwks.json", auth: .none)
        local.target = .local(3)
        #expect(try AdmissionHarness([local]).get("/.well-known/jwks.json").verdict == .local(3))
    }
}
