import Foundation
import TestThreads
import Testing

/// Who asks, as the upstream learns it: from a verified token and from nobody else.
@Suite(.ownThread) struct IdentityTests {
    private static let settings = """
        TOLLGATE_ROUTE_OPEN="/open/* upstream=u auth=none"
        TOLLGATE_ROUTE_MAYBE="/maybe/* upstream=u auth=optional"
        TOLLGATE_ROUTE_MUST="/must/* upstream=u"
        TOLLGATE_ROUTE_KEEP="/keep/* upstream=u forward=authorization"
        TOLLGATE_ROUTE_MAIL="/mail/* upstream=u forward=email"
        TOLLGATE_ROUTE_NAMED="/named/* upstream=u forward=name"
        """

    private static let names = [
        "X-User-Id", "X-User-Name", "X-User-Email", "X-User-Email-Verified", "X-User-Tier", "X-User-Premium", "X-Session-Id",
        "X-Token-Issuer", "X-Actor-Type",
        "X-Actor-Id", "X-Tollgate-Identity",
    ]

    @Test func aTokensClaimsBecomeHeaders() throws {
        let upstream = try Upstream()
        let gateway = try Gateway("TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\n" + Self.settings)
        let bearer = try gateway.bearer(
            "--sub", "ada", "--tier", "premium", "--email", "ada@example.org", "--claim", "email_verified=true")
        #expect(try gateway.ask("GET /must/x", [bearer]).status == 200)
        let request = upstream.requests.now[0]
        #expect(request["X-User-Id"] == "ada")
        #expect(request["X-User-Email"] == "ada@example.org")
        #expect(request["X-User-Tier"] == "premium")
        #expect(request["X-User-Premium"] == "true")
        #expect(request["X-Token-Issuer"] == "http://localhost:8000")
        #expect(request["Authorization"] == nil)
        for name in ["X-Session-Id", "X-Actor-Type", "X-Actor-Id"] { #expect(request[name] == nil, "\(name)") }
        #expect(try gateway.ask("GET /keep/x", [bearer]).status == 200)
        #expect(upstream.requests.now[1]["Authorization"] == String(bearer.dropFirst("Authorization: ".count)))
    }

    /// Its next owner may have an account of their own.
    @Test func anEmailThatTheUserHasGivenUpIsNotToldByOlderTokens() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(["TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"", Self.settings, Gateway.contracts].joined(separator: "\n"))
        let (old, new) = ("ada@example.org", "eva@example.org")
        func email(_ token: String, _ path: String = "/must/x") throws -> String? {
            let answer = try gateway.send("GET \(path)", bearer: token)
            #expect(answer.status == 200)
            return upstream.requests.now.last?["X-User-Email"]
        }
        func verify(_ email: String, _ type: String, bearer: String? = nil) throws -> String {
            let code = try must(try gateway.message(to: email)["code"])
            let body = #"{"email":"\#(email)","type":"\#(type)","token":"\#(code)"}"#
            return try must(try JSON(gateway.send("POST /auth/otp/verify", body, bearer: bearer).text)["session"]["access_token"])
        }
        _ = try gateway.signUp(old)
        let first = try verify(old, "signup")
        let login = try JSON(try gateway.send("POST /api/v1/auth/login", credentials(old)).text)
        let older = [first, try must(login["tokens"]["access"])]
        for token in older { #expect(try email(token) == old) }
        let change = #"{"email":"\#(new)","type":"email_change"}"#
        #expect(try gateway.send("POST /auth/otp/resend", change, bearer: first).status == 200)
        let newer = try verify(new, "email_change", bearer: first)
        for token in older {
            try eventually("no email") { try email(token) == nil }
            #expect(try email(token, "/mail/x") == nil)
            #expect(upstream.requests.now.last?["X-User-Email-Verified"] == nil)
        }
        #expect(try email(newer) == new)
    }

    @Test func anEmailThatIsNotProvenIsToldOnlyWhereTheRouteAsksForIt() throws {
        let upstream = try Upstream()
        let gateway = try Gateway("TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\n" + Self.settings)
        for (claims, isProven) in [(["--claim", "email_verified=true"], true), (["--claim", "email_verified=false"], false), ([], false)] {
            let token = try gateway.command(["token", "mint", "--sub", "ada", "--email", "ada@example.org"] + claims).output
            let bearer = "Authorization: Bearer " + token.trimmingCharacters(in: .whitespacesAndNewlines)
            #expect(try gateway.ask("GET /must/x", [bearer]).status == 200)
            #expect(try gateway.ask("GET /mail/x", [bearer, "X-User-Email-Verified: forged"]).status == 200)
            let requests = upstream.requests.now.suffix(2).map { $0 }
            #expect(requests[0]["X-User-Email"] == (isProven ? "ada@example.org" : nil))
            #expect(requests[0]["X-User-Email-Verified"] == nil)
            #expect(requests[1]["X-User-Email"] == "ada@example.org")
            #expect(requests[1].all("X-User-Email-Verified") == ["\(isProven)"])
        }
    }

    /// The provider's full name of the first sign-in, in the tokens of that and of every later one.
    @Test func theNameOfTheAccountIsToldWhereTheRouteAsksForIt() throws {
        let upstream = try Upstream()
        let providers = try Providers.shared.get()
        let settings = [
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"", Self.settings, Gateway.contracts, providers.settings(),
            "TOLLGATE_ADMIN_TOKEN=the-admin-of-names",
        ]
        let gateway = try Gateway(settings.joined(separator: "\n"))
        for name in [#","fullName":{"givenName":"Zoë","familyName":"de l'Été"}"#, ""] {
            let token = try providers.token("apple", #"{"sub":"001.zoe"}"#)
            let answer = try gateway.send("POST /whateat/api/v1/auth/signin", #"{"provider":"apple","idToken":"\#(token)"\#(name)}"#)
            let access = try must(try JSON(answer.text)["accessToken"])
            for path in ["/named/x", "/must/x"] { #expect(try gateway.send("GET \(path)", bearer: access).status == 200) }
            let told = upstream.requests.now.suffix(2).map { $0.all("X-User-Name") }
            #expect(told == [["Zo%C3%AB%20de%20l%27%C3%89t%C3%A9"], []])
        }
        let users = try Connection(port: gateway.adminPort).ask(
            "GET /admin/api/users", ["Host: localhost", "Authorization: Bearer the-admin-of-names"])
        #expect(users.text.contains(#""name":"Zoë de l'Été","given_name":"Zoë","family_name":"de l'Été""#))
    }

    /// Every way to write a name that the gateway injects.
    private static func spellings(_ name: String) -> [String] {
        [
            name, name.lowercased(), name.uppercased(), name.replacingOccurrences(of: "-", with: "_"),
            name.lowercased().replacingOccurrences(of: "-", with: "_"),
            name.replacingOccurrences(of: "X-", with: "x_"),
        ]
    }

    @Test func whatAClientSendsUnderAnInjectedNameNeverArrives() throws {
        let upstream = try Upstream()
        let gateway = try Gateway("TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\n" + Self.settings)
        let bearer = try gateway.bearer("--sub", "ada")
        let secrets = ["X-Internal-Key", "x_internal_key", "X-Refresh-Token", "X_REFRESH_TOKEN"]
        var asked = 0
        for (path, fields) in [("/open/x", []), ("/maybe/x", []), ("/maybe/x", [bearer]), ("/must/x", [bearer])] {
            let connection = try gateway.connect()
            for name in Self.names + secrets {
                let forged = Self.spellings(name).map { "\($0): forged" }
                #expect(try connection.ask("GET \(path)", fields + forged).status == 200)
                // Named in Connection, before and behind the forged field.
                #expect(try connection.ask("GET \(path)", fields + ["Connection: \(name)", "\(name): forged"]).status == 200)
                try connection.send(
                    requestHead("POST \(path)", fields + ["Transfer-Encoding: chunked"]) + "0\r\n"
                        + forged.map { $0 + "\r\n" }.joined() + "\r\n")
                #expect(try connection.answer().status == 200)
                asked += 3
            }
        }
        let requests = upstream.requests.now
        #expect(requests.count == asked)
        for request in requests {
            let all = (request.fields + request.trailers).map { "\($0.name): \($0.value)" }
            #expect(!all.contains { $0.contains("forged") }, "\(request.startLine): \(all)")
            let isKnown = request["X-User-Id"] != nil
            #expect(request.all("X-User-Id") == (isKnown ? ["ada"] : []))
            #expect(request.all("X-User-Premium") == (isKnown ? ["false"] : []))
        }
        #expect(requests.filter { $0["X-User-Id"] == "ada" }.count == asked / 2)
    }

    @Test func namingAnInjectedHeaderInConnectionDoesNotTakeItAway() throws {
        let upstream = try Upstream()
        let gateway = try Gateway("TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\n" + Self.settings)
        let bearer = try gateway.bearer("--sub", "ada")
        for name in ["X-User-Id", "x_user_id", "X-Request-Id", "X-Forwarded-For", "Authorization"] {
            #expect(try gateway.ask("GET /must/x", [bearer, "Connection: close, \(name)"]).status == 200)
        }
        for request in upstream.requests.now {
            #expect(request["X-User-Id"] == "ada")
            #expect(request["X-Request-Id"] != nil)
            #expect(request["X-Forwarded-For"] == "127.0.0.1")
        }
    }

    @Test func withoutAuthenticationTheAuthorizationPassesUntouched() throws {
        let upstream = try Upstream()
        let gateway = try Gateway("TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\n" + Self.settings)
        #expect(try gateway.ask("GET /open/x", ["Authorization: Basic eDp5"]).status == 200)
        #expect(try gateway.ask("GET /open/x", ["Authorization: Bearer nonsense"]).status == 200)
        #expect(upstream.requests.now.map { $0["Authorization"] } == ["Basic eDp5", "Bearer nonsense"])
        #expect(upstream.requests.now.allSatisfy { request in Self.names.allSatisfy { request[$0] == nil } })
    }

    // MARK: forwarding fields

    @Test func anUntrustedClientSaysNothingAboutWhereItComesFrom() throws {
        let upstream = try Upstream()
        let gateway = try Gateway("TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\n" + Self.settings)
        let lies = [
            "X-Forwarded-For: 6.6.6.6", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil", "Forwarded: for=6.6.6.6",
            "X-Request-Id: mine", "X_Forwarded_For: 6.6.6.6",
        ]
        let answer = try gateway.ask("GET /open/x", lies)
        let request = upstream.requests.now[0]
        #expect(request["X-Forwarded-For"] == "127.0.0.1")
        #expect(request["X-Forwarded-Proto"] == "http")
        #expect(request["X-Forwarded-Host"] == "test")
        #expect(request["Forwarded"] == nil)
        #expect(request["X-Request-Id"] != "mine")
        #expect(request["X-Request-Id"] == answer["X-Request-Id"])
        #expect(answer["X-Request-Id"]?.wholeMatch(of: /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/) != nil)
        #expect(!text(of: request.head).contains("6.6.6.6"))
    }

    @Test func aTrustedProxyIsBelieved() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_TRUSTED_PROXIES=\"127.0.0.0/8 10.0.0.0/8\"\n" + Self.settings)
        let answer = try gateway.ask(
            "GET /open/x", ["X-Forwarded-For: 6.6.6.6, 203.0.113.9, 10.1.2.3", "X-Request-Id: from-the-edge.1"])
        #expect(answer["X-Request-Id"] == "from-the-edge.1")
        let request = upstream.requests.now[0]
        #expect(request["X-Forwarded-For"] == "6.6.6.6, 203.0.113.9, 10.1.2.3, 127.0.0.1")
        #expect(request["X-Request-Id"] == "from-the-edge.1")
        let line = try gateway.accessLog(1)[0]
        #expect(line["client_ip"].text == "203.0.113.9")
        #expect(line["peer_ip"].text == "127.0.0.1")
        #expect(line["request_id"].text == "from-the-edge.1")
        #expect(try gateway.ask("GET /open/x", ["X-Request-Id: <script>"])["X-Request-Id"] != "<script>")
    }

    @Test func aTraceGoesOn() throws {
        let upstream = try Upstream()
        let gateway = try Gateway("TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\n" + Self.settings)
        let id = "0af7651916cd43dd8448eb211c80319c"
        try gateway.ask("GET /open/x", ["traceparent: 00-\(id)-b7ad6b7169203331-01", "tracestate: a=b"])
        try gateway.ask("GET /open/x", ["traceparent: 00-\(id)-0000000000000000-01"])
        try gateway.ask("GET /open/x")
        let requests = upstream.requests.now
        let form = /00-([0-9a-f]{32})-([0-9a-f]{16})-0[01]/
        let parents = requests.compactMap { $0["traceparent"]?.wholeMatch(of: form) }
        #expect(parents.count == 3)
        #expect(parents[0].1 == id)
        #expect(parents[0].2 != "b7ad6b7169203331")
        #expect(requests[0]["tracestate"] == "a=b")
        #expect(parents[1].1 != id)
        #expect(Set(parents.map { String($0.1) }).count == 3)
        #expect(Set(try gateway.accessLog(3).map { $0["trace_id"].text }) == Set(parents.map { String($0.1) }))
    }
}
