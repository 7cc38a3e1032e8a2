import Foundation
import TestThreads
import Testing

/// The page at `/web/`, in a browser, against the running gateway. One after the other: they share one browser.
@Suite(.serialized, .ownThread) struct WebPageTests {
    /// Safe: one test at a time.
    nonisolated(unsafe) private static let browser = Result { try Browser() }

    private let gateway: Gateway
    private let page: Page

    init() throws {
        gateway = try Gateway("TOLLGATE_CONTRACTS=password@/api/v1\nTOLLGATE_CLOCK_SKEW=0s\nTOLLGATE_ACCOUNT=/account")
        page = try Page(try Self.browser.get())
    }

    private var url: String { url(of: gateway) }
    private func url(of gateway: Gateway) -> String { "http://127.0.0.1:\(gateway.port)/web/" }
    private let password = "correct horse battery"

    // MARK: what people do

    private func open(_ gateway: Gateway? = nil, on page: Page? = nil) throws {
        let page = page ?? self.page
        try page.open(url(of: gateway ?? self.gateway))
        try page.wait("!document.getElementById('sign-in').hidden || !document.getElementById('register').hidden")
    }

    private func submit(_ view: String, email: String, password: String, name: String? = nil, on page: Page? = nil) throws {
        let page = page ?? self.page
        try page.fill("#\(view)-email", email)
        if let name { try page.fill("#\(view)-name", name) }
        try page.fill("#\(view)-password", password)
        try page.click("#\(view) .primary")
    }

    private func waitForAccount(on page: Page? = nil) throws {
        try (page ?? self.page).wait("document.getElementById('account').ariaBusy === 'false'")
    }

    private func register(
        _ email: String = "ada@example.org", name: String? = nil, at gateway: Gateway? = nil, on page: Page? = nil
    ) throws {
        let page = page ?? self.page
        try open(gateway, on: page)
        try page.click("a[href='#register']")
        try page.wait("!document.getElementById('register').hidden")
        try submit("register", email: email, password: password, name: name, on: page)
        try waitForAccount(on: page)
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
        for (weak, sentence) in [
            ("password123", "This password is too common."), ("73205080756", "This password is entirely numeric."),
            ("eve@example.org", "The password is too similar to the email."),
        ] {
            try submit("register", email: "eve@example.org", password: weak)
            try page.wait("document.getElementById('register-password-hint').textContent === \(quotedJSON(sentence))")
            #expect(try page.run("document.activeElement.id").text == "register-password")
        }
        // Nothing was asked of the server for these.
        try submit("register", email: "eve", password: "short")
        #expect(try page.text("#register-email-hint").hasPrefix("Enter an email"))
        #expect(try page.text("#register-password-hint") == "Use at least 8 characters.")
        // Four characters, although eight UTF-16 units.
        try submit("register", email: "eve@example.org", password: "𝒜𝒷𝒸𝒹")
        #expect(try page.text("#register-password-hint") == "Use at least 8 characters.")
        #expect(try page.complaints() == [])
    }

    @Test func aTierAndItsEndAreShown() throws {
        try register()
        let outcome = try gateway.command(["user", "set-tier", "ada@example.org", "premium", "--until", "2100-01-01T12:00:00Z"])
        #expect(outcome.code == 0, "\(outcome.complaints)")
        // It counts within a second.
        try eventually("the tier is shown") {
            try page.reload()
            try waitForAccount()
            return try page.text("#tier") == "Premium"
        }
        #expect(try page.text("#plan") == "Premium until 1 January 2100")
    }

