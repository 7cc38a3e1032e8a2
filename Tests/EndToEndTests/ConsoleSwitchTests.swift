import Foundation
import TestThreads
import Testing

/// The pages of the console for kept responses, switches and API keys, in a browser, against two gateways of one database.
@Suite(.ownThread) struct ConsoleSwitchTests {
    private static func open(_ page: Page, _ name: String, _ gateway: Gateway) throws {
        try page.open("http://127.0.0.1:\(gateway.adminPort)/console/#/\(name)")
        try page.wait("!document.getElementById('sign-in').hidden || !document.getElementById('shell').hidden")
        guard try page.run("document.getElementById('sign-in').hidden").bool == false else { return }
        try page.fill("#token", Fleet.adminToken)
        try page.press("Enter")
        try page.wait("!document.getElementById('shell').hidden && !document.querySelector('#main .loading')")
    }

    private static func wait(_ page: Page, _ selector: String, has text: String) throws {
        try page.wait("document.querySelector(\(quotedJSON(selector)))?.innerText.includes(\(quotedJSON(text)))")
    }

    /// Sends the form of the open dialog, which sets these fields first, and waits for an outcome.
    private static func agree(_ page: Page, _ fields: [(id: String, value: String)] = [], toast: String) throws {
        try page.wait("document.querySelector('dialog form')")
        for (id, value) in fields { try page.run("document.getElementById('\(id)').value = \(quotedJSON(value))") }
        try page.run("document.querySelector('dialog form').requestSubmit()")
        try wait(page, "#toast", has: toast)
        try page.wait("!document.querySelector('dialog')")
    }

