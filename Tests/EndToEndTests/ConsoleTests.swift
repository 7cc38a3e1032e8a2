import Foundation
import TestThreads
import Testing

/// The console at `/console/`, in a browser, against the running gateway. One after the other: they share one browser.
@Suite(.serialized, .ownThread) struct ConsoleTests {
    /// Safe: one test at a time.
    nonisolated(unsafe) private static let browser = Result { try Browser() }

    private static let token = "a-token-that-was-set"
    private static let pages = [
        "now", "routes", "cache", "switches", "refusals", "people", "people/audit", "purchases", "keys", "limits", "outbox",
        "configuration",
    ]

    private let upstream: Upstream
    private let gateway: Gateway
    private let page: Page

    init() throws {
        upstream = try Upstream()
        // A port that no other test is given while a gateway is started again.
        gateway = try Gateway(Self.settings(upstream) + "\nTOLLGATE_ADMIN_LISTEN=127.0.0.1:\(try Listening().port)")
        page = try Page(try Self.browser.get(), width: 1_280, height: 900)
    }

    private static func settings(_ upstream: Upstream) -> String {
        """
        \(Gateway.contracts)
        TOLLGATE_ADMIN_TOKEN=\(token)
        TOLLGATE_UPSTREAM_U="\(upstream.url)"
        TOLLGATE_ROUTE_OPEN="/open/* upstream=u auth=none"
        TOLLGATE_ROUTE_ME="/me/* upstream=u"
        TOLLGATE_ROUTE_GOLD="/gold/* upstream=u tier=premium"
        TOLLGATE_ROUTE_FEW="/few upstream=u auth=none limit=1/h limit-by=address"
        TOLLGATE_ROUTE_SIEVE="/sieve upstream=u filter=results[].tier"
        """
    }

    // MARK: what an operator does

    private func open(_ name: String = "now", on page: Page? = nil) throws {
        let page = page ?? self.page
        try page.open("http://127.0.0.1:\(gateway.adminPort)/console/#/\(name)")
        try page.wait("!document.getElementById('sign-in').hidden || !document.getElementById('shell').hidden")
    }

    private func enter(_ token: String, on page: Page? = nil) throws {
        try (page ?? self.page).fill("#token", token)
        try (page ?? self.page).press("Enter")
    }

    private func signIn(_ name: String = "now", on page: Page? = nil) throws {
        try open(name, on: page)
        try enter(Self.token, on: page)
        try (page ?? self.page).wait("!document.getElementById('shell').hidden")
    }

    /// Goes to another page of the console, and waits until its tables are there.
    private func go(_ name: String, on page: Page? = nil) throws {
        let (page, place) = (page ?? self.page, quotedJSON("#/" + name))
        try page.run("if (location.hash !== \(place)) { document.querySelector('#main h1').dataset.old = ''; location.hash = \(place) }")
        try page.wait("document.querySelector('#main h1:not([data-old])') && !document.querySelector('#main .loading')")
    }

    private func wait(_ selector: String, has text: String) throws {
        try page.wait("document.querySelector(\(quotedJSON(selector)))?.innerText.includes(\(quotedJSON(text)))")
    }

    private func count(_ selector: String) throws -> Int {
        try page.run("document.querySelectorAll(\(quotedJSON(selector))).length").int ?? -1
    }

    /// Sends the form of the open dialog.
    private func agree() throws { try page.run("document.querySelector('dialog form').requestSubmit()") }

    private func status(_ path: String, _ bearer: String) throws -> Int { try gateway.send("GET \(path)", bearer: bearer).status }

    // MARK: tests

    @Test func theAdminTokenOpensItAndAWrongOneIsSaid() throws {
        try open()
        #expect(try page.run("document.activeElement.id").text == "token")
        try enter("something else")
        try wait("#sign-in-fault", has: "This is not the admin token.")
        #expect(try page.run("document.getElementById('shell').hidden").bool == true)
        try enter(Self.token)
        try page.wait("!document.getElementById('shell').hidden")
        #expect(try page.run("document.activeElement.textContent").text == "Now")
        // The token is nowhere that a script could read it.
        #expect(try page.run("document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage })").text == "{}")
        #expect(try page.run("document.getElementById('token').value").text == "")
        try page.reload()
        try page.wait("!document.getElementById('shell').hidden")
        try page.click("#sign-out")
        try wait("#sign-in-reason", has: "You are signed out.")
        try page.reload()
        try page.wait("!document.getElementById('sign-in').hidden")
        #expect(try page.complaints() == [])
    }

