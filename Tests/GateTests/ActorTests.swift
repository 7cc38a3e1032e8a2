import Credentials
import Testing
import Wire

@testable import Gate

/// Tokens with an actor: good for routes, and for nothing that the gateway answers itself.
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

    private static func house(knowsUser: Bool = true) throws -> Gatehouse {
        var own = Gatehouse.trusted(name: "tollgate")
        own.isOwn = true
        let outside = Gatehouse.trusted(Gatehouse.otherKey, name: "outside", issuer: "https://outside.test")
        let routes = [rule("api", "/api/*"), rule("open", "/open/*", auth: .none)]
        let house = Gatehouse(
            try Policy(
                rules: routes + endpoints.map { local($0.0, $0.1) } + [local("document", .none, isDocument: true)],
                trust: Gatehouse.trust([own, outside]),
                internals: [InternalCaller(name: "backend", networks: [CIDR(parsing: "10.0.0.0/8")].compactMap { $0 })],
                hasAccounts: true))
        if knowsUser { house.admission.learn([UserStanding(user: user, standing: .tier(.lowest, until: .max), version: 1)]) }
        return house
    }

    private static func token(
        _ subject: String = user, actor: String? = "merchant", session: String? = session, lifetime: Int64 = 600
    ) -> String {
        Gatehouse.token(subject, lifetime: lifetime) {
            $0.sessionID = session
            $0.tokenID = "t-1"
            $0.actorType = actor
            $0.actorID = actor.map { _ in "m1" }
        }
    }

    @Test func routesOpenToActors() throws {
        let house = try Self.house()
        let judged = house.get("/api/x", token: Self.token())
        #expect(judged.status == 0 && judged.hasIdentity("X-Actor-Type: merchant") && judged.hasIdentity("X-Actor-Id: m1"))
        let open = house.get("/open/x", token: Self.token())
        #expect(open.status == 0 && open.forwardsAuthorization && open.identity == [])
    }

    /// Whether the token was seen before, has a session, or belongs to an account that anybody knows.
    @Test(arguments: endpoints)
    func nothingElseDoes(_ name: String, _ auth: AuthMode) throws {
        for (subject, session) in [(Self.user, Self.session), (Self.user, nil), ("service", nil)] as [(String, String?)] {
            let house = try Self.house()
            let token = Self.token(subject, session: session)
            for attempt in 1...4 {
                if attempt == 3 { #expect(house.get("/api/x", token: token).status == 0) }
                let judged = house.get("/\(name)", token: token, from: Self.inside)
                #expect(judged.status == 403 && judged.code == "FORBIDDEN" && judged.reason == .actor)
                #expect(judged.headers == [#"WWW-Authenticate: Bearer realm="tollgate", error="insufficient_scope", error_description="The token has an actor""#])
                #expect(judged.userID == subject)
                #expect(judged.explanation.step("identity")?.hasSuffix("refused: actor") == true)
                #expect(judged.explanation.step("standing") == nil)
            }
        }
    }

    @Test func anAccountThatCannotBeLookedUpIsNoWayIn() throws {
        let house = try Self.house(knowsUser: false)
        #expect(house.get("/none", token: Self.token()).reason == .actor)
        #expect(house.get("/required", token: Self.token()).verdict == .lookUp)
        house.admission.learn([UserStanding(user: Self.user, standing: .unavailable(until: .max), version: -1)])
        #expect(house.get("/required", token: Self.token()).reason == .actor)
    }

    @Test func tokensThatAreNoGoodAreRefusedAsEverAndIgnoredWhereNoneIsNeeded() throws {
        let house = try Self.house()
        let unknown = Gatehouse.token(Self.user, issuer: "https://nobody.test") { $0.actorType = "merchant" }
        let forged = Gatehouse.token(Self.user, key: Gatehouse.otherKey) { $0.actorType = "merchant" }
        for (token, code) in [
            (Self.token(lifetime: -100), "TOKEN_EXPIRED"), (unknown, "UNAUTHORIZED"), (forged, "UNAUTHORIZED"), ("bad", "UNAUTHORIZED"), ("", "UNAUTHORIZED"),
        ] {
            #expect(house.get("/required", token: token).code == code)
            #expect(house.get("/optional", token: token).code == code)
            let judged = house.get("/none", token: token)
            #expect(judged.verdict == .local(64) && judged.identity == [] && judged.userID == "" && judged.issuerToRefetch == -1)
        }
        #expect(house.get("/api/x", token: Self.token()).status == 0)
        house.admission.revoke([RevokedSession(id: Self.session, until: .max)], at: house.now.wall.seconds)
        #expect(house.get("/required", token: Self.token()).code == "TOKEN_REVOKED")
        let ended = house.get("/none", token: Self.token())
        #expect(ended.verdict == .local(64) && ended.identity == [] && ended.userID == "")
    }

    @Test func othersPass() throws {
        let house = try Self.house()
        let outside = Gatehouse.token("u", issuer: "https://outside.test", key: Gatehouse.otherKey) { $0.actorType = "merchant" }
        for (name, _) in Self.endpoints {
            #expect(house.get("/\(name)", token: Self.token(actor: nil), from: Self.inside).verdict == .local(64))
            // Contracts refuse tokens of other issuers, with or without an actor.
            #expect(house.get("/\(name)", token: outside, from: Self.inside).verdict == .local(64))
        }
        #expect(house.get("/none").verdict == .local(64))
        #expect(house.get("/document", token: Self.token()).verdict == .local(64))
    }

    /// Who learns that a token has arrived learns it from the first request that is let in by it.
    @Test func aLookForAnActorIsNoSighting() throws {
        let house = try Self.house()
        let token = Self.token(actor: nil)
        #expect(house.sighting("/none", token) == nil)
        #expect(house.sighting("/api/x", token) == TokenSighting(session: Self.session, token: "t-1"))
    }

    @Test func noRefreshTokenMakesAnActorsTokenMore() throws {
        let house = try Self.house()
        let sent = "X-Refresh-Token: r1"
        for (name, auth) in Self.endpoints {
            let good = house.get("/\(name)", token: Self.token(), sent, from: Self.inside)
            #expect(good.reason == .actor && good.refreshLines == [])
            let expired = house.get("/\(name)", token: Self.token(lifetime: -100), sent, from: Self.inside)
            #expect(expired.order == nil && expired.refreshLines == [])
            #expect(expired.code == (auth == .none ? "" : "TOKEN_EXPIRED"))
        }
        #expect(house.get("/api/x", token: Self.token(lifetime: -100), sent, from: Self.inside).code == "TOKEN_EXPIRED")
    }
}
