import Foundation
import Testing

/// The page at `/web/`, in a browser, against the running gateway. One after the other: they share one browser.
@Suite(.serialized) struct WebPageTests {
    /// Safe: one test at a time.
    nonisolated(unsafe) private static let browser = Result { try Browser() }

    private let gateway: Gateway
    private let page: Page

    init() throws {
        gateway = try Gateway("TOLLGATE_CONTRACTS=password@/api/v1")
        page = try Page(try Self.browser.get())
    }

    private var url: String { "http://127.0.0.1:\(gateway.port)/web/" }
    private let password = "correct horse battery"

    // MARK: what people do

    private func open() throws {
        try page.open(url)
        try page.wait("!document.getElementById('sign-in').hidden || !document.getElementById('register').hidden")
    }

    private func submit(_ view: String, email: String, password: String, name: String? = nil) throws {
        try page.fill("#\(view)-email", email)
        if let name { try page.fill("#\(view)-name", name) }
        try page.fill("#\(view)-password", password)
        try page.click("#\(view) .primary")
    }

    private func waitForAccount() throws { try page.wait("document.getElementById('account').ariaBusy === 'false'") }

    private func register(_ email: String = "ada@example.org", name: String? = nil) throws {
        try open()
        try page.click("a[href='#register']")
        try page.wait("!document.getElementById('register').hidden")
        try submit("register", email: email, password: password, name: name)
        try waitForAccount()
    }

    /// The tokens of a sign-in that somebody else does.
    private func signIn(_ device: String, email: String = "ada@example.org") throws -> (access: String, refresh: String) {
        let body = #"{"email":"\#(email)","password":"\#(password)"}"#
        let answer = try gateway.ask("POST /api/v1/auth/login", ["User-Agent: \(device)"], body: Array(body.utf8))
        let tokens = try JSON(answer.text)["tokens"]
        guard let access = tokens["access"].text, let refresh = tokens["refresh"].text else { throw Fault("no tokens: \(answer)") }
        return (access, refresh)
    }

    private func statusOfMe(_ access: String) throws -> Int {
        try gateway.ask("GET /api/v1/auth/me", ["Authorization: Bearer \(access)"]).status
    }

    private func refreshes() -> Int { gateway.process.output.now.count { $0.contains("/auth/refresh") } }

    // MARK: tests

    @Test func whoRegistersSeesTheirAccount() throws {
        try register(name: "Ada Lovelace")
        #expect(try page.text("#username") == "Ada Lovelace")
        #expect(try page.text("#email") == "ada@example.org")
        #expect(try page.text("#tier") == "Free")
        #expect(try page.text("#plan") == "Free")
        #expect(try page.text("#account-id").count == 36)
        #expect(try page.run("document.querySelectorAll('#sessions li').length").int == 1)
        #expect(try page.text("#sessions").contains("This device"))
        #expect(try page.run("document.querySelectorAll('#sessions button').length").int == 0)
        #expect(try page.run("document.activeElement.id").text == "account-title")
        #expect(try page.complaints() == [])
    }

    @Test func aRefusalIsSaidWhereItBelongs() throws {
        try register()
        try page.click("#sign-out")
        try page.wait("!document.getElementById('sign-in').hidden")
        try submit("sign-in", email: "ada@example.org", password: "something else")
        try page.wait("document.querySelector('#sign-in [role=alert]').textContent")
        #expect(try page.text("#sign-in [role=alert]") == "Invalid email or password")
        #expect(try page.run("document.activeElement.id").text == "sign-in-password")
        try page.click("a[href='#register']")
        try page.wait("!document.getElementById('register').hidden")
        try submit("register", email: "ada@example.org", password: password)
        try page.wait("document.querySelector('#register-email[aria-invalid]')")
        #expect(try page.text("#register-email-hint") == "User with this email already exists")
        #expect(try page.run("document.activeElement.id").text == "register-email")
        try submit("register", email: "eve@example.org", password: "password123")
        try page.wait("document.querySelector('#register-password[aria-invalid]')")
        #expect(try page.text("#register-password-hint").contains("too common"))
        // Nothing was asked of the server for these.
        try submit("register", email: "eve", password: "short")
        #expect(try page.text("#register-email-hint").hasPrefix("Enter an email"))
        #expect(try page.text("#register-password-hint") == "Use at least 8 characters.")
        #expect(try page.complaints() == [])
    }

    @Test func aTierAndItsEndAreShown() throws {
        try register()
        let outcome = try gateway.command(["user", "set-tier", "ada@example.org", "premium", "--until", "2100-01-01T12:00:00Z"])
        #expect(outcome.code == 0, "\(outcome.complaints)")
        try page.reload()
        try waitForAccount()
        #expect(try page.text("#tier") == "Premium")
        #expect(try page.text("#plan") == "Premium until 1 January 2100")
    }

    @Test func anotherSessionIsListedAndCanBeEnded() throws {
        try register()
        let other = try signIn("Passages/3.2 CFNetwork/1410.0.3 Darwin/22.6.0")
        #expect(try statusOfMe(other.access) == 200)
        try page.reload()
        try waitForAccount()
        #expect(try page.text("#sessions li:nth-child(2) .name").contains("Passages on an Apple device"))
        try page.click("#sessions li:nth-child(2) button")
        try page.wait("document.querySelectorAll('#sessions li').length === 1")
        #expect(try page.text("#status") == "Ended: Passages on an Apple device.")
        #expect(try page.run("document.activeElement.id").text == "sessions-title")
        try eventually("the ended session's token is refused") { try statusOfMe(other.access) == 401 }
        let body = #"{"refresh":"\#(other.refresh)"}"#
        #expect(try gateway.ask("POST /api/v1/auth/refresh", body: Array(body.utf8)).status == 400)
    }