    @Test func nowShowsTheNumbersOfTheGatewayAsTheyMove() throws {
        for _ in 0..<5 { #expect(try gateway.ask("GET /open/a").status == 200) }
        for _ in 0..<3 { #expect(try gateway.ask("GET /me/a").status == 401) }
        try signIn()
        try wait(".tiles li:nth-child(1)", has: "8 in all")
        try wait(".tiles li:nth-child(2)", has: "3 in all")
        try wait("#refusals .legend", has: "UNAUTHORIZED")
        try wait("#health", has: "ready")
        try wait("#upstreams tbody", has: "\(upstream.url.split(separator: "/").last ?? "")")
        #expect(try page.text("#upstreams tbody tr td:nth-child(3)") == "in")
        try wait("#link-state", has: "Live")
        // The rates follow the stream.
        try eventually("the rate of requests moves") {
            try gateway.ask("GET /open/a")
            return try page.text(".tiles li:nth-child(1) .tile-number") != "0/s" && page.text("#requests .legend").contains("2xx")
                && page.run("parseFloat(document.querySelector('.tile-number').textContent) > 0").bool == true
        }
        try page.wait("document.querySelector('#requests svg path')")
        #expect(try page.run("document.querySelector('#requests svg desc').textContent").text?.contains("2xx") == true)
        #expect(try page.complaints() == [])
    }

    @Test func aRefusalAppearsLiveAndOpensItsWalk() throws {
        try signIn("refusals")
        try wait("#live", has: "No refusals")
        let bearer = try gateway.bearer("--sub", "ada")
        try gateway.ask("GET /gold/a?secret=x", [bearer])
        try wait("#live tbody", has: "PREMIUM_REQUIRED")
        try page.click("#live tbody a")
        try wait("dialog .walk", has: "premium is needed, free is held")
        #expect(try page.text("dialog .walk li:last-child").contains("refused: 403 PREMIUM_REQUIRED"))
        #expect(try page.run("document.body.textContent.includes('secret')").bool == false)
        // Its address opens it again.
        try page.reload()
        try wait("dialog .walk", has: "premium is needed, free is held")
        try page.click("dialog .close")
        try page.wait("!document.querySelector('dialog') && location.hash === '#/refusals'")
        // While it is paused the list stands still.
        try page.click(".page-head button")
        try gateway.ask("GET /me/a")
        try wait("#live .tools", has: "paused, 1 new")
        #expect(try count("#live tbody tr") == 1)
        try page.click(".page-head button")
        try page.wait("document.querySelectorAll('#live tbody tr').length === 2")
        try page.fill("#filter-code", "UNAUTHORIZED")
        try page.wait("document.querySelectorAll('#live tbody tr').length === 1")
        try gateway.ask("GET /gold/b", [bearer])
        try gateway.ask("GET /me/b")
        try wait("#live tbody", has: "/me/b")
        #expect(try !page.text("#live tbody").contains("PREMIUM_REQUIRED"))
        #expect(try page.complaints() == [])
    }

    @Test func whatStrangersSendIsTextAndNothingElse() throws {
        let hostile = "<img/src=x/onerror=alert(1)>", reversed = "\u{202E}gpj"
        try signIn("refusals")
        let body = #"{"email":"eve@example.org","password":"correct horse battery","username":"\#(hostile + reversed)"}"#
        #expect(try gateway.ask("POST /api/v1/auth/register", ["User-Agent: \(hostile + reversed)"], body: Array(body.utf8)).status == 201)
        try gateway.ask("GET /me/\(hostile)")
        try gateway.ask("GET /nowhere/\(hostile)", ["Host: \(hostile)"])
        try page.wait("document.querySelector('#live tbody tr')")
        try page.click("#live tbody a")
        try page.wait("document.querySelector('dialog .walk')")
        try page.click("dialog .close")
        try go("people")
        try page.fill("#people-search", "eve@")
        try wait("#accounts tbody", has: "eve@example.org")
        #expect(try page.text("#accounts tbody").contains(hostile + #"\u202egpj"#))
        try page.click("#accounts tbody a")
        try wait("#sessions tbody", has: hostile + #"\u202egpj"#)
        #expect(try page.text("body").contains(reversed) == false)
        try page.click("#sessions tbody button")
        try page.wait("document.querySelector('dialog')")
        #expect(try count("#main img, #main script, dialog img, dialog script, #toast img") == 0)
        #expect(try page.complaints() == [])
    }

    @Test func aSearchFindsAnAccountWhoseTierAndSessionsAreChanged() throws {
        let ada = try gateway.register("ada@example.org")
        _ = try gateway.register("grace@example.org")
        #expect(try status("/gold/a", ada.access) == 403)
        try signIn("people")
        try wait("#accounts tbody", has: "grace@example.org")
        try page.fill("#people-search", "ADA@exa")
        try page.wait("document.querySelectorAll('#accounts tbody tr').length === 1")
        try page.click("#accounts tbody a")
        try wait("#account", has: ada.user)
        #expect(try page.run("document.activeElement.tagName").text == "H1")
        #expect(try page.text("#sessions tbody").contains("127.0.0.1"))

        try page.click("#change-tier")
        try page.wait("document.querySelector('dialog #tier-name')")
        try page.run("document.getElementById('tier-name').value = 'premium'")
        try page.run("document.getElementById('tier-until').value = '2099-12-31T12:00'")
        try agree()
        try wait("#tier", has: "premium")
        #expect(try page.text("#tier").contains("Dec 2099"))
        try eventually("the token is premium") { try status("/gold/a", ada.access) == 200 }

        // A dialog that is left changes nothing.
        try page.click("#sessions tbody button")
        try page.wait("document.querySelector('dialog')")
        try page.press("Escape")
        try page.wait("!document.querySelector('dialog')")
        #expect(try status("/me/a", ada.access) == 200)
        try page.click("#sessions tbody button")
        try page.wait("document.querySelector('dialog')")
        try agree()
        try wait("#sessions", has: "No open session")
        try eventually("the token is refused") { try status("/me/a", ada.access) == 401 }
        try wait("#audit tbody", has: "Tier changed")
        try wait("#audit tbody", has: "Session ended")

        try go("people/audit")
        try wait("#audit tbody", has: "Account opened")
        #expect(try page.text("#audit tbody").contains(ada.user))
        #expect(try page.complaints() == [])
    }

    @Test func allSessionsEndAtOnceAndARefusedTierIsSaidInItsDialog() throws {
        let ada = try gateway.register("ada@example.org")
        try signIn("people/\(ada.user)")
        try wait("#sessions", has: "End all sessions")
        try page.click("#change-tier")
        try page.wait("document.querySelector('dialog #tier-name')")
        try page.run("document.getElementById('tier-name').value = 'premium'")
        try page.run("document.getElementById('tier-until').value = '2001-01-01T00:00'")
        try agree()
        try wait("dialog [role=alert]", has: "is past")
        try page.press("Escape")
        try page.wait("!document.querySelector('dialog')")
        try page.click("#sessions .tools button")
        try page.wait("document.querySelector('dialog')")
        try agree()
        try wait("#toast", has: "1 session has ended.")
        try eventually("the token is refused") { try status("/me/a", ada.access) == 401 }
        try go("people/00000000-0000-7000-8000-000000000000")
        try wait("#main [role=alert]", has: "There is no user with this id")
        #expect(try page.complaints() == [])
    }

    @Test func anAccountIsBannedGetsAttributesAndHasTheEndOfItsMergeSaid() throws {
        try gateway.folder.write("secret", "a secret of the service")
        let events = "TOLLGATE_EVENTS_CRM=\"url=\(upstream.url)/events secret-file=\(gateway.folder.file("secret")) private=on\""
        try gateway.reload("\(Self.settings(upstream))\nTOLLGATE_ACCOUNT=/account\n\(events)")
        let ada = try gateway.register("ada@example.org")
        let guest = try JSON(try gateway.send("POST /auth/user", "{}").text)
        let from = try must(guest["userId"])
        let merge = try gateway.send("POST /account/merge", #"{"guest_token":"\#(try must(guest["refreshToken"]))"}"#, bearer: ada.access)
        #expect(merge.status == 200)
        try signIn("people/\(ada.user)")

        try wait("#account", has: "\(from) announced until")
        try page.click("#account .rules button")
        try wait("dialog", has: "the account \(from) was merged into ada@example.org")
        try agree()
        try wait("#toast", has: "announced no longer")
        try page.wait("!document.querySelector('#account .rules')")

        try page.click("#change-attributes")
        for (text, complaint) in [("{", "This is no JSON."), ("[1]", "This is no object")] {
            try page.run("document.getElementById('attributes-json').value = \(quotedJSON(text))")
            try agree()
            try wait("dialog [role=alert]", has: complaint)
        }
        try page.run("document.getElementById('attributes-json').value = \(quotedJSON(#"{"role":"<b>editor</b>"}"#))")
        try agree()
        try wait("#attributes pre", has: #""role": "<b>editor</b>""#)

        try page.click("#ban")
        try page.wait("document.querySelector('dialog #ban-until')")
        try page.run("document.getElementById('ban-until').value = '2001-01-01T00:00'")
        try agree()
        try wait("dialog [role=alert]", has: "is past")
        try page.run("document.getElementById('ban-until').value = '2099-12-31T12:00'")
        try page.fill("#ban-reason", "fraud")
        try agree()
        try wait("#account", has: "Dec 2099")
        #expect(try page.text("#account").contains(", fraud") && page.text("#sessions").contains("No open session"))
        #expect(try page.run("document.activeElement.innerText").text == "Lift the ban")
        let signIn = credentials("ada@example.org")
        #expect(try gateway.send("POST /api/v1/auth/login", signIn).text.contains(#""code":"ACCOUNT_BANNED""#))
        try page.click("#ban")
        try wait("dialog", has: "may sign in again")
        try agree()
        try wait("#ban", has: "Ban the account")
        #expect(try gateway.send("POST /api/v1/auth/login", signIn).status == 200)

        try go("people/audit")
        try wait("#events tbody", has: "crm")
        try wait("#audit tbody", has: "Account unbanned")
        #expect(try page.complaints() == [])
    }

    @Test func theAxisOfTimeIsTheChosenOne() throws {
        try signIn()
        try page.wait("document.querySelector('#requests .grid text')")
        for (choice, axis) in [(2, "−5 min"), (1, "−60 s"), (3, "−15 min")] {
            try page.click(".choice button:nth-child(\(choice))")
            #expect(
                try page.run("[...document.querySelectorAll('#requests .grid text')].some((e) => e.textContent === \(quotedJSON(axis)))")
                    .bool == true)
        }
        try go("routes")
        try wait("#route-list tbody", has: "filter results[].tier")
        #expect(try page.complaints() == [])
    }

    @Test func theTesterShowsTheWalkOfARequestThatIsNotSent() throws {
        #expect(try gateway.ask("GET /open/a").status == 200)
        try signIn("routes")
        try wait("#route-list tbody", has: "/gold/*")
        #expect(
            try page.run(
                "[...document.querySelectorAll('#route-list tbody tr')].find((row) => row.innerText.startsWith('open')).cells[3].innerText"
            ).text == "1")
        try page.fill("#test-url", "/gold/a")
        try page.press("Enter")
        try wait("#walk", has: "refused: 401 UNAUTHORIZED")
        let bearer = try gateway.bearer("--sub", "ada", "--tier", "premium").split(separator: ":", maxSplits: 1)[1]
        try page.fill("#test-token", bearer.trimmingCharacters(in: .whitespacesAndNewlines))
        try page.click("#tester .primary")
        try wait("#walk .badge", has: "passes")
        #expect(try page.text("#walk").contains("user ada of tollgate, tier premium"))
        try page.fill("#test-url", "/none")
        try page.click("#tester .primary")
        try wait("#walk", has: "404 NOT_FOUND")
        #expect(!gateway.process.output.now.contains { $0.contains("/gold/a") })
        #expect(!(gateway.process.output.now + gateway.process.complaints.now).contains { $0.contains("eyJ") })
        #expect(try page.complaints() == [])
    }

    @Test func keysLimitsAndConfigurationAreShown() throws {
        for _ in 0..<3 { try gateway.ask("GET /few") }
        try signIn("limits")
        try wait("#hottest tbody", has: "127.0.0.1")
        #expect(try page.run("document.querySelector('#hottest tbody tr').cells[4].innerText").text == "2")
        try wait("#policies tbody", has: "1/h")

        try go("keys")
        try wait("#own tbody", has: "next")
        let before = try page.text("#own tbody tr th")
        try page.click("#rotate")
        try page.wait("document.querySelector('dialog')")
        try agree()
        try wait("#toast", has: "rotated")
        try page.wait("document.querySelector('#own tbody tr th').innerText !== \(quotedJSON(before))")
        #expect(try gateway.command(["keys", "list"]).output.contains(try page.text("#own tbody tr th")))

        try go("configuration")
        try wait("#settings tbody", has: "TOLLGATE_ROUTE_GOLD")
        #expect(try page.text("#settings tbody").contains("gateway.env:"))
        #expect(try page.text("#settings tbody").contains("secret, never shown"))
        #expect(try page.run("document.body.textContent.includes(\(quotedJSON(Self.token)))").bool == false)
        try page.fill("#setting-search", "route_few")
        try page.wait("document.querySelectorAll('#settings tbody tr').length === 1")
        try gateway.reload(Self.settings(upstream) + "\nTOLLGATE_ROUTE_OOPS=\"/oops upstream=nowhere\"")
        try page.click(".page-head button")
        try wait("#reload", has: "nowhere")
        #expect(try page.text("#reload").contains("refused"))
        #expect(try page.complaints() == [])
    }

    @Test func theCodeOfAMailThatIsNotSentIsInTheOutbox() throws {
        try signIn("outbox")
        try wait("#messages", has: "The outbox is empty")
        try wait("#messages", has: "SMTP_URL")
        _ = try gateway.signUp("ada@example.org")
        let message = try gateway.message(to: "ada@example.org")
        try page.click(".page-head button")
        try wait("#messages tbody", has: "ada@example.org")
        #expect(try page.text("#messages tbody code") == message["code"].text)
        try page.click("#messages summary")
        try wait("#messages pre", has: try #require(message["code"].text))
        #expect(try page.complaints() == [])
    }

    @Test func aRestartIsSaidAndSurvived() throws {
        for _ in 0..<20 { try gateway.ask("GET /open/a") }
        try signIn()
        try wait(".tiles li:nth-child(1)", has: "20 in all")
        let port = gateway.adminPort
        try gateway.stop()
        try wait("#link-state", has: "No answer")
        try go("keys")
        try wait("#own [role=alert]", has: "The gateway does not answer")
        let next = try Gateway(Self.settings(upstream) + "\nTOLLGATE_ADMIN_LISTEN=127.0.0.1:\(port)", folder: gateway.folder)
        try next.ask("GET /open/a")
        try wait("#link-state", has: "Live")
        try page.click("#own [role=alert] button")
        try wait("#own tbody", has: "next")
        try go("now")
        try wait(".tiles li:nth-child(1)", has: "1 in all")
        // Counters that began anew give no rates below nothing.
        #expect(try page.text(".tiles").firstMatch(of: /[-−]\d/) == nil)
        #expect(try page.complaints() == [])
    }

    @Test func ratesComeFromTotalsAndSurviveCountersThatBeginAnew() throws {
        try open()
        func rate(_ before: String, _ after: String) throws -> JSON {
            let answer = { (members: String) in "({ by_status: {}, refusals: {}, limited_total: 0, instance: 'a', \(members) })" }
            return try page.run(
                "import('/console/rates.js').then((m) => m.ratesBetween(\(answer(before)), \(answer(after)))?.requests ?? null)")
        }
        let first = "at: '2027-01-01T00:00:00.000Z', uptime_seconds: 100, requests_total: 50"
        #expect(try rate(first, "at: '2027-01-01T00:00:02.000Z', uptime_seconds: 102, requests_total: 60").number == 5)
        #expect(try rate(first, "at: '2027-01-01T00:00:02.000Z', uptime_seconds: 1, requests_total: 60").number == nil)
        #expect(try rate(first, "at: '2027-01-01T00:00:02.000Z', uptime_seconds: 102, requests_total: 3").number == nil)
        #expect(try rate(first, "at: '2027-01-01T00:00:02.000Z', uptime_seconds: 102, requests_total: 60, instance: 'b'").number == nil)
        #expect(try rate(first, first).number == nil)
        let buckets = "{ requests_total: 4, duration_buckets: [{ le: 1, count: 2 }, { le: 2, count: 2 }] }"
        #expect(try page.run("import('/console/rates.js').then((m) => m.quantile(null, \(buckets), 0.75))").number == 1.5)
        #expect(try page.run("import('/console/rates.js').then((m) => m.quantile(\(buckets), \(buckets), 0.5))").number == nil)
        #expect(try page.complaints() == [])
    }

    @Test(arguments: [360, 1_920]) func nothingSticksOut(_ width: Int) throws {
        let ada = try gateway.register(String(repeating: "long.", count: 10) + "name@mail.example.org")
        try gateway.ask("GET /me/" + String(repeating: "segment/", count: 40))
        let page = try Page(try Self.browser.get(), width: width, height: 800)
        try open(on: page)
        #expect(try page.run("document.documentElement.scrollWidth <= \(width)").bool == true)
        try enter(Self.token, on: page)
        try page.wait("!document.getElementById('shell').hidden")
        for name in Self.pages + ["people/\(ada.user)"] {
            try go(name, on: page)
            #expect(try page.run("document.documentElement.scrollWidth <= \(width)").bool == true, "\(name)")
            #expect(try page.run("document.querySelectorAll('#main h1').length").int == 1, "\(name)")
            let shown = try page.text("#main")
            #expect(try page.run("document.querySelectorAll('#main [role=alert]:not(:empty)').length").int == 0, "\(name): \(shown)")
        }
        if width == 360 {
            #expect(try page.run("document.getElementById('nav').checkVisibility()").bool == false)
            try page.click("#menu")
            #expect(try page.run("document.getElementById('menu').ariaExpanded").text == "true")
            try page.click("#nav a[data-page=keys]")
            try page.wait("document.querySelector('#main h1').textContent === 'Keys'")
            #expect(try page.run("document.getElementById('nav').checkVisibility()").bool == false)
        }
        #expect(try page.complaints() == [])
    }

    @Test func theKeyboardIsEnoughAndShowsWhereItIs() throws {
        try signIn()
        func tab(to name: String) throws {
            for _ in 0..<24 {
                try page.press("Tab")
                let outline =
                    "(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 })()"
                let element = try page.run("document.activeElement.outerHTML").text ?? ""
                if !element.hasPrefix("<body") { #expect(try page.run(outline).bool == true, "\(element)") }
                if try page.run("document.activeElement.textContent.trim()").text == name { return }
            }
            throw Fault("no way to \(name) by Tab")
        }
        try tab(to: "Skip to the page")
        try page.press("Enter")
        #expect(try page.run("document.activeElement.tagName").text == "H1")
        try tab(to: "Refusals")
        try page.press("Enter")
        try page.wait("document.activeElement.tagName === 'H1' && document.activeElement.textContent === 'Refusals'")
        #expect(try page.run("document.title").text == "Refusals · Tollgate")
        #expect(try page.run("document.querySelector('#nav [aria-current=page]').textContent").text == "Refusals")
        #expect(try page.complaints() == [])
    }

    /// Also those of a request that could not be read, which has neither method nor path, and of a key without an id.
    @Test(arguments: ["", "\nTOLLGATE_JWT_SECRET=a-secret-of-more-than-thirty-two-bytes"])
    func everyControlAndTableHasAName(_ more: String) throws {
        try gateway.reload(Self.settings(upstream) + more)
        let ada = try gateway.register("ada@example.org")
        try gateway.ask("GET /me/a")
        let malformed = try gateway.connect()
        try malformed.send("no request\r\n\r\n")
        #expect(try malformed.answer(to: "GET").status == 400)
        try signIn()
        for name in Self.pages + ["people/\(ada.user)"] {
            try go(name)
            let nameless = """
                [...document.querySelectorAll('button, a, input, select, textarea, svg[role=img], table')].filter((e) =>
                  !(e.textContent.trim() || e.ariaLabel?.trim() || e.labels?.length || e.caption || e.getAttribute('aria-labelledby') || e.hidden))
                  .map((e) => e.outerHTML.slice(0, 80)).join()
                """
            #expect(try page.run(nameless).text == "", "\(name)")
            #expect(try page.run("document.querySelectorAll('thead th:not([scope])').length").int == 0, "\(name)")
            let unheaded = "[...document.querySelectorAll('th')].filter((e) => !e.textContent.trim()).map((e) => e.outerHTML).join()"
            #expect(try page.run(unheaded).text == "", "\(name)")
            #expect(
                try page.run(
                    "(() => { const ids = [...document.querySelectorAll('[id]')].map((e) => e.id); return ids.length - new Set(ids).size })()"
                ).int == 0, "\(name)")
        }
    }
}
