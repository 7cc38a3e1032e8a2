import Gate
import HTTP
import Telemetry
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Answers of a route with `filter=tier`, for a caller without a token, told from both ends.
@Suite(.ownThread, .timeLimit(.minutes(2)))
struct FilterTests {
    private static let json = "Content-Type: application/json\r\n"
    private static let list = #"{"results":[{"tier":"free"},{"tier":"premium"}]}"#

    private func bench(_ change: (inout RouteRule) -> Void = { _ in }) throws -> Bench {
        try Bench { rule in
            rule.auth = .optional
            rule.filters = [try! FilterPath(parsing: "tier")]
            change(&rule)
        }
    }

    /// The client's answer for an upstream's, sent in one piece or byte by byte.
    private func exchange(
        _ answer: String, _ request: String = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", inPieces: Bool = false,
        _ change: (inout RouteRule) -> Void = { _ in }
    ) throws -> (asked: String, answer: Received) {
        let bench = try bench(change)
        defer { bench.end() }
        let client = try bench.client()
        try client.send(request)
        let upstream = try bench.accept()
        let asked = try upstream.receiveMessage()
        do {
            for piece in inPieces ? answer.utf8.map({ [$0] }) : [Array(answer.utf8)] { try upstream.send(piece) }
        } catch {
            // The gateway had seen enough of it.
        }
        let received = Received(try client.receiveAll().text)
        client.close()
        upstream.close()
        return (asked, received)
    }

    /// An answer whose connection has ended.
    struct Received {
        let text: String
        let status: Int
        /// Without the chunked coding; nil if that does not end.
        let body: String?

        init(_ text: String) {
            self.text = text
            status = text.status
            body = text.headLines.contains("Transfer-Encoding: chunked") ? Self.unchunked(Array(text.body.utf8)) : text.body
        }

        private static func unchunked(_ bytes: [UInt8]) -> String? {
            var (content, rest) = ([UInt8](), bytes[...])
            while let end = rest.firstIndex(of: 13), let size = Int(String(decoding: rest[..<end], as: UTF8.self), radix: 16) {
                guard size > 0 else { return rest.count == 5 ? String(decoding: content, as: UTF8.self) : nil }
                guard rest[end...].count > size + 4 else { return nil }
                content += rest[(end + 2)..<(end + 2 + size)]
                rest = rest[(end + 4 + size)...]
            }
            return nil
        }
    }

    private func answer(_ fields: String, _ content: String, status: String = "200 OK") -> String {
        "HTTP/1.1 \(status)\r\n\(fields)Content-Length: \(content.utf8.count)\r\n\r\n\(content)"
    }

    @Test(arguments: [false, true]) func whatIsAboveTheCallersTierLeavesTheAnswer(_ inPieces: Bool) throws {
        let (_, received) = try exchange(answer(Self.json, Self.list), inPieces: inPieces)
        #expect(received.status == 200)
        #expect(received.body == #"{"results":[{"tier":"free"}]}"#)
        #expect(received.text.contains("Content-Length") == false)
        #expect(received.text.contains("Vary: Authorization\r\nCache-Control: private\r\n"))
    }

