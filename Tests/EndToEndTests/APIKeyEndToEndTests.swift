import Foundation
import TestServers
import TestThreads
import Testing

/// API keys: made by command or admin API, used at every gateway, and gone at all of them once revoked.
@Suite(.ownThread) struct APIKeyEndToEndTests {
    @Test(arguments: Bus.allCases) func aKeyCountsAndEndsAtAllGateways(_ bus: Bus) throws {
        let fleet = try Fleet(3, bus, "TOLLGATE_ROUTE_FEED=\"/feed/* upstream=u auth=required,key\"")
        try fleet.waitForTheBus()
        func make(_ more: String) throws -> (text: String, id: String) {
            let answer = try fleet.admin(0, "POST /admin/api/keys/api", #"{"name":"partner","tier":"premium"\#(more)}"#)
            let made = try JSON(answer.text)
            return (try must(made["key"]), try must(made["id"]))
        }
        func status(_ gateway: Gateway, _ key: String) throws -> Int { try gateway.ask("GET /feed/x", ["X-Api-Key: \(key)"]).status }
        let limited = try make(#","limit":"6/h""#), key = try make("")
        // The entries of the log come in their order, so all know the one before, too.
        try fleet.expect("all take the key") { try status($0, key.text) == 200 }
        #expect(
            fleet.upstream.requests.now.allSatisfy { $0["X-User-Id"] == key.id && $0["X-Token-Issuer"] == "key" && $0["X-Api-Key"] == nil })
        if bus == .redis {
            let statuses = try (0..<12).map { try status(fleet[$0 % 3], limited.text) }
            #expect(statuses.count { $0 == 200 } == 6 && statuses.count { $0 == 429 } == 6, "\(statuses)")
        }
        #expect(try fleet.admin(1, "DELETE /admin/api/keys/api/\(key.id)").status == 200)
        #expect(try status(fleet[1], key.text) == 401, "at once where it was revoked")
        try fleet.expect("all refuse the key") { try status($0, key.text) == 401 }
        let listed = try JSON(fleet.admin(2, "GET /admin/api/keys/api").text)["keys"].array
        #expect(listed.map { $0["id"].text } == [limited.id, key.id] && listed[1]["revoked_at"].text != nil)
        #expect(try fleet.admin(0, "DELETE /admin/api/keys/api/\(UUID())").status == 404)
        for members in [#""routes":["me"]"#, #""routes":[]"#, #""route":["feed"]"#, #""until":"2020-01-01T00:00:00Z""#, #""limit":"5""#] {
            #expect(
                try fleet.admin(0, "POST /admin/api/keys/api", #"{"name":"x","tier":"premium",\#(members)}"#).status == 400, "\(members)")
        }
    }

    @Test func aKeyOfTheCommandIsPrintedOnceAndItsStreamsEndWithIt() throws {
        let upstream = try Upstream.streaming()
        let gateway = try Gateway(
            """
            TOLLGATE_ACCESS_LOG=json
            TOLLGATE_UPSTREAM_S="\(upstream.url)"
            TOLLGATE_ROUTE_S="/s/* upstream=s auth=key"
            """)
        let made = try gateway.command(["key", "create", "--name", "a script", "--tier", "free", "--routes", "s"])
        let text = made.output.trimmingCharacters(in: .whitespacesAndNewlines)
        #expect(made.code == 0 && text.wholeMatch(of: /tg_[0-9A-Za-z]{49}/) != nil && made.complaints.contains("not shown again"))
        try eventually("the gateway takes it") { try gateway.ask("GET /s/page", ["Authorization: Bearer \(text)"]).status == 200 }
        #expect(try gateway.metric("tollgate_api_keys") == 1)
        let stream = try gateway.stream("/s/x", bearer: text)
        _ = try stream.take(through: "data: ")
        try eventually("its use is known", seconds: 60) {
            try JSON(gateway.command(["key", "list", "--json"]).output)["keys"][0]["last_used_at"].text != nil
        }
        let list = try gateway.command(["key", "list"]).output
        #expect(list.contains("a script") && list.contains(text.prefix(9)) && !list.contains(text.prefix(12)))
        let walk = try gateway.command(["explain", "GET", "/s/x", "--header", "X-Api-Key: \(text)"]).output
        #expect(walk.contains("API key ") && walk.contains("passes, to the upstream s") && !walk.contains(text))
        let id = try must(JSON(gateway.command(["key", "list", "--json"]).output)["keys"][0]["id"])
        #expect(try gateway.command(["key", "revoke", id]).output.hasPrefix("The key a script is revoked."))
        #expect(try stream.takeChunks().hasSuffix(": session_ended\n\n\r\n0\r\n\r\n"))
        #expect(try gateway.ask("GET /s/page", ["X-Api-Key: \(text)"]).status == 401)
        #expect(try gateway.metric("tollgate_api_keys") == 0)
        #expect(gateway.process.output.now.allSatisfy { !$0.contains(text) })
        let wrong = try gateway.command(["key", "create", "--name", "x", "--tier", "gold", "--limit", "5"])
        #expect(wrong.code == 2 && wrong.complaints.contains("--tier"))
    }
}
