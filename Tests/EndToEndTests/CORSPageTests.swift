import Foundation
import TestThreads
import Testing

/// Pages of two other origins in a browser, which enforces what the gateway says. One after the other: they share one browser.
@Suite(.serialized, .ownThread) struct CORSPageTests {
    /// Safe: one test at a time.
    nonisolated(unsafe) private static let browser = Result { try Browser() }

    private let service: Upstream
    private let gateway: Gateway
    /// Of an allowed origin, and of a foreign one.
    private let app: Page
    private let foreign: Page
    private let sites: [Upstream]

    init() throws {
        let html = "<!doctype html><title>x</title>"
        let document = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: \(html.utf8.count)\r\n\r\n\(html)"
        sites = try (0..<2).map { _ in try Upstream(Upstream.saying(document)) }
        service = try Upstream { request, connection in
            try connection.send(
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Total-Count: 42\r\nX-Hidden: 1\r\nSet-Cookie: s=1; Path=/\r\n\r\nhello")
        }
        gateway = try Gateway(
            """
            TOLLGATE_CORS=\(sites[0].url)
            TOLLGATE_CONTRACTS=password@/api/v1
            TOLLGATE_UPSTREAM_U=\(service.url)
            TOLLGATE_ROUTE_NEEDED="/needed/* upstream=u limit=4/h cors-expose=X-Total-Count cors-headers=X-Device"
            TOLLGATE_ROUTE_OPEN="/open/* upstream=u auth=none"
            TOLLGATE_ROUTE_COOKIES="/cookies/* upstream=u auth=none cors=\(sites[0].url) cors-credentials=on"
            """)
        app = try Page(try Self.browser.get())
        foreign = try Page(try Self.browser.get())
        try app.open(sites[0].url)
        try foreign.open(sites[1].url)
    }

    /// Fetches on a page: status, body and the fields that the script can read, or the error's name.
    private func fetch(_ page: Page, _ path: String, _ options: String = "{}") throws -> JSON {
        try page.run(
            """
            fetch("http://127.0.0.1:\(gateway.port)\(path)", \(options)).then(async (answer) => ({
              status: answer.status, body: await answer.text(), fields: Object.fromEntries(answer.headers),
            })).catch((error) => ({ error: error.name }))
            """)
    }

    @Test func anAllowedPageReadsTheBodyAndTheExposedFields() throws {
        let bearer = String(try gateway.bearer("--sub", "ada").dropFirst("Authorization: ".count))
        let options =
            "{ method: 'PUT', body: '{}', headers: { Authorization: '\(bearer)', 'Content-Type': 'application/json', 'X-Device': 'd' } }"
        let answer = try fetch(app, "/needed/x", options)
        #expect(answer["status"].int == 200 && answer["body"].text == "hello")
        let fields = answer["fields"]
        #expect(fields["ratelimit"].text?.hasPrefix("\"needed\";r=3") == true && fields["x-ratelimit-limit"].text == "4")
        #expect(fields["x-request-id"].text?.isEmpty == false && fields["x-total-count"].text == "42")
        #expect(fields["x-hidden"].text == nil)
        #expect(service.requests.now.map(\.method) == ["PUT"])
    }

    @Test func anAllowedPageReadsWhyItIsRefused() throws {
        let refused = try fetch(app, "/needed/x")
        #expect(refused["status"].int == 401 && refused["body"].text?.contains("UNAUTHORIZED") == true)
        #expect(refused["fields"]["www-authenticate"].text?.hasPrefix("Bearer") == true)
        let bearer = String(try gateway.bearer("--sub", "ada").dropFirst("Authorization: ".count))
        let options = "{ headers: { Authorization: '\(bearer)' } }"
        for _ in 0..<4 { #expect(try fetch(app, "/needed/x", options)["status"].int == 200) }
        let limited = try fetch(app, "/needed/x", options)
        #expect(limited["status"].int == 429)
        #expect(Int(limited["fields"]["retry-after"].text ?? "") ?? 0 > 0)
        #expect(try fetch(app, "/nowhere", "{ method: 'DELETE' }")["status"].int == 404)
    }

    @Test func aForeignPageReadsNothingAndItsTokenGoesNowhere() throws {
        let bearer = String(try gateway.bearer("--sub", "ada").dropFirst("Authorization: ".count))
        for options in [
            "{ headers: { Authorization: '\(bearer)' } }", "{ method: 'PUT' }",
            "{ method: 'POST', headers: { 'Content-Type': 'application/json' } }",
        ] {
            #expect(try fetch(foreign, "/needed/x", options)["error"].text == "TypeError")
        }
        // A plain request goes out, but its answer stays unread.
        #expect(try fetch(foreign, "/open/x")["error"].text == "TypeError")
        #expect(service.requests.now.map { "\($0.method) \($0.target)" } == ["GET /open/x"])
    }

    @Test func cookiesGoWithAnAllowedPageWhereTheRouteSaysSo() throws {
        _ = try fetch(app, "/cookies/in", "{ credentials: 'include' }")
        let answer = try fetch(app, "/cookies/x", "{ credentials: 'include', method: 'POST', body: 'x' }")
        #expect(answer["status"].int == 200 && answer["body"].text == "hello")
        #expect(service.requests.now.last?["Cookie"] == "s=1")
        // Not by default, and not on another route.
        _ = try fetch(app, "/cookies/y")
        #expect(service.requests.now.last?["Cookie"] == nil)
        #expect(try fetch(app, "/open/x", "{ credentials: 'include' }")["error"].text == "TypeError")
    }

    @Test func aForeignPageDoesNotActWithTheUsersCookie() throws {
        // The browser has the cookie: its user was at the service's own page.
        try foreign.open("http://127.0.0.1:\(gateway.port)/cookies/in")
        try foreign.open(sites[1].url)
        let before = service.requests.now.count
        // Without a preflight, as a form's.
        try foreign.run(
            "fetch('http://127.0.0.1:\(gateway.port)/cookies/pay', { mode: 'no-cors', credentials: 'include', method: 'POST', body: 'x' }).then(() => 1)"
        )
        try foreign.run(
            """
            (() => {
              const form = document.createElement("form");
              [form.method, form.action] = ["POST", "http://127.0.0.1:\(gateway.port)/cookies/pay"];
              document.body.append(form);
              form.submit();
            })()
            """)
        try foreign.wait("document.body && document.body.textContent.includes('FORBIDDEN')")
        #expect(service.requests.now.count == before)
        try gateway.process.output.wait(for: "two refusals in the log", until: { $0.count { $0.contains("foreign_origin") } == 2 })
    }

    @Test func aSandboxedFrameHasNoOriginThatCouldBeAllowed() throws {
        let outcome = try app.run(
            """
            new Promise((done) => {
              addEventListener("message", (event) => done(event.data));
              const frame = document.createElement("iframe");
              frame.sandbox = "allow-scripts";
              frame.srcdoc = `<script>fetch("http://127.0.0.1:\(gateway.port)/open/x").then(() => "read", () => "blocked").then((text) => parent.postMessage(text, "*"))<\\/script>`;
              document.body.append(frame);
            })
            """)
        #expect(outcome.text == "blocked")
    }

    @Test func anAppSignsInFromItsOwnOrigin() throws {
        let body = #"'{"email":"ada@example.org","password":"correct horse battery"}'"#
        let answer = try fetch(
            app, "/api/v1/auth/register", "{ method: 'POST', body: \(body), headers: { 'Content-Type': 'application/json' } }")
        #expect(answer["status"].int == 201 && answer["body"].text?.contains("access") == true)
        #expect(
            try fetch(foreign, "/api/v1/auth/login", "{ method: 'POST', body: \(body), headers: { 'Content-Type': 'application/json' } }")[
                "error"
            ].text == "TypeError")
    }

    @Test func theAccountPageIsOfTheGatewaysOwnOrigin() throws {
        try app.open("http://127.0.0.1:\(gateway.port)/web/")
        let answer = try app.run(
            """
            fetch("/api/v1/auth/register", { method: "POST", body: '{"email":"eve@example.org","password":"correct horse battery"}',
              headers: { "Content-Type": "application/json", Authorization: "Bearer x" } }).then((answer) => answer.status)
            """)
        #expect(answer.int == 201)
    }
}
