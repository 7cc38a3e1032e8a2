import Gate
import Testing
import Transport
import Wire

@testable import Proxy

/// A worker in front of several addresses of one upstream, each a listener of the test that takes one request a connection.
struct Herd: ~Copyable {
    var stepped: SteppedWorker
    let listeners: [Socket]
    /// Requests that each address has received.
    var asked: [Int]
    let snapshot: UpstreamSnapshot

    static let rule = {
        var rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: .none)
        rule.upstreamSpeaksHTTP2 = true
        rule.takesWebSockets = true
        return rule
    }()

    init(
        _ count: Int, _ change: (inout UpstreamSettings) -> Void = { _ in }, services: (inout WorkerServices) -> Void = { _ in },
        proxies: [CIDR] = []
    ) throws {
        let listeners = try (0..<count).map { _ in try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!) }
        let snapshot = RunningWorker.upstream("back", try listeners.map { try $0.localAddress() }) {
            $0.balance = .roundRobin
            $0.retries = 0
            change(&$0)
        }
        stepped = try SteppedWorker([Self.rule], upstreams: [snapshot], proxies: proxies, services: services)
        self.listeners = listeners
        self.snapshot = snapshot
        asked = listeners.map { _ in 0 }
    }

    var pool: UpstreamPool { stepped.worker.upstreams.directory.pools[0] }

    /// The next connection, and the number of the address that it came to.
    mutating func accept() throws -> (number: Int, line: Line) {
        for _ in 0..<3_000 {
            for number in listeners.indices where Line(listeners[number]).isReady(milliseconds: 0) {
                asked[number] += 1
                return (number, try Line(acceptedFrom: listeners[number]))
            }
            stepped.turn(waiting: 10)
        }
        throw TestFault("no request came")
    }

    /// One request, which its address answers with its own of `answers`; none means that it closes the connection.
    @discardableResult
    mutating func ask(
        _ answers: [String], _ request: String = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", after milliseconds: [UInt64] = []
    ) throws -> (number: Int, answer: String) {
        let client = try Line(to: stepped.address)
        defer { client.close() }
        try client.send(request)
        let (number, line) = try accept()
        defer { line.close() }
        try stepped.turn(untilReadable: line)
        _ = try line.receiveMessage()
        if !milliseconds.isEmpty { stepped.pass(milliseconds: milliseconds[number]) }
        try line.send(answers[number])
        line.close()
        try stepped.turn(untilReadable: client)
        var text = ""
        while let bytes = try client.receive() {
            text += String(decoding: bytes, as: UTF8.self)
            try stepped.turn(untilReadable: client)
        }
        return (number, text)
    }

    /// So many requests; how many each address got of them.
    mutating func ask(_ count: Int, _ answers: [String], _ request: String? = nil, after milliseconds: [UInt64] = []) throws -> [Int] {
        let before = asked
        for _ in 0..<count {
            if let request { try ask(answers, request, after: milliseconds) } else { try ask(answers, after: milliseconds) }
        }
        return zip(asked, before).map { $0 - $1 }
    }

    /// Ends the window of answers that is under way, and has it judged.
    mutating func endWindow() {
        stepped.turn()
        stepped.pass(milliseconds: pool.windowEnd.nanoseconds(since: stepped.worker.now.monotonic) / 1_000_000 + 1)
        // Windows and absences are looked at once a second.
        for _ in 0..<2 { stepped.pass(milliseconds: 1_001) }
    }

    /// An answer of this status, with these fields.
    static func answer(_ status: Int, _ fields: String...) -> String {
        "HTTP/1.1 \(status) Text\r\n" + (fields + ["Content-Length: 2", "Connection: close"]).joined(separator: "\r\n") + "\r\n\r\nok"
    }

    mutating func end() {
        stepped.end()
        for listener in listeners { listener.close() }
    }
}