    @Test func keptResponsesAreShownAndRemoved() throws {
        let upstream = try Upstream(Upstream.saying("HTTP/1.1 200 OK\r\nCache-Tag: news\r\nContent-Length: 2\r\n\r\nok"))
        let fleet = try Fleet(
            2, .postgres, "TOLLGATE_UPSTREAM_C=\"\(upstream.url)\"",
            "TOLLGATE_ROUTE_KEPT=\"/c/* upstream=c auth=none cache=60s cache-by=public\"",
            "TOLLGATE_ROUTE_OTHER=\"/d/* upstream=c auth=none cache=60s\"")
        func isHit(_ gateway: Gateway, _ path: String) throws -> Bool {
            try gateway.ask("GET \(path)")["Cache-Status"]?.contains("hit") == true
        }
        func fill() throws {
            for gateway in fleet.gateways { for path in ["/c/1", "/d/1"] { try eventually("it is kept") { try isHit(gateway, path) } } }
        }
        let page = try Page(Browser(), width: 1_280, height: 900)
        try fill()
        try Self.open(page, "cache", fleet.gateways[0])
        try Self.wait(page, "#cache-sums", has: "Responses\n2")
        try Self.wait(page, "#cache-routes tbody", has: "all callers")
        #expect(try page.text("#cache-routes tbody").contains("50%"))

        // None chosen, and too much.
        try page.click("#purge")
        try page.run("document.querySelector('dialog form').requestSubmit()")
        try Self.wait(page, "dialog [role=alert]", has: "Say which responses")
        try page.click("#purge-all")
        try page.fill("#purge-tag", "news")
        try page.run("document.querySelector('dialog form').requestSubmit()")
        try Self.wait(page, "dialog [role=alert]", has: "Choose all responses, or say which.")
        try page.click("dialog .close")

        let removals: [(button: String, fields: [(id: String, value: String)], toast: String, gone: [String])] = [
            ("#purge", [("purge-path", "/c/")], "1 response removed.", ["/c/1"]),
            ("#purge", [("purge-tag", "news")], "2 responses removed.", ["/c/1", "/d/1"]),
            ("#purge", [("purge-route", "other"), ("purge-path", "/c")], "kept no such response.", []),
            ("#cache-routes button[aria-label$=' other']", [], "1 response removed.", ["/d/1"]),
        ]
        for (button, fields, toast, gone) in removals {
            try fill()
            try page.click(button)
            try Self.agree(page, fields, toast: toast)
            for gateway in fleet.gateways {
                for path in ["/c/1", "/d/1"] { #expect(try isHit(gateway, path) != gone.contains(path), "\(button) \(fields) \(path)") }
            }
        }
        #expect(try page.complaints() == [])
    }

    @Test func theShareOfASplitIsSetAndReset() throws {
        let (one, other) = (try Upstream(Upstream.saying("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none")), try Upstream())
        let fleet = try Fleet(
            2, .postgres, "TOLLGATE_UPSTREAM_ONE=\"\(one.url)\"", "TOLLGATE_UPSTREAM_NEXT=\"\(other.url)\"",
            "TOLLGATE_ROUTE_PART=\"/p upstream=one auth=none split=0%:next split-by=address split-guard=2x when=header:X-A=1\"")
        let page = try Page(Browser(), width: 360, height: 800)
        try Self.open(page, "switches", fleet.gateways[0])
        try Self.wait(page, "#splits tbody", has: "as its line says")
        #expect(try page.text("#splits tbody").contains("2x") && page.text("#splits tbody").contains("header:X-A=1"))
        for (number, complaint) in [("", "whole number"), ("101", "whole number"), ("1.5", "whole number")] {
            try page.click("#splits button")
            try page.run("document.getElementById('split-percent').value = '\(number)'")
            try page.run("document.querySelector('dialog form').requestSubmit()")
            try Self.wait(page, "dialog [role=alert]", has: complaint)
            try page.click("dialog .close")
        }
        try page.click("#splits button")
        try Self.agree(page, [("split-percent", "100")], toast: "100% of part go to next.")
        try Self.wait(page, "#splits tbody", has: "set by an operator")
        for gateway in fleet.gateways { #expect(try gateway.ask("GET /p", ["X-A: 1"]).text == "ok") }
        try page.click("#splits button[aria-label^=Reset]")
        try Self.agree(page, toast: "is 0%, as its line says.")
        try Self.wait(page, "#splits tbody", has: "as its line says")
        for gateway in fleet.gateways { #expect(try gateway.ask("GET /p", ["X-A: 1"]).text == "one") }
        #expect(try page.run("document.documentElement.scrollWidth <= 360").bool == true)
        #expect(try page.complaints() == [])
    }

    @Test func routesAreClosedAndOpenedAtAllGateways() throws {
        let upstream = try Upstream()
        let fleet = try Fleet(2, .postgres, "TOLLGATE_UPSTREAM_C=\"\(upstream.url)\"", "TOLLGATE_ROUTE_FEED=\"/feed upstream=c auth=none\"")
        let page = try Page(Browser(), width: 1_280, height: 900)
        try Self.open(page, "switches", fleet.gateways[0])
        try Self.wait(page, "#maintenance", has: "Nothing is closed")
        for scope in ["feed", "all"] {
            try page.click("#close")
            try Self.agree(
                page,
                [("maintenance-scope", scope), ("maintenance-until", "2099-12-31T12:00"), ("maintenance-message", "<b>Back at ten</b>")],
                toast: "closed for maintenance")
            try Self.wait(page, "#maintenance tbody", has: "<b>Back at ten</b>")
            for gateway in fleet.gateways { #expect(try gateway.ask("GET /feed").status == 503, "\(scope)") }
            try page.click("#maintenance tbody button")
            try Self.agree(page, toast: "open again")
            try Self.wait(page, "#maintenance", has: "Nothing is closed")
            for gateway in fleet.gateways { #expect(try gateway.ask("GET /feed").status == 200, "\(scope)") }
        }
        #expect(try page.complaints() == [])
    }

    @Test func aKeyIsShownOnceAndRevokedAtAllGateways() throws {
        let upstream = try Upstream()
        let fleet = try Fleet(2, .postgres, "TOLLGATE_UPSTREAM_C=\"\(upstream.url)\"", "TOLLGATE_ROUTE_FEED=\"/feed upstream=c auth=key\"")
        let page = try Page(Browser(), width: 1_280, height: 900)
        try Self.open(page, "keys", fleet.gateways[0])
        try Self.wait(page, "#api-keys", has: "No API keys")
        try page.click("#make-key")
        for (id, value) in [("key-name", "partner"), ("key-tier", "gold"), ("key-routes", ""), ("key-limit", "100/m")] {
            try page.run("document.getElementById('\(id)').value = '\(value)'")
        }
        try page.run("document.querySelector('dialog form').requestSubmit()")
        try Self.wait(page, "dialog [role=alert]", has: "names no tier")
        try page.run("document.getElementById('key-tier').value = 'premium'")
        try page.run("document.querySelector('dialog form').requestSubmit()")
        try Self.wait(page, "#new-key", has: "tg_")
        let key = try page.text("#new-key")
        for gateway in fleet.gateways { #expect(try gateway.ask("GET /feed", ["X-Api-Key: \(key)"]).status == 200) }
        try page.click("dialog .primary")
        try page.wait("!document.querySelector('dialog')")
        #expect(try page.run("document.documentElement.outerHTML.includes(\(quotedJSON(key)))").bool == false)
        try Self.wait(page, "#api-keys tbody", has: "partner")
        try page.click("#api-keys tbody button")
        try Self.agree(page, toast: "is revoked")
        try Self.wait(page, "#api-keys tbody", has: "revoked")
        for gateway in fleet.gateways { #expect(try gateway.ask("GET /feed", ["X-Api-Key: \(key)"]).status == 401) }
        #expect(try page.complaints() == [])
    }

    @Test func versionsOfAppsAreListedByTheirNumbers() throws {
        let upstream = try Upstream()
        let fleet = try Fleet(
            1, .postgres, "TOLLGATE_UPSTREAM_C=\"\(upstream.url)\"", "TOLLGATE_ROUTE_FEED=\"/feed upstream=c auth=none app=optional\"",
            "TOLLGATE_VERSION_GATE_IOS=\"min=4\"")
        for version in ["4.9", "4.10", "4.9", "x"] { _ = try fleet.gateways[0].ask("GET /feed", ["X-App-Version: \(version)"]) }
        let page = try Page(Browser(), width: 360, height: 800)
        try Self.open(page, "switches", fleet.gateways[0])
        try page.wait("document.querySelectorAll('#apps tbody tr').length === 3")
        let rows = """
            [...document.querySelectorAll('#apps tbody tr')]
              .map((row) => [...row.cells].slice(1, 3).map((cell) => cell.textContent).join(' ')).join()
            """
        #expect(try page.run(rows).text == "4.10 1,4.9 2,without a version 1")
        #expect(try page.complaints() == [])
    }
}
