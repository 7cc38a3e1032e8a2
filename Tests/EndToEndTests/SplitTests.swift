import Foundation
import TestThreads
import Testing

/// `split=`: another upstream that gets some of a route's requests.
@Suite(.ownThread) struct SplitTests {
    private static func settings(
        _ main: Upstream, _ next: Upstream, _ options: String, _ more: String = "", of next2: String = ""
    ) -> String {
        """
        TOLLGATE_LISTEN=127.0.0.1:0;h2c
        TOLLGATE_UPSTREAM_MAIN="\(main.url)"
        TOLLGATE_UPSTREAM_NEXT="\(next.url) \(next2)"
        TOLLGATE_ROUTE_ALL="/* upstream=main auth=optional body-limit=10MiB \(options)"
        TOLLGATE_ACCESS_LOG=json
        \(more)
        """
    }

    @Test func theSideIsSaidByTheLogAndByExplain() throws {
        let (main, next) = (try Upstream(), try Upstream())
        let gateway = try Gateway(Self.settings(main, next, "split=100%:next when=header:X-Channel=beta"))
        #expect(try gateway.ask("GET /x").status == 200 && gateway.ask("GET /y", ["X-Channel: beta"]).status == 200)
        #expect(main.requests.now.map(\.startLine) == ["GET /x HTTP/1.1"] && next.requests.now.map(\.startLine) == ["GET /y HTTP/1.1"])
        #expect(try gateway.accessLog(2).map { $0["upstream"].text } == ["main", "next"])
        let walk = try gateway.command(["explain", "GET", "/y", "--header", "X-Channel: beta"]).output
        #expect(walk.contains("100% by user go to next, and so does this one") && walk.contains("passes, to the upstream next"))
    }

    // MARK: live shares

    /// By the admin API of any gateway and by the command; a gateway that starts has it, too.
    @Test func aShareChangesOnAllGatewaysWhileTheyRun() throws {
        let (main, next) = (try Upstream(), try Upstream())
        let fleet = try Fleet(
            2, .postgres, "TOLLGATE_UPSTREAM_MAIN=\"\(main.url)\"", "TOLLGATE_UPSTREAM_NEXT=\"\(next.url)\"",
            "TOLLGATE_ROUTE_FEED=\"/feed/* upstream=main auth=none split=0%:next split-by=address\"")
        func expect(_ upstream: Upstream, _ what: String) throws {
            for gateway in fleet.gateways {
                try eventually(what) {
                    let before = upstream.requests.now.count
                    return try gateway.ask("GET /feed/x").status == 200 && upstream.requests.now.count == before + 1
                }
            }
        }
        try expect(main, "the share of the line")
        let path = "/admin/api/routes/feed/split"
        let set = try fleet.admin(0, "PUT \(path)", #"{"percent":100}"#)
        #expect(set.text == #"{"route":"feed","upstream":"next","percent":100,"configured_percent":0,"set_by":"operator"}"#)
        try expect(next, "the share of the API")
        #expect(try fleet.admin(1, "GET \(path)").text == set.text)
        #expect(try fleet.admin(0, "PUT \(path)", #"{"percent":101}"#).status == 400)
        #expect(try fleet.admin(0, "PUT /admin/api/routes/none/split", #"{"percent":1}"#).status == 404)
        let command = try fleet[1].command(["split", "feed", "0%"])
        #expect(command.code == 0 && command.output.hasPrefix("0% of the requests of feed go to next: set by an operator"))
        try expect(main, "the share of the command")
        #expect(try fleet[1].command(["split", "feed", "100%"]).code == 0)
        try expect(next, "the command's other share")
        #expect(try fleet.admin(1, "DELETE \(path)").text.contains(#""percent":0,"configured_percent":0,"set_by":"configuration""#))
        try expect(main, "the share of the line again")
    }
}
