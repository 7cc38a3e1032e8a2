import Foundation
import TestThreads
import Testing

/// Event streams on their way: nothing is held back, and a silent upstream is covered for.
@Suite(.serialized, .ownThread) struct EventStreamTests {
    /// Safe: one test at a time.
    nonisolated(unsafe) private static let browser = Result { try Browser() }

    private static func settings(_ upstream: Upstream) -> String {
        """
        TOLLGATE_JWT_SECRET="a secret of more than thirty-two bytes"
        TOLLGATE_CLOCK_SKEW=0s
        TOLLGATE_UPSTREAM_U="\(upstream.url)"
        TOLLGATE_ROUTE_OPEN="/open/* upstream=u auth=none sse-heartbeat=500ms"
        TOLLGATE_ROUTE_WARNED="/warned/* upstream=u stream-warning=3s"
        TOLLGATE_ROUTE_FILTERED="/filtered/* upstream=u auth=optional filter=tier"
        TOLLGATE_ROUTE_LAX="/lax/* upstream=u auth=optional filter=tier filter-strict=off"
        TOLLGATE_ROUTE_PLAIN="/plain/* upstream=u auth=none"
        TOLLGATE_ROUTE_QUIET="/quiet/* upstream=u auth=none timeout=1s"
        """
    }

    /// Sends each event when the test says so.
    @Test func eachEventPassesAsItComes() throws {
        let release = Watched(0)
        let upstream = try Upstream { request, connection in
            try connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Accel-Buffering: no\r\n\r\n")
            for number in 1...5 {
                try release.wait(for: "event \(number)") { $0 >= number }
                try connection.send("data: \(number)\n\n")
            }
            connection.close()
        }
        let gateway = try Gateway(Self.settings(upstream))
        for path in ["/lax/x", "/plain/x"] {
            release.change { $0 = 0 }
            let connection = try gateway.connect()
            try connection.send(requestHead("GET \(path)", ["Last-Event-ID: 7", "Accept-Encoding: gzip"]))
            let head = Message(head: try connection.take(through: "\r\n\r\n"))
            #expect(head.status == 200 && head["X-Accel-Buffering"] == nil && head["Content-Type"] == "text/event-stream")
            for number in 1...5 {
                release.change { $0 = number }
                #expect(text(of: try connection.take(through: "\n\n\r\n")).contains("data: \(number)"))
            }
        }
        let sent = upstream.requests.now
        #expect(sent.allSatisfy { $0["Last-Event-ID"] == "7" })
        // Only where the gateway writes into the stream it must be readable.
        #expect(sent.last?["Accept-Encoding"] == "gzip")
        #expect(try gateway.ask("GET /filtered/x").status == 502)
    }

    @Test func heartbeatsCoverASilentUpstream() throws {
        let upstream = try Upstream { request, connection in
            try connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: a\n\n")
            _ = connection.takeRest()
        }
        let gateway = try Gateway(Self.settings(upstream))
        let (covered, bare) = (try gateway.stream("/open/x"), try gateway.stream("/quiet/x"))
        #expect(upstream.requests.now.contains { $0["Accept-Encoding"] == "identity" })
        for _ in 0..<4 { _ = try covered.take(through: "3\r\n:\n\n\r\n") }
        #expect(!text(of: bare.takeRest().bytes).contains("\r\n0\r\n"))
        try eventually("its silence is the reason") {
            try gateway.metric("tollgate_streams_ended_total", #"route="quiet",kind="sse",reason="idle""#) == 1
        }
        #expect(try gateway.metric("tollgate_streams_open", #"route="open",kind="sse""#) == 1)
    }

    @Test func aBrowserReadsStreamsToTheirEnd() throws {
        let upstream = try Upstream.streaming()
        let gateway = try Gateway(Self.settings(upstream))
        let page = try Page(try Self.browser.get())
        try page.open("http://127.0.0.1:\(gateway.port)/open/page")
        try page.run("window.seen = []; window.source = new EventSource('/open/x'); source.onmessage = event => seen.push(event.data); 1")
        try page.wait("seen.length > 5 && seen[0] === '0'")
        try page.run("source.close(); 1")
        let token = try gateway.bearer("--sub", "ada", "--ttl", "15s").dropFirst("Authorization: ".count)
        try page.run(
            """
            window.text = ''; window.outcome = ''; (async () => {
              const answer = await fetch('/warned/x', { headers: { Authorization: '\(token)' } })
              const reader = answer.body.getReader(), decoder = new TextDecoder()
              for (;;) { const { done, value } = await reader.read(); if (done) break; text += decoder.decode(value) }
              outcome = 'whole'
            })().catch(fault => { outcome = String(fault) }); 1
            """)
        try page.wait("outcome")
        #expect(try page.run("outcome").text == "whole")
        let said = try page.run("text").text ?? ""
        // Less than the three seconds are left to a gateway that is late.
        #expect(
            said.contains(/\n\nevent: token-expiring\ndata: \{"expires_in":[0-3]\}\n\n/) && said.hasSuffix(": token_expired\n\n"), "\(said)"
        )
    }
}
