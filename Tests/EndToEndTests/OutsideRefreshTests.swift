import Foundation
import TestThreads
import Testing

/// Expired tokens of internal callers, healed on the way at an auth server elsewhere.
@Suite(.ownThread) struct OutsideRefreshTests {
    static func gateway(_ server: AuthServer, _ upstream: Upstream, _ more: String...) throws -> Gateway {
        let folder = try Folder()
        let lines = [try TransparentRefreshTests.settings(upstream), try server.settings(folder)] + more
        return try Gateway(lines.joined(separator: "\n"), folder: folder)
    }

    static func old(_ user: String = "u1") throws -> String { try AuthServer.token(user, lifetime: -100) }

    @Test(arguments: AuthServer.Form.all)
    func eachContractsFormIsSpoken(_ form: AuthServer.Form) throws {
        let (server, upstream) = (try AuthServer(form), try Upstream())
        let gateway = try Self.gateway(server, upstream)
        let sent = server.signIn("u1")
        let answer = try gateway.ask("GET /forward/x", TransparentRefreshTests.fields(try Self.old(), sent))
        #expect(answer.status == 200)
        let access = answer["X-New-Access-Token"] ?? ""
        #expect(try claims(of: access)["sub"].text == "u1")
        #expect((answer["X-New-Refresh-Token"] != nil) == form.rotates)
        #expect(upstream.requests.now.map { $0["Authorization"] } == ["Bearer \(access)"])
        #expect(upstream.requests.now.map { $0["X-User-Id"] } == ["u1"])
        #expect(server.questions.now == [#"{"\#(form.refresh)":"\#(sent)"}"#])
    }

