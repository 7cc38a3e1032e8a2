import Foundation
import TestServers
import TestThreads
import Testing

/// A Django service moves in: its accounts are imported, and the sessions of its apps go on.
@Suite(.ownThread) struct MovingInTests {
    private static func gateway(_ django: DjangoService, _ upstream: Upstream, _ more: String...) throws -> Gateway {
        let folder = try Folder()
        let lines =
            [
                Gateway.contracts, "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"", "TOLLGATE_ROUTE_ALL=\"/r/* upstream=u\"",
                "TOLLGATE_TRUST_DJANGO=\"\(try django.trust(folder))\"",
            ] + more
        let gateway = try Gateway(lines.joined(separator: "\n"), folder: folder)
        let report = try gateway.command(["user", "import", "-"], input: try django.export())
        guard report.code == 0 else { throw Fault("not imported: \(report.complaints)") }
        return gateway
    }

    private static func refresh(_ port: Int, _ token: String) throws -> Message {
        try Connection(port: port).send("POST /api/v1/auth/refresh", #"{"refresh":"\#(token)"}"#)
    }

    private static func code(_ answer: Message) throws -> String? { try JSON(answer.text)["error"]["code"].text }

    @Test func nobodyIsSignedOut() throws {
        let (django, upstream) = (try DjangoService(), try Upstream())
        let gateway = try Self.gateway(django, upstream, "TOLLGATE_WORKERS=2")
        let old = try django.signIn("ada")
        // The old access token.
        let me = try gateway.send("GET /api/v1/auth/me", bearer: old.access)
        #expect(me.status == 200, "\(me.text)")
        let account = try JSON(me.text)
        #expect(account["id"].text == old.user && account["email"].text == "ada@example.org" && account["is_premium"].bool == true)
        #expect(try gateway.send("GET /r/x", bearer: old.access).status == 200)
        #expect(upstream.requests.now.last?["X-User-Id"] == old.user)
        // Nor is a refresh token a bearer, or an access token one to refresh with.
        #expect(try gateway.send("GET /api/v1/auth/me", bearer: old.refresh).status == 401)
        #expect(try Self.refresh(gateway.port, old.access).status == 400)
        // The old refresh token becomes ours, once.
        let port = gateway.port
        let answers = try atOnce(20) { _ in try Self.refresh(port, old.refresh) }
        #expect(answers.allSatisfy { $0.status == 200 }, "\(Set(answers.map(\.text)))")
        let tokens = try answers.map { try must(JSON($0.text)["access"]) }
        #expect(Set(try tokens.map { try claims(of: $0)["sid"].text }).count == 1)
        #expect(try claims(of: tokens[0])["sub"].text == old.user)
        let shown = try JSON(gateway.command(["user", "show", old.user, "--json"]).output)
        #expect(shown["sessions"].array.map { $0["contract"].text } == ["password"])
        #expect(try gateway.send("GET /api/v1/auth/me", bearer: tokens[7]).status == 200)
        // An app of this contract keeps the token that it has.
        #expect(try Self.refresh(gateway.port, old.refresh).status == 200)
        #expect(try JSON(gateway.command(["user", "show", old.user, "--json"]).output)["sessions"].array.count == 1)
    }

    @Test func whatEndsTheAccountsSessionsEndsTheOldOnes() throws {
        let (django, upstream) = (try DjangoService(), try Upstream())
        let gateway = try Self.gateway(django, upstream)
        for (name, words) in [("ada", ["user", "revoke"]), ("bob", ["user", "delete"])] {
            let old = try django.signIn(name)
            #expect(try gateway.send("GET /r/x", bearer: old.access).status == 200)
            #expect(try gateway.command(words + [old.user]).code == 0)
            try eventually("the old token is refused") {
                let (me, route) = (
                    try gateway.send("GET /api/v1/auth/me", bearer: old.access), try gateway.send("GET /r/x", bearer: old.access)
                )
                return try me.status == 401 && route.status == 401 && Self.code(route) == "TOKEN_REVOKED"
            }
            #expect(try Self.refresh(gateway.port, old.refresh).status == 400)
            // Nor does a new sign-in there help.
            #expect(try gateway.send("GET /r/x", bearer: try django.signIn(name).access).status == 401)
        }
    }

    @Test func anIssuerWithoutAccountsReachesNone() throws {
        let (django, upstream, folder) = (try DjangoService(), try Upstream(), try Folder())
        let trust = try django.trust(folder).replacingOccurrences(of: "accounts=on ", with: "")
        let gateway = try Gateway(
            [
                Gateway.contracts, "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"", "TOLLGATE_ROUTE_ALL=\"/r/* upstream=u\"",
                "TOLLGATE_TRUST_DJANGO=\"\(trust)\"",
            ].joined(separator: "\n"), folder: folder)
        #expect(try gateway.command(["user", "import", "-"], input: try django.export()).code == 0)
        let old = try django.signIn("ada")
        #expect(try gateway.send("GET /r/x", bearer: old.access).status == 200)
        #expect(try gateway.send("GET /api/v1/auth/me", bearer: old.access).status == 401)
        #expect(try Self.refresh(gateway.port, old.refresh).status == 400)
    }

    @Test func explainSaysWhoTheSubjectIs() throws {
        let (django, upstream) = (try DjangoService(), try Upstream())
        let gateway = try Self.gateway(django, upstream)
        let old = try django.signIn("ada")
        let text = try gateway.command(["explain", "GET", "/r/x", "--token", old.access]).output
        #expect(text.contains("django:\(old.user) is \(old.user)"), "\(text)")
        #expect(text.contains("X-User-Id: \(old.user)"))
    }

    // MARK: issuers that rotate

    /// A gateway in front of an auth server whose person `u1` was imported.
    private static func rotating(_ server: AuthServer, _ more: [String] = []) throws -> Gateway {
        let folder = try Folder()
        let trust = try server.settings(folder).dropLast() + " accounts=on\""
        let gateway = try Gateway(([Gateway.contracts, String(trust)] + more).joined(separator: "\n"), folder: folder)
        for person in ["u1", "mallory"] {
            let made = try gateway.command(["user", "create", "--identity", "login:\(person)"])
            guard made.code == 0 || more.contains(where: { $0.contains("postgres") }) else { throw Fault(made.complaints) }
        }
        return gateway
    }

    /// The endpoint and body with which apps of a contract refresh.
    private static func refreshing(_ form: AuthServer.Form, _ token: String) -> (target: String, body: String) {
        let targets = [
            "password": "/api/v1/auth/refresh", "provider": "/whateat/api/v1/auth/refresh", "dlauth": "/auth/token/refresh",
            "anonymous": "/auth/refresh",
        ]
        return (targets[form.contract] ?? "", #"{"\#(form.refresh)":"\#(token)"}"#)
    }

    @Test(arguments: AuthServer.Form.all)
    func twentyRefreshesAtOnceAreOneQuestionAndOneSession(_ form: AuthServer.Form) throws {
        let server = try AuthServer(form)
        let gateway = try Self.rotating(server, ["TOLLGATE_WORKERS=2"])
        server.mood.change { $0 = .slow(0.3) }
        let sent = Self.refreshing(form, server.signIn("u1"))
        let port = gateway.port
        let answers = try atOnce(20) { _ in try Connection(port: port).send("POST \(sent.target)", sent.body) }
        #expect(answers.allSatisfy { $0.status == 200 }, "\(answers.map(\.text))")
        let bodies = try answers.map { try JSON($0.text) }
        #expect(Set(try bodies.map { try claims(of: must($0[form.access]))["sid"].text }).count == 1)
        if form.rotates {
            #expect(Set(bodies.map { $0[form.refresh].text }).count == 1 && bodies[0][form.refresh].text?.hasPrefix("v1.") == true)
        }
        #expect(server.questions.now.count == 1)
    }

    @Test func aNoIsOneAndAServerThatIsLateIsNone() throws {
        let server = try AuthServer()
        let gateway = try Self.rotating(server)
        for (mood, status) in [
            (AuthServer.Mood.refusing(401), 401), (.refusing(500), 500), (.broken, 500), (.saying(AuthServer.message(200, "{}")), 500),
        ] {
            server.mood.change { $0 = mood }
            let sent = Self.refreshing(AuthServer.Form.all[1], server.signIn("u1"))
            let answer = try gateway.send("POST \(sent.target)", sent.body)
            #expect(answer.status == status, "\(mood): \(answer.text)")
            #expect((answer["Retry-After"] != nil) == (status == 500), "\(mood)")
        }
        server.mood.change { $0 = .well }
        let sent = Self.refreshing(AuthServer.Form.all[1], server.signIn("u1"))
        #expect(try gateway.send("POST \(sent.target)", sent.body).status == 200)
    }

    @Test func aServerThatAsksForAPauseIsLeftAlone() throws {
        let server = try AuthServer()
        let gateway = try Self.rotating(server)
        server.mood.change { $0 = .saying("HTTP/1.1 429 X\r\nRetry-After: 25\r\nContent-Length: 0\r\n\r\n") }
        for _ in 0..<5 {
            let sent = Self.refreshing(AuthServer.Form.all[1], server.signIn("u1"))
            let answer = try gateway.send("POST \(sent.target)", sent.body)
            #expect(answer.status == 500 && answer["Retry-After"] != nil, "\(answer.text)")
        }
        #expect(server.questions.now.count == 1)
    }

    /// A refresh token that says whose it is gets no session of anybody else.
    @Test func theServersAnswerForAnotherPersonIsRefused() throws {
        let server = try AuthServer()
        let gateway = try Self.rotating(server)
        server.mood.change { $0 = .confused }
        let token = try AuthServer.token("u1", lifetime: 600)
        let sent = Self.refreshing(AuthServer.Form.all[1], token)
        #expect(try gateway.send("POST \(sent.target)", sent.body).status == 401)
        #expect(server.questions.now.count == 1)
        // A token of another issuer, or of ours, is not even shown to it.
        let foreign = try IssuerKey(.hs256(secret: "x")).token(#"{"iss":"https://elsewhere.test","sub":"u1","exp":\#(unixNow + 60)}"#)
        #expect(try gateway.send("POST \(sent.target)", #"{"refreshToken":"\#(foreign)"}"#).status == 401)
        #expect(server.questions.now.count == 1)
    }

    @Test func signingOutWithAnOldTokenCountsAtEveryGateway() throws {
        let server = try AuthServer(AuthServer.Form.all[2])
        let database = try PostgresCluster.shared.get().newDatabase()
        let shared = ["DATABASE_URL=\"\(database)\"", "TOLLGATE_KEY_SECRET=\"a secret that both gateways have in common\""]
        let (first, second) = (try Self.rotating(server, shared), try Self.rotating(server, shared))
        let (access, refresh) = (try AuthServer.token("u1", lifetime: 600), server.signIn("u1"))
        for gateway in [first, second] { #expect(try gateway.send("GET /auth/user", bearer: access).status == 200) }
        #expect(try first.send("POST /auth/signout", #"{"refresh_token":"\#(refresh)"}"#, bearer: access).status == 200)
        #expect(try first.send("GET /auth/user", bearer: access).status == 401)
        try eventually("the other gateway hears of it", seconds: 15) { try second.send("GET /auth/user", bearer: access).status == 401 }
        #expect(try second.send("POST /auth/token/refresh", #"{"refresh_token":"\#(refresh)"}"#).status == 401)
        #expect(server.questions.now.isEmpty)
        #expect(try second.send("GET /auth/user", bearer: AuthServer.token("u1", lifetime: 600)).status == 200)
    }

    @Test func twoGatewaysWithoutACommonRedisOpenOneSession() throws {
        let server = try AuthServer(AuthServer.Form.all[2])
        let database = try PostgresCluster.shared.get().newDatabase()
        let shared = ["DATABASE_URL=\"\(database)\"", "TOLLGATE_KEY_SECRET=\"a secret that both gateways have in common\""]
        let ports = [try Self.rotating(server, shared), try Self.rotating(server, shared)]
        let numbers = ports.map(\.port)
        let refresh = server.signIn("u1")
        let answers = try atOnce(20) {
            try Connection(port: numbers[$0 % 2]).send("POST /auth/token/refresh", #"{"refresh_token":"\#(refresh)"}"#)
        }
        #expect(answers.allSatisfy { $0.status == 200 }, "\(answers.map(\.text))")
        #expect(Set(try answers.map { try JSON($0.text)["refresh_token"].text }).count == 1)
    }
}
