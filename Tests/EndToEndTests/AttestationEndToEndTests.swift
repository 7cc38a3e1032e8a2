import Foundation
import TestThreads
import Testing

/// Attestations of apps: on routes over every protocol, and at the sign-ins of contracts.
@Suite(.ownThread) struct AttestationEndToEndTests {
    private static let field = "X-Firebase-AppCheck"

    private static func token(
        _ key: IssuerKey, audience: String = "projects/1", lifetime: Int = 600, id: String = "1"
    ) throws -> String {
        let claims = #""iss":"https://firebaseappcheck.googleapis.com/1","aud":["projects/1x","\#(audience)"],"sub":"1:1:ios:a""#
        return try key.token(#"{\#(claims),"jti":"\#(id)","exp":\#(unixNow + lifetime)}"#)
    }

    private static func gateway(
        _ upstream: Upstream, _ key: IssuerKey, _ signIn: String, _ folder: Folder, once: String = "off", _ more: String...
    ) throws -> Gateway {
        try folder.write("keys.json", try keySet(key))
        return try Gateway(
            """
            TOLLGATE_LISTEN=127.0.0.1:0;h2c
            TOLLGATE_CHECK_LISTEN=127.0.0.1:0
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ATTEST_APPCHECK="header=\(field) issuer=https://firebaseappcheck.googleapis.com/1 audience=projects/1 jwks=\(folder.file("keys.json")) once=\(once)"
            TOLLGATE_ATTEST_SIGNIN="\(signIn)"
            TOLLGATE_ROUTE_API="/api/* upstream=u auth=none websocket=on attest=APPCHECK"
            TOLLGATE_ROUTE_ECHO="POST /test.Echo/* upstream=u auth=none attest=APPCHECK"
            TOLLGATE_ROUTE_WATCHED="/watched/* upstream=u auth=none attest=APPCHECK shadow=attest"
            TOLLGATE_ROUTE_MINE="/mine/* upstream=u"
            TOLLGATE_ROUTE_OPEN="/open/* upstream=u auth=none"
            TOLLGATE_CONTRACTS=password@/c
            \(more.joined(separator: "\n"))
            """, folder: folder)
    }

    @Test func aRouteTakesAttestedRequestsOverEveryProtocol() throws {
        let (upstream, key, folder) = (try Upstream(), try IssuerKey(.rs256, kid: "k1"), try Folder())
        let gateway = try Self.gateway(upstream, key, "APPCHECK", folder)
        let good = "\(Self.field): \(try Self.token(key))"
        let refused = try gateway.ask("GET /api/x")
        #expect(refused.status == 403 && refused.text.contains("ATTESTATION_REQUIRED") && refused["www-authenticate"] == nil, "\(refused)")
        let others = [
            try Self.token(key, audience: "projects/2"), try Self.token(key, lifetime: -60),
            try Self.token(try IssuerKey(.rs256, kid: "k1")),
        ]
        for other in others { #expect(try gateway.ask("GET /api/x", ["\(Self.field): \(other)"]).status == 403) }
        #expect(upstream.requests.now.isEmpty)
        let names = [Self.field, "x_firebase_appcheck"]
        for path in ["api", "watched", "open"] { #expect(try gateway.ask("GET /\(path)/x", [good]).status == 200, "\(path)") }
        #expect(upstream.requests.now.map { request in names.filter { request[$0] != nil } } == [[], [], [Self.field]])
        #expect(try gateway.ask("GET /watched/x").status == 200)
        #expect(try gateway.ask("GET /mine/x", ["Authorization: Bearer \(try Self.token(key))"]).status == 401)
        let socket = [
            "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ]
        #expect(try gateway.ask("GET /api/x", socket).status == 403)
        let call = try GRPCCall(port: gateway.port, "/test.Echo/X")
        #expect(call.code == "PERMISSION_DENIED" && call.details == "This needs an attestation that the app is genuine.", "\(call)")
        for (fields, expected) in [([], 403), ([good], 200)] as [([String], Int)] {
            let check = try Connection(port: gateway.checkPort).ask(
                "GET /auth/check",
                [
                    "Host: a.test", "X-Forwarded-Method: GET", "X-Forwarded-Uri: /api/x", "X-Forwarded-Host: a.test",
                    "X-Forwarded-Proto: https",
                ]
                    + fields)
            #expect(check.status == expected, "\(check)")
        }
        let walk = try gateway.command(["explain", "GET", "/api/x"])
        #expect(walk.output.contains("appcheck, \(Self.field): missing") && walk.output.contains("ATTESTATION_REQUIRED"), "\(walk)")
        #expect(try gateway.metric("tollgate_attestations_total", "reason=\"missing\"", "route=\"watched\"") == 1)
        #expect(try gateway.metric("tollgate_attestations_total", "reason=\"ok\"", "route=\"api\"") == 2)
    }

    @Test(arguments: [false, true])
    func contractsAskAtSignInAndNotAtRefresh(_ isShadowed: Bool) throws {
        let (upstream, key, folder) = (try Upstream(), try IssuerKey(.es256, kid: "k1"), try Folder())
        let gateway = try Self.gateway(upstream, key, isShadowed ? "appcheck shadow=attest" : "appcheck", folder)
        let good = "\(Self.field): \(try Self.token(key))"
        let person = #"{"email":"ada@a.test","password":"correct horse 9","username":"ada"}"#
        let expected = isShadowed ? [201, 200] : [403, 403]
        let bare = try ["register", "login"].map {
            try gateway.ask("POST /c/auth/\($0)", ["Content-Type: application/json"], body: Array(person.utf8))
        }
        #expect(bare.map(\.status) == expected, "\(bare)")
        if !isShadowed {
            #expect(
                try gateway.ask("POST /c/auth/register", [good, "Content-Type: application/json"], body: Array(person.utf8)).status == 201)
        }
        let signedIn = try gateway.ask("POST /c/auth/login", [good, "Content-Type: application/json"], body: Array(person.utf8))
        let refresh = try JSON(signedIn.text)["tokens"]["refresh"].text ?? ""
        let renewed = try gateway.ask(
            "POST /c/auth/refresh", ["Content-Type: application/json"], body: Array(#"{"refresh":"\#(refresh)"}"#.utf8))
        #expect(renewed.status == 200, "\(signedIn) \(renewed)")
    }

    @Test func aTokenThatCountsOnceIsRacedAtThreeGatewaysAndPassesOnce() throws {
        let (redis, upstream, key) = (try Redis(), try Upstream(), try IssuerKey(.es256, kid: "k1"))
        let gateways = try (0..<3).map { _ in
            try Self.gateway(upstream, key, "APPCHECK", try Folder(), once: "on", redis.setting, Redis.patience, "TOLLGATE_WORKERS=2")
        }
        for gateway in gateways { try gateway.waitForRedis() }
        let ports = gateways.map(\.port)
        for round in 0..<20 {
            let fields = ["Host: test", "\(Self.field): \(try Self.token(key, id: "race \(round)"))"]
            let answers = try atOnce(6) { number in try Connection(port: ports[number % 3]).ask("GET /api/x", fields) }
            #expect(answers.map(\.status).sorted() == [200, 403, 403, 403, 403, 403])
        }
        #expect(upstream.requests.now.count == 20)
        let reasons = try ["ok", "used"].map { reason in
            try gateways.map { try $0.metric("tollgate_attestations_total", "reason=\"\(reason)\"", "route=\"api\"") }.reduce(0, +)
        }
        #expect(reasons == [20, 100])
        // A sign-in uses its token, too.
        let body = Array(#"{"email":"ada@a.test","password":"correct horse 9","username":"ada"}"#.utf8)
        let fields = ["Content-Type: application/json", "\(Self.field): \(try Self.token(key, id: "sign-in"))"]
        #expect(try gateways[0].ask("POST /c/auth/register", fields, body: body).status == 201)
        #expect(try gateways.map { try $0.ask("POST /c/auth/register", fields, body: body).status } == [403, 403, 403])
    }

    @Test func aRequestThatTheGatewayCannotForwardHasNotUsedItsToken() throws {
        let (upstream, key) = (try Upstream(), try IssuerKey(.es256, kid: "k1"))
        let gateway = try Self.gateway(
            upstream, key, "APPCHECK", try Folder(), once: "on", #"TOLLGATE_UPSTREAM_LOST="http://nowhere.invalid:9001""#,
            #"TOLLGATE_ROUTE_LOST="/lost/* upstream=lost auth=none attest=APPCHECK""#)
        let fields = ["\(Self.field): \(try Self.token(key))"]
        let statuses = try ["lost", "lost", "api", "lost"].map { try gateway.ask("GET /\($0)/x", fields).status }
        #expect(statuses == [503, 503, 200, 403])
    }
}
