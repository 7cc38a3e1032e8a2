import Credentials
import HTTP
import Testing
import Wire

@testable import Gate

/// `identity=signed`: the JWT that tells an upstream who calls.
@Suite struct SignedIdentityTests {
    private static let publicURL = "https://gate.test"
    private static let user = "0193a1b2-0000-7000-8000-000000000001"
    private static let session = "0193a1b2-0000-7000-8000-0000000000aa"
    private static let now = AdmissionHarness.now.wall.seconds

    private static func makeKey(_ algorithm: SigningAlgorithm = .ES256) throws -> SigningKey { try SigningKey.generate(algorithm) }

    private static func signed(
        _ name: String, _ pattern: String, auth: AuthMode = .required, _ change: (inout RouteRule) -> Void = { _ in }
    ) -> RouteRule {
        var rule = rule(name, pattern, auth: auth)
        rule.signsIdentity = true
        change(&rule)
        return rule
    }

    private static func policy(
        _ rules: [RouteRule] = [signed("api", "/api/*"), signed("other", "/other/*"), rule("plain", "/plain/*")], key: SigningKey?,
        hasAccounts: Bool = false
    ) throws -> Policy {
        var own = AdmissionHarness.trusted(name: "tollgate")
        own.isOwn = true
        var outside = AdmissionHarness.trusted(AdmissionHarness.otherKey, name: "outside", issuer: "https://outside.test")
        outside.hasAccounts = hasAccounts
        let signer = key.flatMap { IdentitySigner(key: $0, issuer: "https://issuer.gate.test", publicURL: publicURL) }
        return try Policy(
            rules: rules, trust: AdmissionHarness.trust([own, outside]), hasAccounts: hasAccounts, identitySigner: signer)
    }

    private static func harness(_ policy: Policy) -> AdmissionHarness {
        let harness = AdmissionHarness(policy)
        harness.admission.learn([UserTier(user: TokenUser(user), status: .tier(.lowest, until: .max), version: 1)])
        return harness
    }

    private static func token(_ subject: String = user, lifetime: Int64 = 3_600, _ change: (inout TokenClaims) -> Void = { _ in }) -> String
    {
        AdmissionHarness.token(subject, lifetime: lifetime, change: change)
    }

    private static func outside(_ subject: String) -> String {
        AdmissionHarness.token(subject, issuer: "https://outside.test", key: AdmissionHarness.otherKey)
    }

    /// The token that the upstream gets; nil if it gets none.
    private static func sent(_ judged: Judged) -> String? {
        let name = "X-Tollgate-Identity: "
        let found = judged.identity.filter { $0.hasPrefix(name) }
        #expect(found.count <= 1)
        return found.first.map { String($0.dropFirst(name.count)) }
    }

