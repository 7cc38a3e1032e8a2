import Credentials
import Gate
import Glibc
import Telemetry
import TestThreads
import Testing
import Threads
import Transport
import Wire

@testable import Proxy

/// The lines of the access log, and the counts, of requests without a whole answer.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct CutAnswerLogTests {
    private let listener: Socket
    /// The access log: a file without a name.
    private let file: Int32
    private let sink: LineSink

    init() throws {
        listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        var template = Array("/tmp/tollgate-cut-XXXXXX".utf8CString)
        file = mkstemp(&template)
        unlink(&template)
        sink = try LineSink(descriptor: file)
    }

    /// A worker with an access log.
    private func begin(
        _ settings: WorkerSettings = WorkerSettings(), takesWebSockets: Bool = false, allowsHTTP2: Bool = false
    ) throws -> SteppedWorker {
        var stepped = try SteppedWorker(
            forwardingTo: listener, settings: settings, takesWebSockets: takesWebSockets, allowsHTTP2: allowsHTTP2)
        log(&stepped)
        return stepped
    }

    private func log(_ stepped: inout SteppedWorker) {
        stepped.worker.telemetry = WorkerTelemetry(labels: stepped.worker.telemetry.labels, sink: sink, format: .json, seed: 1)
    }

    /// The lines, after the worker has ended.
    private func lines() -> [String] {
        sink.close()
        defer { Glibc.close(file) }
        var room = [UInt8](repeating: 0, count: 65_536)
        let count = pread(file, &room, room.count, 0)
        return String(decoding: room[..<max(0, count)], as: UTF8.self).split(separator: "\n").map(String.init)
    }

    private func upstreamRequests(_ stepped: borrowing SteppedWorker) -> [String] {
        let bytes = Exposition.render(
            [stepped.worker.telemetry.metrics.snapshot()], ProcessMetrics(build: BuildInfo(version: "", commit: "", swift: "")),
            at: WallTime(seconds: 0))
        let samples = String(decoding: bytes, as: UTF8.self).split(separator: "\n").filter {
            $0.hasPrefix("tollgate_upstream_requests_total{")
        }
        return samples.filter { !$0.hasSuffix(" 0") }.compactMap { $0.split(separator: "code_class=").last.map(String.init) }
    }

    private static let large = "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n"
    private static let call = "POST /S/M HTTP/1.1\r\nHost: h\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n"

    // MARK: the gateway cuts

    /// Sends as much of an answer as the gateway takes.
    private func fill(_ stepped: inout SteppedWorker, _ upstream: Line) throws {
        try upstream.send(Self.large)
        let part = [UInt8](repeating: 7, count: 1 << 20)
        // The kernel may take a few turns to move on.
        var idle = 0
        while idle < 16 {
            idle = upstream.sendWhatGoes(part, waiting: 0) > 0 ? 0 : idle + 1
            for _ in 0..<8 { stepped.turn() }
        }
    }

    @Test func theSendTimeoutIsTheError() throws {
        var settings = WorkerSettings()
        settings.sendTimeout = 5_000
        var stepped = try begin(settings)
        let client = try Line(to: stepped.address)
        try client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try stepped.accept(listener)
        try fill(&stepped, upstream)
        stepped.pass(milliseconds: 5_100)
        #expect(stepped.worker.exchanges.count == 0)
        stepped.end()
        for line in [client, upstream] { line.close() }
        let lines = lines()
        #expect(lines.count == 1 && lines[0].contains(#""status":200,"#) && lines[0].contains(#""error":"send_timeout""#), "\(lines)")
    }

    /// The stream's window is not opened; or it is, and the socket takes nothing.
    @Test(arguments: [false, true]) func theSendTimeoutIsTheErrorOfAStreamOfHTTP2(_ hasWindow: Bool) throws {
        var settings = WorkerSettings()
        settings.sendTimeout = 5_000
        var stepped = try begin(settings, allowsHTTP2: true)
        let client = try Line(to: stepped.address)
        try client.send(HTTP2Frames.preface(window: hasWindow ? 1 << 30 : nil) + HTTP2Frames.head(1, ["/a"]))
        let upstream = try stepped.accept(listener)
        try stepped.turn(untilReadable: upstream)
        try fill(&stepped, upstream)
        // First the clock of the stream begins, then its time is over.
        for _ in 0..<3 where stepped.worker.exchanges.count > 0 { stepped.pass(milliseconds: 5_100) }
        #expect(stepped.worker.exchanges.count == 0)
        stepped.end()
        for line in [client, upstream] { line.close() }
        let lines = lines()
        #expect(lines.count == 1 && lines[0].contains(#""status":200,"#) && lines[0].contains(#""error":"send_timeout""#), "\(lines)")
    }

    @Test func aStreamWhoseClientTakesNothingHasTheErrorTooAndEndsByItsClient() throws {
        var settings = WorkerSettings()
        settings.sendTimeout = 5_000
        var stepped = try begin(settings)
        let client = try Line(to: stepped.address)
        try client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try stepped.accept(listener)
        try stepped.turn(untilReadable: upstream)
        try upstream.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 67108864\r\n\r\n")
        let part = [UInt8](repeating: 7, count: 1 << 20)
        for _ in 0..<64 where upstream.sendWhatGoes(part, waiting: 0) > 0 { for _ in 0..<8 { stepped.turn() } }
        stepped.pass(milliseconds: 5_100)
        stepped.end()
        for line in [client, upstream] { line.close() }
        let end = lines().last ?? ""
        #expect(end.contains(#""stream_end":"client""#) && end.contains(#""error":"send_timeout""#), "\(end)")
    }

    @Test func theDrainIsTheErrorOfWhatItCuts() throws {
        var stepped = try begin()
        let (begun, silent) = (try Line(to: stepped.address), try Line(to: stepped.address))
        try begun.send("GET /begun HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try stepped.accept(listener)
        try stepped.turn(untilReadable: upstream)
        try upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart")
        try stepped.turn(untilReadable: begun)
        try silent.send("GET /silent HTTP/1.1\r\nHost: h\r\n\r\n")
        let other = try stepped.accept(listener)
        stepped.end()
        #expect(upstreamRequests(stepped).sorted() == [#""2xx"} 1"#, #""cancelled"} 1"#])
        for line in [begun, silent, upstream, other] { line.close() }
        let lines = lines()
        #expect(lines.count == 2 && lines.allSatisfy { $0.contains(#""error":"drain""#) }, "\(lines)")
        #expect(lines.contains { $0.contains(#""path":"/begun""#) && $0.contains(#""status":200,"#) })
        #expect(lines.contains { $0.contains(#""path":"/silent""#) && $0.contains(#""status":499,"#) })
    }

    // MARK: attempts that are given up

    @Test func anAttemptWhoseClientLeavesCountsAsCancelled() throws {
        var stepped = try begin()
        let client = try Line(to: stepped.address)
        try client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try stepped.accept(listener)
        try stepped.turn(untilReadable: upstream)
        stepped.pass(milliseconds: 700)
        client.reset()
        try stepped.turn { $0.exchanges.count == 0 }
        #expect(upstreamRequests(stepped) == [#""cancelled"} 1"#])
        stepped.end()
        upstream.close()
        let lines = lines()
        #expect(lines.count == 1 && lines[0].contains(#""status":499,"#) && lines[0].contains(#""attempts":1,"#), "\(lines)")
        #expect(lines.first?.contains(#""upstream_ms":7"#) == true && lines.first?.contains(#""error""#) == false, "\(lines)")
    }

    @Test func anAttemptWhoseDeadlinePassesCountsAsCancelled() throws {
        var stepped = try begin()
        let client = try Line(to: stepped.address)
        try client.send(Self.call + "grpc-timeout: 2S\r\n\r\n")
        let upstream = try stepped.accept(listener)
        try stepped.turn(untilReadable: upstream)
        stepped.pass(milliseconds: 2_020)
        #expect(try client.receiveMessage().value(of: "grpc-status") == "4")
        #expect(upstreamRequests(stepped) == [#""cancelled"} 1"#])
        stepped.end()
        for line in [client, upstream] { line.close() }
        let lines = lines()
        #expect(lines.count == 1 && lines[0].contains(#""error":"deadline""#) && lines[0].contains(#""upstream_status":0,"#), "\(lines)")
    }

    @Test func anAttemptThatWasAnsweredCountsOnceWhoeverLeaves() throws {
        var stepped = try begin()
        let client = try Line(to: stepped.address)
        try client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try stepped.accept(listener)
        try stepped.turn(untilReadable: upstream)
        try upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart")
        try stepped.turn(untilReadable: client)
        client.reset()
        try stepped.turn { $0.exchanges.count == 0 }
        #expect(upstreamRequests(stepped) == [#""2xx"} 1"#])
        stepped.end()
        upstream.close()
        _ = lines()
    }

    // MARK: clients that leave before the decision

    private static let user = "0193a1b2-0000-7000-8000-000000000001"

    /// A worker that refreshes expired tokens of callers on this machine, or else looks up the tiers of its users; neither is ever
    /// answered.
    private func beginAsking(refreshes: Bool = false) throws -> SteppedWorker {
        var rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0))
        rule.upstreamSpeaksHTTP2 = true
        let rules = [rule]
        var stepped = try SteppedWorker(
            rules, upstreams: [RunningWorker.upstream("back", [listener.localAddress()])], allowsHTTP2: true,
            services: { $0.refresh = { _, _ in } })
        let inside = [CIDR(parsing: "127.0.0.0/8")].compactMap { $0 }
        let policy = try Policy(
            rules: rules, trust: Trust(issuers: [Bench.issuer("tollgate", isOwn: !refreshes)]),
            internals: [InternalCaller(name: "here", networks: inside)], hasAccounts: !refreshes, refreshers: ["tollgate"])
        stepped.post(.adoptPolicy(policy))
        stepped.turn(waiting: 1_000)
        log(&stepped)
        return stepped
    }

    /// Whether it waits for a refresh, or else for the user's tier.
    @Test(arguments: [false, true]) func aClientThatLeavesBeforeTheDecisionHasALine(_ refreshes: Bool) throws {
        var stepped = try beginAsking(refreshes: refreshes)
        let token = Bench.token(Self.user, expiresAt: refreshes ? 1_000 : 4_000_000_000)
        let fields = "Host: h\r\nAuthorization: Bearer \(token)\r\nX-Refresh-Token: r\r\n\r\n"
        let client = try Line(to: stepped.address)
        try client.send("GET /left?secret=1 HTTP/1.1\r\n" + fields)
        try stepped.turn { $0.exchanges.count == 1 }
        client.reset()
        try stepped.turn { $0.exchanges.count == 0 }
        expectLine(of: &stepped, #""status":499,"#, error: nil)
    }

    @Test func aStreamOfHTTP2ThatIsResetBeforeTheDecisionHasALine() throws {
        var stepped = try beginAsking()
        let client = try Line(to: stepped.address)
        try client.send(
            HTTP2Frames.preface() + HTTP2Frames.head(1, ["/left?secret=1", "authorization", "Bearer " + Bench.token(Self.user)]))
        try stepped.turn { $0.exchanges.count == 1 }
        try client.send(HTTP2Frames.reset(1))
        try stepped.turn { $0.exchanges.count == 0 }
        client.close()
        expectLine(of: &stepped, #""status":499,"#, error: nil)
    }

    @Test func whatWaitsForItsDecisionWhenTheDrainEndsHasALine() throws {
        var stepped = try beginAsking()
        let client = try Line(to: stepped.address)
        try client.send("GET /left?secret=1 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(Bench.token(Self.user))\r\n\r\n")
        try stepped.turn { $0.exchanges.count == 1 }
        expectLine(of: &stepped, #""status":499,"#, error: "drain")
        client.close()
    }

    private func expectLine(of stepped: inout SteppedWorker, _ part: String, error: String?) {
        stepped.end()
        let lines = lines()
        #expect(lines.count == 1 && lines[0].contains(part) && lines[0].contains(#""path":"/left?[redacted]""#), "\(lines)")
        #expect(lines.first?.contains(#""request_id":""#) == true && lines.first?.contains(#""route":"all""#) == true)
        #expect(lines.first?.contains(#""error""#) == (error != nil))
        if let error { #expect(lines.first?.contains(#""error":"\#(error)""#) == true) }
    }
}

/// Frames of a client of HTTP/2.
private enum HTTP2Frames {
    private static func frame(_ type: UInt8, _ flags: UInt8, _ stream: UInt8, _ payload: [UInt8]) -> [UInt8] {
        [UInt8(payload.count >> 16 & 255), UInt8(payload.count >> 8 & 255), UInt8(payload.count & 255), type, flags, 0, 0, 0, stream]
            + payload
    }

    /// `window`: how much more than the least the connection and each stream may send.
    static func preface(window: UInt32? = nil) -> [UInt8] {
        let start = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        guard let window else { return start + frame(4, 0, 0, []) }
        let bytes = [UInt8(window >> 24), UInt8(window >> 16 & 255), UInt8(window >> 8 & 255), UInt8(window & 255)]
        return start + frame(4, 0, 0, [0, 4] + bytes) + frame(8, 0, 0, bytes)
    }

    /// A GET of `words[0]`, with the names and values behind it: literals without indexing.
    static func head(_ stream: UInt8, _ words: [String]) -> [UInt8] {
        var payload: [UInt8] = []
        let all = [":method", "GET", ":scheme", "http", ":authority", "h", ":path"] + words
        for (index, word) in all.enumerated() {
            if index.isMultiple(of: 2) { payload.append(0) }
            let count = word.utf8.count
            if count < 127 {
                payload.append(UInt8(count))
            } else {
                var rest = count - 127
                payload.append(127)
                while rest >= 128 {
                    payload.append(UInt8(rest & 127 | 128))
                    rest >>= 7
                }
                payload.append(UInt8(rest))
            }
            payload += Array(word.utf8)
        }
        return frame(1, 5, stream, payload)
    }

    static func reset(_ stream: UInt8) -> [UInt8] { frame(3, 0, stream, [0, 0, 0, 8]) }
}
