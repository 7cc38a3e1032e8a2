import HTTP
@testable import Limits
import Redis
import Synchronization
import TestThreads
import Testing
import Transport
import Wire

@testable import Gate
@testable import Proxy

/// Charges of many callers in one call of a Redis that says what the test wants.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct SharedCountingTests {
    /// The server's end of the connection.
    private struct Server {
        let line: Line
        private var received = ""

        init(_ line: Line) { self.line = line }

        /// The next command that the worker sends.
        mutating func command(_ worker: inout SteppedWorker) throws -> [String] {
            while true {
                if let words = takeCommand() { return words }
                try worker.turn(untilReadable: line)
                received += String(decoding: try #require(try line.receive()), as: UTF8.self)
            }
        }

        /// A whole command at the front of what was received, an array of bulk strings without line ends in them.
        private mutating func takeCommand() -> [String]? {
            let lines = received.split(separator: "\r\n", omittingEmptySubsequences: false)
            guard lines.count > 1, let count = Int(lines[0].dropFirst()), lines.count > 1 + 2 * count else { return nil }
            received = lines[(1 + 2 * count)...].joined(separator: "\r\n")
            return (0..<count).map { String(lines[2 + 2 * $0]) }
        }

        /// Whether nothing has come, in a turn or two of the worker.
        func hearsNothing(_ worker: inout SteppedWorker) -> Bool {
            for _ in 0..<3 { worker.turn(waiting: 5) }
            return received.isEmpty && !line.isReady(milliseconds: 0)
        }
    }

    /// A worker with a limit for each `X-Key`, and its Redis. No time limit is met but by letting time pass.
    private final class Station {
        var worker: SteppedWorker
        private var server: Server
        private(set) var clients: [Line] = []

        init(clients count: Int, handler: @escaping LocalHandler = RunningWorker.admin) throws {
            let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
            let address = try listener.localAddress()
            var limitClient = SharedLimitClient.Settings()
            limitClient.deadline = 20_000
            limitClient.failureMode = .closed
            var redis = RedisConnectionSettings()
            (redis.replyDeadline, redis.responseTimeout, redis.connectTimeout, redis.batchWindow) = (20_000, 40_000, 20_000, 10_000_000)
            let endpoint = try RedisEndpoint(parsing: "redis://\(address)")
            let shared = SharedCounting(
                limitClient, limiter: SharedLimiter(capacity: 1_024, hash: KeyedHash(first: 1, second: 2)),
                gateways: GatewayCount(id: 1), lease: RedisScript(name: "lease", source: "return {}"), counts: false,
                now: EventLoop.now().monotonic
            ) { scripts in
                RedisNodes(
                    RedisConnection(
                        endpoint, addresses: [address], scripts: scripts, settings: redis, token: Worker.redisToken, seed: 1,
                        now: EventLoop.now().monotonic))
            }
            var limited = RouteRule(name: "few", path: "/few", isPrefix: false, target: .local(0), auth: .none)
            limited.limits = [try LimitPolicy(parsing: "10/s+by=header:x-key", tiers: .standard)]
            let free = RouteRule(name: "free", path: "/free", isPrefix: false, target: .local(0), auth: .none)
            worker = try SteppedWorker(
                [limited, free], upstreams: [],
                local: [handler], shared: shared)
            server = Server(try worker.accept(listener))
            listener.close()
            try loadScripts(4)
            for _ in 0..<count {
                let client = try Line(to: worker.address)
                try client.send("GET /free HTTP/1.1\r\nHost: h\r\n\r\n")
                try worker.turn(untilReadable: client)
                #expect(try client.receiveMessage().status == 200)
                clients.append(client)
            }
        }

        /// The next command that the worker sends.
        func command() throws -> [String] { try server.command(&worker) }

        /// Whether the worker sends nothing.
        func isSilent() -> Bool { server.hearsNothing(&worker) }

        func say(_ text: String) throws { try server.line.send(text) }
        func sayText(_ text: String) throws { try say(SharedCountingTests.bulk(text)) }

        /// The server ends the connection.
        func hangUp() { server.line.reset() }

        /// When the worker looks after its counts though nothing happens.
        func nextDeadline() -> MonotonicTime? { worker.worker.limits.nextDeadline() }

        /// Takes `count` scripts that the worker loads.
        func loadScripts(_ count: Int) throws {
            for number in 0..<count {
                #expect(try command().prefix(2) == ["SCRIPT", "LOAD"])
                try sayText(String(repeating: "\(number)", count: 40))
            }
            for _ in 0..<3 { worker.turn(waiting: 5) }
        }

        /// Sends a request of each of these clients in one turn, each as a caller of its own.
        func ask(_ numbers: Range<Int>) throws {
            for number in numbers { try clients[number].send("GET /few HTTP/1.1\r\nHost: h\r\nX-Key: \(number)\r\n\r\n") }
        }

        func statuses(_ numbers: Range<Int>) throws -> [Int] {
            try numbers.map { number in
                try worker.turn(untilReadable: clients[number])
                return try clients[number].receiveMessage().status
            }
        }

        func end() {
            for client in clients { client.close() }
            server.line.close()
            worker.end()
        }
    }

    /// Replies of the script, each with the TAT of a count that is so many tenths of a second from being full.
    private static func replies(_ charges: (granted: Int, tenths: Int)...) -> String {
        "1800000000 0" + charges.map { " \($0.granted) \(1_800_000_000_000_000 + $0.tenths * 100_000)" }.joined()
    }

    private static func bulk(_ text: String) -> String { "$\(text.utf8.count)\r\n\(text)\r\n" }

    @Test(arguments: [
        ("all is well", bulk(replies((1, 1), (0, 10), (1, 3))), [200, 429, 200]),
        ("the last is missing", bulk(replies((1, 1), (0, 10))), [200, 503, 503]),
        ("one is too many", bulk(replies((1, 1), (0, 10), (1, 3), (1, 1))), [200, 429, 503]),
        ("the second is none", bulk(replies((1, 1)) + " 1 5 1 1800000000100000"), [200, 503, 503]),
        ("only a time", bulk("1800000000 0"), [503, 503, 503]), ("nothing", bulk(""), [503, 503, 503]),
        ("another kind", ":1\r\n", [503, 503, 503]), ("an array", "*1\r\n:1\r\n", [503, 503, 503]),
        ("an error", "-OOM command not allowed when used memory > 'maxmemory'.\r\n", [503, 503, 503]),
    ])
    func eachCallerOfACallGetsTheirOwnAnswerOrTheFailureMode(_ name: String, _ answer: String, _ statuses: [Int]) throws {
        let station = try Station(clients: 4)
        try station.ask(0..<3)
        let call = try station.command()
        #expect(call.count == 3 + 3 + 5 && call[0] == "EVALSHA" && call[2] == "3")
        #expect(Set(call[3..<6]).count == 3 && call[6...] == ["3", "1", "1", "100000", "1000000"])
        try station.say(answer)
        #expect(try station.statuses(0..<3) == statuses, "\(name)")
        // The next caller is counted as before.
        try station.ask(3..<4)
        #expect(try station.command()[2] == "1")
        try station.sayText(Self.replies((1, 1)))
        #expect(try station.statuses(3..<4) == [200])
        station.end()
    }

    /// A request that Redis refuses must have done nothing, though all of it is here.
    @Test func aHandlerIsNotCalledBeforeTheLimitsAllowIt() throws {
        let calls = Mutex(0)
        let station = try Station(clients: 2) { _ in
            calls.withLock { $0 += 1 }
            return LocalResponse(status: 200, contentType: "text/plain", body: [])
        }
        #expect(calls.withLock { $0 } == 2)
        for (number, verdict) in [(0, (granted: 0, tenths: 10)), (1, (granted: 1, tenths: 1))] {
            try station.clients[number].send(
                "POST /few HTTP/1.1\r\nHost: h\r\nX-Key: \(number)\r\nContent-Length: 5\r\n\r\nhello")
            _ = try station.command()
            #expect(station.isSilent())
            #expect(calls.withLock { $0 } == 2)
            try station.sayText(Self.replies(verdict))
            #expect(try station.statuses(number..<number + 1) == [verdict.granted == 1 ? 200 : 429])
        }
        #expect(calls.withLock { $0 } == 3)
        station.end()
    }

    @Test func whoComesWhileACallIsUnderWayGoesWithTheNext() throws {
        let station = try Station(clients: 4)
        try station.ask(0..<1)
        #expect(try station.command()[2] == "1")
        for number in 1..<4 {
            try station.ask(number..<number + 1)
            #expect(station.isSilent())
        }
        try station.sayText(Self.replies((1, 1)))
        #expect(try station.statuses(0..<1) == [200])
        #expect(try station.command()[2] == "3")
        try station.sayText(Self.replies((1, 1), (1, 1), (1, 1)))
        #expect(try station.statuses(1..<4) == [200, 200, 200])
        station.end()
    }

    /// A server that takes its time has several calls under way: who gathers does not wait for it for ever.
    @Test func whoHasGatheredLongEnoughIsAskedForThoughNothingWasAnswered() throws {
        let station = try Station(clients: 3)
        try station.ask(0..<1)
        #expect(try station.command()[2] == "1")
        try station.ask(1..<3)
        #expect(station.isSilent())
        let due = try #require(station.nextDeadline())
        #expect(due <= EventLoop.now().monotonic.advanced(milliseconds: 10_000))
        station.worker.pass(milliseconds: 10_000)
        #expect(try station.command()[2] == "2")
        try station.sayText(Self.replies((1, 1)))
        try station.sayText(Self.replies((1, 1), (1, 1)))
        #expect(try station.statuses(0..<3) == [200, 200, 200])
        station.end()
    }

    @Test func aCallThatFindsItsScriptGoneIsSentAgainWhole() throws {
        let station = try Station(clients: 3)
        try station.ask(0..<3)
        let call = try station.command()
        try station.say("-NOSCRIPT No matching script.\r\n")
        try station.loadScripts(1)
        #expect(try station.command() == call)
        try station.sayText(Self.replies((1, 1), (1, 1), (0, 10)))
        #expect(try station.statuses(0..<3) == [200, 200, 429])
        station.end()
    }

    @Test func aCallThatIsLateIsJudgedByTheFailureModeAndItsAnswerIsNobodys() throws {
        let station = try Station(clients: 4)
        try station.ask(0..<3)
        _ = try station.command()
        station.worker.pass(milliseconds: 20_000)
        #expect(try station.statuses(0..<3) == [503, 503, 503])
        try station.sayText(Self.replies((1, 1), (1, 1), (1, 1)))
        try station.ask(3..<4)
        #expect(try station.command()[2] == "1")
        try station.sayText(Self.replies((1, 1)))
        #expect(try station.statuses(3..<4) == [200])
        station.end()
    }

    @Test func aCallWhoseConnectionIsLostIsJudgedByTheFailureMode() throws {
        let station = try Station(clients: 5)
        try station.ask(0..<3)
        _ = try station.command()
        try station.ask(3..<5)
        #expect(station.isSilent())
        station.hangUp()
        #expect(try station.statuses(0..<5) == [503, 503, 503, 503, 503])
        station.end()
    }
}
