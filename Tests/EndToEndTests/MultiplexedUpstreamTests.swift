import Foundation
import TestThreads
import Testing

/// `http2=on`: upstreams over HTTP/2, with nghttpd, nginx and another gateway at the other end.
@Suite(.ownThread) struct MultiplexedUpstreamTests {
    /// A gateway in front of another, which speaks HTTP/2 to it and HTTP/1.1 to `upstream`.
    private struct Chain {
        let front: Gateway
        let back: Gateway

        init(_ upstream: Upstream, _ more: String = "") throws {
            back = try Gateway(HTTP2Tests.settings(upstream))
            front = try Gateway(MultiplexedUpstreamTests.settings("http://127.0.0.1:\(back.port)", more))
        }
    }

    private static func settings(_ url: String, _ more: String = "", options: String = "") -> String {
        """
        TOLLGATE_LISTEN=127.0.0.1:0;h2c
        TOLLGATE_UPSTREAM_U="\(url) http2=on connect-timeout=20s \(options)"
        TOLLGATE_ROUTE_ALL="/* upstream=u auth=none body-limit=100MiB"
        TOLLGATE_ACCESS_LOG=json
        \(more)
        """
    }

    private func curl(_ gateway: Gateway, _ path: String, _ more: [String] = [], version: String = "--http1.1") throws -> String {
        let outcome = try run(
            "curl", ["-sS", "--max-time", "120", version] + more + ["http://127.0.0.1:\(gateway.port)\(path)"], seconds: 150)
        guard outcome.code == 0 else { throw Fault("curl: \(outcome.complaints)") }
        return outcome.output
    }

    private func load(_ gateway: Gateway, _ path: String, _ count: Int) throws -> String {
        try run("h2load", ["-n", "\(count)", "-c", "4", "-m", "25", "http://127.0.0.1:\(gateway.port)\(path)"]).output
    }

    // MARK: servers of others

    @Test func nghttpdIsSpokenToByPriorKnowledge() throws {
        let server = try Nghttpd()
        let content = (0..<20_000).map { "line \($0)" }.joined(separator: "\n")
        try server.folder.write("file.txt", content)
        let gateway = try Gateway(Self.settings("http://127.0.0.1:\(server.port)"))
        #expect(try curl(gateway, "/file.txt") == content)
        #expect(try curl(gateway, "/file.txt", version: "--http2-prior-knowledge") == content)
        #expect(try curl(gateway, "/file.txt", ["-I"]).lowercased().contains("content-length: \(content.utf8.count)"))
        #expect(try curl(gateway, "/missing", ["-w", "%{http_code}", "-o", "/dev/null"]) == "404")
        #expect(try load(gateway, "/file.txt", 1_000).contains("1000 succeeded, 0 failed, 0 errored"))
        #expect(try gateway.metric("tollgate_upstream_connections", #"upstream="u""#) <= 2)
    }

    @Test func anHTTPSUpstreamChoosesItByALPN() throws {
        let folder = try Folder()
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:localhost")
        let server = try Nghttpd(certificate: (folder.file("one.key"), folder.file("one.crt")))
        try server.folder.write("file.txt", "content")
        let gateway = try Gateway(Self.settings("https://localhost:\(server.port)", options: "tls-ca=\(authority.file)"), folder: folder)
        #expect(try curl(gateway, "/file.txt") == "content")
        #expect(try load(gateway, "/file.txt", 1_000).contains("1000 succeeded, 0 failed, 0 errored"))
        #expect(!gateway.process.complaints.now.contains { $0.contains("chose HTTP/1.1") })
    }

