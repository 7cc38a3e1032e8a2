import Foundation
import TestServers
import TestThreads
import Testing

/// Expired tokens of internal callers, healed on the way: sessions of the gateway's own.
@Suite(.ownThread) struct TransparentRefreshTests {
    static let secret = "a secret of more than thirty-two bytes"
    static let key = "the key of the backend"

    /// Routes of every kind for an internal caller that is told by its key.
    static func settings(_ upstream: Upstream) throws -> String {
        let digest = try run("sha256sum", [], input: key).output.prefix(64)
        return """
            TOLLGATE_JWT_SECRET="\(secret)"
            TOLLGATE_INTERNAL_BACKEND=key-sha256=\(digest)
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_INTERNAL="/internal/* upstream=u auth=internal"
            TOLLGATE_ROUTE_REQUIRED="/required/* upstream=u"
            TOLLGATE_ROUTE_OPTIONAL="/optional/* upstream=u auth=optional"
            TOLLGATE_ROUTE_FORWARD="/forward/* upstream=u forward=authorization"
            TOLLGATE_ROUTE_PREMIUM="/premium/* upstream=u tier=premium"
            TOLLGATE_ROUTE_OPEN="/open/* upstream=u auth=none"
            """
    }

    static func fields(_ access: String, _ refresh: String, key: String? = key) -> [String] {
        ["Authorization: Bearer \(access)", "X-Refresh-Token: \(refresh)"] + (key.map { ["X-Internal-Key: \($0)"] } ?? [])
    }

    static func expired(_ token: String) throws -> String { try EndToEndTests.expired(token, secret: secret) }

    private let upstream: Upstream
    private let gateway: Gateway

    init() throws {
        upstream = try Upstream(
            Upstream.saying("HTTP/1.1 200 OK\r\nX-New-Access-Token: forged\r\nx_new_refresh_token: forged\r\nContent-Length: 2\r\n\r\nok"))
        gateway = try Gateway([Gateway.contracts, try Self.settings(upstream)].joined(separator: "\n"))
    }

    @Test(arguments: ["/internal/x", "/required/x", "/optional/x", "/forward/x"])
    func theRequestGoesOnOnceWithTheNewIdentity(_ path: String) throws {
        let session = try gateway.signUp("ada@example.org")
        let body = StreamingTests.pattern(3 << 20)
        let answer = try gateway.ask("POST \(path)", Self.fields(try Self.expired(session.access), session.refresh), body: body)
        #expect(answer.status == 200)
        let (access, refresh) = (answer["X-New-Access-Token"] ?? "", answer["X-New-Refresh-Token"] ?? "")
        #expect(refresh != session.refresh && answer["x_new_refresh_token"] == nil)
        let (old, new) = (try claims(of: session.access), try claims(of: access))
        #expect(new["sub"].text == old["sub"].text && new["sid"].text == old["sid"].text)
        #expect(answer["X-New-Token-Expires-At"] == new["exp"].number.map { "\(Int($0))" })

        let seen = try #require(upstream.requests.now.first)
        #expect(upstream.requests.now.count == 1 && isSame(seen.body, body))
        #expect(seen["X-User-Id"] == new["sub"].text && seen["X-Session-Id"] == new["sid"].text)
        #expect(seen["X-Internal-Key"] == nil && seen["X-Refresh-Token"] == nil)
        #expect(seen["Authorization"] == (path == "/forward/x" ? "Bearer \(access)" : nil))
        #expect(seen["Content-Length"] == "\(body.count)")

        #expect(try gateway.send("GET /required/x", bearer: access).status == 200)
        _ = try gateway.refreshed(refresh)
        #expect(try gateway.metric("tollgate_refresh_total", #"outcome="rotated""#) == 1)
        let logged = try #require(try gateway.accessLog(2).first { $0["path"].text == path })
        #expect(logged["refresh"].text == "leader" && logged["auth_outcome"].text == "accepted")
    }

    @Test func aRefreshTokenThatStaysIsNotHandedOutAgain() throws {
        let session = try gateway.register("ada@example.org")
        for _ in 0..<2 {
            let answer = try gateway.ask("GET /internal/x", Self.fields(try Self.expired(session.access), session.refresh))
            #expect(answer.status == 200 && answer["X-New-Access-Token"] != nil && answer["X-New-Refresh-Token"] == nil)
        }
    }

    @Test func aTokenThatIsGoodIsLeftAsItIs() throws {
        let session = try gateway.signUp("ada@example.org")
        let answer = try gateway.ask("GET /internal/x", Self.fields(session.access, session.refresh))
        #expect(answer.status == 200 && answer["X-New-Access-Token"] == nil)
        #expect(upstream.requests.now.allSatisfy { $0["X-Refresh-Token"] == nil && $0["X-Internal-Key"] == nil })
        #expect(try gateway.accessLog(2).last?["refresh"].text == "none")
        _ = try gateway.refreshed(session.refresh)
    }

    @Test func aRefusalBehindTheRefreshBringsTheNewTokensAllTheSame() throws {
        let session = try gateway.signUp("ada@example.org")
        let answer = try gateway.ask("GET /premium/x", Self.fields(try Self.expired(session.access), session.refresh))
        #expect(answer.status == 403 && answer["X-New-Access-Token"] != nil && answer["X-New-Refresh-Token"] != nil)
        #expect(upstream.requests.now.isEmpty)
    }

