import Foundation
import TestThreads
import Testing

/// Requests as traces, as a collector gets them.
@Suite(.ownThread) struct TraceTests {
    static let caller = "0af7651916cd43dd8448eb211c80319c"
    static func parent(sampled: Bool) -> String { "traceparent: 00-\(caller)-b7ad6b7169203331-\(sampled ? "01" : "00")" }

    private func gateway(_ collector: Collector, _ upstream: Upstream, _ more: String = "") throws -> Gateway {
        try Gateway(
            """
            \(collector.setting)
            TOLLGATE_UPSTREAM_U="\(upstream.url)/base"
            TOLLGATE_ROUTE_OPEN="/open/* upstream=u auth=none"
            TOLLGATE_ROUTE_BOOK="GET /books/{id} upstream=u auth=none"
            TOLLGATE_ROUTE_ME="/me upstream=u auth=required"
            \(more)
            """)
    }

    // MARK: what a trace says

    @Test func aRequestAndItsAttemptAreATraceThatTheUpstreamContinues() throws {
        let (collector, upstream) = (try Collector(), try Upstream())
        let gateway = try gateway(
            collector, upstream, "OTEL_SERVICE_NAME=shop\nOTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=a%20b,service.name=no")
        let fields = ["Host: api.example.org:8443", "User-Agent: tests", "Authorization: Bearer token-secret", "Cookie: cookie-secret"]
        #expect(try gateway.ask("POST /open/x?code=query-secret", fields, body: Array("content".utf8)).status == 200)
        let trace = try collector.trace(of: "/open/x")
        let (request, attempt) = (trace.request, try #require(trace.children.first))
        #expect(trace.children.count == 1 && request.parent == nil && attempt.parent == request.id && request.trace != Self.caller)
        #expect(request.name == "POST /open/*" && attempt.name == "POST" && (request.kind, attempt.kind) == (2, 3))
        #expect(request.start <= attempt.start && attempt.start <= attempt.end && attempt.end <= request.end && !request.isError)
        let seen = try #require(upstream.requests.now.last)
        #expect(seen["traceparent"] == "00-\(request.trace)-\(attempt.id)-01")
        let known = [
            "http.request.method": "POST", "url.path": "/open/x", "url.query": "[redacted]", "url.scheme": "http", "http.route": "/open/*",
            "http.response.status_code": "200", "server.address": "api.example.org", "server.port": "8443", "client.address": "127.0.0.1",
            "network.peer.address": "127.0.0.1", "network.protocol.version": "1.1", "user_agent.original": "tests",
            "http.request.body.size": "7", "http.response.body.size": "2", "tollgate.route": "open",
        ]
        for (name, value) in known { #expect(request[name] == value, "\(name)") }
        #expect(request["tollgate.request_id"] == seen["X-Request-Id"])
        #expect(attempt["url.full"] == upstream.url + "/base/open/x?[redacted]" && attempt["server.address"] == "127.0.0.1")
        #expect(
            attempt["server.port"] == "\(upstream.port)" && attempt["tollgate.upstream"] == "u"
                && attempt["http.response.status_code"] == "200")
        let logged = try #require(try gateway.accessLog(1).first)
        #expect(logged["trace_id"].text == request.trace && logged["span_id"].text == request.id)
        let sent = try #require(collector.requests.first)
        #expect(sent.startLine == "POST /v1/traces HTTP/1.1" && sent["Content-Type"] == "application/json")
        #expect(!sent.text.contains("secret"))
        let resource = try JSON(sent.text)["resourceSpans"][0]["resource"]["attributes"].array
        let values = Dictionary(resource.map { ($0["key"].text ?? "", $0["value"]["stringValue"].text ?? "") }) { $0 + "|" + $1 }
        #expect(values["service.name"] == "shop" && values["deployment.environment.name"] == "a b")
    }

    @Test func refusalsOwnEndpointsAndErrorsAreTold() throws {
        let collector = try Collector()
        let upstream = try Upstream(Upstream.saying("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"))
        let gateway = try gateway(collector, upstream)
        #expect(try gateway.ask("GET /me").status == 401)
        let refused = try collector.trace(of: "/me")
        #expect(
            refused.children.isEmpty && refused.request["tollgate.code"] != nil && !refused.request.isError, "4xx is the client's fault")
        #expect(refused.request["http.response.status_code"] == "401" && refused.request["tollgate.auth.outcome"] != nil)

        #expect(try gateway.ask("GET /books/17").status == 503)
        let failed = try collector.trace(of: "/books/17")
        #expect(failed.request.name == "GET /books/{id}" && failed.request.isError && failed.request["error.type"] == "503")
        #expect(failed.children.first?.isError == true && failed.children.first?["error.type"] == "503")

        #expect(try gateway.ask("GET /.well-known/jwks.json").status == 200)
        let own = try collector.trace(of: "/.well-known/jwks.json")
        #expect(own.children.map(\.name) == ["handler"] && own.children.first?.kind == 1 && !own.request.isError)

        #expect(try gateway.ask("BREW /nowhere").status == 404)
        let odd = try collector.trace(of: "/nowhere").request
        #expect(odd.name == "HTTP" && odd["http.request.method"] == "_OTHER" && odd["http.request.method_original"] == "BREW")
        #expect(try gateway.askAdmin("/livez").status == 200)
        #expect(try !collector.spans().contains { $0["url.path"] == "/livez" }, "what operators ask is no trace")
    }

