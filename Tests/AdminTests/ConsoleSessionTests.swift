import Credentials
import Gate
import Synchronization
import Testing
import Wire

@testable import Admin

extension AdminBench {
    static let own = [("Host", "localhost:9090"), ("Origin", "http://localhost:9090")]

    /// The `Cookie` field of a new session.
    func signIn(_ token: String = "the-admin-token") async throws -> (String, String) {
        let answer = await ask("POST session", #"{"token":"\#(token)"}"#, Self.own)
        #expect(answer.status == 204)
        let value = try #require(answer.cookie?.split(separator: ";").first)
        return ("Cookie", "theme=dark; \(value)")
    }
}

/// The sign-in of the console.
@Suite struct ConsoleSessionTests {
    private let desk: AdminBench

    init() throws { desk = try AdminBench() }

    @Test func theCookieIsForTheAPIAloneAndNotForScripts() async throws {
        let answer = await desk.ask("POST session", #"{"token":"the-admin-token"}"#, AdminBench.own)
        let parts = try #require(answer.cookie).split(separator: ";").map { $0.drop { $0 == " " } }
        #expect(parts.dropFirst() == ["HttpOnly", "SameSite=Strict", "Path=/admin/api/", "Max-Age=43200"])
        #expect(!answer.cookie!.contains("the-admin-token"))
        let secure = await desk.ask(
            "POST session", #"{"token":"the-admin-token"}"#, [("Host", "gate.example"), ("Origin", "https://gate.example")], isSecure: true)
        #expect(secure.cookie?.hasSuffix("; Secure") == true)
        // A proxy that ends TLS leaves a plain connection.
        let proxied = await desk.ask(
            "POST session", #"{"token":"the-admin-token"}"#, [("Host", "gate.example"), ("Origin", "https://gate.example")])
        #expect(proxied.cookie?.hasSuffix("; Secure") == true)
    }

    @Test func theCookieCountsLikeTheTokenUntilItEnds() async throws {
        let cookie = try await desk.signIn()
        #expect(await desk.ask("GET upstreams", "", [cookie]).status == 200)
        #expect(await desk.ask("GET session", "", [cookie]).text == #"{"expires_at":"2027-01-15T20:00:00.000Z"}"#)
        #expect(await desk.ask("GET session", "", []).status == 401)
        desk.now.time.withLock { $0 = WallTime(seconds: 1_800_000_000 + 43_199) }
        #expect(await desk.ask("GET upstreams", "", [cookie]).status == 200)
        desk.now.time.withLock { $0 = WallTime(seconds: 1_800_000_000 + 43_200) }
        #expect(await desk.ask("GET upstreams", "", [cookie]).status == 401)
        #expect(await desk.ask("GET session", "", [cookie]).status == 401)
    }

    @Test func anotherAdminTokenEndsEverySession() async throws {
        let cookie = try await desk.signIn()
        desk.now.token.withLock { $0 = Array("another-token".utf8) }
        #expect(await desk.ask("GET upstreams", "", [cookie]).status == 401)
        desk.now.token.withLock { $0 = nil }
        #expect(await desk.ask("GET upstreams", "", [cookie]).status == 401)
        desk.now.token.withLock { $0 = Array("the-admin-token".utf8) }
        #expect(await desk.ask("GET upstreams", "", [cookie]).status == 200)
    }

    /// Browsers send a host's cookies to all of its ports.
    @Test func theConsolesOfTwoGatewaysOnOneHostKeepTheirSessions() async throws {
        let other = try AdminBench()
        other.now.token.withLock { $0 = Array("another-token".utf8) }
        let (one, two) = (try await desk.signIn().1, try await other.signIn("another-token").1)
        let name = { (cookie: String) in cookie.split(separator: " ")[1].prefix { $0 != "=" } }
        #expect(name(one).hasPrefix("tollgate_console_") && name(one) != name(two))
        for desk in [desk, other] { #expect(await desk.ask("GET upstreams", "", [("Cookie", "\(one); \(two)")]).status == 200) }
        #expect(await desk.ask("GET upstreams", "", [("Cookie", two)]).status == 401)
    }

    @Test func everyChangeOfTheValueIsRefused() throws {
        let now = WallTime(seconds: 1_800_000_000)
        let session = ConsoleSession(AdminToken(bytes: Array("t".utf8), isNew: false))
        let value = session.value(until: WallTime(seconds: now.seconds + 60))
        #expect(session.end(of: value, now: now)?.seconds == now.seconds + 60)
        let letters = Array(value)
        for index in letters.indices {
            var changed = letters
            changed[index] = changed[index] == "A" ? "B" : "A"
            #expect(session.end(of: String(changed), now: now) == nil, "letter \(index)")
        }
        for other in ["", "=", String(value.dropLast()), value + "A", value + "=", " " + value, "ä"] {
            #expect(session.end(of: other, now: now) == nil, "\(other)")
        }
        // Made by a gateway whose clock is ahead: a little, and so far that it is wrong.
        for (ahead, isGood): (Int64, Bool) in [(0, true), (1, true), (60, true), (61, false), (86_400, false)] {
            let made = session.value(until: WallTime(seconds: now.seconds + ahead + ConsoleSession.seconds))
            #expect((session.end(of: made, now: now) != nil) == isGood, "\(ahead) s")
        }
    }

    @Test func ofSeveralCookiesOfTheNameAnyGoodOneCounts() async throws {
        let cookie = try await desk.signIn().1
        let name = ConsoleSession(AdminToken(bytes: Array("the-admin-token".utf8), isNew: false)).cookieName
        #expect(cookie.contains(" \(name)="))
        for value in ["\(name)=bad; \(cookie)", "\(cookie); \(name)=", "\(name)s=x; \(cookie)", "tollgate_console_=x; \(cookie)"] {
            #expect(await desk.ask("GET upstreams", "", [("Cookie", value)]).status == 200, "\(value)")
        }
        #expect(await desk.ask("GET upstreams", "", [("Cookie", "a=b"), ("cookie", cookie)]).status == 200)
        #expect(await desk.ask("GET upstreams", "", [("Cookie", "x" + cookie.split(separator: " ")[1])]).status == 401)
    }

    @Test func aWrongTokenIsCountedAndGetsNoCookie() async throws {
        for body in [#"{"token":"wrong"}"#, #"{"token":""}"#] {
            let answer = await desk.ask("POST session", body, AdminBench.own)
            #expect(answer.status == 401 && answer.cookie == nil)
        }
        for body in ["", "{}", "[]", #"{"token":1}"#] {
            #expect(await desk.ask("POST session", body, AdminBench.own).status == 400, "\(body)")
        }
        var last = 0
        for _ in 0..<30 { last = await desk.ask("POST session", #"{"token":"wrong"}"#, AdminBench.own).status }
        #expect(last == 429)
        #expect(await desk.ask("GET upstreams", "", [("Authorization", "Bearer wrong")]).status == 429, "both count together")
        #expect(
            await desk.ask("POST session", #"{"token":"the-admin-token"}"#, AdminBench.own).status == 204,
            "the right token is never held up")
    }

    @Test func aTokenWithScopesDoesNotSignIn() async throws {
        let token = ScopedToken(name: "billing", bytes: Array("the-billing-token".utf8), scopes: [.gatewayRead])
        desk.now.scoped.withLock { $0 = [token] }
        let answer = await desk.ask("POST session", #"{"token":"the-billing-token"}"#, AdminBench.own)
        #expect(answer.status == 403 && answer.cookie == nil && answer.text.contains("the token billing is for programs alone"))
        // Its scopes are looked up anew for each second of a stream.
        let request = desk.request("GET live", "", [("Authorization", "Bearer the-billing-token")])
        #expect(desk.api.proves(request, .scoped(token)) && !desk.api.proves(request, .token))
        desk.now.scoped.withLock { $0 = [ScopedToken(name: "billing", bytes: token.bytes, scopes: [.tier])] }
        #expect(!desk.api.proves(request, .scoped(token)))
    }

    @Test func signingOutRemovesTheCookie() async throws {
        let cookie = try await desk.signIn()
        let name = cookie.1.split(separator: " ")[1].prefix { $0 != "=" }
        let answer = await desk.ask("DELETE session", "", AdminBench.own + [cookie])
        #expect(answer.status == 204 && answer.cookie?.hasPrefix("\(name)=; ") == true && answer.cookie?.contains("Max-Age=0") == true)
        #expect(await desk.ask("DELETE session", "", [cookie]).status == 403)
    }

    /// A proxy in front may have a sign-in of its own, whose field the browser sends with each request.
    @Test func aProxysOwnSignInDoesNotOutrankTheCookie() async throws {
        let cookie = try await desk.signIn()
        let basic = ("Authorization", "Basic YWRhOnNlY3JldA==")
        #expect(await desk.ask("GET upstreams", "", [basic, cookie]).status == 200)
        #expect(await desk.ask("DELETE sessions/x", "", AdminBench.own + [basic, cookie]).status == 404)
        #expect(await desk.ask("DELETE sessions/x", "", [basic, cookie]).status == 403, "without an origin")
        #expect(await desk.ask("GET upstreams", "", [basic]).status == 401)
        for field in ["Bearer", "bearer the-admin-token x", "Bearer wrong"] {
            #expect(await desk.ask("GET upstreams", "", [("Authorization", field), cookie]).status == 401, "\(field)")
        }
        #expect(desk.api.proves(desk.request("GET live", "", [basic, cookie]), .console))
        #expect(!desk.api.proves(desk.request("GET live", "", [basic]), .console))
        #expect(!desk.api.proves(desk.request("GET live", "", [("Authorization", "Bearer"), cookie]), .console))
        #expect(desk.api.proves(desk.request("GET live", "", [("Authorization", "Bearer the-admin-token")]), .token))
    }

    // MARK: origin

    /// Host, `Origin`, whether over TLS, and whether the page is the console's own.
    @Test(arguments: [
        ("localhost:9090", "http://localhost:9090", false, true), ("localhost:9090", "http://LOCALHOST:9090", false, true),
        ("gate.example", "http://gate.example", false, true), ("gate.example:80", "http://gate.example", false, true),
        ("gate.example", "http://gate.example:80", false, true), ("gate.example", "https://gate.example", true, true),
        ("gate.example:443", "https://gate.example", true, true), ("gate.example", "https://gate.example", false, true),
        ("[::1]:9090", "http://[::1]:9090", false, true),
        ("gate.example", "http://gate.example", true, false), ("gate.example", "https://gate.example:8443", true, false),
        ("gate.example", "http://evil.example", false, false), ("gate.example", "http://x.gate.example", false, false),
        ("gate.example", "http://gate.example.evil", false, false), ("gate.example", "null", false, false),
        ("gate.example", "", false, false),
        ("gate.example", "gate.example", false, false), ("gate.example", "http://", false, false),
        ("gate.example", "http://gate.example/", false, false),
        ("gate.example", "http://a@gate.example", false, false), ("gate.example", "ftp://gate.example", false, false),
        ("localhost:9090", "http://localhost:9091", false, false), ("localhost:9090", "http://localhost", false, false),
        ("127.0.0.1:9090", "http://localhost:9090", false, false),
    ])
    func aChangeWithTheCookieMustComeFromTheConsolesOwnPage(_ host: String, _ origin: String, _ isSecure: Bool, _ isOwn: Bool) async throws
    {
        let cookie = try await desk.signIn()
        let fields = [("Host", host), ("Origin", origin), cookie]
        let answer = await desk.ask("DELETE sessions/x", "", fields, isSecure: isSecure)
        #expect(answer.status == (isOwn ? 404 : 403), "\(answer.text)")
        #expect(answer.text.contains("FORBIDDEN_ORIGIN") == !isOwn)
        #expect(await desk.ask("POST session", #"{"token":"the-admin-token"}"#, fields, isSecure: isSecure).status == (isOwn ? 204 : 403))
        #expect(
            await desk.ask("GET upstreams", "", fields, isSecure: isSecure).status == 200, "a page of another origin cannot read the answer"
        )
    }

    @Test func programsNeedNoOriginAndBrowsersCannotLeaveItOut() async throws {
        let cookie = try await desk.signIn()
        let host = ("Host", "localhost:9090")
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            #expect(await desk.ask("\(method) sessions/x", "", [host, cookie]).status == 403, "\(method)")
        }
        #expect(await desk.ask("POST session", #"{"token":"the-admin-token"}"#, [host]).status == 403)
        #expect(await desk.ask("DELETE sessions/x", "", [("Authorization", "Bearer the-admin-token")]).status == 404)
        let foreign = [("Authorization", "Bearer the-admin-token"), ("Origin", "http://evil.example"), host]
        #expect(await desk.ask("DELETE sessions/x", "", foreign).status == 404, "a bearer is never sent by itself")
        let two = [host, ("Origin", "http://localhost:9090"), ("Origin", "http://evil.example"), cookie]
        #expect(await desk.ask("DELETE sessions/x", "", two).status == 403)
        #expect(await desk.ask("DELETE sessions/x", "", [host, host] + [("Origin", "http://localhost:9090"), cookie]).status == 403)
        #expect(await desk.ask("GET upstreams", "", [("Authorization", "Bearer wrong"), cookie]).status == 401, "the bearer wins")
    }
}
