import Foundation
import TestThreads
import Testing

/// Routes that are closed, retired, or too new for the app, at gateways that run.
@Suite(.ownThread) struct MaintenanceTests {
    private static let key = "a-key-of-an-internal-caller"
    private static func keyLine() throws -> String {
        let digest = try mustRun("sha256sum", [], input: key).prefix(64)
        return "TOLLGATE_INTERNAL_CRON=key-sha256=\(digest)"
    }

    /// By the command and by the admin API, at all gateways, under way and after a restart; sign-in goes on.
    @Test func aSwitchClosesRoutesOnAllGateways() throws {
        let fleet = try Fleet(
            2, .postgres, "TOLLGATE_LISTEN=127.0.0.1:0;h2c", try Self.keyLine(),
            "TOLLGATE_ROUTE_FEED=\"/feed/* upstream=u auth=none cache=60s errors=problem cors=https://app.test\"",
            "TOLLGATE_ROUTE_OTHER=\"/other upstream=u auth=none\"", "TOLLGATE_ROUTE_RPC=\"POST /test.Echo/* upstream=u auth=none\"")
        #expect(try fleet.gateways.allSatisfy { try $0.ask("GET /feed/x").status == 200 })
        let on = try fleet[0].command([
            "maintenance", "on", "--route", "FEED", "--message", "Zurück um zehn", "--until", "2096-01-01T00:00:00Z",
        ])
        let sentence = /The route feed is closed until 2096-01-01T00:00:00.000Z, since (20[-0-9T:.]+Z): Zurück um zehn/
        let since = try #require(on.output.wholeMatch(of: sentence)).1
        #expect(on.code == 0)
        for gateway in fleet.gateways {
            try eventually("it is closed") { try gateway.ask("GET /feed/x").status == 503 }
            let answer = try gateway.ask("GET /feed/x", ["Origin: https://app.test"])
            #expect(answer.text.contains(#""detail":"Zurück um zehn","code":"MAINTENANCE""#) && answer["Retry-After"] == "86400")
            #expect(answer["Access-Control-Allow-Origin"] == "https://app.test")
            #expect(try gateway.ask("GET /feed/x", ["X-Internal-Key: \(Self.key)"]).status == 200)
            #expect(try gateway.ask("GET /other").status == 200)
            #expect(try gateway.metric("tollgate_maintenance", #"scope="route/feed""#) == 1)
        }
        // Commands read the switches from the database.
        let walk = try fleet[0].command(["explain", "GET", "/feed/x"]).output
        #expect(walk.contains("set since \(since) until 2096") && walk.contains("503 MAINTENANCE, Zurück um zehn"), "\(walk)")
        let later = ["--until", "2096-01-01T00:00:00Z", "--message", "Später"]
        let again = try fleet[1].command(["maintenance", "on", "--route", "feed"] + later)
        #expect(again.output.hasSuffix("since \(since): Später"), "it has not been open meanwhile")
        let found = try fleet[0].command(["doctor"]).output
        #expect(found.contains("warn  maintenance of feed: closed until 2096-01-01T00:00:00.000Z"), "\(found)")
        #expect(try fleet.admin(1, "DELETE /admin/api/maintenance/feed").text == #"{"maintenance":[]}"#)
        try fleet.expect("it is open again") { try $0.ask("GET /feed/x").status == 200 }

        #expect(try fleet.admin(0, "PUT /admin/api/maintenance/all", #"{"allow":["127.0.0.9"]}"#).status == 200)
        try fleet.expect("all routes are closed") { try $0.ask("GET /other").status == 503 }
        let signIn = #"{"email":"ada@example.org","password":"a long pass phrase"}"#
        func register(_ gateway: Gateway) throws -> Int {
            try gateway.ask("POST /api/v1/auth/register", ["Content-Type: application/json"], body: Array(signIn.utf8)).status
        }
        #expect(try register(fleet[0]) == 201)
        #expect(try fleet[1].ask("GET /other")["Retry-After"] == "60")
        #expect(try GRPCCall(port: fleet[1].port, "/test.Echo/X").code == "UNAVAILABLE")
        let lines = Fleet.settings(fleet.database, fleet.upstream) + ["TOLLGATE_ROUTE_OTHER=\"/other upstream=u auth=none\""]
        let late = try Gateway(lines.joined(separator: "\n"))
        #expect(try late.ask("GET /other").status == 503, "from its first request on")
        #expect(try fleet[0].command(["maintenance", "on", "--contracts"]).code == 0)
        try fleet.expect("sign-in is closed") { try register($0) == 503 }
        #expect(try fleet[0].ask("GET /.well-known/jwks.json").status == 200)
        #expect(try fleet[0].command(["maintenance", "off", "--all", "--contracts"]).output == "Nothing is closed for maintenance.")
        try fleet.expect("all is open") { try $0.ask("GET /other").status == 200 }
        for (words, wrong) in [
            (["on"], "say of what"), (["on", "--route", "fed"], #"no route has the name "fed", the nearest is feed"#),
            (["on", "--route", "password-login"], "write --contracts"), (["off", "--route", "fed"], "the nearest is feed"),
        ] {
            let result = try fleet[0].command(["maintenance"] + words)
            #expect(result.code == 2 && result.complaints.contains(wrong), "\(words): \(result.complaints)")
        }
        let off = try fleet[0].command(["maintenance", "off", "--route", "feed"])
        #expect(off.code == 0 && off.complaints.contains("note: the route feed was not closed before"))
    }

    /// Without a request in between, and without a database.
    @Test func aMaintenanceEndsByItself() throws {
        let gateway = try Gateway(Self.settings("app=off"))
        let formatter = ISO8601DateFormatter()
        let end = Date(timeIntervalSinceNow: 3)
        let until = formatter.string(from: end)
        let set = try Self.admin(gateway, "PUT /admin/api/maintenance/api", #"{"until":"\#(until)"}"#)
        #expect(set.status == 200, "\(set.text)")
        #expect(try gateway.ask("GET /x").status == 503)
        try eventually("it is over") { try gateway.ask("GET /x").status == 502 }
        #expect(Date() >= Date(timeIntervalSince1970: floor(end.timeIntervalSince1970)))
        #expect(try Self.admin(gateway, "GET /admin/api/maintenance").text == #"{"maintenance":[]}"#)
        for words in [["on", "--all"], ["off", "--all"], ["show"]] {
            let result = try gateway.command(["maintenance"] + words)
            #expect(result.code == 2 && result.complaints.contains("without a database"), "\(words)")
        }
        for words in [["explain", "GET", "/x"], ["doctor"]] {
            let outcome = try gateway.command(words)
            #expect(outcome.output.contains("without a database each gateway keeps its own"), "\(outcome)")
        }
    }

    private static func admin(_ gateway: Gateway, _ methodAndTarget: String, _ json: String = "") throws -> Message {
        try Connection(port: gateway.adminPort).ask(
            methodAndTarget, ["Host: localhost", "Authorization: Bearer \(Fleet.adminToken)"], body: Array(json.utf8))
    }

    private static func settings(_ options: String, _ more: String = "") -> String {
        """
        TOLLGATE_LISTEN=127.0.0.1:0;h2c
        TOLLGATE_ADMIN_TOKEN=\(Fleet.adminToken)
        TOLLGATE_UPSTREAM_U="http://127.0.0.1:1"
        TOLLGATE_ROUTE_API="/* upstream=u auth=none errors=dlauth \(options)"
        \(more)
        """
    }

    @Test func aTooOldAppIsRefusedOverEachProtocol() throws {
        let gate = "TOLLGATE_VERSION_GATE_IOS=\"min=4.2 warn=4.5 url=https://apps.test platform=X-App-Platform:ios\""
        let gateway = try Gateway(Self.settings("app=required", gate))
        let platform = "X-App-Platform: ios"
        let old = try gateway.ask("GET /x", [platform, "X-App-Version: 4.1"])
        #expect(old.status == 426 && old["Upgrade"] == "app/4.2" && old["Connection"]?.contains("Upgrade") == true)
        #expect(old.text.contains(#""error":"app_update_required""#) && old.text.contains(#""url":"https://apps.test""#))
        let curl = try run(
            "curl", ["-sS", "-i", "--http2-prior-knowledge", "-H", platform, "http://127.0.0.1:\(gateway.port)/x"])
        #expect(curl.output.hasPrefix("HTTP/2 426") && !curl.output.lowercased().contains("upgrade:"))
        let call = try GRPCCall(port: gateway.port, "/test.Echo/X", metadata: ["x-app-platform": "ios", "x-app-version": "1"])
        #expect(call.code == "FAILED_PRECONDITION")
        let new = try gateway.ask("GET /x", [platform, "X-App-Version: 4.4"])
        #expect(new.status == 502 && new["X-App-Update"] == "recommended; min=4.5")
    }

    /// At all gateways, over a restart, and with counts of a gateway that has ended.
    @Test func theCensusNamesVersionsAndUsers() throws {
        let fleet = try Fleet(
            2, .postgres, "TOLLGATE_ROUTE_APP=\"/app/* upstream=u auth=optional app=optional\"", "TOLLGATE_VERSION_GATE_IOS=\"min=4.2\"")
        let (ada, bob) = (try fleet[0].bearer("--sub", "ada"), try fleet[0].bearer("--sub", "bob"))
        for (number, fields) in [[ada], [ada], [bob], [], []].enumerated() {
            let version = ["X-App-Version: 4.\(number < 3 ? 5 : 1)"]
            for gateway in fleet.gateways {
                #expect(try gateway.ask("GET /app/x", fields + version).status == (number < 3 ? 200 : 426))
            }
        }
        #expect(try fleet[0].ask("GET /app/x").status == 200 && fleet[0].ask("GET /me").status == 401)
        #expect(try fleet[1].stop() == 0)
        let rows = [
            #"{"gate":"ios","version":"4.5","requests":6,"users":2}"#, #"{"gate":"ios","version":"4.1","requests":4,"users":1}"#,
            #"{"gate":"ios","version":"none","requests":1,"users":1}"#,
        ]
        let census = #"{"apps":[\#(rows.joined(separator: ","))]}"#
        #expect(try fleet.admin(0, "GET /admin/api/apps").text == census)
        #expect(try fleet.admin(0, "GET /admin/api/apps").text == census)
        #expect(try fleet[0].metric("tollgate_app_requests_total", #"gate="ios""#, #"version="4.5""#) == 3)
        #expect(try fleet[0].stop() == 0)
        let table = try fleet[0].command(["apps"])
        #expect(table.code == 0 && table.output.contains("4.5") && table.output.hasPrefix("GATE"), "\(table.output) \(table.complaints)")
    }

    /// The deprecation has the time at which a gateway of the database first had the line.
    @Test func aRetiredRouteSaysWhen() throws {
        let upstream = try Upstream(
            Upstream.saying("HTTP/1.1 200 OK\r\nSunset: never\r\nLink: </a>; rel=\"next\"\r\nContent-Length: 2\r\n\r\nok"))
        let fleet = try Fleet(
            2, .postgres, "TOLLGATE_UPSTREAM_A=\"\(upstream.url)\"",
            "TOLLGATE_ROUTE_OLD=\"/old upstream=a auth=none sunset=2096-03-01 sunset-link=https://a.test/end\"",
            "TOLLGATE_ROUTE_GONE=\"/gone upstream=a auth=none sunset=2026-01-01\"")
        try fleet.expect("the deprecation has a day") { try $0.ask("GET /old")["Deprecation"] != nil }
        let answers = try fleet.gateways.map { try $0.ask("GET /old") }
        #expect(answers[0]["Deprecation"] == answers[1]["Deprecation"] && answers[0]["Deprecation"]?.hasPrefix("@") == true)
        #expect(answers[0].all("Sunset") == ["Thu, 01 Mar 2096 00:00:00 GMT"])
        let links = [#"</a>; rel="next""#, #"<https://a.test/end>; rel="deprecation""#, #"<https://a.test/end>; rel="sunset""#]
        #expect(answers[0].all("Link").sorted() == links)
        let gone = try fleet[0].ask("GET /gone")
        #expect(gone.status == 410 && gone.text.contains(#""code":"GONE""#) && gone["Sunset"] == "Thu, 01 Jan 2026 00:00:00 GMT")
    }
}