    @Test func eachAttemptHasASpanAndTheUpstreamGetsThatOfItsOwn() throws {
        let collector = try Collector()
        let seen = Watched<[Message]>([])
        let upstream = try Upstream.raw { connection, number in
            let request = try connection.request()
            seen.change { $0.append(request) }
            if number > 0 { try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") }
        }
        let gateway = try gateway(collector, upstream)
        #expect(try gateway.ask("GET /open/again").status == 200)
        let trace = try collector.trace(of: "/open/again")
        let attempts = trace.children("GET")
        #expect(attempts.count == 2 && attempts.allSatisfy { $0.parent == trace.request.id })
        #expect(attempts.map(\.isError) == [true, false] && attempts.map { $0["http.request.resend_count"] } == [nil, "1"])
        #expect(attempts.first?["error.type"] == "closed_unanswered")
        #expect(seen.now.map { $0["traceparent"] } == attempts.map { "00-\(trace.request.trace)-\($0.id)-01" })
    }

    @Test func theWaitForLimitsInRedisIsASpan() throws {
        let (collector, upstream, redis) = (try Collector(), try Upstream(), try Redis())
        let gateway = try gateway(
            collector, upstream, "\(redis.setting)\n\(Redis.patience)\nTOLLGATE_ROUTE_FEW=\"/few upstream=u auth=none limit=1/h\"")
        try eventually("limits are counted in Redis") { try gateway.askAdmin("/readyz").text.contains("\"redis\",\"status\":\"ready\"") }
        #expect(try gateway.ask("GET /few").status == 200)
        let trace = try collector.trace(of: "/few")
        let limits = try #require(trace.children("EVALSHA limits").first)
        #expect(
            limits.kind == 3 && limits.parent == trace.request.id && limits["db.system.name"] == "redis"
                && limits["db.operation.name"] == "EVALSHA")
        #expect(limits["tollgate.limit.outcome"] == "allow" && trace.request["tollgate.limit.source"] == "redis")
        let attempt = try #require(trace.children("GET").first)
        #expect(limits.end <= attempt.start)
    }

