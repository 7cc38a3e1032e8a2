import Foundation
import TestThreads
import Testing

/// Premium filtering as an app sees it, through the binary.
@Suite(.ownThread) struct FilterEndToEndTests {
    private static let list =
        #"{"count":3,"next":null,"results":[{"id":1,"tier":"free"},{"id":2,"tier":"premium"},{"id":3,"tier":"free"}]}"#

    private static func settings(_ upstream: Upstream, _ options: String = "auth=optional filter=tier") -> String {
        """
        TOLLGATE_UPSTREAM_U="\(upstream.url)"
        TOLLGATE_ROUTE_ALL="/* upstream=u \(options)"
        TOLLGATE_UPGRADE_URL=https://example.org/upgrade
        """
    }

    private static func json(_ content: String, _ fields: String = "") -> Upstream.Script {
        Upstream.saying(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\(fields)Content-Length: \(content.utf8.count)\r\n\r\n\(content)")
    }

    @Test func freeCallersReceiveTheFreePassagesAndPremiumCallersAllOfThem() throws {
        let upstream = try Upstream(Self.json(Self.list))
        let gateway = try Gateway(Self.settings(upstream))
        let free = #"{"count":3,"next":null,"results":[{"id":1,"tier":"free"},{"id":3,"tier":"free"}]}"#
        #expect(try gateway.ask("GET /passages").text == free)
        #expect(try gateway.ask("GET /passages", [gateway.bearer("--sub", "ada", "--tier", "free")]).text == free)
        let premium = try gateway.ask("GET /passages", [gateway.bearer("--sub", "bob", "--tier", "premium")])
        #expect(premium.text == Self.list)
        #expect(premium["Cache-Control"] == "private")
        #expect(premium["Vary"] == "Authorization")
        #expect(try gateway.metric("tollgate_filter_items_total", "route=\"all\"", "action=\"kept\"") == 7)
        #expect(try gateway.metric("tollgate_filter_items_total", "route=\"all\"", "action=\"dropped\"") == 2)
    }

    @Test func onePremiumPassageIsRefusedWithTheWayToUpgrade() throws {
        let upstream = try Upstream(Self.json(#"{"id":2,"tier":"premium"}"#))
        let gateway = try Gateway(Self.settings(upstream))
        let refused = try gateway.ask("GET /passages/2", [gateway.bearer("--sub", "ada", "--tier", "free")])
        #expect(refused.status == 403)
        #expect(refused.text.contains("PREMIUM_REQUIRED"))
        #expect(refused.text.contains("https://example.org/upgrade"))
        #expect(try gateway.ask("GET /passages/2", [gateway.bearer("--sub", "bob", "--tier", "premium")]).status == 200)
    }

    @Test func entityTagsOfOneTierNeverMatchForAnother() throws {
        let upstream = try Upstream { request, connection in
            let isSame = request["If-None-Match"] == "\"v1\""
            try connection.send(
                isSame
                    ? "HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n"
                    : "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nETag: \"v1\"\r\nContent-Length: 2\r\n\r\n[]")
        }
        let gateway = try Gateway(Self.settings(upstream))
        let premium = try gateway.bearer("--sub", "bob", "--tier", "premium")
        let tag = try #require(try gateway.ask("GET /x")["ETag"])
        let other = try #require(try gateway.ask("GET /x", [premium])["ETag"])
        #expect(tag != other && tag.hasPrefix("W/") && other.hasPrefix("W/"))
        let unchanged = try gateway.ask("GET /x", ["If-None-Match: \(tag)"])
        #expect(unchanged.status == 304)
        #expect(unchanged["ETag"] == tag)
        #expect(try gateway.ask("GET /x", ["If-None-Match: \(tag)", premium]).status == 200)
        #expect(try gateway.ask("GET /x", ["If-None-Match: \"v1\""]).status == 200)
    }

    @Test func aListThatIsLargerThanMemoryStreams() throws {
        let free = Array(#"{"id":1,"tier":"free","text":"\#(String(repeating: "x", count: 900))"},"#.utf8)
        let premium = Array(#"{"id":2,"text":"\#(String(repeating: "SECRET", count: 150))","tier":"premium"},"#.utf8)
        let block = Array(repeatElement(free + premium, count: 500).joined())
        let blocks = (1 << 30) / block.count + 1
        let upstream = try Upstream { _, connection in
            try connection.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{\"results\":[")
            for _ in 0..<blocks { try connection.send(block) }
            try connection.send(Array(free.dropLast()) + Array("]}".utf8))
            throw Fault("the end of the answer is the end of the connection")
        }
        let gateway = try Gateway(Self.settings(upstream, "auth=optional filter=results[].tier"))
        let connection = try gateway.connect()
        try connection.send(requestHead("GET /x"))
        var head = try connection.take(through: "\r\n\r\n")
        #expect(text(of: head).hasPrefix("HTTP/1.1 200"))
        var received = 0
        var shows = false
        while head.suffix(5) != Array("0\r\n\r\n".utf8) {
            let some = try connection.takeSome()
            received += some.count
            shows = shows || some.withUnsafeBytes { memchr($0.baseAddress!, Int32(UInt8(ascii: "S")), $0.count) } != nil
            head = head.suffix(5) + some.suffix(5)
        }
        #expect(!shows)
        #expect(received > blocks * 500 * free.count)
        #expect(try gateway.peakResidentKiB < 40 * 1_024)
    }

    @Test func whatIsPackedToALittleUnpacksPieceByPiece() throws {
        // 64 MiB of white space in an array.
        let folder = try Folder()
        let made = try run(
            "/bin/sh", ["-c", "{ printf '['; head -c 67108864 /dev/zero | tr '\\0' ' '; printf '1]'; } | gzip -c > \(folder.file("bomb"))"])
        #expect(made.code == 0)
        let packed = Array(try Data(contentsOf: URL(fileURLWithPath: folder.file("bomb"))))
        let upstream = try Upstream { _, connection in
            try connection.send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: \(packed.count)\r\n\r\n")
            try connection.send(packed)
        }
        let gateway = try Gateway(Self.settings(upstream))
        let connection = try gateway.connect()
        try connection.send(requestHead("GET /x"))
        let received = connection.takeRest().bytes
        #expect(received.count < 4_096 && !text(of: received).hasSuffix("0\r\n\r\n"), "it is cut, and does not look whole")
        #expect(try gateway.accessLog(1)[0]["error"].text == "filter_too_large")
        #expect(try gateway.peakResidentKiB < 40 * 1_024)
    }

    @Test func aPackedAnswerIsUnpackedAndFiltered() throws {
        let folder = try Folder()
        try folder.write("list", Self.list)
        #expect(try run("/bin/sh", ["-c", "gzip -c \(folder.file("list")) > \(folder.file("list.gz"))"]).code == 0)
        let packed = Array(try Data(contentsOf: URL(fileURLWithPath: folder.file("list.gz"))))
        let upstream = try Upstream { request, connection in
            let coding = request.target == "/compress" ? "compress" : "gzip"
            try connection.send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: \(coding)\r\nContent-Length: \(packed.count)\r\n\r\n"
            )
            try connection.send(packed)
        }
        let gateway = try Gateway(Self.settings(upstream))
        let answer = try gateway.ask("GET /x", ["Accept-Encoding: gzip"])
        #expect(answer.text == #"{"count":3,"next":null,"results":[{"id":1,"tier":"free"},{"id":3,"tier":"free"}]}"#)
        #expect(answer["Content-Encoding"] == nil)
        #expect(upstream.requests.now.last?["Accept-Encoding"] == "identity")
        #expect(try gateway.ask("GET /compress").status == 502)
    }

    /// A browsable API: HTML for those who ask for it.
    private static let browsable: Upstream.Script = { request, connection in
        let isHTML = request["Accept"]?.contains("text/html") == true || request.target.contains("format=html")
        let content = isHTML ? "<pre>\(list)</pre>" : list
        try connection.send(
            "HTTP/1.1 200 OK\r\nContent-Type: \(isHTML ? "text/html" : "application/json")\r\nContent-Length: \(content.utf8.count)\r\n\r\n\(content)"
        )
    }

    @Test func theUpstreamIsAskedForJSONWhateverTheClientWouldRatherHave() throws {
        let upstream = try Upstream(Self.browsable)
        let gateway = try Gateway(Self.settings(upstream))
        let answer = try gateway.ask("GET /passages", ["Accept: text/html, */*;q=0.8", "Accept: text/csv", "Accept-Charset: utf-7"])
        #expect(answer.status == 200)
        #expect(answer.text == #"{"count":3,"next":null,"results":[{"id":1,"tier":"free"},{"id":3,"tier":"free"}]}"#)
        #expect(upstream.requests.now.last?.all("Accept") == ["application/json"])
        #expect(upstream.requests.now.last?.all("Accept-Charset") == [])
    }

    @Test func anAnswerThatIsNotJSONIsRefusedAndTheLogSaysWhatWouldLetItPass() throws {
        let upstream = try Upstream(Self.browsable)
        let gateway = try Gateway(
            Self.settings(upstream) + "\nTOLLGATE_ROUTE_LAX=\"/lax/* upstream=u auth=optional filter=tier filter-strict=off\"")
        for _ in 0..<5 {
            let refused = try gateway.ask("GET /passages?format=html")
            #expect(refused.status == 502)
            #expect(!refused.text.contains("premium"))
        }
        let lines = { gateway.process.complaints.now.filter { $0.contains("filter-strict=off") } }
        try eventually("a line in the log") { !lines().isEmpty }
        #expect(lines().count == 1, "told once, not at every request")
        #expect(try JSON(lines()[0])["route"].text == "all")
        #expect(try JSON(lines()[0])["level"].text == "warning")
        #expect(try gateway.accessLog(5).allSatisfy { $0["error"].text == "filter_not_json" })
        #expect(try gateway.ask("GET /lax/x?format=html").text == "<pre>\(Self.list)</pre>")
        #expect(lines().count == 1)
    }

    @Test func anErrorThatIsNotJSONKeepsItsStatusWithABodyOfTheDialect() throws {
        let page = "<h1>premium</h1>"
        let upstream = try Upstream { request, connection in
            let status =
                request.target.hasSuffix("json")
                ? "404 X\r\nContent-Type: application/json" : "\(request.target.dropFirst()) X\r\nContent-Type: text/html"
            try connection.send("HTTP/1.1 \(status)\r\nContent-Length: \(page.utf8.count)\r\n\r\n\(page)")
        }
        let gateway = try Gateway(
            Self.settings(upstream) + "\nTOLLGATE_ROUTE_P=\"/418 upstream=u auth=optional filter=tier errors=problem\"")
        for status in [400, 401, 404, 429, 500, 503] {
            let answer = try gateway.ask("GET /\(status)")
            #expect(answer.status == status && answer["Content-Type"]?.contains("json") == true && answer["WWW-Authenticate"] == nil)
            #expect(try JSON(answer.text)["error"]["code"].text == "UPSTREAM_ERROR")
            #expect(!answer.text.contains("premium"))
        }
        #expect(try gateway.ask("GET /302").status == 502)
        #expect(try gateway.ask("GET /json").status == 404)
        #expect(try JSON(gateway.ask("GET /418").text)["code"].text == "UPSTREAM_ERROR")
        #expect(try gateway.accessLog(9).allSatisfy { $0["error"].text?.hasPrefix("filter_") == true })
        #expect(gateway.process.complaints.now.filter { $0.contains("filter-strict=off") }.count <= 1)
    }

    @Test func aRouteWhoseAnswersHaveNoLabelIsNamedInTheLogWithAPath() throws {
        let upstream = try Upstream { request, connection in
            let body = request.target.hasPrefix("/bare") ? #"[{"id":1},{"id":2}]"# : #"[{"id":1,"tier":"free"},{"id":2}]"#
            try connection.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        }
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_BARE="/bare/* upstream=u auth=optional filter=tier"
            TOLLGATE_ROUTE_SAID="/bare/said upstream=u auth=optional filter=tier filter-unlabelled=free"
            TOLLGATE_ROUTE_LABELLED="/labelled upstream=u auth=optional filter=tier"
            """)
        for path in ["/labelled", "/bare/said", "/bare/passages?page=2", "/bare/x"] {
            #expect(try gateway.ask("GET \(path)").status == 200)
        }
        let lines = { gateway.process.complaints.now.filter { $0.contains("had a label") } }
        try eventually("a line in the log") { !lines().isEmpty }
        #expect(lines().allSatisfy { $0.contains("\"route\":\"bare\"") && $0.contains("\"path\":\"/bare/") })
        #expect(!lines().contains { $0.contains("page=2") })
    }

    @Test func aRootArrayIsNoListOfResults() throws {
        let upstream = try Upstream(Self.json(#"[{"id":2,"tier":"premium"}]"#))
        let gateway = try Gateway(Self.settings(upstream, "auth=optional filter=results[].tier"))
        let refused = try gateway.ask("GET /passages")
        #expect(refused.status == 502)
        #expect(!refused.text.contains("premium"))
        #expect(try gateway.accessLog(1)[0]["error"].text == "filter_no_list")
    }

    @Test func aWatchingFilterCountsAndLetsPass() throws {
        let upstream = try Upstream(Self.json(Self.list, "ETag: \"v1\"\r\n"))
        let gateway = try Gateway(Self.settings(upstream, "auth=optional filter=tier shadow=filter"))
        let answer = try gateway.ask("GET /x")
        #expect(answer.text == Self.list)
        #expect(answer["ETag"] == "\"v1\"")
        #expect(try gateway.metric("tollgate_filter_items_total", "action=\"shadow_dropped\"") == 1)
        #expect(try gateway.metric("tollgate_filter_items_total", "action=\"dropped\"") == 0)
    }

    @Test func commandsShowTheFilter() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(Self.settings(upstream))
        #expect(try gateway.command(["check"]).output.contains("filter=tier"))
        let explained = try gateway.command(["explain", "GET", "http://test/passages"]).output
        #expect(explained.contains("elements above free by tier are removed from the answer"))
    }

    @Test func theSmallUpstreamHasPassagesToFilter() throws {
        let echo = try Subprocess(try Tollgate.binary.get(), ["echo", "--listen", "127.0.0.1:0"])
        let lines = try echo.output.wait(for: "the address") { $0.contains { $0.contains("listens on") } }
        let address = try #require(lines.first { $0.contains("listens on") }?.split(separator: " ").last)
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_U="http://\(address)"
            TOLLGATE_ROUTE_PASSAGES="GET,HEAD /passages/* upstream=u auth=optional filter=tier"
            """)
        let premium = try gateway.bearer("--sub", "bob", "--tier", "premium")
        let (free, all) = (try gateway.ask("GET /passages").text, try gateway.ask("GET /passages", [premium]).text)
        #expect(free.contains("\"count\":4") && free.contains("\"previous\":null") && !free.contains("premium"))
        #expect(all.contains("\"tier\":\"premium\"") && all.count > free.count)
        #expect(try gateway.ask("GET /passages/2").status == 403)
        #expect(try gateway.ask("GET /passages/2", [premium]).status == 200)
    }
}
