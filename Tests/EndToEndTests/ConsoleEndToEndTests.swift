import Foundation
import TestThreads
import Testing

/// The console of a gateway that runs: its pages, its sign-in, and what it shows.
@Suite(.ownThread) struct ConsoleEndToEndTests {
    private static let token = "the-token-of-the-operator"

    private static func settings(_ more: String = "") -> String { "TOLLGATE_ADMIN_TOKEN=\(token)\n" + more }

    private func ask(_ port: Int, _ methodAndTarget: String, _ fields: [String] = [], _ json: String? = nil) throws -> Message {
        let host = fields.contains { $0.hasPrefix("Host:") } ? [] : ["Host: localhost:\(port)"]
        return try Connection(port: port).ask(methodAndTarget, host + fields, body: json.map { Array($0.utf8) })
    }

    private func origin(_ port: Int) -> String { "Origin: http://localhost:\(port)" }

    /// The `Cookie` field of a new session.
    private func signIn(_ port: Int) throws -> String {
        let answer = try ask(port, "POST /admin/api/session", [origin(port)], #"{"token":"\#(Self.token)"}"#)
        #expect(answer.status == 204)
        let cookie = try #require(answer["Set-Cookie"])
        #expect(cookie.contains("; HttpOnly; SameSite=Strict; Path=/admin/api/; Max-Age=43200") && !cookie.contains("Secure"))
        return "Cookie: " + cookie.prefix { $0 != ";" }
    }

    @Test func theAdminListenerLeadsToThePages() throws {
        let gateway = try Gateway(Self.settings())
        for path in ["/", "/admin", "/admin/", "/console"] {
            let answer = try ask(gateway.adminPort, "GET \(path)")
            #expect(answer.status == 303 && answer["Location"] == "/console/", "\(path)")
        }
        let page = try ask(gateway.adminPort, "GET /console/")
        #expect(page.status == 200 && page["Content-Type"] == "text/html; charset=utf-8" && page.text.contains("<title>"))
        #expect(page["Content-Security-Policy"]?.hasPrefix("default-src 'none'; script-src 'self'") == true)
        let again = try ask(gateway.adminPort, "GET /console/", ["If-None-Match: \(page["ETag"] ?? "")"])
        #expect(again.status == 304 && again.body.isEmpty)
        #expect(try ask(gateway.adminPort, "GET /console/", ["Host: evil.example"]).status == 421)
        #expect(try ask(gateway.adminPort, "GET /console/none").status == 404)
    }

    @Test func theCookieOpensTheAPIToItsOwnPageAlone() throws {
        let gateway = try Gateway(Self.settings())
        let port = gateway.adminPort
        let cookie = try signIn(port)
        #expect(try ask(port, "GET /admin/api/routes", [cookie]).status == 200)
        #expect(try ask(port, "GET /admin/api/session", [cookie]).text.contains("expires_at"))
        #expect(try ask(port, "GET /admin/api/routes").status == 401)
        let change = "DELETE /admin/api/sessions/00000000-0000-0000-0000-000000000000"
        #expect(try ask(port, change, [cookie, origin(port)]).status == 404)
        for fields in [
            [], ["Origin: http://evil.example"], ["Origin: null"], ["Origin: http://127.0.0.1:\(port)"], ["Origin: http://localhost"],
        ] {
            let refused = try ask(port, change, [cookie] + fields)
            #expect(refused.status == 403 && refused.text.contains("FORBIDDEN_ORIGIN"), "\(fields)")
        }
        // DNS rebinding: the page's name is its host and its origin.
        let rebound = ["Host: evil.example:\(port)", "Origin: http://evil.example:\(port)", cookie]
        #expect(try ask(port, change, rebound).status == 421)
        #expect(try ask(port, "POST /admin/api/session", Array(rebound.prefix(2)), #"{"token":"\#(Self.token)"}"#).status == 421)
        for value in [
            cookie + "A", String(cookie.dropLast()), "Cookie: tollgate_console=", cookie.replacingOccurrences(of: "=A", with: "=B"),
        ] {
            #expect(try ask(port, "GET /admin/api/routes", [value]).status == 401, "\(value)")
        }
        #expect(try ask(port, "DELETE /admin/api/session", [cookie, origin(port)])["Set-Cookie"]?.contains("Max-Age=0") == true)
        // Another token ends every session.
        try gateway.reload("TOLLGATE_ADMIN_TOKEN=another-token-of-the-operator")
        #expect(try ask(port, "GET /admin/api/routes", [cookie]).status == 401)
        #expect(try ask(port, "GET /admin/api/routes", ["Authorization: Bearer another-token-of-the-operator"]).status == 200)
        #expect(!(gateway.process.complaints.now + gateway.process.output.now).joined().contains(Self.token))
    }

    @Test func wrongTokensAreCountedHoweverTheyCome() throws {
        let gateway = try Gateway(Self.settings())
        let port = gateway.adminPort
        let statuses = try (0..<40).map { number in
            try ask(port, "POST /admin/api/session", [origin(port)], #"{"token":"guess-\#(number)"}"#).status
        }
        #expect(statuses.first == 401 && statuses.last == 429)
        #expect(try ask(port, "GET /admin/api/routes", ["Authorization: Bearer guess"]).status == 429)
        #expect(try ask(port, "GET /admin/api/routes", [try signIn(port)]).status == 200)
    }

    // MARK: the numbers

    @Test func everyAnswerIsAsItsDescriptionSays() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            Self.settings(
                """
                \(Gateway.contracts)
                TOLLGATE_UPSTREAM_U="\(upstream.url)"
                TOLLGATE_ROUTE_OPEN="/open upstream=u auth=none"
                TOLLGATE_ROUTE_ME="/me upstream=u limit=1/h tier=premium filter=tier cors=https://a.example claims=a=b"
                TOLLGATE_WORKERS=2
                """))
        let port = gateway.adminPort
        let bearer = "Authorization: Bearer \(Self.token)"
        let description = APIDescription(document: try JSON(ask(port, "GET /admin/api/openapi.json", [bearer]).text))
        #expect(description.document["openapi"].text == "3.1.0")
        let ada = try gateway.register("ada@example.org")
        _ = try gateway.signUp("bob@example.org")
        _ = try gateway.message(to: "bob@example.org")
        for _ in 0..<3 { #expect(try gateway.ask("GET /open").status == 200) }
        #expect(try gateway.ask("GET /me").status == 401)
        #expect(try gateway.ask("GET /nowhere").status == 404)
        #expect(try gateway.send("GET /me", bearer: ada.access).status == 403)
        let explained = #"{"method":"GET","url":"/me","token":"\#(ada.access)","from":"192.0.2.1","headers":{"Accept":"text/html"}}"#
        let asked: [(method: String, path: String, target: String, body: String?)] = [
            ("GET", "now", "now", nil), ("GET", "routes", "routes", nil), ("GET", "upstreams", "upstreams", nil),
            ("GET", "users", "users?search=ADA", nil), ("GET", "audit", "audit", nil), ("GET", "keys", "keys", nil),
            ("POST", "keys/rotate", "keys/rotate", nil), ("GET", "limits", "limits", nil), ("GET", "configuration", "configuration", nil),
            ("GET", "outbox", "outbox", nil), ("GET", "purchases", "purchases", nil), ("GET", "store-events", "store-events", nil),
            ("GET", "decisions", "decisions", nil), ("POST", "explain", "explain", explained), ("GET", "users", "users", nil),
            ("GET", "users/{id}", "users/\(ada.user)", nil), ("PUT", "users/{id}/tier", "users/\(ada.user)/tier", #"{"tier":"premium"}"#),
            ("POST", "users/{id}/revoke", "users/\(ada.user)/revoke", nil), ("DELETE", "users/{id}", "users/\(ada.user)", nil),
        ]
        for (method, path, target, body) in asked {
            let answer = try ask(port, "\(method) /admin/api/\(target)", [bearer], body)
            #expect(answer.status == 200, "\(target): \(answer.text)")
            #expect(try description.violations(answer.text, to: method, path).isEmpty, "\(answer.text)")
        }
        let refused = try ask(port, "GET /admin/api/users/none", [bearer])
        #expect(try description.violations(refused.text, to: "GET", "users/{id}", status: "404").isEmpty)

        let now = try JSON(ask(port, "GET /admin/api/now", [bearer]).text)
        #expect(now["requests_total"].int == 8 && now["by_status"]["2xx"].int == 5 && now["by_status"]["4xx"].int == 3)
        #expect(now["refusals"]["UNAUTHORIZED"].int == 1 && now["refusals"]["NOT_FOUND"].int == 1 && now["workers"].int == 2)
        #expect(now["duration_buckets"].array.reduce(0) { $0 + ($1["count"].int ?? 0) } == 8)
        #expect(now["latency_seconds"]["p99"].number ?? 0 > 0 && now["checks"].array.contains { $0["name"].text == "serving" })
        let routes = try JSON(ask(port, "GET /admin/api/routes", [bearer]).text)["routes"].array
        let counts = routes.reduce(into: [String: JSON]()) { $0[$1["name"].text ?? ""] = $1["counts"] }
        #expect(counts["open"]?["requests"].int == 3 && counts["open"]?["2xx"].int == 3 && counts["open"]?["refused"].int == 0)
        #expect(counts["me"]?["requests"].int == 2 && counts["me"]?["refused"].int == 2 && counts["me"]?["4xx"].int == 2)
        #expect(try gateway.metric("tollgate_refusals_total", #"route="me",code="UNAUTHORIZED""#) == 1)
        let fault = try ask(port, "POST /admin/api/explain", [bearer], #"{"method":"GET","url":"ftp://x"}"#)
        #expect(fault.status == 400 && fault.text.contains("is no URL"))
        #expect(!(gateway.process.complaints.now + gateway.process.output.now).joined().contains(ada.access))
    }

    @Test func theWalkIsThatOfTheCommandAndRefusalsAreFound() throws {
        let gateway = try Gateway(
            Self.settings(
                """
                TOLLGATE_UPSTREAM_U="http://127.0.0.1:1"
                TOLLGATE_ROUTE_GOLD="/gold upstream=u tier=premium"
                TOLLGATE_ROUTE_FEW="/few upstream=u auth=none limit=1/h"
                """))
        let bearer = "Authorization: Bearer \(Self.token)"
        let token = try gateway.bearer("--sub", "ada").dropFirst("Authorization: Bearer ".count)
        let told = try ask(gateway.adminPort, "POST /admin/api/explain", [bearer], #"{"method":"GET","url":"/gold","token":"\#(token)"}"#)
        let command = try gateway.command(["explain", "GET", "/gold", "--token", String(token), "--json"])
        let (walk, expected) = (try JSON(told.text), try JSON(command.output))
        func lines(_ json: JSON) -> [String] { json["steps"].array.map { "\($0["step"].text ?? ""): \($0["text"].text ?? "")" } }
        // The command cannot see the switches of a gateway without a database, and says so.
        #expect(lines(expected).contains { $0.hasPrefix("switches: ") })
        #expect(lines(walk) == lines(expected).filter { !$0.hasPrefix("switches: ") } && lines(walk).count > 4)
        #expect(walk["status"].int == 403 && walk["code"].text == "PREMIUM_REQUIRED" && walk["route"].text == "gold")

        #expect(try gateway.ask("GET /gold", ["Authorization: Bearer \(token)"]).status == 403)
        for _ in 0..<2 { _ = try gateway.ask("GET /few") }
        #expect(try gateway.ask("GET /none").status == 404)
        func found(_ query: String) throws -> [String] {
            let text = try ask(gateway.adminPort, "GET /admin/api/decisions?\(query)", [bearer]).text
            return try JSON(text)["decisions"].array.map { "\($0["path"].text ?? "") \($0["status"].int ?? 0)" }
        }
        #expect(try found("limit=10") == ["/none 404", "/few 429", "/few 502", "/gold 403"])
        #expect(try found("route=few") == ["/few 429", "/few 502"] && found("route=few&limit=1") == ["/few 429"])
        #expect(try found("code=RATE_LIMITED") == ["/few 429"] && found("status=403") == ["/gold 403"])
        #expect(try found("user=ada") == ["/gold 403"] && found("user=eve").isEmpty && found("route=none").isEmpty)
        #expect(try found("user=ada&status=404").isEmpty)
    }

    // MARK: the live view

    private struct Event: Equatable {
        let name: String
        let data: String
    }

    /// The next event of a stream, whose chunks are read away.
    private func event(_ stream: Connection) throws -> Event {
        var name = "", data = ""
        while true {
            let line = text(of: try stream.take(through: "\n")).trimmingCharacters(in: .newlines)
            if line.hasPrefix("event: ") { name = String(line.dropFirst(7)) }
            if line.hasPrefix("data: ") { data = String(line.dropFirst(6)) }
            if line.isEmpty, !name.isEmpty { return Event(name: name, data: data) }
        }
    }

    private func listen(_ port: Int, _ proof: String, receiveBuffer: Int32? = nil) throws -> Connection {
        let stream = try Connection(port: port, receiveBuffer: receiveBuffer)
        try stream.send(requestHead("GET /admin/api/live", ["Host: localhost:\(port)", proof]))
        let head = Message(head: try stream.take(through: "\r\n\r\n"))
        #expect(head.status == 200 && head["Content-Type"] == "text/event-stream" && head["Cache-Control"] == "no-store")
        return stream
    }

    @Test func numbersAndRefusalsComeByThemselves() throws {
        let gateway = try Gateway(Self.settings("TOLLGATE_WORKERS=2"))
        let cookie = try signIn(gateway.adminPort)
        let description = APIDescription(document: try JSON(ask(gateway.adminPort, "GET /admin/api/openapi.json", [cookie]).text))
        #expect(try gateway.ask("GET /before").status == 404)
        let stream = try listen(gateway.adminPort, cookie)
        let first = try event(stream)
        let total = try JSON(first.data)["requests_total"].int
        #expect(first.name == "now" && total == 1)
        for number in 0..<60 { #expect(try gateway.ask("GET /none/\(number)").status == 404) }
        var (told, skipped, events) = ([String](), 0, [first])
        while told.count + skipped < 60 {
            let next = try event(stream)
            events.append(next)
            if next.name == "refusal" { told.append(try JSON(next.data)["path"].text ?? "") }
            if next.name == "skipped" { skipped += try JSON(next.data)["count"].int ?? 0 }
        }
        #expect(told.count + skipped == 60 && Set(told).count == told.count && !told.contains("/before"))
        for event in events { #expect(try description.violations(event.data, event: event.name).isEmpty, "\(event)") }
    }

    @Test func theNinthListenerWaitsItsTurn() throws {
        let gateway = try Gateway(Self.settings())
        let port = gateway.adminPort
        let cookie = try signIn(port)
        var streams = try (0..<8).map { _ in try listen(port, cookie) }
        let refused = try ask(port, "GET /admin/api/live", [cookie])
        #expect(refused.status == 503 && refused["Retry-After"] != nil)
        for stream in streams { #expect(try event(stream).name == "now") }
        streams.removeLast().reset()
        try eventually("its place is free") { try ask(port, "HEAD /admin/api/live", [cookie]).status == 200 && place(port, cookie) }
    }

    /// Whether there is a place for one more listener, which leaves again.
    private func place(_ port: Int, _ cookie: String) throws -> Bool {
        let stream = try Connection(port: port)
        try stream.send(requestHead("GET /admin/api/live", ["Host: localhost:\(port)", cookie]))
        return Message(head: try stream.take(through: "\r\n\r\n")).status == 200
    }

    /// A listener that reads nothing holds nobody up, and is told of what it missed when it reads on.
    @Test func aSlowListenerHoldsNothingUp() throws {
        let gateway = try Gateway(Self.settings())
        let port = gateway.adminPort
        let cookie = try signIn(port)
        let slow = try listen(port, cookie, receiveBuffer: 4_096)
        let quick = try listen(port, cookie)
        #expect(try event(slow).name == "now")
        for number in 0..<40 { #expect(try gateway.ask("GET /none/\(number)").status == 404) }
        var seen = 0
        while seen < 40 {
            let next = try event(quick)
            if next.name == "refusal" { seen += 1 }
            if next.name == "skipped" { seen += try JSON(next.data)["count"].int ?? 0 }
        }
        var told = 0
        while told < 40 {
            let next = try event(slow)
            if next.name == "refusal" { told += 1 }
            if next.name == "skipped" { told += try JSON(next.data)["count"].int ?? 0 }
        }
        #expect(told == 40)
    }

    @Test func aDrainEndsTheLiveViewAndTheGateway() throws {
        let gateway = try Gateway(Self.settings("TOLLGATE_CONSOLE_ON_MAIN=true\nTOLLGATE_DRAIN_TIMEOUT=20s"))
        let streams = try [gateway.adminPort, gateway.port].map { try listen($0, signIn($0)) }
        for stream in streams { #expect(try event(stream).name == "now") }
        gateway.process.signal(SIGTERM)
        for stream in streams {
            let rest = stream.takeRest()
            #expect(text(of: rest.bytes).hasSuffix("0\r\n\r\n") && rest.end != .silence)
        }
        #expect(try gateway.process.exitCode() == 0)
    }

    @Test func anotherAdminTokenEndsTheLiveView() throws {
        let gateway = try Gateway(Self.settings())
        let stream = try listen(gateway.adminPort, signIn(gateway.adminPort))
        #expect(try event(stream).name == "now")
        try gateway.reload("TOLLGATE_ADMIN_TOKEN=another-token-of-the-operator")
        #expect(text(of: try stream.take(through: "\r\n0\r\n\r\n")).hasSuffix("0\r\n\r\n"))
    }

    // MARK: the main listeners

    @Test func theMainListenersHaveNoConsoleUnlessTheOperatorAsksForIt() throws {
        let upstream = try Upstream()
        let routes = "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_ALL=\"/* upstream=u auth=none\"\n"
        let gateway = try Gateway(Self.settings(routes))
        let bearer = "Authorization: Bearer \(Self.token)"
        for target in ["/console/", "/admin/api/routes", "/admin/api/session"] {
            #expect(try ask(gateway.port, "GET \(target)", [bearer]).text == "ok", "\(target) is the upstream's")
        }
        try gateway.reload(Self.settings(routes + "TOLLGATE_CONSOLE_ON_MAIN=true\nTOLLGATE_PUBLIC_URL=https://api.example.org"))
        #expect(try ask(gateway.port, "GET /console/").text.contains("<title>"))
        #expect(try ask(gateway.port, "GET /admin/api/routes", [bearer]).text.hasPrefix(#"{"routes":["#))
        #expect(try ask(gateway.port, "GET /admin/api/routes").status == 401)
        let cookie = try signIn(gateway.port)
        #expect(try ask(gateway.port, "GET /admin/api/now", [cookie]).status == 200)
        for target in ["/", "/consoles", "/console.js", "/admin/apikeys", "/admin/api-docs"] {
            #expect(try ask(gateway.port, "GET \(target)", [bearer]).text == "ok", "\(target) is the upstream's")
        }
        for target in ["/console", "/admin", "/admin/"] {
            let answer = try ask(gateway.port, "GET \(target)")
            #expect(answer.status == 303 && answer["Location"] == "/console/", "\(target)")
        }
        #expect(try ask(gateway.port, "GET /admin/api/users/django:a%2Fb", [bearer]).text.contains("django names no"))
        for path in ["/console/", "/admin/api/routes"] {
            #expect(try ask(gateway.port, "GET \(path)", ["Host: api.example.org", bearer]).status == 200)
            #expect(try ask(gateway.port, "GET \(path)", ["Host: evil.example", bearer]).status == 421)
        }
        #expect(try ask(gateway.adminPort, "GET /admin/api/routes", ["Host: api.example.org", bearer]).status == 200)
        for path in ["/console/../admin/api/routes", "/admin//api/routes", "/%61dmin/api/routes", "/ADMIN/api/routes"] {
            let answer = try ask(gateway.port, "GET \(path)")
            #expect(!answer.text.contains(#""routes""#), "\(path): \(answer.status)")
        }
    }

    @Test func overTLSTheCookieIsSecureAndTheOriginHTTPS() throws {
        let folder = try Folder()
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:localhost")
        let gateway = try Gateway(
            Self.settings(
                """
                TOLLGATE_LISTEN=
                TOLLGATE_LISTEN_TLS=127.0.0.1:0
                TOLLGATE_TLS_CERT="\(folder.file("one.crt"))"
                TOLLGATE_TLS_KEY="\(folder.file("one.key"))"
                TOLLGATE_CONSOLE_ON_MAIN=true
                """), folder: folder)
        let base = "https://localhost:\(gateway.tlsPort)"
        func curl(_ version: String, _ path: String, _ more: [String]) throws -> String {
            try run("curl", ["-sSi", "--max-time", "60", version, "--cacert", authority.file] + more + [base + path]).output
        }
        for version in ["--http1.1", "--http2"] {
            let sent = ["-X", "POST", "-d", #"{"token":"\#(Self.token)"}"#]
            let signedIn = try curl(version, "/admin/api/session", sent + ["-H", "Origin: \(base)"])
            let line = try #require(signedIn.split(separator: "\r\n").first { $0.lowercased().hasPrefix("set-cookie: ") })
            #expect(line.hasSuffix("; Secure"))
            let cookie = "Cookie: " + line.dropFirst("set-cookie: ".count).prefix { $0 != ";" }
            #expect(try curl(version, "/admin/api/now", ["-H", cookie]).contains(#""requests_total""#))
            let plain = "Origin: http://localhost:\(gateway.tlsPort)"
            #expect(try curl(version, "/admin/api/session", sent + ["-H", plain]).contains("FORBIDDEN_ORIGIN"))
            // The live view over HTTP/2, too.
            let live = try Subprocess("curl", ["-sS", "-N", version, "--cacert", authority.file, "-H", cookie, base + "/admin/api/live"])
            let lines = try live.output.wait(for: "an event") { $0.count >= 2 }
            #expect(lines[0] == "event: now" && lines[1].hasPrefix("data: {"))
            live.kill()
        }
        // One asks for the metrics.
        try eventually("their places are free") { try gateway.metric("tollgate_connections", #"state="active""#) == 1 }
    }
}