    @Test func theRefreshOfAnExpiredTokenIsASpan() throws {
        let (collector, upstream) = (try Collector(), try Upstream())
        let gateway = try Gateway(
            [Gateway.contracts, collector.setting, try TransparentRefreshTests.settings(upstream)].joined(separator: "\n"))
        let session = try gateway.signUp("ada@example.org")
        let fields = TransparentRefreshTests.fields(try TransparentRefreshTests.expired(session.access), session.refresh)
        #expect(try gateway.ask("GET /required/x", fields).status == 200)
        let trace = try collector.trace(of: "/required/x")
        let refresh = try #require(trace.children("refresh").first)
        #expect(
            refresh.parent == trace.request.id && refresh["tollgate.refresh.outcome"] == "rotated"
                && refresh["tollgate.refresh.role"] == "leader")
        #expect(trace.request.start <= refresh.start && refresh.end <= trace.request.end)
        let text = try collector.spans().map { "\($0.json)" }.joined()
        #expect(!text.contains(session.refresh) && !text.contains(session.access))
    }

    // MARK: whose trace it is

    @Test func aTraceGoesOnOnlyForCallersThatAreTrusted() throws {
        let (collector, upstream) = (try Collector(), try Upstream())
        let key = try run("sha256sum", [], input: "k").output.prefix(64)
        let gateway = try gateway(collector, upstream, "TOLLGATE_INTERNAL_BACKEND=key-sha256=\(key)")
        let fields = [Self.parent(sampled: true), "tracestate: a=b", "Accept: */*"]

        #expect(try gateway.ask("GET /open/stranger", fields).status == 200)
        let stranger = try collector.trace(of: "/open/stranger").request
        #expect(stranger.trace != Self.caller && stranger.parent == nil)
        let link = stranger.json["links"][0]
        #expect(link["traceId"].text == Self.caller && link["spanId"].text == "b7ad6b7169203331")
        let seen = try #require(upstream.requests.now.last)
        #expect(seen["tracestate"] == nil && seen["Accept"] == "*/*", "the state is of the other trace")
        #expect(seen["traceparent"]?.contains(stranger.trace) == true)

        #expect(try gateway.ask("GET /open/internal", fields + ["X-Internal-Key: k"]).status == 200)
        let known = try collector.trace(of: "/open/internal").request
        #expect(known.trace == Self.caller && known.parent == "b7ad6b7169203331" && known.json["links"].isNull)
        #expect(known.json["flags"].int == 0x301 && upstream.requests.now.last?["tracestate"] == "a=b")
        #expect(try gateway.ask("GET /open/guess", fields + ["X-Internal-Key: guess"]).status == 200)
        #expect(try collector.trace(of: "/open/guess").request.trace != Self.caller)
    }

    @Test func aTrustedProxyDecidesAndOneThatDoesNotRecordIsFollowed() throws {
        let (collector, upstream) = (try Collector(), try Upstream())
        let gateway = try gateway(collector, upstream, "TOLLGATE_TRUSTED_PROXIES=127.0.0.0/8\nOTEL_TRACES_SAMPLER=parentbased_always_on")
        #expect(try gateway.ask("GET /open/silent", [Self.parent(sampled: false)]).status == 200)
        #expect(upstream.requests.now.last?["traceparent"]?.hasPrefix("00-\(Self.caller)-") == true)
        #expect(upstream.requests.now.last?["traceparent"]?.hasSuffix("-00") == true)
        #expect(try gateway.ask("GET /open/loud", [Self.parent(sampled: true)]).status == 200)
        #expect(try collector.trace(of: "/open/loud").request.trace == Self.caller)
        #expect(try !collector.spans().contains { $0["url.path"] == "/open/silent" })
    }

    /// A request that is not recorded reaches the upstream as it does from a gateway without traces.
    @Test func whatIsNotRecordedIsForwardedAsWithoutTraces() throws {
        let (collector, upstream) = (try Collector(), try Upstream())
        let heads = try [
            "OTEL_SDK_DISABLED=true", "OTEL_TRACES_SAMPLER=always_off",
            "OTEL_TRACES_SAMPLER=parentbased_traceidratio\nOTEL_TRACES_SAMPLER_ARG=0",
        ].map {
            let gateway = try gateway(collector, upstream, $0)
            let connection = try gateway.connect()
            try connection.ask("GET /open/x", [Self.parent(sampled: true), "tracestate: a=b"])
            let head = try #require(upstream.requests.now.last).description
            // The ids of request and span are new each time.
            return head.replacing(/X-Request-Id: [^\r]*/, with: "id").replacing(/-[0-9a-f]{16}-/, with: "-span-")
        }
        #expect(
            Set(heads).count == 1 && heads[0].contains("traceparent: 00-\(Self.caller)-span-00") && heads[0].contains("tracestate: a=b"))
        #expect(collector.requests.isEmpty)
    }

    // MARK: all that is a request

    @Test func requestsOfHTTP2WebSocketsAndChecksAreTraces() throws {
        let collector = try Collector()
        let (server, url) = try WebSocketPeers.server()
        defer { server.kill() }
        let upstream = try Upstream()
        let gateway = try gateway(
            collector, upstream,
            """
            TOLLGATE_LISTEN=127.0.0.1:0;h2c
            TOLLGATE_CHECK_LISTEN=127.0.0.1:0
            TOLLGATE_TRUSTED_PROXIES=127.0.0.1
            TOLLGATE_UPSTREAM_W="\(url)"
            TOLLGATE_ROUTE_CHAT="GET /chat upstream=w auth=none websocket=on"
            """)
        let answered = try mustRun(
            "curl",
            [
                "-s", "--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_version} %{http_code}",
                "http://127.0.0.1:\(gateway.port)/open/two",
            ])
        #expect(answered == "2 200")
        let two = try collector.trace(of: "/open/two")
        #expect(two.request["network.protocol.version"] == "2" && two.children.count == 1)

        _ = try WebSocketPeers.client(
            "ws://127.0.0.1:\(gateway.port)/chat",
            "async with websockets.connect(url) as socket:\n    await socket.send('a')\n    print(await socket.recv())")
        let chat = try collector.trace(of: "/chat")
        #expect(chat.request["http.response.status_code"] == "101" && chat.children.first?["http.response.status_code"] == "101")
        #expect(!chat.request.isError)

        let check = try Connection(port: gateway.checkPort)
        let described = [
            "X-Forwarded-Method: GET", "X-Forwarded-Uri: /open/checked?code=secret", "X-Forwarded-Host: h", Self.parent(sampled: true),
        ]
        #expect(try check.ask("GET /auth/check", described).status == 200)
        let checked = try collector.trace(of: "/open/checked")
        #expect(checked.children.isEmpty && checked.request.trace == Self.caller && checked.request["tollgate.forward_auth"] == "check")
    }

    @Test func aClientThatGoesAwayEndsItsTrace() throws {
        let collector = try Collector()
        let reached = Watched(false)
        let upstream = try Upstream { _, connection in
            reached.change { $0 = true }
            _ = connection.takeRest()
        }
        let gateway = try gateway(collector, upstream)
        let connection = try gateway.connect()
        try connection.send(requestHead("GET /open/left", []))
        try reached.wait(for: "the request") { $0 }
        connection.reset()
        let trace = try collector.trace(of: "/open/left")
        #expect(
            trace.request.isError && trace.request["error.type"] == "client_closed" && trace.request["http.response.status_code"] == nil)
        #expect(trace.children.map { $0["error.type"] } == ["cancelled"])
    }
}
