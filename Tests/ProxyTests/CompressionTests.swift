import Gate
import HTTP
import Telemetry
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Which answers are compressed, and how they reach clients.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct CompressionTests {
    static func rule(_ change: (inout RouteRule) -> Void = { _ in }) -> RouteRule {
        var rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: .none)
        rule.compression.mode = .on
        rule.compression.codings = CompressionCodings(["zstd", "br", "gzip"])!
        rule.compression.types = ["application/wasm"]
        change(&rule)
        return rule
    }

    static func plan(_ change: (inout RouteRule) -> Void = { _ in }) -> CompressionPlan? { CompressionPlan(rule(change)) }

    /// The decoded content; nil if it is cut or broken.
    static func decoded(_ content: [UInt8], _ coding: ContentCoding, isWhole: Bool = true) -> [UInt8]? {
        guard coding != .identity else { return content }
        var decoder = ContentDecoder(coding)!
        var input = ByteBuffer()
        var out = ByteBuffer()
        input.append(content)
        while true {
            switch decoder.decode(&input, room: 4_096, into: &out) {
            case .full: continue
            case .broken: return nil
            case .starved: return !isWhole || decoder.mayEnd() ? out.readable.array : nil
            }
        }
    }

    // MARK: the head

    /// The head of an answer as the stage leaves it, without the status line, and what becomes of the answer.
    private func head(
        _ fields: String, status: Int = 200, coding: ContentCoding = .gzip, isForHead: Bool = false, _ plan: CompressionPlan,
        _ pool: EncoderPool = EncoderPool(), _ change: (inout CompressionRequest) -> Void = { _ in }
    ) throws -> (lines: [String], outcome: CompressionOutcome?) {
        var bytes = ByteBuffer()
        bytes.append("HTTP/1.1 \(status) S\r\n\(fields.split(separator: "|").map { "\($0)\r\n" }.joined())\r\n")
        var head = ResponseHead()
        let outcome = head.parse(bytes.readable, requestMethod: isForHead ? .head : .get, limits: HeadLimits())
        try #require(outcome == .complete)
        var request = CompressionRequest()
        request.coding = coding
        change(&request)
        var stage = Compression()
        stage.begin(plan, request, pool, client: 1)
        stage.head(&head, &bytes, isForHead: isForHead)
        defer { stage.reset() }
        return (
            (0..<head.fields.count).map { "\(bytes.readable[head.fields[$0].name].text): \(bytes.readable[head.fields[$0].value].text)" },
            stage.outcome
        )
    }

    @Test func theFieldsAreThoseOfTheCompressedAnswer() throws {
        let plan = try #require(Self.plan())
        let fields =
            "Content-Type: application/json|ETag: \"a\"|Content-Length: 5000|Accept-Ranges: bytes|Content-Digest: x|Vary: Origin|X-A: 1"
        let compressed = [
            "Content-Type: application/json", "Vary: Origin", "X-A: 1", "Vary: Accept-Encoding", "Content-Encoding: gzip",
            "ETag: W/\"a-gzip\"",
        ]
        #expect(try head(fields, plan).lines == compressed)
        #expect(try head(fields, isForHead: true, plan).lines == compressed)
        let plain = fields.split(separator: "|").map(String.init) + ["Vary: Accept-Encoding"]
        let (lines, outcome) = try head(fields, coding: .identity, plan)
        #expect(lines == plain && outcome == .skipped(.notAccepted))
        #expect(
            try head("Content-Type: text/css|Vary: a, accept-encoding|ETag: W/\"b\"", coding: .br, plan).lines == [
                "Content-Type: text/css", "Vary: a, accept-encoding", "Content-Encoding: br", "ETag: W/\"b-br\"",
            ])
        let busy = EncoderPool()
        busy.isBusy = true
        #expect(try head(fields, plan, busy).outcome == .skipped(.busy))
        // To a client that has the compressed form, its tag.
        let known = try head("ETag: \"a\"", status: 304, coding: .zstd, plan) { $0.tagCoding = .gzip }
        #expect(known.lines == ["Vary: Accept-Encoding", "ETag: W/\"a-gzip\""])
        #expect(try head("ETag: \"a\"", status: 304, coding: .zstd, plan).lines == ["ETag: \"a\"", "Vary: Accept-Encoding"])
    }

    @Test func othersAreLeftAlone() throws {
        let plan = try #require(Self.plan())
        let cases: [(fields: String, skip: CompressionSkip?)] = [
            ("Content-Type: application/json|Content-Length: 1024", nil), ("Content-Type: application/json|Content-Length: 1023", .small),
            ("Content-Type: application/json|Content-Encoding: gzip", .coded),
            ("Content-Type: application/json|Content-Encoding: x", .coded),
            ("Content-Type: application/json|Content-Encoding: identity", nil),
            ("Content-Type: application/json|Set-Cookie: a=b", .secret), ("Content-Type: text/plain|Content-Range: bytes 0-1/2", .partial),
            ("Content-Type: application/json|Cache-Control: public, No-Transform", .noTransform),
            ("Content-Type: text/event-stream", .events), ("Content-Type: application/grpc-web+json", .type),
            ("Content-Type: application/grpc", .type), ("Content-Type: image/png", .type), ("X-A: 1", .type),
            ("Content-Type: text/html|Content-Type: text/plain", .type), ("Content-Type: APPLICATION/Problem+JSON ; charset=utf-8", nil),
            ("Content-Type: image/svg+xml", nil), ("Content-Type: Application/WASM", nil), ("Content-Type: application/x-protobuf", nil),
        ]
        for (fields, skip) in cases {
            let outcome = try head(fields, plan).outcome
            #expect(outcome == skip.map { .skipped($0) } ?? .compressed(CompressedBytes(coding: .gzip)), "\(fields)")
        }
        #expect(try head("Content-Type: text/plain", status: 206, plan).outcome == .skipped(.partial))
        #expect(try head("Content-Type: text/plain|Content-Length: 0", plan).outcome == nil)
        let forced = try head("Content-Type: text/plain|Content-Length: 5", plan) { $0.refusesIdentity = true }
        #expect(forced.outcome != .skipped(.small))
        let filtered = { (rule: inout RouteRule) in
            (rule.compression.mode, rule.filters) = (.filtered, [try! FilterPath(parsing: "tier")])
        }
        #expect(Self.plan(filtered) != nil && Self.plan { $0.compression.mode = .filtered } == nil)
        #expect(Self.plan { $0.compression.mode = .off } == nil && Self.plan { $0.compression.codings = .none } == nil)
        #expect(
            Self.plan {
                filtered(&$0)
                $0.shadow = .filter
            } == nil)
    }

    @Test func encodersAreBoundedAndShared() {
        func take(_ pool: EncoderPool, _ count: Int, isForEvents: Bool, _ client: UInt64) -> Int {
            (0..<count).count { _ in pool.take(.gzip, padding: 0, isForEvents: isForEvents, client: client) != nil }
        }
        // With shares: of event streams, of all, and what the first client leaves for others.
        for (share, taken) in [(ShareRule.all, [32, 32, 0, 0]), (ShareRule(percent: 80), [26, 26, 5, 4])] {
            let pool = EncoderPool()
            pool.share = share
            let found = [
                take(pool, 70, isForEvents: true, 1), take(pool, 70, isForEvents: false, 1), take(pool, 5, isForEvents: true, 2),
                take(pool, 4, isForEvents: false, 3),
            ]
            #expect(found == taken && pool.used == taken.reduce(0, +))
        }
        let pool = EncoderPool()
        pool.share = ShareRule(percent: 80)
        for client: UInt64 in [1, 2, 1] {
            for _ in 0..<60 {
                guard let encoder = pool.take(.gzip, padding: 0, isForEvents: client == 1, client: client) else { continue }
                pool.give(encoder, isForEvents: client == 1, client: client)
            }
        }
        #expect(pool.used == 0 && pool.keptBytes > 0)
    }

    // MARK: over a worker

    private static let list =
        #"{"results":[\#((0..<200).map { #"{"id":\#($0),"tier":"\#($0 % 2 == 0 ? "free" : "premium")"}"# }.joined(separator: ","))]}"#
    private static let free = #"{"results":[\#((0..<100).map { #"{"id":\#($0 * 2),"tier":"free"}"# }.joined(separator: ","))]}"#
    private static let json =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nETag: \"v1\"\r\nContent-Length: \(list.utf8.count)\r\n\r\n"

    /// The rest of an answer of HTTP/1, without the chunked coding; nil if that does not end.
    private func unchunked(_ bytes: [UInt8]) -> [UInt8]? {
        var (content, rest) = ([UInt8](), bytes[...])
        while let end = rest.firstIndex(of: 13), let size = Int(String(decoding: rest[..<end], as: UTF8.self), radix: 16) {
            guard size > 0 else { return rest.count == 5 ? content : nil }
            guard rest.endIndex - end > size + 4 else { return nil }
            content += rest[(end + 2)..<(end + 2 + size)]
            rest = rest[(end + 4 + size)...]
        }
        return nil
    }

    @Test(arguments: ["zstd", "br", "gzip"], [false, true])
    func theClientDecodesTheFilteredListInAnyPieces(_ name: String, _ isFiltered: Bool) throws {
        let coding = ContentCoding(named: Array(name.utf8).rawBytes)!
        let bench = try Bench {
            $0 = Self.rule()
            guard isFiltered else { return }
            ($0.auth, $0.filters, $0.compression.mode) = (.optional, [try! FilterPath(parsing: "tier")], .filtered)
        }
        defer { bench.end() }
        for seed in 0..<30 {
            var random = SplitMix64(seed: UInt64(seed))
            let version = seed % 3 == 0 ? "1.0" : "1.1"
            let client = try bench.client()
            try client.send("GET / HTTP/\(version)\r\nHost: h\r\nConnection: close\r\nAccept-Encoding: \(name)\r\n\r\n")
            let upstream = try bench.accept()
            let asked = try upstream.receiveMessage()
            #expect(asked.contains("Accept-Encoding: \(isFiltered ? "identity" : name)\r\n"))
            var rest = Array((Self.json + Self.list).utf8)[...]
            while !rest.isEmpty {
                let piece = rest.prefix(Int.random(in: 1...3_000, using: &random))
                try upstream.send(Array(piece))
                rest = rest.dropFirst(piece.count)
            }
            var bytes: [UInt8] = []
            while let piece = try client.receive() { bytes += piece }
            let end = try #require(bytes.firstRange(of: Array("\r\n\r\n".utf8))).upperBound
            let head = String(decoding: bytes[..<end], as: UTF8.self)
            let content = version == "1.0" ? Array(bytes[end...]) : unchunked(Array(bytes[end...]))
            let isRight = content.flatMap { Self.decoded($0, coding) } == Array((isFiltered ? Self.free : Self.list).utf8)
            #expect(isRight && content!.count < 2_000, "seed \(seed)")
            #expect(head.contains("\r\nContent-Encoding: \(name)\r\n") && head.contains("Vary: Accept-Encoding\r\n"))
            #expect(head.contains("-\(name)\"\r\n") && !head.contains("Content-Length") && head.contains("Transfer") == (version == "1.1"))
            client.close()
            upstream.close()
        }
        #expect(bench.worker.samples("tollgate_compress_answers_total{route=\"all\",coding=\"\(name)\"}").first?.hasSuffix(" 30") == true)
    }

    @Test func conditionsOfCompressedAnswersReachTheUpstreamWithItsTags() throws {
        let bench = try Bench { $0 = Self.rule() }
        defer { bench.end() }
        let client = try bench.client()
        let tags = "If-None-Match: W/\"v1-gzip\", \"z-gzip\"\r\nIf-Match: W/\"-br\"\r\n"
        try client.send("GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: zstd\r\n\(tags)Connection: close\r\n\r\n")
        let upstream = try bench.accept()
        let asked = try upstream.receiveMessage()
        #expect(asked.contains("If-None-Match: W/\"v1-gzip\", \"v1\", W/\"v1\", \"z-gzip\"\r\n"))
        #expect(asked.contains("If-Match: W/\"-br\", \"\", W/\"\"\r\n"))
        try upstream.send("HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n")
        #expect(try client.receiveAll().text.contains("ETag: W/\"v1-gzip\"\r\n"))
        client.close()
        upstream.close()
    }

    /// A client never waits for content that the gateway has: after a short while, or for an event at once, it can decode it all.
    @Test(arguments: [false, true]) func contentIsFlushedWhileTheUpstreamPauses(_ isOfEvents: Bool) throws {
        let bench = try Bench {
            $0 = Self.rule()
            $0.compression.takesEvents = true
            $0.streams.heartbeatMilliseconds = isOfEvents ? 200 : nil
        }
        defer { bench.end() }
        let client = try bench.client()
        try client.send("GET / HTTP/1.0\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        try upstream.send("HTTP/1.1 200 OK\r\nContent-Type: \(isOfEvents ? "text/event-stream" : "text/plain")\r\n\r\n")
        let head = try client.receive(until: "\r\n\r\n")
        #expect(head.contains("Content-Encoding: gzip\r\n"))
        var (received, expected) = ([UInt8](), "")
        for number in 0..<5 {
            try upstream.send("data: \(number)\n\n")
            expected += "data: \(number)\n\n"
            while Self.decoded(received, .gzip, isWhole: false) != Array(expected.utf8) {
                received += try #require(try client.receive(4_096))
            }
        }
        // A comment of the gateway's own is compressed, too.
        while isOfEvents, Self.decoded(received, .gzip, isWhole: false) != Array((expected + ":\n\n").utf8) {
            received += try #require(try client.receive(4_096))
        }
        if isOfEvents { #expect(bench.worker.samples("tollgate_streams_open{route=\"all\",kind=\"sse\"}").first?.hasSuffix(" 1") == true) }
        upstream.close()
        while let piece = try client.receive() { received += piece }
        let whole = Self.decoded(received, .gzip).map { String(decoding: $0, as: UTF8.self) }
        #expect(whole?.replacing(":\n\n", with: "") == expected.replacing(":\n\n", with: ""))
        client.close()
    }

    @Test func encodersComeBackFromAnswersThatAreGivenUp() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        var stepped = try SteppedWorker([Self.rule()], upstreams: [RunningWorker.upstream("back", [listener.localAddress()])])
        for isClient in [true, false] {
            let client = try Line(to: stepped.address)
            try client.send("GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: br\r\n\r\n")
            let upstream = try stepped.accept(listener)
            try stepped.turn(untilReadable: upstream)
            _ = try upstream.receiveMessage()
            try upstream.send(Self.json + "{\"results\":")
            try stepped.turn(untilReadable: client)
            let used = stepped.worker.encoders.used
            #expect(used == 1)
            if isClient { client.close() } else { upstream.close() }
            for _ in 0..<20 where stepped.worker.encoders.used > 0 { stepped.turn(waiting: 10) }
            let left = stepped.worker.encoders.used
            #expect(left == 0)
            client.close()
            upstream.close()
        }
    }
}