    @Test func allOthersCanBeSignedOutAndTheDataDownloaded() throws {
        try register()
        #expect(try page.text("#identities .name") == "Email")
        #expect(try page.text("#identities .quiet") == "ada@example.org · Not confirmed")
        #expect(try page.run("document.getElementById('end-others').hidden").bool == true)
        let others = [try signIn("Passages/3.2"), try signIn("Passages/3.3")]
        try page.reload()
        try waitForAccount()
        #expect(try page.text("#sessions li:nth-child(2)").contains(", from 127.0.0.1"))
        try page.click("#end-others")
        try page.wait("document.querySelectorAll('#sessions li').length === 1")
        #expect(try page.text("#status") == "All others are signed out.")
        for other in others { try eventually("the token is refused") { try statusOfMe(other.access) == 401 } }
        _ = try page.run(
            "{ const make = URL.createObjectURL; URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); "
                + "return make.call(URL, blob); }; 1 }")
        try page.click("#export")
        try page.wait("window.saved")
        let kept = try JSON(try must(try page.run("window.saved")))
        #expect(kept["account"]["email"].text == "ada@example.org" && kept["sessions"].array.count == 1)
        #expect(try page.complaints() == [])
    }

    private func isOpen() throws -> Bool { try page.run("document.getElementById('delete-dialog').open").bool == true }