    @Test func whoMayNotIsRefusedAsEver() throws {
        let (ada, bob) = (try gateway.signUp("ada@example.org"), try gateway.signUp("bob@example.org"))
        let old = try Self.expired(ada.access)
        let forged = try EndToEndTests.expired(ada.access, secret: "another secret of more than thirty-two bytes")
        let refused: [(String, [String], String)] = [
            ("a stranger", Self.fields(old, ada.refresh, key: nil), "TOKEN_EXPIRED"),
            ("a wrong key", Self.fields(old, ada.refresh, key: "guessed"), "TOKEN_EXPIRED"),
            ("another's session", Self.fields(old, bob.refresh), "TOKEN_EXPIRED"),
            ("a forged refresh token", Self.fields(old, String(ada.refresh.dropLast(3)) + "AAA"), "TOKEN_EXPIRED"),
            ("a forged token", Self.fields(forged, ada.refresh), "UNAUTHORIZED"),
            ("no bearer", Array(Self.fields(old, ada.refresh).dropFirst()), "UNAUTHORIZED"),
        ]
        for (who, fields, code) in refused {
            let answer = try gateway.ask("GET /required/x", fields)
            #expect(try answer.status == 401 && JSON(answer.text)["error"]["code"].text == code, "\(who): \(answer) \(answer.text)")
            #expect(answer["X-New-Access-Token"] == nil && answer["WWW-Authenticate"] != nil, "\(who)")
        }
        #expect(try gateway.ask("GET /optional/x", Array(Self.fields(old, ada.refresh).dropFirst())).status == 401)
        #expect(try gateway.ask("GET /internal/x", Self.fields(old, ada.refresh, key: nil)).status == 403)
        #expect(upstream.requests.now.isEmpty)
        // Nobody's session was harmed.
        _ = (try gateway.refreshed(ada.refresh), try gateway.refreshed(bob.refresh))
        #expect(try gateway.ask("GET /open/x", Self.fields(old, ada.refresh)).status == 200)
        let passed = try #require(upstream.requests.now.last)
        #expect(passed["X-Refresh-Token"] == nil && passed["X-Internal-Key"] == nil)
    }

    @Test func aSessionThatHasEndedIsNotRefreshed() throws {
        let session = try gateway.signUp("ada@example.org")
        #expect(try gateway.send("POST /auth/signout", bearer: session.access).status == 200)
        let answer = try gateway.ask("GET /required/x", Self.fields(try Self.expired(session.access), session.refresh))
        #expect(try answer.status == 401 && JSON(answer.text)["error"]["code"].text == "TOKEN_REVOKED")
        #expect(upstream.requests.now.isEmpty)
    }

    /// The place in its session's chain that an opaque refresh token says it stands for.
    static func counter(_ token: String) throws -> Int {
        guard let said = bytes(base64URL: String(token.dropFirst(3))), said.count == 46 else { throw Fault("\(token) is no refresh token") }
        return said[18..<26].reduce(0) { $0 << 8 | Int($1) }
    }

    @Test func twoHundredRefreshesOverFourGatewaysAreOneStep() throws {
        let redis = try Redis()
        let url = try PostgresCluster.shared.get().newDatabase()
        let settings = [
            Gateway.contracts, try Self.settings(upstream), redis.setting, "DATABASE_URL=\"\(url)\"", "TOLLGATE_WORKERS=2",
        ].joined(separator: "\n")
        let gateways = try (0..<4).map { _ in try Gateway(settings) }
        for round in 1...3 {
            let session = try gateways[0].signUp("ada\(round)@example.org")
            let fields = Self.fields(try Self.expired(session.access), session.refresh)
            let ports = gateways.map(\.port)
            let answers = try atOnce(200) { try Connection(port: ports[$0 % 4]).ask("GET /internal/x", fields) }
            #expect(answers.allSatisfy { $0.status == 200 }, "\(Set(answers.map(\.status)))")
            let tokens = Set(answers.compactMap { $0["X-New-Refresh-Token"] })
            #expect(tokens.count == 1)
            #expect(try tokens.map(Self.counter) == [2])
            for answer in answers.prefix(8) {
                #expect(try gateways[round].send("GET /required/x", bearer: answer["X-New-Access-Token"]).status == 200)
            }
        }
    }

    @Test func aDatabaseThatIsAwayIsOurOwnInability() throws {
        let cluster = try PostgresCluster()
        defer { cluster.end() }
        let url = try cluster.newDatabase()
        let gateway = try Gateway([Gateway.contracts, try Self.settings(upstream), "DATABASE_URL=\"\(url)\""].joined(separator: "\n"))
        let session = try gateway.signUp("ada@example.org")
        let fields = Self.fields(try Self.expired(session.access), session.refresh)
        try cluster.stop()
        let answer = try gateway.ask("GET /internal/x", fields)
        #expect(answer.status == 503 && answer["Retry-After"].flatMap { Int($0) } ?? 0 > 0)
        try cluster.start()
        try eventually("it is back") { try gateway.ask("GET /internal/x", fields).status == 200 }
    }

    /// A hundred requests on one connection, each behind the other, of which all find the token expired.
    @Test func aPipelineOfExpiredRequestsIsAnsweredInOrder() throws {
        let session = try gateway.signUp("ada@example.org")
        let fields = Self.fields(try Self.expired(session.access), session.refresh)
        let connection = try gateway.connect()
        try connection.send((0..<100).map { requestHead("GET /internal/\($0)", fields) }.joined())
        for _ in 0..<100 { #expect(try connection.answer().status == 200) }
        #expect(upstream.requests.now.map(\.target) == (0..<100).map { "/internal/\($0)" })
    }
}