    @Test func whoSignsOutIsOutEverywhere() throws {
        try register()
        let refresh = try page.run("sessionStorage.getItem('refresh')").text ?? ""
        #expect(!refresh.isEmpty)
        try page.click("#sign-out")
        try page.wait("!document.getElementById('sign-in').hidden")
        #expect(try page.text("#status") == "You are signed out.")
        #expect(try page.run("sessionStorage.length + localStorage.length").int == 0)
        let answer = try gateway.ask("POST /api/v1/auth/refresh", body: Array(#"{"refresh":"\#(refresh)"}"#.utf8))
        #expect(answer.status == 400)
        try page.reload()
        try page.wait("!document.getElementById('sign-in').hidden")
        #expect(try page.complaints() == [])
    }

    @Test func aReloadRefreshesOnceAndKeepsTokensOutOfSight() throws {
        try register()
        #expect(refreshes() == 0)
        try page.reload()
        try waitForAccount()
        // Account and sessions were asked for at once, with no access token between them.
        try eventually("the refresh is in the log") { refreshes() > 0 }
        #expect(refreshes() == 1)
        #expect(try page.run("location.href").text == url)
        #expect(try page.run("Object.keys(sessionStorage).join() + Object.keys(localStorage).join() + document.cookie").text == "refresh")
        #expect(!gateway.process.output.now.contains { $0.contains("eyJ") })
    }

    @Test func aSessionThatWasEndedElsewhereSaysSo() throws {
        try register()
        let outcome = try gateway.command(["user", "revoke", "ada@example.org"])
        #expect(outcome.code == 0, "\(outcome.complaints)")
        try page.reload()
        try page.wait("!document.getElementById('sign-in').hidden")
        #expect(try page.text("#status") == "Your session has ended. Sign in again.")
        #expect(try page.run("sessionStorage.length").int == 0)
    }

    @Test func theKeyboardIsEnough() throws {
        try open()
        func tab(to id: String) throws {
            for _ in 0..<12 {
                try page.press("Tab")
                if try page.run("document.activeElement.id || document.activeElement.getAttribute('href')").text == id { return }
            }
            throw Fault("no way to \(id) by Tab")
        }
        try tab(to: "#register")
        try page.press("Enter")
        try page.wait("!document.getElementById('register').hidden")
        try tab(to: "register-email")
        try page.type("ada@example.org")
        try tab(to: "register-password")
        try page.type(password)
        try page.press("Enter")
        try waitForAccount()
        try tab(to: "sign-out")
        try page.press("Enter")
        try page.wait("!document.getElementById('sign-in').hidden")
        #expect(try page.complaints() == [])
    }

    @Test func onAPhoneNothingSticksOutOrJumps() throws {
        let phone = try Page(try Self.browser.get(), width: 360, height: 740)
        try phone.open(url)
        try phone.wait("!document.getElementById('sign-in').hidden")
        #expect(try phone.run("document.documentElement.scrollWidth").int == 360)
        let shift = """
            new Promise((done) => new PerformanceObserver((list) => done(list.getEntries().reduce((sum, e) => sum + e.value, 0)))
              .observe({ type: "layout-shift", buffered: true }) || setTimeout(() => done(0), 200))
            """
        #expect(try phone.run(shift).number == 0)
        let small = "[...document.querySelectorAll('#sign-in :is(input, button)')].filter((e) => e.getBoundingClientRect().height < 36).length"
        #expect(try phone.run(small).int == 0)
    }

    @Test func thePolicyLetsNothingElseRun() throws {
        try open()
        #expect(try page.complaints() == [])
        // A script that somebody smuggled in, in every way there is.
        try page.run("document.body.appendChild(Object.assign(document.createElement('script'), { src: 'https://example.org/x.js' })).id = 'x'")
        #expect(try page.complaints().contains { $0.contains("Content Security Policy") || $0.contains("TrustedScriptURL") })
    }

    @Test func whatABrowserLoadsIsKeptAndChecked() throws {
        let document = try gateway.ask("GET /web/")
        #expect(document.status == 200)
        #expect(document["Content-Type"] == "text/html; charset=utf-8")
        #expect(document["Cache-Control"] == "no-cache")
        #expect(document["X-Content-Type-Options"] == "nosniff")
        #expect(document["Content-Security-Policy"]?.hasPrefix("default-src 'none'; script-src 'self'; style-src 'self';") == true)
        #expect(document["Content-Security-Policy"]?.contains("frame-ancestors 'none'") == true)
        let tag = try #require(document["ETag"])
        let again = try gateway.ask("GET /web/", ["If-None-Match: \(tag)"])
        #expect(again.status == 304)
        #expect(again.body.isEmpty)
        let paths = document.text.matches(of: /(?:href|src)="(assets\/[^"]+)"/).map { String($0.1) }
        #expect(Set(paths).count == 4)
        for path in Set(paths) {
            let file = try gateway.ask("GET /web/\(path)")
            #expect(file.status == 200, "\(path)")
            #expect(file["Cache-Control"] == "public, max-age=31536000, immutable")
            #expect(try gateway.ask("HEAD /web/\(path)").body.isEmpty)
        }
        let old = try gateway.ask("GET /web/assets/0123456789abcdef/page.js")
        #expect(old["Cache-Control"] == "no-cache")
        let moved = try gateway.ask("GET /web")
        #expect(moved.status == 308)
        #expect(moved["Location"] == "/web/")
        #expect(try gateway.ask("GET /web/assets/x/other.js").status == 404)
        #expect(try gateway.ask("GET /web/api/account").status == 401)
        #expect(try gateway.ask("POST /web/").status == 405)
    }
}