    @Test(arguments: [false, true]) func aRootObjectAboveTheTierIsRefusedAsByATierGate(_ inPieces: Bool) throws {
        let (_, received) = try exchange(answer(Self.json, #"{"id":1,"tier":"premium"}"#), inPieces: inPieces)
        #expect(received.status == 403)
        #expect(received.body!.contains("PREMIUM_REQUIRED"))
        #expect(received.text.contains("insufficient_scope"))
    }

    @Test func brokenJSONIs502AsLongAsNothingIsOut() throws {
        for content in [#"{"a":1"#, "[1,]", "nonsense"] {
            #expect(try exchange(answer(Self.json, content)).answer.status == 502)
        }
    }

    @Test func anAnswerThatBreaksOnItsWayIsCut() throws {
        let bench = try bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        try upstream.send("HTTP/1.1 200 OK\r\n\(Self.json)Transfer-Encoding: chunked\r\n\r\n4\r\n[1,2\r\n")
        _ = try client.receive(until: "[1,2\r\n")
        try upstream.send("2\r\n!]\r\n0\r\n\r\n")
        let rest = try client.receiveAll().text
        #expect(!rest.contains("0\r\n\r\n"))
        client.close()
        upstream.close()
        #expect(bench.worker.census { $0.isAtRest }.isAtRest)
    }

    @Test func anAnswerThatEndsWithItsConnectionIsFilteredToItsEnd() throws {
        for (content, expected) in [(Self.list, #"{"results":[{"tier":"free"}]}"#), (#"{"results":["#, nil)] {
            let bench = try bench()
            defer { bench.end() }
            let client = try bench.client()
            try client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            let upstream = try bench.accept()
            _ = try upstream.receiveMessage()
            try upstream.send("HTTP/1.1 200 OK\r\n\(Self.json)\r\n\(content)")
            upstream.close()
            let received = Received(try client.receiveAll().text)
            if let expected { #expect(received.body == expected) } else { #expect(received.status == 502) }
            client.close()
        }
    }

    @Test func theUpstreamIsAskedForWhatCanBeJudged() throws {
        let request =
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAccept: text/html\r\nACCEPT: */*\r\nAccept-Charset: utf-7\r\nAccept-Encoding: br\r\nRange: bytes=0-1\r\nIf-Range: \"a\"\r\nIf-Modified-Since: now\r\nIf-Unmodified-Since: now\r\nIf-None-Match: \"a\", W/\"b~premium.1\"\r\nA-IM: feed\r\nX-A: b\r\n\r\n"
        let asked = try exchange(answer(Self.json, "[]"), request).asked
        for gone in ["br\r\n", "Range", "If-", "A-IM", "text/html", "*/*", "Charset"] { #expect(!asked.contains(gone)) }
        #expect(asked.contains("Accept: application/json\r\n"))
        #expect(asked.contains("X-A: b\r\n"))
        #expect(asked.contains("Accept-Encoding: identity\r\n"))
    }

    @Test func eachTierHasEntityTagsOfItsOwn() throws {
        let fields =
            Self.json
            + "ETag: \"v1\"\r\nLast-Modified: now\r\nAccept-Ranges: bytes\r\nContent-MD5: x\r\nCache-Control: public, max-age=60\r\n"
        let first = try exchange(answer(fields, "[]")).answer
        let line = try #require(first.text.split(separator: "\r\n").first { $0.hasPrefix("ETag: ") })
        #expect(line.hasPrefix("ETag: W/\"v1~free."))
        for gone in ["Last-Modified", "Accept-Ranges", "Content-MD5", "public"] { #expect(!first.text.contains(gone)) }
        #expect(first.text.contains("Cache-Control: private, max-age=60\r\n"))
        let tag = line.dropFirst("ETag: ".count)
        for method in ["GET", "PUT"] {
            let again =
                "\(method) / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 0\r\nIf-None-Match: \"x\", \(tag)\r\nIf-Match: \"x\", \(tag)\r\n\r\n"
            let asked = try exchange("HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n", again).asked
            #expect(asked.contains("If-None-Match: \"v1\"\r\n"))
            #expect(asked.contains("If-Match: \"x\", \"v1\"\r\n"))
        }
    }

    @Test(arguments: [
        ("200 OK", "Content-Type: text/html\r\n", "<p>"),
        ("200 OK", "Content-Type: text/event-stream\r\n", "data: {\"tier\":\"premium\"}\n\n"),
        ("200 OK", "", "plain"), ("200 OK", Self.json, ""), ("404 Not Found", Self.json, #"{"detail":"no"}"#),
    ])
    func whatIsNotToBeJudgedPassesARouteThatIsNotStrict(_ status: String, _ fields: String, _ content: String) throws {
        let received = try exchange(answer(fields, content, status: status)) { $0.filterIsStrict = false }.answer
        #expect(received.status == Int(status.prefix(3)))
        #expect(received.body == content)
    }

    /// JSON under another name, and what is no JSON: routes are strict unless they say otherwise.
    static let others: [(fields: String, content: String)] = [
        ("Content-Type: text/html\r\n", "<p>premium</p>"), ("Content-Type: text/html\r\n", list), ("Content-Type: text/plain\r\n", list),
        ("Content-Type: TEXT/HTML; charset=utf-8\r\n", list), ("Content-Type: text/event-stream\r\n", "data: {\"tier\":\"premium\"}\n\n"),
        ("Content-Type: multipart/mixed; boundary=\"application/json\"\r\n", "--application/json\r\n\r\n{}\r\n--application/json--"),
        ("Content-Type: application/octet-stream\r\n", list), ("Content-Type: text/javascript\r\n", "callback(\(list))"),
        ("Content-Type: text/html;application/json\r\n", list), ("Content-Type: text/html\r\nContent-Type: text/plain\r\n", list),
        ("Content-Type: */*\r\n", list), ("Content-Type: application/xml\r\nContent-Encoding: gzip\r\n", "<premium/>"),
        ("", "plain: premium"), ("", #""premium""#), ("Content-Type:\r\n", "plain: premium"),
        ("Content-Type:\r\nContent-Type: text/html\r\n", "<premium/>"),
    ]

    @Test(arguments: others) func onlyJSONPasses(_ fields: String, _ content: String) throws {
        for status in ["200 OK", "201 Created", "302 Found", "403 Forbidden", "404 Not Found", "500 Internal Server Error"] {
            let received = try exchange(answer(fields, content, status: status)).answer
            let code = Int(status.prefix(3)) ?? 0
            #expect(received.status == (code < 400 ? 502 : code) && received.text.contains("UPSTREAM_ERROR") == (code >= 400), "\(status)")
            #expect(!received.text.contains("premium"))
        }
        let chunked =
            "HTTP/1.1 200 OK\r\n\(fields)Transfer-Encoding: chunked\r\n\r\n\(String(content.utf8.count, radix: 16))\r\n\(content)\r\n0\r\n\r\n"
        for inPieces in [false, true] { #expect(try exchange(chunked, inPieces: inPieces).answer.status == 502) }
    }

    /// Fields that tell a client how to go on stay, and so does the status of an error that is no JSON though its label says so.
    @Test func theFieldsOfAReplacedErrorStay() throws {
        let kept = ["Retry-After: 7", "WWW-Authenticate: Basic realm=\"a\"", "WWW-Authenticate: Bearer", "Allow: GET, HEAD"]
        let fields = kept.map { $0 + "\r\n" }.joined() + "X-Other: premium\r\n"
        for (status, label, code) in [
            ("503 X", "Content-Type: text/html\r\n", 503), ("401 X", Self.json, 401), ("405 X", "", 405),
            ("200 OK", "Content-Type: text/html\r\n", 502),
            ("200 OK", Self.json, 502),
        ] {
            for inPieces in [false, true] {
                let received = try exchange(answer(label + fields, "<p>premium</p>", status: status), inPieces: inPieces).answer
                #expect(received.status == code && !received.text.contains("premium"), "\(status)")
                #expect(Set(kept).isSubset(of: received.text.headLines.map(String.init)) == (code != 502), "\(status): \(received.text)")
            }
        }
    }

    @Test(arguments: [
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nContent-Type: text/html\r\n\r\n",
        "HTTP/1.1 302 Found\r\nContent-Type: text/html\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Type: text/html\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ])
    func anEmptyBodyPassesWhateverItsType(_ answer: String) throws {
        for inPieces in [false, true] {
            let received = try exchange(answer, inPieces: inPieces).answer
            #expect(received.status == answer.status)
            #expect(received.body == "")
        }
    }

    @Test func anEmptyBodyThatEndsWithItsConnectionPasses() throws {
        for (content, status) in [("", 200), ("<p>premium</p>", 502)] {
            let bench = try bench()
            defer { bench.end() }
            let client = try bench.client()
            try client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            let upstream = try bench.accept()
            _ = try upstream.receiveMessage()
            try upstream.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n\(content)")
            upstream.close()
            #expect(try client.receiveAll().text.status == status)
            client.close()
        }
    }

    @Test func theLogNamesARouteOnceAMinute() {
        var labels = MetricLabels(WorkerTelemetry.words)
        labels.declare(routes: ["a", "b"], upstreams: [], tiers: [], issuers: [])
        var notices = AnswerNotices()
        let seconds: [(at: UInt64, route: Int, due: Int?)] = [
            (0, 0, 1), (0, 0, nil), (1, 1, 1), (59, 0, nil), (60, 0, 3), (61, 1, 1), (119, 0, nil), (300, 0, 2),
        ]
        for (at, route, due) in seconds {
            #expect(notices.count(labels.routes[route], at: MonotonicTime(nanoseconds: at * 1_000_000_000)) == due, "at \(at)")
        }
        #expect(labels.routes.name(of: labels.routes[1]) == "b")
    }

    @Test func theLogNamesARouteWhoseAnswersHaveNoLabelAtAll() {
        var labels = MetricLabels(WorkerTelemetry.words)
        labels.declare(routes: ["a"], upstreams: [], tiers: [], issuers: [])
        var answers = UnlabelledAnswers()
        let seconds: [(at: UInt64, kept: UInt32, dropped: UInt32, unlabelled: UInt32, due: Int?)] = [
            (0, 0, 0, 0, nil), (1, 2, 0, 2, 1), (2, 2, 0, 2, nil), (61, 1, 1, 2, 2), (100, 2, 0, 1, nil), (130, 2, 0, 2, nil),
            (159, 0, 1, 0, nil),
            (218, 2, 0, 2, nil), (219, 2, 0, 2, 1), (290, 0, 2, 2, nil),
        ]
        for (at, kept, dropped, unlabelled, due) in seconds {
            let counts = FilterCounts(kept: kept, dropped: dropped, unlabelled: unlabelled)
            #expect(answers.count(counts, of: labels.routes[0], at: MonotonicTime(nanoseconds: at * 1_000_000_000)) == due, "at \(at)")
        }
    }

    @Test func aRootArrayIsRefusedWhereAPathBeginsWithAName() throws {
        for status in ["200 OK", "400 Bad Request"] {
            let received = try exchange(answer(Self.json, #"[{"tier":"premium"}]"#, status: status)) {
                $0.filters = [try! FilterPath(parsing: "results[].tier")]
            }.answer
            #expect(received.status == 502)
            #expect(!received.text.contains("premium"))
        }
    }

    @Test(arguments: [
        "Content-Type: application/json; charset=utf-8\r\n", "Content-Type: APPLICATION/PROBLEM+JSON\r\n", "Content-Type: text/json\r\n",
        "",
        "Content-Type: text/html\r\nContent-Type: application/json\r\n", "Content-Type: application/vnd.api+json\r\n",
    ])
    func jsonIsKnownByItsTypeOrItsBeginning(_ fields: String) throws {
        #expect(try exchange(answer(fields, Self.list)).answer.body == #"{"results":[{"tier":"free"}]}"#)
    }

    @Test(arguments: [
        ("206 Partial Content", Self.json, "[]"), ("226 IM Used", Self.json, "[]"),
        ("200 OK", Self.json + "Content-Encoding: br\r\n", "[]"), ("200 OK", Self.json + "Content-Encoding: compress\r\n", "[]"),
        ("200 OK", Self.json + "Content-Encoding: gzip, gzip\r\n", "[]"), ("200 OK", Self.json + "Content-Encoding: gzip\r\n", "[]"),
        ("200 OK", "", "\u{FEFF}[]"), ("200 OK", "Content-Type: application/json-seq\r\n", "\u{1E}{}"),
    ])
    func whatCannotBeJudgedIsRefused(_ status: String, _ fields: String, _ content: String) throws {
        #expect(try exchange(answer(fields, content, status: status)).answer.status == 502)
    }

    @Test func linesLeaveOneByOne() throws {
        let content = "{\"tier\":\"premium\"}\n{\"tier\":\"free\"}\n{\"tier\":\"premium\"}\n"
        #expect(try exchange(answer("Content-Type: application/x-ndjson\r\n", content)).answer.body == "{\"tier\":\"free\"}\n")
    }

    @Test func trailersOfAFilteredAnswerEndHere() throws {
        let chunked = "HTTP/1.1 200 OK\r\n\(Self.json)Transfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\nX-Digest: 1\r\n\r\n"
        let received = try exchange(chunked).answer
        #expect(received.body == "[]")
        #expect(!received.text.contains("X-Digest"))
    }

    @Test func aClientOfHTTP10GetsItsEndWithTheConnection() throws {
        let bench = try bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("GET / HTTP/1.0\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        try upstream.send(answer(Self.json, Self.list))
        let all = try client.receiveAll().text
        #expect(all.hasSuffix("\r\n\r\n" + #"{"results":[{"tier":"free"}]}"#))
        #expect(!all.contains("chunked"))
        client.close()
        upstream.close()
    }

    @Test(arguments: [Self.json, "", "Content-Type: text/html\r\n"]) func theAnswerToHEADSaysNoLength(_ type: String) throws {
        let bench = try bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        try upstream.send("HTTP/1.1 200 OK\r\n\(type)Content-Length: 99\r\nContent-Encoding: gzip\r\n\r\n")
        let head = try client.receive(until: "\r\n\r\n")
        #expect(!head.contains("Content-Length") && !head.contains("Content-Encoding"))
        #expect(head.contains("Vary: Authorization\r\n"))
        client.close()
        upstream.close()
    }

    @Test func aWatchedAnswerPassesAsItIs() throws {
        let whole = answer(Self.json + "ETag: \"v1\"\r\n", Self.list)
        let (asked, received) = try exchange(
            whole, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAccept: text/html\r\nAccept-Encoding: br\r\n\r\n"
        ) { $0.shadow = .filter }
        #expect(received.body == Self.list)
        #expect(received.text.contains("ETag: \"v1\"\r\n"))
        #expect(asked.contains("Accept: text/html\r\nAccept-Encoding: br\r\n"))
        let page = try exchange(answer("Content-Type: text/html\r\n", "<p>")) { $0.shadow = .filter }.answer
        #expect(page.status == 200 && page.body == "<p>")
    }

    @Test func whoDoesNotReadHoldsTheUpstreamBack() throws {
        let bench = try bench()
        defer { bench.end() }
        let client = try Line(to: bench.worker.address, receiveBuffer: 16_384)
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        try upstream.send("HTTP/1.1 200 OK\r\n\(Self.json)Connection: close\r\n\r\n[1")
        let element = Array((#",{"tier":"free","x":""# + String(repeating: "x", count: 1_000) + "\"}").utf8)
        var flood: [UInt8] = []
        flood.reserveCapacity(element.count * 24_000)
        for _ in 0..<24_000 { flood += element }
        #expect(upstream.sendWhatGoes(flood, waiting: 300) < 16 << 20)
        #expect(bench.worker.census.bytes < 3 << 20)
        client.close()
        upstream.close()
    }
}
