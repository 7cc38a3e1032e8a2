import Credentials
import Testing
import Wire

@testable import Gate

/// Tokens with an actor: valid for routes, not for the gateway's own endpoints.
@Suite struct ActorTests {
    private static let user = "0193a1b2-0000-7000-8000-000000000001"
    private static let session = "0193a1b2-0000-7000-8000-0000000000aa"
    private static let inside = "10.0.0.1"

    private static func local(_ name: String, _ auth: AuthMode, isDocument: Bool = false) -> RouteRule {
        var rule = RouteRule(name: name, path: "/" + name, isPrefix: false, target: .local(64), auth: auth)
        rule.isDocument = isDocument
        return rule
    }

    private static let endpoints: [(String, AuthMode)] = [
        ("required", .required), ("optional", .optional), ("none", .none), ("internal", .internal),
    ]

    private static func harness(knowsUser: Bool = true) throws -> AdmissionHarness {
        var own = AdmissionHarness.trusted(name: "tollgate")
        own.isOwn = true
        let outside = AdmissionHarness.trusted(AdmissionHarness.otherKey, name: "outside", issuer: "https://outside.test")
        let routes = [rule("api", "/api/*"), rule("open", "/open/*", auth: .none)]
        let harness = AdmissionHarness(
            try Policy(
                rules: routes + endpoints.map { local($0.0, $0.1) } + [local("document", .none, isDocument: true)],
                trust: AdmissionHarness.trust([own, outside]),
                internals: [InternalCaller(name: "backend", networks: [CIDR(parsing: "10.0.0.0/8")].compactMap { $0 })],
                hasAccounts: true))
        if knowsUser { harness.admission.learn([UserTier(user: TokenUser(user), status: .tier(.lowest, until: .max), version: 1)]) }
        return harness
    }

    private static func token(
        _ subject: String = user, actor: String? = "merchant", session: String? = session, lifetime: Int64 = 600
    ) -> String {
        AdmissionHarness.token(subject, lifetime: lifetime) {
            $0.sessionID = session
            $0.tokenID = "t-1"
            $0.actorType = actor
            $0.actorID = actor.map { _ in "m1" }
        }
    }

    @Test func routesOpenToActors() throws {
        let harness = try Self.harness()
        let judged = harness.get("/api/x", token: Self.token())
        #expect(judged.status == 0 && judged.hasIdentity("X-Actor-Type: merchant") && judged.hasIdentity("X-Actor-Id: m1"))
        let open = harness.get("/open/x", token: Self.token())
        #expect(open.status == 0 && open.forwardsAuthorization && open.identity == [])
    }

    /// Whether the token was seen before, has a session, or belongs to a cached account.
    @Test(arguments: endpoints)
    func nothingElseDoes(_ name: String, _ auth: AuthMode) throws {
        for (subject, session) in [(Self.user, Self.session), (Self.user, nil), ("service", nil)] as [(String, String?)] {
            let harness = try Self.harness()
            let token = Self.token(subject, session: session)
            for attempt in 1...4 {
                if attempt == 3 { #expect(harness.get("/api/x", token: token).status == 0) }
                let judged = harness.get("/\(name)", token: token, from: Self.inside)
                #expect(judged.status == 403 && judged.code == "FORBIDDEN" && judged.reason == .actor)
                #expect(
                    judged.headers == [
                        #"WWW-Authenticate: Bearer realm="tollgate", error="insufficient_scope", error_description="The token has an actor""#
                    ])
                #expect(judged.userID == subject)
                #expect(judged.explanation.step("identity")?.hasSuffix("refused: actor") == true)
                #expect(judged.explanation.step("standing") == nil)
            }
        }
    }

    @Test func anAccountThatCannotBeLookedUpIsNoWayIn() throws {
        let harness = try Self.harness(knowsUser: false)
        #expect(harness.get("/none", token: Self.token()).reason == .actor)
        #expect(harness.get("/required", token: Self.token()).verdict == .lookUp)
        harness.admission.learn([UserTier(user: TokenUser(Self.user), status: .unavailable(until: .max), version: -1)])
        #expect(harness.get("/required", token: Self.token()).reason == .actor)
    }

    @Test func invalidTokensAreRefusedAndIgnoredWhereNoneIsNeeded() throws {
        let harness = try Self.harness()
        let unknown = AdmissionHarness.token(Self.user, issuer: "https://nobody.test") { $0.actorType = "merchant" }
        let forged = AdmissionHarness.token(Self.user, key: AdmissionHarness.otherKey) { $0.actorType = "merchant" }
        for (token, code) in [
            (Self.token(lifetime: -100), "TOKEN_EXPIRED"), (unknown, "UNAUTHORIZED"), (forged, "UNAUTHORIZED"), ("bad", "UNAUTHORIZED"),
            ("", "UNAUTHORIZED"),
        ] {
            #expect(harness.get("/required", token: token).code == code)
            #expect(harness.get("/optional", token: token).code == code)
            let judged = harness.get("/none", token: token)
            #expect(judged.verdict == .local(64) && judged.identity == [] && judged.userID == "" && judged.issuerToRefetch == -1)
        }
        #expect(harness.get("/api/x", token: Self.token()).status == 0)
        harness.admission.revoke([RevokedSession(id: Self.session, until: .max)], at: harness.now.wall.seconds)
        #expect(harness.get("/required", token: Self.token()).code == "TOKEN_REVOKED")
        let ended = harness.get("/none", token: Self.token())
        #expect(ended.verdict == .local(64) && ended.identity == [] && ended.userID == "")
    }

    @Test func othersPass() throws {
        let harness = try Self.harness()
        let outside = AdmissionHarness.token("u", issuer: "https://outside.test", key: AdmissionHarness.otherKey) {
            $0.actorType = "merchant"
        }
        for (name, _) in Self.endpoints {
            #expect(harness.get("/\(name)", token: Self.token(actor: nil), from: Self.inside).verdict == .local(64))
            // Contracts refuse tokens of other issuers, with or without an actor.
            #expect(harness.get("/\(name)", token: outside, from: Self.inside).verdict == .local(64))
        }
        #expect(harness.get("/none").verdict == .local(64))
        #expect(harness.get("/document", token: Self.token()).verdict == .local(64))
    }

    /// Delivery is confirmed by the first admitted request.
    @Test func readingAnActorDoesNotConfirmDelivery() throws {
        let harness = try Self.harness()
        let token = Self.token(actor: nil)
        #expect(harness.sighting("/none", token) == nil)
        #expect(harness.sighting("/api/x", token) == TokenDelivery(session: Self.session, token: "t-1"))
    }

    @Test func anActorsTokenIsNotRefreshed() throws {
        let harness = try Self.harness()
        let sent = "X-Refresh-Token: r1"
        for (name, auth) in Self.endpoints {
            let good = harness.get("/\(name)", token: Self.token(), sent, from: Self.inside)
            #expect(good.reason == .actor && good.refreshLines == [])
            let expired = harness.get("/\(name)", token: Self.token(lifetime: -100), sent, from: Self.inside)
            #expect(expired.order == nil && expired.refreshLines == [])
            #expect(expired.code == (auth == .none ? "" : "TOKEN_EXPIRED"))
        }
        #expect(harness.get("/api/x", token: Self.token(lifetime: -100), sent, from: Self.inside).code == "TOKEN_EXPIRED")
    }
}
