import Credentials
import Testing
import Wire

@testable import Gate

@Suite struct AdmissionTests {
    @Test func aVerifiedTokenOpensTheRouteAndBecomesHeaders() throws {
        let harness = try AdmissionHarness([rule("api", "/api/*")])
        let token = AdmissionHarness.token("user-1", tier: "premium") {
            $0.email = "a@b.test"
            $0.sessionID = "s-9"
            $0.actorType = "team"
            $0.actorID = "t-3"
        }
        for source in [TokenSource.miss, .hit, .hit] {
            let judged = harness.get("/api/x", token: token)
            #expect(judged.verdict == .forward(upstream: 0))
            #expect(judged.source == source)
            #expect(judged.auth == .accepted)
            #expect(judged.userID == "user-1")
            #expect(judged.sessionID == "s-9")
            #expect(!judged.forwardsAuthorization)
            #expect(
                judged.identity == [
                    "X-User-Email: a@b.test", "X-User-Id: user-1", "X-Session-Id: s-9",
                    "X-Token-Issuer: https://issuer.test", "X-Actor-Type: team", "X-Actor-Id: t-3",
                    "X-User-Tier: premium", "X-User-Premium: true",
                ])
        }
    }

    /// `email_verified` as the token says it, and whether the email counts as proven in a token of an own key and of an outside
    /// issuer.
    static let proofs: [(claim: TokenClaims.Value?, own: Bool, outside: Bool)] = [
        (nil, false, true), (.boolean(true), true, true), (.string("true"), true, true), (.boolean(false), false, false),
        (.string("false"), false, false), (.string("False"), false, false), (.string("no"), false, false), (.integer(0), false, false),
        (.integer(1), false, true), (.string("True"), false, true), (.strings(["true"]), false, false),
    ]

    @Test(arguments: proofs, [true, false])
    func onlyAProvenEmailGoesUpstreamUnlessTheRouteAsksForAll(_ proof: (claim: TokenClaims.Value?, own: Bool, outside: Bool), _ isOwn: Bool) throws {
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
        let rules = [("/none", false, false), ("/name", true, false), ("/mail", false, true), ("/both", true, true)].map { path, name, mail in
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

    @Test func aTokenWithoutAnEmailProvesNone() throws {
        var all = rule("all", "/all", auth: .optional)
        all.forwardsEmail = true
        let harness = try AdmissionHarness([all])
        let known = harness.get("/all", token: AdmissionHarness.token { _ = $0.add("email_verified", .boolean(true)) })
        #expect(known.identity.filter { $0.hasPrefix("X-User-Email") } == ["X-User-Email-Verified: false"])
        #expect(harness.get("/all").identity == [])
    }

    @Test func headersStandOnlyForWhatIsKnown() throws {
        let harness = try AdmissionHarness([rule("api", "/api/*")])
        #expect(
            harness.get("/api/x", token: AdmissionHarness.token()).identity == [
                "X-User-Id: user-1", "X-Token-Issuer: https://issuer.test", "X-User-Tier: free", "X-User-Premium: false",
            ])
    }

    @Test func anUnknownTierCountsAsTheLowest() throws {
        let harness = try AdmissionHarness([rule("api", "/api/*")])
        for tier in ["platinum", "Premium", "PREMIUM"] {
            let judged = harness.get("/api/x", token: AdmissionHarness.token(tier: tier))
            #expect(judged.tier == .lowest)
            #expect(judged.hasIdentity("X-User-Premium: false"))
        }
    }

    @Test func noRouteIs404AndAWrongMethod405() throws {
        let harness = try AdmissionHarness([rule("api", "GET /api/*")])
        let missing = harness.get("/other")
        #expect(missing.status == 404 && missing.code == "NOT_FOUND" && missing.dialect == .problem)
        let wrong = harness.ask("POST /api/x HTTP/1.1\nHost: a")
        #expect(wrong.status == 405 && wrong.headers == ["Allow: GET"] && wrong.dialect == .password)
        #expect(harness.ask("OPTIONS * HTTP/1.1\nHost: a").status == 404)
        #expect(harness.ask("HEAD /api/x HTTP/1.1\nHost: a").status == 405)
    }

    @Test func theUpstreamGetsTheCanonicalPathAndTheClientsIfItIsOne() throws {
        var stripped = rule("strip", "/s/*", auth: .none)
        stripped.strip = "/s"
        let harness = try AdmissionHarness([rule("api", "/api/*", auth: .none), stripped, rule("sx", "/sx", auth: .none)])
        #expect(harness.get("/api/x?q=//..%2F").path == nil)
        #expect(harness.get("/api//y/../x?q=1").path == "/api/x")
        #expect(harness.get("/%61pi/").path == "/api/")
        #expect(harness.get("/s/a/b").path == "/a/b")
        #expect(harness.get("/s").path == "/")
        #expect(harness.get("/s/").path == "/")
        #expect(harness.get("/s//./a").path == "/a")
        #expect(harness.get("/sx").path == nil)
        for path in ["/api/../../x", "/api%2fx", "/api/%5c", "/api/%00", "/a%252fb", "/api/..;/x"] {
            let judged = harness.get(path)
            #expect(judged.status == 400 && judged.code == "BAD_REQUEST", "\(path)")
        }
    }

    @Test(arguments: [
        ("/p/words/7/review", "/7/review"), ("/p/words", "/"), ("/p/words/", "/"), ("/p//words/%61/b", "/a/b"), ("/p", nil),
        ("/p/", nil), ("/p/%7Bkind%7D/x", "/x"),
    ])
    func aBracedNameIsStrippedAsTheSegmentItStandsFor(_ path: String, _ forwarded: String?) throws {
        var stripped = rule("strip", "/p/*", auth: .none)
        stripped.strip = "/p/{kind}"
        #expect(try AdmissionHarness([stripped]).get(path).path == forwarded)
    }

    @Test func bracesInsideASegmentAreNoPathToStrip() {
        var stripped = rule("strip", "/p/*", auth: .none)
        stripped.strip = "/p{kind}"
        #expect(throws: RouteFault.badStrip("strip", "/p{kind}")) { try AdmissionHarness([stripped]) }
    }

    @Test func theMatchedPathIsTheForwardedOne() throws {
        let harness = try AdmissionHarness([rule("open", "/open/*", auth: .none), rule("shut", "/shut/*")])
        for path in ["/open/../shut/x", "/open/%2e%2e/shut/x", "//shut/x", "/./shut/x", "/%73hut/x", "/shut//x"] {
            let judged = harness.get(path)
            #expect(judged.route == "shut" && judged.status == 401, "\(path)")
        }
    }

    @Test(arguments: ["/%25%32%65", "/%25%32e", "/%252%65", "/a%25%32%66b", "/%25%35%63", "/%25%30%30", "/%25%32%35%32%65", "/%25%2532e", "/%25%32%65/.."])
    func anEncodingThatIsDoubledByPiecesIs400(_ path: String) throws {
        let harness = try AdmissionHarness([rule("all", "/*", auth: .none)])
        #expect(harness.get(path).status == 400)
        #expect(harness.get("/100%25%20sure").path ?? "/100%25%20sure" == "/100%25%20sure")
    }

    @Test(arguments: ["/*", "GET,HEAD /*", "POST /x"])
    func traceIs405OnEveryRoute(_ pattern: String) throws {
        let harness = try AdmissionHarness([rule("r", pattern)])
        let judged = harness.ask("TRACE /x HTTP/1.1\nHost: a")
        #expect(judged.status == 405 && judged.code == "METHOD_NOT_ALLOWED")
        #expect(judged.headers.count == 1 && judged.headers[0].hasPrefix("Allow: ") && !judged.headers[0].contains("TRACE"))
        if pattern == "/*" { #expect(judged.headers == ["Allow: GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS"]) }
    }

    @Test func anEncodedSlashPassesWhereTheRouteSaysSo() throws {
        var lenient = rule("files", "/files/*", auth: .none)
        lenient.encodedSlashPasses = true
        lenient.errors = .apple
        var strict = rule("api", "/api/*", auth: .none)
        strict.errors = .dlauth
        let harness = try AdmissionHarness([lenient, strict])
        #expect(harness.get("/files/a%2fb").path == "/files/a%2Fb")
        let refused = harness.get("/api/a%2Fb")
        #expect(refused.status == 400 && refused.dialect == .dlauth)
        #expect(harness.get("/none/a%2Fb").status == 400)
        #expect(harness.get("/files/..%2fb").status == 400)
    }

    // MARK: auth=

    @Test func requiredWithoutATokenIs401WithoutAnErrorAttribute() throws {
        let harness = try AdmissionHarness([rule("api", "/api/*")])
        for header in ["", "Authorization: Basic dXNlcjpwYXNz", "Authorization:", "Authorization: Bearerx a"] {
            let judged = harness.get("/api/x", header)
            #expect(judged.status == 401 && judged.code == "UNAUTHORIZED", "\(header)")
            #expect(judged.headers == ["WWW-Authenticate: Bearer realm=\"tollgate\""], "\(header)")
            #expect(judged.reason == .missing)
            #expect(judged.limit.result == .none)
        }
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

    @Test func theSchemeMayBeInAnyCaseAndSpaced() throws {
        let harness = try AdmissionHarness([rule("api", "/api/*")])
        for scheme in ["Bearer ", "bearer ", "BEARER ", "bEaReR   "] {
            #expect(harness.get("/api/x", "Authorization: \(scheme)\(AdmissionHarness.token())").status == 0)
        }
    }

    @Test func optionalAcceptsAnonymousCallersAndIgnoresOtherSchemes() throws {
        let harness = try AdmissionHarness([rule("api", "/api/*", auth: .optional)])
        for header in ["", "Authorization: Basic dXNlcjpwYXNz"] {
            let judged = harness.get("/api/x", header)
            #expect(judged.status == 0 && judged.auth == .anonymous && judged.identity == [])
            #expect(!judged.forwardsAuthorization)
        }
        #expect(harness.get("/api/x", token: AdmissionHarness.token()).userID == "user-1")
    }

    @Test func noneDoesNotLookAtIdentity() throws {
        let harness = try AdmissionHarness([rule("api", "/api/*", auth: .none)])
        for header in ["", "Authorization: Bearer nonsense", "Authorization: Bearer \(AdmissionHarness.token())"] {
            let judged = harness.get("/api/x", header)
            #expect(judged.status == 0 && judged.auth == .notLooked && judged.identity == [] && judged.source == .none)
            #expect(judged.forwardsAuthorization)
        }
    }

    @Test(arguments: AuthMode.allCases)
    func moreThanOneAuthorizationIs400(_ mode: AuthMode) throws {
        let harness = try AdmissionHarness([rule("api", "/api/*", auth: mode)])
        let judged = harness.get("/api/x", token: AdmissionHarness.token(), "authorization: Bearer \(AdmissionHarness.token())")
        #expect(judged.status == 400 && judged.code == "BAD_REQUEST")
        #expect(judged.dialect == .password)
    }

    @Test func theBearerIsForwardedWhereTheRouteSaysSo() throws {
        var forwarding = rule("api", "/api/*")
        forwarding.forwardsAuthorization = true
        #expect(try AdmissionHarness([forwarding]).get("/api/x", token: AdmissionHarness.token()).forwardsAuthorization)
    }

    @Test func anExpiredTokenHasACodeOfItsOwn() throws {
        let harness = try AdmissionHarness([rule("api", "/api/*")])
        let judged = harness.get("/api/x", token: AdmissionHarness.token(lifetime: -31))
        #expect(judged.status == 401 && judged.code == "TOKEN_EXPIRED")
        #expect(
            judged.headers == [
                "WWW-Authenticate: Bearer realm=\"tollgate\", error=\"invalid_token\", error_description=\"The token expired\""
            ])
        #expect(harness.get("/api/x", token: AdmissionHarness.token(lifetime: -10)).status == 0)
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

    // MARK: Claims and tier

    @Test func tooLowATierIs403AndAnonymousIs401() throws {
        var premium = rule("api", "/api/*", auth: .optional)
        premium.tier = Tier(rawValue: 1)
        premium.limits = [try LimitPolicy(parsing: "1/h", tiers: .standard)]
        let harness = try AdmissionHarness([premium])
        let nobody = harness.get("/api/x")
        #expect(nobody.status == 401 && nobody.code == "UNAUTHORIZED")
        let free = harness.get("/api/x", token: AdmissionHarness.token(tier: "free"))
        #expect(free.status == 403 && free.code == "PREMIUM_REQUIRED")
        #expect(free.headers[0].contains("error=\"insufficient_scope\""))
        #expect(free.limit.result == .none)
        #expect(harness.get("/api/x", token: AdmissionHarness.token(tier: "premium")).status == 0)
    }

    @Test func everyClaimMustHold() throws {
        var claiming = rule("api", "/api/*")
        claiming.claims = [ClaimRequirement(name: "role", value: "admin"), ClaimRequirement(name: "org", value: "7")]
        var other = rule("other", "/other/*")
        other.claims = [ClaimRequirement(name: "org", value: "7")]
        let harness = try AdmissionHarness([claiming, other])
        func token(_ claims: [(String, TokenClaims.Value)]) -> String {
            AdmissionHarness.token { token in for (name, value) in claims { _ = token.add(name, value) } }
        }
        #expect(harness.get("/api/x", token: token([("role", .string("admin")), ("org", .integer(7))])).status == 0)
        let half = harness.get("/api/x", token: token([("org", .integer(7))]))
        #expect(half.status == 403 && half.code == "FORBIDDEN" && half.reason == .claims)
        #expect(harness.get("/other/x", token: token([("org", .integer(7))])).status == 0)
        #expect(harness.get("/other/x", token: AdmissionHarness.token()).status == 403)
    }

    @Test func aRouteThatNeverLooksCannotAskForATier() throws {
        var contradiction = rule("api", "/api/*", auth: .none)
        contradiction.tier = .lowest
        #expect(throws: RouteFault.identityNeeded("api")) { try AdmissionHarness([contradiction]) }
    }

    @Test func aTierInShadowModeRefusesNothing() throws {
        var premium = rule("api", "/api/*", auth: .optional)
        premium.tier = Tier(rawValue: 1)
        premium.shadow = .tier
        let harness = try AdmissionHarness([premium])
        for token in [nil, AdmissionHarness.token(tier: "free")] {
            let judged = harness.get("/api/x", token: token)
            #expect(judged.status == 0 && judged.shadowed == .tier)
        }
        #expect(harness.get("/api/x", token: AdmissionHarness.token(tier: "premium")).shadowed == [])
        #expect(harness.get("/api/x", token: "bad").status == 401)
    }

    @Test func tooLargeContentIs413AndNotCharged() throws {
        var small = rule("api", "/api/*", auth: .none)
        small.bodyLimit = 10
        small.limits = [try LimitPolicy(parsing: "1/h", tiers: .standard)]
        let harness = try AdmissionHarness([small])
        #expect(harness.ask("POST /api/x HTTP/1.1\nHost: a\nContent-Length: 11").status == 413)
        #expect(harness.ask("POST /api/x HTTP/1.1\nHost: a\nContent-Length: 10").status == 0)
    }

    @Test func aLocalTargetIsAnsweredAsOne() throws {
        var local = rule("jwks", "GET /.well-known/jwks.json", auth: .none)
        local.target = .local(3)
        #expect(try AdmissionHarness([local]).get("/.well-known/jwks.json").verdict == .local(3))
    }
}
