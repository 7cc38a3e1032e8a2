import Gate
import Glibc
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// A client that has all of its answer may send its next request at once, on a connection of another worker. So by then the answer's
/// request counts for no bound any more. The client here looks without a pause, so that it sees the moment in which its bytes arrive.
@Suite(.ownThread, .timeLimit(.minutes(2)))
struct SlotTests {
    /// How a request ends, as both ends see it.
    enum Ending: String, CaseIterable {
        case short, chunked, untilClose, long, spliced, head, noContent, closed, oldVersion, refused, badAnswer, notFound, cut, early
        case websocket
    }

    private static let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    private static let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"
    private static let rounds = 300

    private static func length(_ count: Int) -> String {
        "HTTP/1.1 200 OK\r\nContent-Length: \(count)\r\n\r\n" + String(repeating: "c", count: count)
    }

    private static func request(_ ending: Ending) -> String {
        switch ending {
        case .short, .chunked, .untilClose, .long, .spliced, .noContent, .closed, .cut: get
        case .head: get.replacing("GET", with: "HEAD")
        case .oldVersion: get.replacing("HTTP/1.1", with: "HTTP/1.0")
        case .refused, .badAnswer: post
        case .notFound: get.replacing(" / ", with: " /own/none ")
        case .early: post.replacing("2\r\n\r\nhi", with: "9\r\n\r\nhi")
        case .websocket: WebSocketTests.handshake + "\r\n"
        }
    }

    /// The upstream's answer; it closes the connection behind it if `closes`. Without an answer it only closes it.
    private static func answer(_ ending: Ending) -> (text: String, closes: Bool) {
        switch ending {
        case .short, .oldVersion, .early: (ExchangeTests.ok, false)
        case .chunked: ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false)
        case .untilClose: ("HTTP/1.1 200 OK\r\n\r\nok", true)
        case .long: (length(40_000), false)
        case .spliced: (length(400_000), false)
        case .head: ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", false)
        case .noContent: ("HTTP/1.1 204 No Content\r\n\r\n", false)
        case .closed: (ExchangeTests.ok.replacing("\r\n\r\n", with: "\r\nConnection: close\r\n\r\n"), false)
        case .refused: ("", true)
        case .badAnswer: ("nonsense\r\n\r\n", false)
        case .cut: ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart", true)
        case .notFound: ("", false)
        case .websocket: (WebSocketTests.acceptance + "\r\n", false)
        }
    }

    @Test(arguments: Ending.allCases) func aRequestWhoseClientHasItsAnswerHoldsNoPlace(_ ending: Ending) throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        let back = RunningWorker.upstream("back", [try listener.localAddress()]) {
            ($0.maxRequests, $0.maxConnections) = (1, 1)
            ($0.retries, $0.outliers.failures) = (0, nil)
        }
        var settings = WorkerSettings()
        settings.limitRequests(1, workers: 1)
        var rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: .none)
        rule.takesWebSockets = true
        var own = RouteRule(name: "own", path: "/own/none", isPrefix: false, target: .upstream(0), auth: .required)
        own.errors = .problem
        let bounds = LoadBounds()
        let worker = try RunningWorker([own, rule], upstreams: [back], settings: settings, bounds: bounds)
        defer { worker.stop() }
        let connections = back.connections
        // One that is idle may be closed for another request.
        let counts: () -> [Int] = {
            [connections.requests.requests.value, bounds.requests.count, connections.isOver(0) && !connections.hasIdle ? 1 : 0]
        }
        var (length, late, server, former) = (0, 0, Line?.none, Line?.none)
        for round in 0..<Self.rounds {
            let client = try Line(to: worker.address)
            try client.send(Self.request(ending))
            if ending != .notFound { try serve(ending, client, listener, &server) }
            if ending == .websocket { swap(&server, &former) }
            if round == 0 {
                length = try lengthOfRest(ending, client)
            } else {
                try takeAtOnce(length, client)
                if counts() != [0, 0, 0] { late += 1 }
            }
            client.close()
            former?.close()
            former = nil
            for _ in 0..<30_000 where counts() != [0, 0, 0] || worker.census.exchanges > 0 { usleep(100) }
            try #require(counts() == [0, 0, 0])
        }
        server?.close()
        #expect(late == 0, "\(late) of \(Self.rounds) clients had their answer before its place was free")
    }

    /// The upstream's part, up to the last bytes of the answer.
    private func serve(_ ending: Ending, _ client: Line, _ listener: Socket, _ server: inout Line?) throws {
        if let kept = server, !isNext(kept, listener) {
            kept.close()
            server = nil
        }
        let line = try server ?? Line(acceptedFrom: listener)
        server = line
        _ = ending == .early ? try line.receive(until: "hi") : try line.receiveMessage()
        let (text, closes) = Self.answer(ending)
        try line.send(text)
        if ending == .websocket { try closeWebSocket(client, line) }
        guard closes else { return }
        line.close()
        server = nil
    }

    /// Whether the next request comes on this connection, and not on another one.
    private func isNext(_ line: Line, _ listener: Socket) -> Bool {
        for _ in 0..<30_000 {
            if Line(listener).isReady(milliseconds: 0) { return false }
            if line.isReady(milliseconds: 1) { return ((try? line.isAtEnd()) ?? true) == false }
        }
        return false
    }

    /// Both sides' close frames. The gateway has passed on the acceptance; of the close frames it has yet to pass on the server's, with
    /// which the client has all.
    private func closeWebSocket(_ client: Line, _ server: Line) throws {
        _ = try client.receive(until: "\r\n\r\n")
        try client.send([0x88, 0x82, 0, 0, 0, 0, 3, 232])
        var came: [UInt8] = []
        while came.count < 8 { came += try server.receive() ?? [] }
        try server.send([0x88, 2, 3, 232])
    }

    /// The length of the answer's part that the client has not read yet.
    private func lengthOfRest(_ ending: Ending, _ line: Line) throws -> Int {
        switch ending {
        // It ends with the connection.
        case .cut: .max
        case .chunked, .untilClose: try line.receive(until: "0\r\n\r\n").utf8.count
        case .head, .noContent: try line.receive(until: "\r\n\r\n").utf8.count
        // The server's close frame.
        case .websocket: 4
        default: try line.receiveMessage().utf8.count
        }
    }

    /// Takes so many bytes, or all up to the end, without sleeping in between.
    private func takeAtOnce(_ length: Int, _ line: Line) throws {
        let start = EventLoop.now().monotonic
        var buffer = ByteBuffer()
        var count = 0
        while count < length {
            buffer.removeAll()
            switch line.socket.receive(into: &buffer, upTo: 65_536) {
            case .done(let more): count += more
            case .wouldBlock:
                guard EventLoop.now().monotonic.nanoseconds(since: start) < 30_000_000_000 else { throw TestFault("nothing happened") }
            case .closed, .failed: return
            }
        }
    }
}

extension Line {
    /// Whether the peer has ended its side and nothing is left to read.
    fileprivate func isAtEnd() throws -> Bool {
        var byte: UInt8 = 0
        return recv(socket.descriptor, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) <= 0
    }
}
