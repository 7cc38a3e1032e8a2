import TestThreads
import Testing

/// With a server that others wrote behind it.
@Suite(.ownThread) struct NginxTests {
    @Test func filesRangesAndConditionsGoThrough() throws {
        let nginx = try Nginx("location /gone { return 410 \"gone\\n\"; } location /moved { return 302 /elsewhere; }")
        let content = (0..<20_000).map { "line \($0)\n" }.joined()
        try nginx.folder.write("file.txt", content)
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"http://127.0.0.1:\(nginx.port)\"\nTOLLGATE_ROUTE_ALL=\"/* upstream=u auth=none\"")
        let connection = try gateway.connect()
        let whole = try connection.ask("GET /file.txt")
        #expect(whole.status == 200)
        #expect(whole.text == content)
        let tag = try #require(whole["ETag"])
        #expect(try connection.ask("GET /file.txt", ["If-None-Match: \(tag)"]).status == 304)
        let part = try connection.ask("GET /file.txt", ["Range: bytes=5-8"])
        #expect(part.status == 206)
        #expect(part.text == "0\nli")
        #expect(try connection.ask("HEAD /file.txt")["Content-Length"] == String(content.utf8.count))
        #expect(try connection.ask("GET /gone/x").status == 410)
        #expect(try connection.ask("GET /moved/x").status == 302)
        #expect(try connection.ask("GET /missing").status == 404)
        #expect(try connection.ask("POST /file.txt", body: [1, 2, 3]).status == 405)
        #expect(try connection.ask("GET /file.txt").text == content)
        #expect(try gateway.metric("tollgate_upstream_requests_total", #"upstream="u""#) == 9)
    }

    @Test func anUpstreamThatClosesAfterEachAnswerLosesNothing() throws {
        let nginx = try Nginx("keepalive_requests 3; location / { return 200 \"ok\"; }")
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"http://127.0.0.1:\(nginx.port)\"\nTOLLGATE_ROUTE_ALL=\"/* upstream=u auth=none\"")
        let connection = try gateway.connect()
        for _ in 0..<50 { #expect(try connection.ask("GET /x").text == "ok") }
    }
}