    private static func part(_ token: String?, _ index: Int) throws -> String {
        let parts = try #require(token).split(separator: ".").map(String.init)
        #expect(parts.count == 3)
        let decoded = parts[index].withRawBytes { Base64URL.decode($0) }
        return String(decoding: try #require(decoded), as: UTF8.self)
    }

    private static func claims(_ judged: Judged) throws -> String { try part(sent(judged), 1) }

    private static func times(at now: Int64 = now) -> String { #""iat":\#(now),"exp":\#(now + 60)"# }

    // MARK: claims

    @Test func itSaysWhatTheFieldsSay() throws {
        let key = try Self.makeKey()
        let harness = Self.harness(try Self.policy(key: key))
        let judged = harness.get(
            "/api/x",
            token: Self.token {
                $0.sessionID = Self.session
                $0.email = "ada@x"
                $0.isEmailVerified = true
                $0.authenticatedAt = Self.now - 100
                $0.tier = "premium"
            })
        #expect(judged.status == 0 && judged.hasIdentity("X-User-Id: \(Self.user)") && judged.hasIdentity("X-User-Email: ada@x"))
        #expect(try Self.part(Self.sent(judged), 0) == #"{"alg":"ES256","typ":"tollgate-identity+jwt","kid":"\#(key.kid ?? "")"}"#)
        let who =
            #""auth_time":\#(Self.now - 100),"email":"ada@x","email_verified":true,"sub":"\#(Self.user)","tier":"premium","premium":true"#
        let whence = #""sid":"\#(Self.session)","token_issuer":"https://issuer.test""#
        #expect(
            try Self.claims(judged)
                == #"{"iss":"https://issuer.gate.test","aud":"https://gate.test#api",\#(Self.times()),\#(who),\#(whence)}"#)
    }

    @Test func anEmailThatIsNotProvenIsToldOnlyWhereTheRouteAsksForIt() throws {
        let rules = [Self.signed("api", "/api/*"), Self.signed("mail", "/mail/*") { $0.forwardsEmail = true }]
        let harness = Self.harness(try Self.policy(rules, key: try Self.makeKey()))
        for isProven in [true, false] {
            let token = Self.token {
                $0.email = "ada@x"; $0.isEmailVerified = isProven
            }
            let plain = try Self.claims(harness.get("/api/x", token: token))
            #expect(plain.contains(#""email":"ada@x","email_verified":true"#) == isProven && plain.contains("email") == isProven)
            #expect(try Self.claims(harness.get("/mail/x", token: token)).contains(#""email":"ada@x","email_verified":\#(isProven)"#))
        }
        // Without an email there is nothing to verify.
        #expect(try !Self.claims(harness.get("/mail/x", token: Self.token())).contains("email"))
    }

    @Test func theNameIsSignedAsItWasClaimed() throws {
        let rules = [Self.signed("api", "/api/*"), Self.signed("named", "/named/*") { $0.forwardsName = true }]
        let harness = Self.harness(try Self.policy(rules, key: try Self.makeKey()))
        let token = Self.token { $0.name = "Zoë \"Z\" %41" }
        #expect(try Self.claims(harness.get("/named/x", token: token)).contains(#","name":"Zoë \"Z\" %41","#))
        #expect(try !Self.claims(harness.get("/api/x", token: token)).contains("name"))
    }

    @Test func anActorIsNamedInAct() throws {
        let harness = Self.harness(try Self.policy(key: try Self.makeKey()))
        let both = Self.token {
            $0.actorType = "org"; $0.actorID = "4\"2"
        }
        #expect(try Self.claims(harness.get("/api/x", token: both)).hasSuffix(#""act":{"sub":"4\"2","actor_type":"org"}}"#))
        #expect(try Self.claims(harness.get("/api/x", token: Self.token { $0.actorID = "42" })).hasSuffix(#""act":{"sub":"42"}}"#))
        #expect(
            try Self.claims(harness.get("/api/x", token: Self.token { $0.actorType = "org" })).hasSuffix(#""act":{"actor_type":"org"}}"#))
    }

    @Test func anonymousCallersAndOtherRoutesGetNone() throws {
        let rules = [
            Self.signed("api", "/api/*"), Self.signed("open", "/open/*", auth: .optional), rule("plain", "/plain/*"),
            Self.signed("inside", "/inside/*", auth: .internal),
        ]
        let harness = Self.harness(try Self.policy(rules, key: try Self.makeKey()))
        #expect(harness.get("/open/x").status == 0 && Self.sent(harness.get("/open/x")) == nil)
        #expect(Self.sent(harness.get("/plain/x", token: Self.token())) == nil)
        #expect(Self.sent(harness.get("/open/x", token: Self.token())) != nil)
        #expect(harness.get("/inside/x", token: Self.token()).code == "FORBIDDEN")
        #expect(throws: RouteFault.identityNeeded("none")) { try Self.policy([Self.signed("none", "/n/*", auth: .none)], key: nil) }
    }

    @Test func anOutsideIssuersUserHasItsIssuer() throws {
        let harness = Self.harness(try Self.policy(key: try Self.makeKey()))
        let claims = try Self.claims(harness.get("/api/x", token: Self.outside("42")))
        #expect(claims.contains(#""iss":"https://issuer.gate.test""#))
        #expect(
            claims.contains(#""sub":"42","tier":"free","premium":false,"token_issuer":"https://outside.test""#)
                || claims.contains(#""token_issuer":"https://outside.test""#))
    }

    // MARK: once for each token and route

    @Test func itIsSignedOnceForEachTokenAndRouteAndRenewedBeforeItsEnd() throws {
        let harness = Self.harness(try Self.policy(key: try Self.makeKey()))
        let (token, another) = (Self.token(), Self.token { $0.tokenID = "2" })
        let first = Self.sent(harness.get("/api/x", token: token))
        let elsewhere = Self.sent(harness.get("/other/x", token: token))
        let others = Self.sent(harness.get("/api/x", token: another))
        #expect(Set([first, elsewhere, others]).count == 3 && first != nil)
        #expect(try Self.part(elsewhere, 1).contains("https://gate.test#other"))
        for _ in 0..<3 {
            #expect(Self.sent(harness.get("/api/y", token: token)) == first)
            #expect(Self.sent(harness.get("/other/y", token: token)) == elsewhere)
            #expect(Self.sent(harness.get("/api/y", token: another)) == others)
        }
        harness.advance(milliseconds: 39_900)
        #expect(Self.sent(harness.get("/api/x", token: token)) == first)
        harness.advance(milliseconds: 100)
        let renewed = harness.get("/api/x", token: token)
        #expect(Self.sent(renewed) != first)
        #expect(try Self.claims(renewed).contains(Self.times(at: Self.now + 40)))
        #expect(harness.admission.signedIdentities.count == 3)
    }

    @Test func aStepOfTheClockSignsAnew() throws {
        let harness = Self.harness(try Self.policy(key: try Self.makeKey()))
        harness.advance(milliseconds: 100_000)
        let first = Self.sent(harness.get("/api/x", token: Self.token()))
        harness.now.wall.microseconds -= 90_000_000
        let back = harness.get("/api/x", token: Self.token())
        #expect(Self.sent(back) != first)
        #expect(try Self.claims(back).contains(Self.times(at: Self.now + 10)))
    }

    @Test func aChangedTierIsInTheNextOne() throws {
        let harness = Self.harness(try Self.policy(key: try Self.makeKey(), hasAccounts: true))
        let token = Self.token()
        func tier(_ rank: UInt8, _ version: Int64) {
            let status = TierStatus.tier(Tier(rawValue: rank), until: .max)
            harness.admission.learn([UserTier(user: TokenUser(Self.user), status: status, version: version, source: .pushed)])
        }
        #expect(try Self.claims(harness.get("/api/x", token: token)).contains(#""tier":"free","premium":false"#))
        tier(1, 2)
        #expect(try Self.claims(harness.get("/api/x", token: token)).contains(#""tier":"premium","premium":true"#))
        tier(0, 3)
        #expect(try Self.claims(harness.get("/api/x", token: token)).contains(#""tier":"free","premium":false"#))
        #expect(harness.admission.signedIdentities.count == 1)
    }

    @Test func anEmailThatTheAccountHasNoMoreIsNotInTheNextOne() throws {
        let harness = Self.harness(try Self.policy(key: try Self.makeKey(), hasAccounts: true))
        let token = Self.token {
            $0.email = "ada@x"; $0.isEmailVerified = true
        }
        func learn(_ email: String) {
            let status = TierStatus.tier(.lowest, until: .max)
            harness.admission.learn([UserTier(user: TokenUser(Self.user), status: status, version: 1, source: .pushed, email: email)])
        }
        learn("ada@x")
        #expect(try Self.claims(harness.get("/api/x", token: token)).contains(#""email":"ada@x""#))
        learn("eva@x")
        #expect(try !Self.claims(harness.get("/api/x", token: token)).contains("email"))
    }

    @Test func anEndedSessionHasNone() throws {
        let harness = Self.harness(try Self.policy(key: try Self.makeKey()))
        let token = Self.token { $0.sessionID = Self.session }
        #expect(Self.sent(harness.get("/api/x", token: token)) != nil)
        harness.admission.revoke([RevokedSession(id: Self.session, until: .max)], at: Self.now)
        let refused = harness.get("/api/x", token: token)
        #expect(refused.code == "TOKEN_REVOKED" && Self.sent(refused) == nil)
    }

    @Test func theUserIsTheAccountThatASubjectStandsFor() throws {
        let harness = Self.harness(try Self.policy(key: try Self.makeKey(), hasAccounts: true))
        let (ada, eva) = (
            UUID(high: 0x0193_a1b2_0000_7000, low: 0x8000_0000_0000_0001), UUID(high: 0x0193_a1b2_0000_7000, low: 0x8000_0000_0000_0002)
        )
        func learn(_ status: SubjectStatus) {
            harness.admission.learn([
                KnownSubject(user: TokenUser("42", of: "outside"), status: status, learnedAt: harness.now.wall.seconds)
            ])
        }
        learn(.account(ada))
        #expect(try Self.claims(harness.get("/api/x", token: Self.outside("42"))).contains(#""sub":"\#(ada)""#))
        learn(.account(eva))
        #expect(try Self.claims(harness.get("/api/x", token: Self.outside("42"))).contains(#""sub":"\#(eva)""#))
        learn(.unknown)
        #expect(try Self.claims(harness.get("/api/x", token: Self.outside("42"))).contains(#""sub":"42""#))
    }

    @Test func aNewKeyOrConfigurationSignsAnew() throws {
        let (first, second) = (try Self.makeKey(), try Self.makeKey(.EdDSA))
        let harness = Self.harness(try Self.policy(key: first))
        let before = Self.sent(harness.get("/api/x", token: Self.token()))
        harness.admission.adopt(try Self.policy(key: second))
        let after = Self.sent(harness.get("/api/x", token: Self.token()))
        #expect(try Self.part(before, 0).contains(first.kid ?? "-") && Self.part(after, 0).contains(second.kid ?? "-"))
        // The number of a route may be another's after a reload.
        harness.admission.adopt(try Self.policy([Self.signed("renamed", "/api/*")], key: second))
        #expect(try Self.claims(harness.get("/api/x", token: Self.token())).contains("https://gate.test#renamed"))
        // Another token of outside issuers' keys alone keeps the signer.
        harness.admission.adopt(try harness.admission.policy.replacing(trust: harness.admission.policy.trust, version: 9))
        #expect(Self.sent(harness.get("/api/x", token: Self.token())) != nil)
    }

    /// In its leeway a token is verified on each request, and not cached.
    @Test func aTokenThatIsNotCachedIsSignedForEachRequest() throws {
        let harness = Self.harness(try Self.policy(key: try Self.makeKey()))
        let token = Self.token(lifetime: -10)
        for _ in 0..<2 { #expect(Self.sent(harness.get("/api/x", token: token)) != nil) }
        #expect(harness.admission.signedIdentities.count == 0)
    }

    @Test func withoutAKeyPairNothingIsForwarded() throws {
        let secret = try SigningKey.generate(.HS256)
        #expect(IdentitySigner(key: secret, issuer: "i", publicURL: "u") == nil)
        let harness = Self.harness(try Self.policy(key: nil))
        let refused = harness.get("/api/x", token: Self.token())
        #expect(refused.status == 503 && refused.code == "UNAVAILABLE")
        #expect(harness.get("/plain/x", token: Self.token()).status == 0)
    }

    /// The gateway that signed it refuses it, and so does one that would take any audience.
    @Test func itIsNoBearer() throws {
        let key = try Self.makeKey()
        let signing = Self.harness(try Self.policy(key: key))
        let identity = try #require(Self.sent(signing.get("/api/x", token: Self.token())))
        let careless = TrustedIssuer(
            name: "gate", issuer: "https://issuer.gate.test", audiences: [], algorithms: AlgorithmSet(.ES256),
            keys: KeySet([key.verificationKey]))
        let harness = try AdmissionHarness(
            [rule("api", "/api/*"), rule("open", "/open/*", auth: .optional)], trust: AdmissionHarness.trust([careless]))
        for path in ["/api/x", "/open/x"] {
            let refused = harness.get(path, token: identity)
            #expect(refused.status == 401 && refused.reason == .notAnAccessToken)
        }
    }

    // MARK: the table

    /// Against a dictionary: what is found is what was put under exactly that key, and the table stays within its bound.
    @Test func theCacheFindsNothingButWhatWasPutUnderTheKey() {
        var random = SplitMix64(seed: 5)
        for capacity in [1, 8, 64] {
            var cache = SignedIdentities(capacity: capacity)
            var kept: [String: (line: String, at: Int64)] = [:]
            var found = 0
            var now: Int64 = 1_000
            for step in 0..<5_000 {
                now += Int64(random.next() % 3)
                let key = SignedIdentities.Key(
                    token: 1 + random.next() % 40, route: Int32(random.next() % 4), tier: Tier(rawValue: UInt8(random.next() % 2)),
                    account: random.next() % 8 == 0 ? UUID(high: 1, low: random.next() % 2) : nil)
                var edits = FieldEdits()
                if cache.append(key, at: now, to: &edits) {
                    found += 1
                    let entry = kept["\(key)"]
                    #expect(edits.http1.text == entry?.line)
                    #expect(entry.map { $0.at <= now && now - $0.at < SignedIdentities.reuseSeconds } == true)
                } else {
                    let line = "X: \(step)\r\n"
                    line.withRawBytes { cache.insert(key, $0, at: now) }
                    kept["\(key)"] = (line, now)
                }
                #expect(cache.count <= max(8, capacity))
            }
            #expect(found > 50)
        }
    }
}