    /// How the auth server is, and how the request ends.
    static let moods: [(AuthServer.Mood, Int)] = [
        (.refusing(400), 401), (.refusing(401), 401), (.refusing(403), 401), (.confused, 401),
        (.refusing(429), 503), (.refusing(500), 503), (.refusing(503), 503), (.broken, 503),
        (.saying(AuthServer.message(200, "hello")), 503), (.saying(AuthServer.message(200, "{}")), 503),
        (.saying(AuthServer.message(200, #"{"accessToken":5}"#)), 503),
        (.saying(AuthServer.message(200, #"{"accessToken":"a.b.c","refreshToken":"r"}"#)), 503),
        (.saying(AuthServer.message(200, #"{"accessToken":"a.b.c","refreshToken":"r\r\nX-Evil: 1"}"#)), 503),
        (.saying(AuthServer.message(200, #"{"accessToken":"\#(String(repeating: "a", count: 70_000))"}"#)), 503),
        (.saying("HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"), 503),
        (.saying("no http at all\r\n\r\n"), 503), (.late, 503),
    ]

    @Test func aNoIsTheRefusalThatTheTokenDeservedAndNoAnswerIsOurs() throws {
        let (server, upstream) = (try AuthServer(), try Upstream())
        let gateway = try Self.gateway(server, upstream)
        for (mood, status) in Self.moods {
            server.mood.change { $0 = mood }
            let sent = server.signIn("u1")
            let answer = try gateway.ask("GET /required/x", TransparentRefreshTests.fields(try Self.old(), sent))
            #expect(answer.status == status, "\(mood): \(answer)")
            let code = try JSON(answer.text)["error"]["code"].text
            #expect(code == (status == 401 ? "TOKEN_EXPIRED" : "UNAVAILABLE"), "\(mood)")
            #expect((answer["Retry-After"] != nil) == (status == 503), "\(mood)")
            #expect(answer["X-New-Access-Token"] == nil && answer["X-Evil"] == nil, "\(mood)")
        }
        #expect(upstream.requests.now.isEmpty)
        #expect(server.questions.now.count == Self.moods.count)
        server.mood.change { $0 = .well }
        let again = try gateway.ask("GET /required/x", TransparentRefreshTests.fields(try Self.old(), server.signIn("u1")))
        #expect(again.status == 200)
    }

    @Test func aServerThatIsNotThereIsOurOwnInability() throws {
        let (nobody, upstream, folder) = (try Listening.refusing(), try Upstream(), try Folder())
        try folder.write("auth-server", AuthServer.secret)
        let trust =
            "issuer=\(AuthServer.issuer) audience=any secret-file=\(folder.file("auth-server")) algorithms=HS256 refresh=http://127.0.0.1:\(nobody.port)/"
        let gateway = try Gateway(
            [try TransparentRefreshTests.settings(upstream), "TOLLGATE_TRUST_LOGIN=\"\(trust)\""].joined(separator: "\n"), folder: folder)
        #expect(try gateway.ask("GET /required/x", TransparentRefreshTests.fields(try Self.old(), "r")).status == 503)
        try gateway.waitForLog("a token cannot be refreshed")
    }

    @Test func anIssuerWithoutAnAuthServerIsNotRefreshed() throws {
        let (upstream, folder) = (try Upstream(), try Folder())
        try folder.write("auth-server", AuthServer.secret)
        let trust = "issuer=\(AuthServer.issuer) audience=any secret-file=\(folder.file("auth-server")) algorithms=HS256"
        let gateway = try Gateway(
            [try TransparentRefreshTests.settings(upstream), "TOLLGATE_TRUST_LOGIN=\"\(trust)\""].joined(separator: "\n"), folder: folder)
        #expect(try gateway.ask("GET /required/x", TransparentRefreshTests.fields(try Self.old(), "r")).status == 401)
    }

    /// What a server rotates is asked for once, whoever wants it, and an answer that was lost is had again.
    @Test func manyRequestsAreOneRefresh() throws {
        let (server, upstream) = (try AuthServer(), try Upstream())
        let gateway = try Self.gateway(server, upstream, "TOLLGATE_WORKERS=2")
        server.mood.change { $0 = .slow(0.5) }
        let fields = TransparentRefreshTests.fields(try Self.old(), server.signIn("u1"))
        let port = gateway.port
        let answers = try atOnce(100) { _ in try Connection(port: port).ask("GET /internal/x", fields) }
        #expect(answers.allSatisfy { $0.status == 200 })
        #expect(Set(answers.map { $0["X-New-Access-Token"] }).count == 1)
        #expect(Set(answers.map { $0["X-New-Refresh-Token"] }).count == 1)
        #expect(try gateway.ask("GET /internal/x", fields)["X-New-Access-Token"] == answers[0]["X-New-Access-Token"])
        #expect(server.questions.now.count == 1)
        #expect(try gateway.metric("tollgate_refresh_singleflight_total", #"role="leader""#) == 1)
        #expect(try gateway.metric("tollgate_refresh_singleflight_total", #"role="follower""#) == 100)
        let roles = try gateway.accessLog(101).compactMap { $0["refresh"].text }
        #expect(roles.count { $0 == "leader" } == 1 && roles.count { $0 == "follower" } == 100)
    }

    /// The new token has no more of a tier than the old one: it is looked up here, before the request goes on.
    @Test func aRefreshedTokenHasTheTierThatIsSetHere() throws {
        let (server, upstream, folder) = (try AuthServer(), try Upstream(), try Folder())
        let trust = try server.settings(folder).replacingOccurrences(of: "algorithms=HS256", with: "algorithms=HS256 tier-from=account")
        let gateway = try Gateway([try TransparentRefreshTests.settings(upstream), trust].joined(separator: "\n"), folder: folder)
        #expect(try gateway.command(["user", "set-tier", "login:u1", "premium"]).code == 0)
        for (user, status) in [("u1", 200), ("u2", 403)] {
            let answer = try gateway.ask("GET /premium/x", TransparentRefreshTests.fields(try Self.old(user), server.signIn(user)))
            #expect(answer.status == status)
        }
        #expect(upstream.requests.now.map { $0["X-User-Tier"] } == ["premium"] && server.questions.now.count == 2)
    }

    @Test func whoHasAnotherRefreshTokenSharesNothing() throws {
        let (server, upstream) = (try AuthServer(), try Upstream())
        let gateway = try Self.gateway(server, upstream)
        let token = try Self.old()
        #expect(try gateway.ask("GET /internal/x", TransparentRefreshTests.fields(token, server.signIn("u1"))).status == 200)
        #expect(try gateway.ask("GET /internal/x", TransparentRefreshTests.fields(token, "guessed")).status == 401)
        #expect(server.questions.now.count == 2)
    }

    @Test(arguments: [true, false])
    func severalGatewaysAskOnceAndLeaveNothingReadableBehind(_ sharesSecret: Bool) throws {
        let (server, upstream, redis) = (try AuthServer(), try Upstream(), try Redis())
        let secret = sharesSecret ? "TOLLGATE_KEY_SECRET=\"a secret that all gateways have in common\"" : ""
        let gateways = try (0..<4).map { _ in try Self.gateway(server, upstream, redis.setting, Redis.patience, secret) }
        for gateway in gateways {
            try eventually("Redis is there") { try JSON(try gateway.askAdmin("/readyz").text)["status"].text == "ready" }
        }
        let ports = gateways.map(\.port)
        for round in 1...5 {
            let user = "somebody-\(round)"
            server.mood.change { $0 = .slow(0.3) }
            let sent = server.signIn(user)
            let fields = TransparentRefreshTests.fields(try Self.old(user), sent)
            let answers = try atOnce(40) { try Connection(port: ports[$0 % 4]).ask("GET /internal/x", fields) }
            #expect(answers.allSatisfy { $0.status == 200 }, "\(Set(answers.map(\.status)))")
            let access = Set(answers.compactMap { $0["X-New-Access-Token"] })
            #expect(access.count == 1 && Set(answers.map { $0["X-New-Refresh-Token"] }).count == 1)
            #expect(server.questions.now.count == round)
            let names = try redis.ask("KEYS", "tollgate:refresh:*").split(whereSeparator: \.isNewline).map(String.init)
            let left = try names.map { try redis.ask("TYPE", $0).contains("hash") ? redis.ask("HGETALL", $0) : redis.ask("GET", $0) }
            let all = (names + left).joined()
            #expect(all.contains("result"))
            #expect(!all.contains(sent) && !access.contains { all.contains($0) } && !all.contains(user))
        }
        let remote = try gateways.map { try $0.metric("tollgate_refresh_singleflight_total", #"role="remote""#) }.reduce(0, +)
        #expect(remote == 15)
    }

    @Test func withoutItsRedisAGatewayRefreshesAlone() throws {
        let (server, upstream, redis) = (try AuthServer(), try Upstream(), try Redis())
        let gateway = try Self.gateway(server, upstream, redis.setting)
        redis.kill()
        try eventually("it is seen that Redis has gone") { try JSON(try gateway.askAdmin("/readyz").text)["status"].text == "degraded" }
        #expect(try gateway.ask("GET /internal/x", TransparentRefreshTests.fields(try Self.old(), server.signIn("u1"))).status == 200)
    }

    /// A gateway that dies in the middle of a refresh holds the others up for a while, and no longer.
    @Test func aGatewayThatDiesWithTheLeaseIsSucceeded() throws {
        let (server, upstream, redis) = (try AuthServer(), try Upstream(), try Redis())
        let gateways = try (0..<2).map { _ in try Self.gateway(server, upstream, redis.setting, Redis.patience) }
        let (first, second) = (gateways[0], gateways[1])
        for gateway in [first, second] {
            try eventually("Redis is there") { try JSON(try gateway.askAdmin("/readyz").text)["status"].text == "ready" }
        }
        server.mood.change { $0 = .late }
        let fields = TransparentRefreshTests.fields(try Self.old(), server.signIn("u1"))
        let connection = try first.connect()
        try connection.send(requestHead("GET /internal/x", fields))
        try server.questions.wait(for: "a question") { $0.count == 1 }
        first.process.kill()
        server.mood.change { $0 = .well }
        try eventually("the other takes over") { try second.ask("GET /internal/x", fields).status == 200 }
        #expect(server.questions.now.count == 2)
    }

    /// What a client sends while it waits stays where it is: with the client.
    @Test func aBodyIsHeldBackWhileItsTokenIsRefreshed() throws {
        let (server, upstream) = (try AuthServer(), try Upstream())
        let gateway = try Self.gateway(server, upstream)
        // Half of the eight seconds that a refresh may take.
        server.mood.change { $0 = .slow(4) }
        let before = try gateway.peakResidentKiB
        let body = StreamingTests.pattern(8 << 20)
        let fields = TransparentRefreshTests.fields(try Self.old(), server.signIn("u1"))
        let port = gateway.port
        let uploads = (0..<8).map { _ in
            Background { try Connection(port: port).ask("POST /internal/x", fields, body: body) }
        }
        try server.questions.wait(for: "a question") { $0.count == 1 }
        #expect(try gateway.peakResidentKiB - before < 8 * 1_024)
        #expect(upstream.requests.now.isEmpty)
        for upload in uploads { #expect(try upload.value(seconds: 60).status == 200) }
        #expect(upstream.requests.now.count == 8 && upstream.requests.now.allSatisfy { isSame($0.body, body) })
        #expect(server.questions.now.count == 1)
    }

    @Test func aClientThatGoesMeanwhileIsForgotten() throws {
        let (server, upstream) = (try AuthServer(), try Upstream())
        let gateway = try Self.gateway(server, upstream)
        // Long enough for the client to have gone before the answer comes, on a busy machine, too.
        server.mood.change { $0 = .slow(4) }
        let fields = TransparentRefreshTests.fields(try Self.old(), server.signIn("u1"))
        let leaving = try gateway.connect()
        try leaving.send(requestHead("GET /internal/gone", fields))
        try server.questions.wait(for: "a question") { $0.count == 1 }
        leaving.reset()
        let staying = try gateway.ask("GET /internal/stays", fields)
        #expect(staying.status == 200)
        #expect(upstream.requests.now.map(\.target) == ["/internal/stays"])
        #expect(server.questions.now.count == 1)
    }
}
