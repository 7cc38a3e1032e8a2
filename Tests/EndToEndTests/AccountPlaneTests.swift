import Foundation
import TestServers
import TestThreads
import Testing

/// Gateways learn of accounts, beside the tier: bans, attributes, and merges that upstreams are told of.
@Suite(.ownThread) struct AccountPlaneTests {
    /// The rows are written by hand: what this suite looks at is how gateways learn of them.
    private func write(_ fleet: Fleet, _ columns: String) throws {
        let name = try #require(fleet.database.split(separator: "/").last.map(String.init))
        try PostgresCluster.shared.get().run("UPDATE accounts SET \(columns), tier_version = tier_version + 1", in: name)
    }

    @Test(arguments: Bus.allCases) func attributesCountOnAllGatewaysInTheSameOldToken(_ bus: Bus) throws {
        let fleet = try Fleet(
            2, bus, "TOLLGATE_ROUTE_EDITOR=\"/editor/* upstream=u attributes=role=editor|admin\"",
            "TOLLGATE_ROUTE_TOLD=\"/told upstream=u forward-attributes=role,avatar_url identity=signed\"")
        try fleet.waitForTheBus()
        let ada = try fleet[0].register("ada@example.org")
        #expect(try fleet.statuses("GET /editor/x", ada.access) == [403, 403])
        let path = "/admin/api/users/\(ada.user)/attributes"
        #expect(try fleet.admin(0, "PUT \(path)", #"{"attributes":{"role":"editor","avatar_url":"https://a/ü"}}"#).status == 200)
        try fleet.expect("the role") { try $0.send("GET /editor/x", bearer: ada.access).status == 200 }
        let forged = ["x_user_attribute.role: root", "X-User-Attribute-Plan: gold", "X-User-Merged-From: \(ada.user)"]
        for gateway in fleet.gateways {
            #expect(try gateway.ask("GET /told", ["Authorization: Bearer \(ada.access)"] + forged).status == 200)
            let request = try #require(fleet.upstream.requests.now.last)
            let named = request.fields.filter { $0.name.lowercased().replacing(/[_.]/, with: "-").hasPrefix("x-user-attribute-") }
            #expect(
                named.map { "\($0.name): \($0.value)" } == [
                    "X-User-Attribute-Role: editor", "X-User-Attribute-Avatar-Url: https%3A%2F%2Fa%2F%C3%BC",
                ])
            #expect(request["X-User-Merged-From"] == nil)
            let claims = try claims(of: #require(request["X-Tollgate-Identity"]))["attributes"]
            #expect(claims["role"].text == "editor" && claims["avatar_url"].text == "https://a/ü")
        }
        let patched = try fleet.admin(1, "PATCH \(path)", #"{"attributes":{"role":null}}"#)
        #expect(patched.text.contains(#""attributes":{"avatar_url":"https://a/ü"}"#))
        try fleet.expect("no role any more") { try $0.send("GET /editor/x", bearer: ada.access).status == 403 }
        let set = try fleet[0].command(["user", "set-attributes", "ada@example.org", #"{"role": "admin"}"#])
        #expect(set.code == 0 && set.output == #"The attributes are {"role":"admin"}."#)
        try fleet.expect("the command's role") { try $0.send("GET /editor/x", bearer: ada.access).status == 200 }
    }

    /// Also of tokens that no session names; the end of a ban needs nothing.
    @Test func tokensOfABannedOrClosedAccountAreRefusedOnAllGateways() throws {
        let streaming = try Upstream.streaming()
        let fleet = try Fleet(
            2, .postgres, "TOLLGATE_UPSTREAM_S=\"\(streaming.url)\"", "TOLLGATE_ROUTE_S=\"/s/* upstream=s\"")
        let ada = try fleet[0].register("ada@example.org")
        let minted = String(try fleet[0].bearer("--sub", ada.user).dropFirst("Authorization: Bearer ".count))
        func statuses() throws -> [Int] { try [ada.access, minted].flatMap { try fleet.statuses("GET /me", $0) } }
        #expect(try statuses() == [200, 200, 200, 200])
        let streams = try fleet.gateways.map { try $0.stream("/s/x", bearer: minted) }
        let now = "(extract(epoch FROM now()) * 1000000)::bigint"
        try write(fleet, "banned_at = \(now), banned_until = \(now) + 10000000")
        for stream in streams { #expect(try stream.takeChunks().hasSuffix(": session_ended\n\n\r\n0\r\n\r\n")) }
        for gateway in fleet.gateways { #expect(try Fleet.refuses(gateway, ada.access) && Fleet.refuses(gateway, minted)) }
        try eventually("the ban is over", seconds: 30) { try statuses() == [200, 200, 200, 200] }
        try write(fleet, "erased_at = \(now) + 1000000000")
        try eventually("the account is closed") { try statuses() == [401, 401, 401, 401] }
        try write(fleet, "erased_at = NULL")
        try eventually("the account is open again") { try statuses() == [200, 200, 200, 200] }
    }

    @Test func mergesAreAnnouncedUntilTheUpstreamConfirmsThem() throws {
        let confirmed = Watched("")
        let service = try Upstream { _, connection in
            try connection.send("HTTP/1.1 200 OK\r\n\(confirmed.now)Content-Length: 2\r\n\r\nok")
        }
        let fleet = try Fleet(
            2, .postgres, "TOLLGATE_UPSTREAM_M=\"\(service.url)\"", "TOLLGATE_ROUTE_M=\"/m/* upstream=m merge=announce\"",
            "TOLLGATE_ROUTE_N=\"/n/* upstream=m\"")
        let ada = try fleet[0].register("ada@example.org")
        let guests = ["0193a1b2-0000-7000-8000-000000000001", "0193a1b2-0000-7000-8000-000000000002"]
        func announced(_ path: String = "/m/x") throws -> [String?] {
            try fleet.gateways.map { gateway in
                let answer = try gateway.send("GET \(path)", bearer: ada.access)
                #expect(answer.status == 200 && answer["X-Tollgate-Merge-Done"] == nil)
                return service.requests.now.last?["X-User-Merged-From"]
            }
        }
        #expect(try announced() == [nil, nil])
        let until = "(extract(epoch FROM now()) * 1000000)::bigint + 60000000"
        let lines = guests.map { "'\($0)' || chr(9) || (\(until))::text" }.joined(separator: " || chr(10) || ")
        try write(fleet, "merges = \(lines)")
        try eventually("the merges") { try announced() == [guests.joined(separator: ", "), guests.joined(separator: ", ")] }
        #expect(try announced("/n/x") == [nil, nil])
        // One that was not announced is nothing, nor is a confirmation on a route that announces none.
        confirmed.change { $0 = "X-Tollgate-Merge-Done: \(guests[0])\r\n" }
        #expect(try announced("/n/x") == [nil, nil])
        confirmed.change { $0 = "X-Tollgate-Merge-Done: 0193a1b2-0000-7000-8000-00000000000f, nonsense, \(guests[0])\r\n" }
        try eventually("one is done") { try announced() == [guests[1], guests[1]] }
        confirmed.change { $0 = "x-tollgate-merge-done: \(guests[1])\r\n" }
        try eventually("both are done") { try announced() == [nil, nil] }
    }
}