    @Test func anHTTPSUpstreamThatChoosesHTTP1IsServedByItAndLoggedOnce() throws {
        let upstream = try Upstream()
        let folder = try Folder()
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:localhost")
        let nginx = try Nginx(
            """
            ssl_certificate \(folder.file("one.crt")); ssl_certificate_key \(folder.file("one.key"));
            location / { proxy_pass \(upstream.url); proxy_http_version 1.1; proxy_request_buffering off; proxy_set_header Connection ""; }
            """, tls: true)
        let gateway = try Gateway(Self.settings("https://localhost:\(nginx.port)", options: "tls-ca=\(authority.file)"), folder: folder)
        try folder.write("small", "content")
        for _ in 0..<3 {
            #expect(try curl(gateway, "/x", ["-H", "Transfer-Encoding: chunked", "-T", folder.file("small")]) == "ok")
            #expect(try curl(gateway, "/x", ["-d", "content"]) == "ok")
        }
        #expect(upstream.requests.now.map(\.text) == Array(repeating: "content", count: 6))
        #expect(try load(gateway, "/y", 500).contains("500 succeeded, 0 failed, 0 errored"))
        try gateway.waitForLog("an upstream with http2=on chose HTTP/1.1")
        #expect(gateway.process.complaints.now.count { $0.contains("chose HTTP/1.1") } == 1)
    }