    @Test(arguments: ["0s", "14d"]) func anAccountIsDeleted(_ grace: String) throws {
        let settings = "TOLLGATE_CONTRACTS=password@/api/v1\nTOLLGATE_ACCOUNT=/account\nTOLLGATE_DELETION=grace=\(grace)"
        let gateway = try Gateway(settings)
        try register(at: gateway)
        try page.run("document.getElementById('delete').focus()")
        try page.press("Enter")
        #expect(try isOpen() && page.run("document.activeElement.id").text == "delete-cancel")
        try page.click("#delete-cancel")
        #expect(try !isOpen() && page.run("document.activeElement.id").text == "delete")
        // The sign-in was long ago: the session goes on, but does not delete.
        let aging =
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], 9); c.execute('UPDATE sessions SET signed_in_at = 1'); c.commit()"
        _ = try mustRun("python3", ["-c", aging, gateway.folder.file("data/accounts.db")])
        try page.click("#delete")
        try page.click("#delete-confirm")
        try page.wait("!document.getElementById('sign-in').hidden")
        #expect(try page.text("#sign-in [role=alert]").hasPrefix("Your last sign-in is too long ago"))
        #expect(try !isOpen() && page.run("sessionStorage.length").int == 1)
        #expect(!gateway.process.output.now.contains { $0.contains("/auth/refresh") })
        try submit("sign-in", email: "ada@example.org", password: password)
        try page.wait("!document.getElementById('account').hidden")
        try waitForAccount()
        try page.click("#delete")
        try page.click("#delete-confirm")
        try page.wait("!document.getElementById('closed').hidden")
        let isClosed = grace == "14d"
        #expect(try page.text("#closed-title") == (isClosed ? "Your account is closed" : "Your account is deleted"))
        #expect(try page.text("#closed-text").contains("Until then a sign-in opens it again.") == isClosed)
        #expect(try page.run("sessionStorage.length").int == 0 && page.run("document.activeElement.id").text == "closed-title")
        try page.click("#to-sign-in")
        try submit("sign-in", email: "ada@example.org", password: password)
        if isClosed {
            try page.wait("!document.getElementById('account').hidden")
        } else {
            try page.wait("document.querySelector('#sign-in [role=alert]').textContent")
        }
        #expect(try page.complaints() == [])
    }

    @Test func aSessionNamesTheProviderWhoseUnlinkingEndsAllOthers() throws {
        let providers = try Providers.shared.get()
        let gateway = try Gateway("\(Gateway.contracts)\nTOLLGATE_ACCOUNT=/account\n\(providers.settings())")
        let ada = try gateway.signUp("ada@example.org")
        let token = try providers.token("apple", #"{"sub":"001.web"}"#)
        let body = #"{"provider":"apple","id_token":"\#(token)","idToken":"\#(token)"}"#
        #expect(try gateway.send("POST /account/identities", body, bearer: ada.access).status == 200)
        #expect(try gateway.send("POST /whateat/api/v1/auth/signin", body).status == 200)
        try open(gateway)
        try submit("sign-in", email: "ada@example.org", password: goodPassword)
        try waitForAccount()
        let ways = try page.run("[...document.querySelectorAll('.how')].map((way) => way.textContent).sort().join()").text
        #expect(ways == ", with Apple,, with a password,, with a password")
        try page.click("#identities button[aria-label='Unlink Apple']")
        try page.wait("document.getElementById('status').innerText === 'Unlinked: Apple. All other sessions have ended.'")
        #expect(try page.run("document.querySelectorAll('#sessions li').length").int == 1)
        #expect(try page.text("#identities").contains("Apple") == false && page.text("#sessions").contains("This device"))
        try eventually("the other token is refused") { try gateway.send("GET /account", bearer: ada.access).status == 401 }
        #expect(try page.complaints() == [])
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

    @Test func whoSignsOutEverywhereIsOutOnEveryDevice() throws {
        try register()
        #expect(try page.run("document.getElementById('sign-out-everywhere').hidden").bool == true)
        let other = try signIn("Passages/3.2")
        try page.reload()
        try waitForAccount()
        try page.click("#sign-out-everywhere")
        try page.wait("!document.getElementById('sign-in').hidden")
        #expect(try page.text("#status") == "You are signed out everywhere.")
        try eventually("the other device's token is refused") { try statusOfMe(other.access) == 401 }
        // Nothing of the account is left for whoever comes next.
        #expect(try page.run("document.body.textContent.includes('ada@example.org')").bool == false)
        #expect(try page.complaints() == [])
    }

    @Test func anAccessTokenThatExpiresIsRenewedUnnoticed() throws {
        try register()
        _ = try signIn("Passages/3.2")
        try page.reload()
        try waitForAccount()
        try eventually("the first refresh is in the log") { refreshes() == 1 }
        let minted = try gateway.command(["token", "mint", "--sub", page.text("#account-id"), "--ttl", "1s"])
        let expired = minted.output.trimmingCharacters(in: .whitespacesAndNewlines)
        try eventually("the token has expired") {
            try gateway.ask("GET /web/api/account", ["Authorization: Bearer \(expired)"]).text.contains("TOKEN_EXPIRED")
        }
        // As if it were the page's own that had.
        try page.run(
            """
            (() => {
              const send = window.fetch;
              window.fetch = (path, request) => {
                window.fetch = send;
                request.headers.Authorization = "Bearer \(expired)";
                return send(path, request);
              };
            })()
            """)
        try page.click("#sessions li:nth-child(2) button")
        try page.wait("document.querySelectorAll('#sessions li').length === 1")
        #expect(try page.text("#status") == "Ended: Passages.")
        #expect(try page.run("document.getElementById('account').hidden").bool == false)
        try eventually("the second refresh is in the log") { refreshes() == 2 }
        #expect(try page.complaints() == [])
    }

    @Test func aGatewayThatDoesNotAnswerIsSaidAndNothingIsLost() throws {
        try register()
        try gateway.stop()
        try page.click("#sign-out")
        try page.wait("document.getElementById('status').textContent")
        #expect(try page.text("#status") == "The server does not answer. Check your connection and try again.")
        #expect(try page.run("document.getElementById('account').hidden").bool == false)
        #expect(try page.run("sessionStorage.length").int == 1)
    }

    @Test func whatPeopleAndAppsCallThemselvesIsTextAndNothingElse() throws {
        let hostile = "<img src=x onerror=alert(1)><b>x</b>"
        try register(name: hostile)
        _ = try signIn("<script>alert(1)</script>&amp;")
        try page.reload()
        try waitForAccount()
        #expect(try page.text("#username") == hostile)
        #expect(try page.text("#sessions li:nth-child(2) .device-name").hasPrefix("<script>alert(1)<"))
        #expect(try page.run("document.querySelectorAll('main img, main b, main script').length").int == 0)
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
        let other = try signIn("Passages/3.2")
        let answer = try gateway.ask("POST /web/api/signout/everywhere", ["Authorization: Bearer \(other.access)"])
        #expect(answer.status == 204)
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
                if try page.run("(({ id, ariaLabel, hash }) => id || hash || ariaLabel)(document.activeElement)").text == id { return }
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
        _ = try signIn("Passages/3.2")
        try page.reload()
        try waitForAccount()
        try tab(to: "End the session: Passages")
        try page.press("Enter")
        try page.wait("document.querySelectorAll('#sessions li').length === 1")
        try page.reload()
        try waitForAccount()
        try tab(to: "sign-out")
        try page.press("Enter")
        try page.wait("!document.getElementById('sign-in').hidden")
        #expect(try page.complaints() == [])
    }

    @Test func whatHasTheKeyboardShowsIt() throws {
        try open()
        for _ in 0..<5 {
            try page.press("Tab")
            let outline =
                "(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 })()"
            let element = try page.run("document.activeElement.outerHTML").text ?? ""
            #expect(try page.run(outline).bool == true, "\(element)")
        }
    }

    @Test(arguments: [320, 390]) func onAPhoneNothingSticksOutOrJumps(_ width: Int) throws {
        let phone = try Page(try Self.browser.get(), width: width, height: 740)
        try open(on: phone)
        #expect(try phone.run("document.documentElement.scrollWidth").int == width)
        let shift = """
            new Promise((done) => new PerformanceObserver((list) => done(list.getEntries().reduce((sum, e) => sum + e.value, 0)))
              .observe({ type: "layout-shift", buffered: true }) || setTimeout(() => done(0), 200))
            """
        #expect(try phone.run(shift).number == 0)
        let small =
            "[...document.querySelectorAll('#sign-in :is(input, button:not([hidden]))')]"
            + ".filter((e) => e.getBoundingClientRect().height < 36).length"
        #expect(try phone.run(small).int == 0)
        let email = String(repeating: "long.", count: 12) + "name@mail.example.org"
        try register(email, name: "Wolfeschlegelsteinhausenbergerdorff", on: phone)
        _ = try signIn(String(repeating: "Passages", count: 12) + "/1", email: email)
        try phone.reload()
        try waitForAccount(on: phone)
        #expect(try phone.run("document.querySelectorAll('#sessions li').length").int == 2)
        #expect(try phone.run("document.documentElement.scrollWidth").int == width)
        #expect(try phone.complaints() == [])
    }

    @Test func thePolicyLetsNothingElseRun() throws {
        try open()
        #expect(try page.complaints() == [])
        // What somebody might smuggle in.
        for attempt in [
            "document.body.append(Object.assign(document.createElement('script'), { src: 'https://example.org/x.js' }))",
            "document.body.innerHTML = '<b>x</b>'", "fetch('https://example.org/')",
        ] {
            let outcome = try page.run("(async () => { try { await (\(attempt)); return 'done' } catch (fault) { return fault.name } })()")
            #expect(outcome.text == "TypeError", "\(attempt)")
        }
        try page.run("void document.body.append(Object.assign(new Image(), { src: 'https://example.org/x.png' }))")
        try page.run("document.body.setAttribute('style', 'color: red')")
        for directive in ["connect-src", "img-src", "style-src"] {
            try eventually("the browser says that \(directive) forbids it") { try page.complaints().contains { $0.contains(directive) } }
        }
    }

    @Test func whatABrowserLoadsIsKeptAndChecked() throws {
        let document = try gateway.ask("GET /web/")
        #expect(document.status == 200)
        #expect(document["Content-Type"] == "text/html; charset=utf-8")
        #expect(document["Cache-Control"] == "no-cache")
        #expect(document["X-Frame-Options"] == "DENY")
        #expect(document["Referrer-Policy"] == "no-referrer")
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
        let refused = try gateway.ask("GET /web/api/account")
        #expect(refused.status == 401)
        #expect(refused["Cache-Control"] == "no-store")
        #expect(try gateway.ask("POST /web/").status == 405)
    }

    @Test func theLogAndTheMetricsNameThePage() throws {
        try gateway.ask("GET /web/")
        try gateway.ask("GET /web/api/account")
        let routes = try gateway.accessLog(2).map { $0["route"].text }
        #expect(routes == ["web-page", "web-account"])
        #expect(try gateway.metric("tollgate_http_requests_total", "route=\"web-page\"") == 1)
        #expect(try gateway.metric("tollgate_http_requests_total", "route=\"web-account\"") == 1)
    }
}