    @Test func aServerOfHTTP1WithoutTLSIs502AndTheLogSaysWhy() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(Self.settings(upstream.url))
        #expect(try gateway.ask("GET /x").status == 502)
        #expect(try gateway.accessLog(1)[0]["error"].text == "not_http2")
    }

    /// nginx says GOAWAY after each third request.
    @Test func anUpstreamThatGoesAwayAllTheTimeLosesNothing() throws {
        let nginx = try Nginx("keepalive_requests 3; location / { return 200 \"ok\"; }", http2: true)
        let gateway = try Gateway(Self.settings("http://127.0.0.1:\(nginx.port)"))
        let connection = try gateway.connect()
        for _ in 0..<50 { #expect(try connection.ask("GET /x").text == "ok") }
        for _ in 0..<20 { #expect(try connection.ask("POST /x", body: Array("content".utf8)).text == "ok") }
        #expect(try load(gateway, "/x", 500).contains("500 succeeded, 0 failed, 0 errored"))
    }

    @Test func filesRangesAndConditionsGoThrough() throws {
        let nginx = try Nginx("location /gone { return 410 \"gone\\n\"; }", http2: true)
        let content = StreamingTests.pattern(20 << 20)
        try Data(content).write(to: URL(fileURLWithPath: nginx.folder.file("file")))
        let gateway = try Gateway(Self.settings("http://127.0.0.1:\(nginx.port)"))
        let connection = try gateway.connect()
        let whole = try connection.ask("GET /file")
        #expect(whole.status == 200 && isSame(whole.body, content))
        let tag = try #require(whole["ETag"])
        #expect(try connection.ask("GET /file", ["If-None-Match: \(tag)"]).status == 304)
        #expect(try connection.ask("GET /file", ["Range: bytes=5-8"]).body == Array(content[5...8]))
        #expect(try connection.ask("GET /gone").status == 410)
        #expect(try connection.ask("POST /file", body: [1, 2, 3]).status == 405)
        // The answer comes before the end of the request.
        #expect(try gateway.ask("POST /file", body: [UInt8](repeating: 1, count: 1 << 20)).status == 405)
        #expect(try connection.ask("GET /gone").status == 410)
    }

    @Test func aServerThatComesBackIsFoundAgain() throws {
        // Of the ports that the kernel hands out, another process could get the server's while that is away.
        let port = try #require((0..<100).lazy.map { _ in Int.random(in: 10_000..<30_000) }.first { (try? Listening(port: $0)) != nil })
        let server = try Nghttpd(port: port)
        try server.folder.write("file.txt", "content")
        let gateway = try Gateway(Self.settings("http://127.0.0.1:\(server.port)"))
        #expect(try curl(gateway, "/file.txt") == "content")
        try server.stop()
        #expect(try gateway.ask("GET /file.txt").status == 502)
        let again = try Nghttpd(port: server.port, folder: server.folder)
        #expect(try gateway.ask("GET /file.txt").text == "content")
        try again.stop()
    }

    // MARK: another gateway

    @Test func bothProtocolsMeanTheSameToTheUpstream() throws {
        let upstream = try Upstream { request, connection in
            try connection.send(
                "HTTP/1.1 200 OK\r\nContent-Length: \(request.method == "HEAD" ? 3 : request.body.count)\r\nX-Answer: a, b\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n"
            )
            if request.method != "HEAD" { try connection.send(request.body) }
        }
        let back = try Gateway(HTTP2Tests.settings(upstream))
        let gateway = try Gateway(
            """
            TOLLGATE_LISTEN=127.0.0.1:0;h2c
            TOLLGATE_UPSTREAM_ONE="http://127.0.0.1:\(back.port)"
            TOLLGATE_UPSTREAM_TWO="http://127.0.0.1:\(back.port) http2=on connect-timeout=20s"
            TOLLGATE_ROUTE_ONE="/one/* upstream=one auth=none strip=/one"
            TOLLGATE_ROUTE_TWO="/two/* upstream=two auth=none strip=/two"
            """)
        let cases: [(String, [String])] = [
            ("/plain?a=%2F&b", []), ("/head", ["-I"]), ("/post", ["-d", "some=content"]), ("/put", ["-X", "PUT", "-d", ""]),
            ("/cookies", ["-b", "a=1; b=2"]), ("/delete", ["-X", "DELETE"]), ("/options", ["-X", "OPTIONS"]), ("/odd", ["-X", "PROPFIND"]),
            ("/fields", ["-H", "X-One: 1", "-H", "X-One: 2", "-H", "X-Empty;", "-H", "Accept: text/plain"]),
            ("/te", ["-H", "TE: trailers"]),
            ("/" + String(repeating: "p", count: 7_000), []), ("/host", ["-H", "Host: example.org:81"]),
            ("/chunks", ["-d", "content", "-H", "Transfer-Encoding: chunked"]),
            ("/expect", ["-d", "content", "-H", "Expect: 100-continue"]),
        ]
        for (path, arguments) in cases {
            for version in ["--http1.1", "--http2-prior-knowledge"] where version == "--http1.1" || path != "/chunks" {
                var answers: [[String]] = []
                var requests: [[String]] = []
                for route in ["/one", "/two"] {
                    let before = upstream.requests.now.count
                    var answer = try curl(gateway, route + path, ["-i"] + arguments, version: version)
                    if answer.contains(" 100 "), let end = answer.range(of: "\r\n\r\n") { answer = String(answer[end.upperBound...]) }
                    answers.append(HTTP2Tests.comparable(answer))
                    requests.append(
                        upstream.requests.now.dropFirst(before).flatMap { HTTP2Tests.comparable(text(of: $0.head) + text(of: $0.body)) })
                }
                #expect(answers[0] == answers[1], "\(version) \(path) \(arguments)")
                #expect(requests[0] == requests[1] && !requests[0].isEmpty, "\(version) \(path) \(arguments)")
            }
        }
    }

    @Test(arguments: [false, true])
    func largeBodiesArriveWhole(_ isChunked: Bool) throws {
        let content = StreamingTests.pattern(50 << 20)
        let upstream = try Upstream { request, connection in
            let isWhole = isSame(request.body, content)
            try connection.send(
                "HTTP/1.1 200 OK\r\n\(isChunked ? "Transfer-Encoding: chunked" : "Content-Length: \(content.count)")\r\nX-Whole: \(isWhole)\r\n\r\n"
            )
            if isChunked { try connection.send(inChunks: content) } else { try connection.send(content) }
        }
        let chain = try Chain(upstream)
        let folder = try Folder()
        try Data(content).write(to: URL(fileURLWithPath: folder.file("up")))
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let output = try curl(
                chain.front, "/x",
                ["-X", "POST"] + (isChunked ? ["-H", version == "--http1.1" ? "Transfer-Encoding: chunked" : "Content-Length:"] : []) + [
                    "-T", folder.file("up"), "-o", folder.file("down"), "-D", "-",
                ],
                version: version)
            #expect(output.lowercased().contains("x-whole: true"))
            let down = try Data(contentsOf: URL(fileURLWithPath: folder.file("down")))
            #expect(isSame([UInt8](down), content))
        }
        #expect(try chain.front.peakResidentKiB < 40 * 1_024)
    }

    @Test func trailersGoBothWaysFromEndToEnd() throws {
        let upstream = try Upstream(
            Upstream.saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-End: yes\r\n\r\n"))
        let chain = try Chain(upstream)
        let folder = try Folder()
        try folder.write("content", "content")
        let outcome = try run(
            "nghttp",
            [
                "-v", "--no-content-length", "-d", folder.file("content"), "--trailer", "x-checksum: 42",
                "http://127.0.0.1:\(chain.front.port)/x",
            ])
        #expect(outcome.output.contains("x-end: yes"))
        #expect(upstream.requests.now[0].text == "content")
        #expect(upstream.requests.now[0].trailers.map(\.name) == ["x-checksum"])
    }

    @Test func aCallStreamsBothWaysAtOnce() throws {
        let upstream = try Upstream.raw { connection, _ in
            _ = try connection.take(through: "\r\n\r\n")
            try connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while true {
                let chunk = text(of: try connection.take(through: "\r\n"))
                let content = try connection.take(Int(chunk.dropLast(), radix: 16)! + 2)
                guard chunk != "0\r\n" else { return try connection.send("0\r\ngrpc-status: 0\r\n\r\n") }
                try connection.send(chunk + text(of: content))
            }
        }
        let chain = try Chain(upstream)
        let peer = try HTTP2Peer(chain.front)
        try peer.ask(1, "POST", "/x", [("te", "trailers")], ends: false)
        for message in ["one", "two", "three"] {
            try peer.send(0, 0, 1, Array(message.utf8))
            #expect(text(of: try peer.take { $0.type == 0 && $0.stream == 1 }.last?.payload ?? []) == message)
        }
        try peer.send(0, 1, 1)
        let end = try peer.take { $0.stream == 1 && $0.endsStream }
        #expect(end.last?.type == 1, "the trailers")
    }

    // MARK: life

    @Test func aReloadTurnsItOnAndOff() throws {
        let upstream = try Upstream()
        let back = try Gateway(HTTP2Tests.settings(upstream, "TOLLGATE_ACCESS_LOG=json"))
        let route = "TOLLGATE_ROUTE_ALL=\"/* upstream=u auth=none\"\n"
        let address = "TOLLGATE_UPSTREAM_U=\"http://127.0.0.1:\(back.port)"
        let gateway = try Gateway(route + address + "\"")
        let connection = try gateway.connect()
        for (number, option) in ["\"", " http2=on connect-timeout=20s\"", "\""].enumerated() {
            try gateway.reload(route + address + option)
            #expect(try connection.ask("GET /x").text == "ok")
            #expect(try back.accessLog(number + 1)[number]["proto"].text == (number == 1 ? "HTTP/2" : "HTTP/1.1"))
        }
    }

    @Test func aDrainEndsItsStreams() throws {
        let step = Watched(0)
        let upstream = try Upstream { request, connection in
            try step.wait(for: "the drain", until: { $0 == 1 })
            try Upstream.ok(request, connection)
        }
        let chain = try Chain(upstream)
        let connection = try chain.front.connect()
        try connection.send(requestHead("GET /x"))
        try upstream.requests.wait(for: "the request", until: { $0.count == 1 })
        chain.front.process.signal(SIGTERM)
        step.change { $0 = 1 }
        #expect(try connection.answer().text == "ok")
        #expect(try chain.front.process.exitCode() == 0)
    }

    @Test func theCheckSaysWhichProtocolIsSpoken() throws {
        let folder = try Folder()
        let lines = "TOLLGATE_UPSTREAM_A=\"http://127.0.0.1:1 http2=on\"\nTOLLGATE_UPSTREAM_B=http://127.0.0.1:1"
        let file = try folder.write("some.env", Gateway.complete(lines, folder))
        let outcome = try Tollgate.run(["check", "--env-file", file])
        #expect(
            outcome.output.contains("http://127.0.0.1:1  HTTP/2    least") && outcome.output.contains("http://127.0.0.1:1  HTTP/1.1  least")
        )
    }
}
