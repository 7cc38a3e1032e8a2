import Gate
import HTTP
import Synchronization
import Telemetry
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// A worker's reaction to the answers of its upstream's addresses.
@Suite(.ownThread, .timeLimit(.minutes(2)))
struct OutlierWorkerTests {
    private static let good = Herd.answer(200)

    /// The announcements of a judge.
    private final class Changes: Sendable {
        private let all = Mutex<[(address: UpstreamAddress, change: AddressChange)]>([])
        func add(_ address: UpstreamAddress, _ change: AddressChange) { all.withLock { $0.append((address, change)) } }
        var now: [(address: UpstreamAddress, change: AddressChange)] { all.withLock { $0 } }

        /// Such as `failures` and `returned`.
        var words: [String] {
            now.map { change in
                switch change.change {
                case .left(let absence, _): absence.reason.text
                case .returned: "returned"
                }
            }
        }
    }

    // MARK: rows

    @Test(arguments: [502, 503, 504]) func fiveAnswersOfAGatewayThatIsDownEjectAnAddress(_ status: Int) throws {
        var herd = try Herd(2)
        let answers = [Herd.answer(status), Self.good]
        #expect(try herd.ask(10, answers) == [5, 5])
        #expect(try herd.ask(6, answers) == [0, 6])
        herd.stepped.pass(milliseconds: 10_000)
        #expect(try herd.ask(6, [Self.good, Self.good]) == [3, 3])
        herd.end()
    }

    @Test(arguments: [404, 429, 500, 501]) func otherAnswersDoNotEndIt(_ status: Int) throws {
        var herd = try Herd(2)
        #expect(try herd.ask(24, [Herd.answer(status), Self.good]) == [12, 12])
        herd.end()
    }

    @Test func anyOtherAnswerEndsTheRow() throws {
        var herd = try Herd(2)
        for other in [200, 500, 404] {
            #expect(try herd.ask(8, [Herd.answer(503), Self.good]) == [4, 4])
            #expect(try herd.ask(2, [Herd.answer(other), Self.good]) == [1, 1])
        }
        herd.end()
    }

    /// gRPC's status is in the head of an answer without content, or behind the content.
    @Test(arguments: [
        "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\ngrpc-status: 14\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nab\r\n0\r\ngrpc-status: 14\r\n\r\n",
    ]) func unavailableOfGRPCIsAFailure(_ answer: String) throws {
        let request =
            "POST / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        var herd = try Herd(2)
        let fine = answer.replacing("grpc-status: 14", with: "grpc-status: 0")
        #expect(try herd.ask(8, [answer, fine], request) == [4, 4])
        #expect(try herd.ask(2, [fine, fine], request) == [1, 1])
        #expect(try herd.ask(10, [answer, fine], request) == [5, 5])
        #expect(try herd.ask(4, [answer, fine], request) == [0, 4])
        // Others are the call's own affair: NOT_FOUND, RESOURCE_EXHAUSTED without a time, DEADLINE_EXCEEDED.
        herd.stepped.pass(milliseconds: 10_000)
        for status in [5, 8, 4] {
            #expect(try herd.ask(12, [answer.replacing("grpc-status: 14", with: "grpc-status: \(status)"), fine], request) == [6, 6])
        }
        herd.end()
    }

    /// HTTP/2: streams that are reset, and a connection that goes away before it has begun anything.
    @Test(arguments: [true, false]) func streamsThatAreResetOrLeftOutAreFailures(_ goesAway: Bool) throws {
        let listeners = try (0..<2).map { _ in try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!) }
        let snapshot = HTTP2Bench.snapshot(try listeners.map { try $0.localAddress() }) {
            $0.balance = .roundRobin
            $0.retries = 0
        }
        var stepped = try SteppedWorker([Herd.rule], upstreams: [snapshot])
        var peers: [HTTP2Upstream?] = [nil, nil]
        var asked = [0, 0]
        for _ in 0..<16 {
            let client = try Line(to: stepped.address)
            try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            while !client.isReady(milliseconds: 0) {
                stepped.turn(waiting: 5)
                for number in 0..<2 {
                    if peers[number] == nil, Line(listeners[number]).isReady(milliseconds: 0) {
                        peers[number] = try stepped.acceptHTTP2(listeners[number])
                    }
                    guard let peer = peers[number], peer.isReady(milliseconds: 0) else { continue }
                    let frame = try peer.next()
                    guard frame.type == HTTP2Upstream.headers else { continue }
                    asked[number] += 1
                    if number == 1 {
                        try peer.answer(frame.stream)
                    } else if goesAway {
                        try peer.sendGoAway(last: 0)
                        peers[0] = nil
                    } else {
                        try peer.sendReset(frame.stream, .internalError)
                    }
                }
            }
            let status = try client.receiveMessage().status
            #expect([200, goesAway ? 503 : 502].contains(status))
            client.close()
        }
        #expect(asked == [5, 11])
        for peer in peers { peer?.line.close() }
        stepped.end()
        for listener in listeners { listener.close() }
    }

    @Test func handshakesOfWebSocketsThatAreRefusedWith503Count() throws {
        let handshake =
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        var herd = try Herd(2)
        for _ in 0..<14 {
            let client = try Line(to: herd.stepped.address)
            try client.send(handshake)
            let (number, line) = try herd.accept()
            try herd.stepped.turn(untilReadable: line)
            _ = try line.receiveMessage()
            try line.send(Herd.answer(number == 0 ? 503 : 403))
            try herd.stepped.turn(untilReadable: client)
            #expect(try client.receiveMessage().status == (number == 0 ? 503 : 403))
            for line in [client, line] { line.close() }
        }
        #expect(herd.asked == [5, 9])
        herd.end()
    }

    @Test func theOnlyAddressStaysWhateverItAnswers() throws {
        var herd = try Herd(1)
        for _ in 0..<8 {
            #expect(try herd.ask([Herd.answer(503, "Retry-After: 60")]).answer.hasPrefix("HTTP/1.1 503 Text\r\nRetry-After: 60\r\n"))
        }
        #expect(try herd.ask([Self.good]).answer.hasPrefix("HTTP/1.1 200"))
        herd.end()
    }

    // MARK: Retry-After

    @Test func a503WithRetryAfterIsBelievedAtOnce() throws {
        let changes = Changes()
        var herd = try Herd(2, services: { $0.addressChanged = { _, address, change in changes.add(address, change) } })
        let asks = Herd.answer(503, "Retry-After: 7")
        // Its client gets the answer as it is.
        while try herd.ask([asks, Self.good]).number != 0 {}
        #expect(try herd.ask(6, [asks, Self.good]) == [0, 6])
        herd.stepped.pass(milliseconds: 6_000)
        #expect(try herd.ask(2, [asks, Self.good]) == [0, 2])
        herd.stepped.pass(milliseconds: 1_000)
        #expect(try herd.ask(2, [Self.good, Self.good]) == [1, 1])
        herd.stepped.pass(milliseconds: 1_000)
        #expect(changes.words == ["retry_after", "returned"])
        herd.end()
    }

    @Test func bothAddressesMayAskForItAndOneIsStillUsed() throws {
        var herd = try Herd(2)
        let asks = Herd.answer(503, "Retry-After: 7")
        let counts = try herd.ask(6, [asks, asks])
        #expect(counts.sorted() == [1, 5] && counts.reduce(0, +) == 6)
        herd.end()
    }

    @Test func aDateIsATimeToo() throws {
        var herd = try Herd(2)
        var date = ByteBuffer()
        HTTPDate.write(WallTime(seconds: herd.stepped.worker.now.wall.seconds + 20), into: &date)
        let asks = Herd.answer(503, "Retry-After: \(String(decoding: date.readable.array, as: UTF8.self))")
        while try herd.ask([asks, Self.good]).number != 0 {}
        herd.stepped.pass(milliseconds: 15_000)
        #expect(try herd.ask(4, [asks, Self.good]) == [0, 4])
        herd.stepped.pass(milliseconds: 6_000)
        #expect(try herd.ask(2, [Self.good, Self.good]) == [1, 1])
        herd.end()
    }

    @Test(arguments: ["soon", "-1", "0", "1 2", "Sun, 06 Nov 1994 08:49:37 GMT", "1000000", ""])
    func nonsenseIsNotBelieved(_ value: String) throws {
        var herd = try Herd(2)
        #expect(try herd.ask(8, [Herd.answer(503, "Retry-After: \(value)"), Self.good]) == [4, 4])
        herd.end()
    }

    /// The upstream's patience with the client has ended, by an answer that is cut or by none: the address is well.
    @Test(arguments: ["", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"]) func aLossThatWaitsForTheClientIsNotTheAddresss(
        _ part: String
    ) throws {
        var herd = try Herd(2)
        for number in 0..<20 {
            let client = try Line(to: herd.stepped.address)
            try client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\nConnection: close\r\n\r\nhalf")
            let (_, line) = try herd.accept()
            try herd.stepped.turn(untilReadable: line)
            _ = try line.receive(until: "half")
            herd.stepped.pass(milliseconds: 1_100)
            if !part.isEmpty { try line.send(part) }
            line.close()
            try herd.stepped.turn(untilReadable: client)
            let status = try client.receive().map { String(decoding: $0.prefix(12), as: UTF8.self) }
            #expect(status == (part.isEmpty ? "HTTP/1.1 408" : "HTTP/1.1 200"), "\(number)")
            client.close()
            herd.stepped.turn()
        }
        #expect(try herd.ask(4, [Self.good, Self.good]) == [2, 2])
        // With a whole request it is the address's.
        for _ in 0..<10 { try herd.ask([Herd.answer(502), Self.good]) }
        #expect(try herd.ask(4, [Self.good, Self.good]) == [0, 4])
        herd.end()
    }

    /// The client was about to send more.
    @Test func aCrashWhileContentComesIsTheAddresss() throws {
        var herd = try Herd(2)
        for _ in 0..<10 {
            let client = try Line(to: herd.stepped.address)
            try client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\nConnection: close\r\n\r\nhalf")
            let (number, line) = try herd.accept()
            try herd.stepped.turn(untilReadable: line)
            _ = try line.receive(until: "half")
            // The rate of its content has run for long, its silence has not.
            herd.stepped.pass(milliseconds: 1_100)
            try client.send("a")
            try herd.stepped.turn(untilReadable: line)
            herd.stepped.pass(milliseconds: 200)
            if number == 1 {
                try client.send("more!")
                try herd.stepped.turn(untilReadable: line)
                try line.send(Self.good)
            }
            line.close()
            try herd.stepped.turn(untilReadable: client)
            #expect(
                try client.receive().map { String(decoding: $0.prefix(12), as: UTF8.self) }
                    == (number == 1 ? "HTTP/1.1 200" : "HTTP/1.1 502"))
            client.close()
            herd.stepped.turn()
        }
        #expect(try herd.ask(4, [Self.good, Self.good]) == [0, 4])
        herd.end()
    }

    /// Mostly it is one client that is too fast.
    @Test func a429IsBelievedWhenManyClientsGetIt() throws {
        var herd = try Herd(2, proxies: [CIDR(parsing: "127.0.0.0/8")!])
        let asks = Herd.answer(429, "Retry-After: 7")
        #expect(try herd.ask(40, [asks, Self.good]) == [20, 20])
        for number in 1...10 {
            try herd.ask([asks, Self.good], "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.\(number)\r\nConnection: close\r\n\r\n")
        }
        #expect(try herd.ask(4, [asks, Self.good]) == [0, 4])
        herd.stepped.pass(milliseconds: 7_000)
        #expect(try herd.ask(2, [Self.good, Self.good]) == [1, 1])
        herd.end()
    }

    // MARK: windows

    @Test func anAddressWithFewerSuccessesIsEjectedWhenItsWindowEnds() throws {
        let changes = Changes()
        var herd = try Herd(
            3, { $0.outliers.interval = 100_000 }, services: { $0.addressChanged = { _, address, change in changes.add(address, change) } })
        // 500 is no part of a row.
        herd.endWindow()
        #expect(try herd.ask(180, [Herd.answer(500), Self.good, Self.good]) == [60, 60, 60])
        #expect(changes.words == [])
        herd.endWindow()
        #expect(changes.words == ["success"])
        #expect(try herd.ask(6, [Self.good, Self.good, Self.good]) == [0, 3, 3])
        herd.stepped.pass(milliseconds: 101_000)
        #expect(changes.words == ["success", "returned"])
        #expect(try herd.ask(6, [Self.good, Self.good, Self.good]) == [2, 2, 2])
        herd.end()
    }

    @Test func anAddressThatIsSlowIsEjectedWhenItsWindowEnds() throws {
        let changes = Changes()
        var herd = try Herd(
            3,
            {
                $0.outliers.latency = .factor(3)
                $0.outliers.interval = 100_000
            }, services: { $0.addressChanged = { _, address, change in changes.add(address, change) } })
        herd.endWindow()
        #expect(try herd.ask(165, [Self.good, Self.good, Self.good], after: [5, 5, 150]) == [55, 55, 55])
        herd.endWindow()
        #expect(changes.words == ["latency"])
        #expect(try herd.ask(6, [Self.good, Self.good, Self.good]) == [3, 3, 0])
        herd.end()
    }

    /// Otherwise clients that send slowly could have an address ejected.
    @Test func theTimeThatAClientTakesToSendIsNotTheAddresss() throws {
        var herd = try Herd(3) {
            $0.outliers.latency = .factor(3)
            $0.outliers.interval = 100_000
        }
        herd.endWindow()
        let client = try Line(to: herd.stepped.address)
        try client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nConnection: close\r\n\r\nab")
        let (number, line) = try herd.accept()
        try herd.stepped.turn(untilReadable: line)
        _ = try line.receive(until: "\r\n\r\nab")
        herd.stepped.pass(milliseconds: 3_000)
        try client.send("cd")
        try herd.stepped.turn(untilReadable: line)
        _ = try line.receive(until: "cd")
        herd.stepped.pass(milliseconds: 100)
        try line.send(Self.good)
        try herd.stepped.turn(untilReadable: client)
        let median = try #require(herd.pool.windows[number].times.median)
        #expect((80_000...1_000_000).contains(median))
        for line in [client, line] { line.close() }
        herd.end()
    }

    // MARK: several workers

    @Test func oneWorkerJudgesForAll() throws {
        let (changes, sightings) = (Changes(), Mutexed<[(UpstreamAddress, AddressReport)]>([]))
        var judge = try Herd(2, services: { $0.addressChanged = { _, address, change in changes.add(address, change) } })
        let snapshot = judge.snapshot
        var other = try SteppedWorker(
            [Herd.rule], upstreams: [snapshot],
            services: { $0.reportSighting = { _, address, sighting in sightings.change { $0.append((address, sighting)) } } })
        // The other worker sees five failures, and goes on until the judge has spoken.
        let client = try Line(to: other.address)
        while sightings.now.isEmpty {
            try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            var found: (Int, Line)?
            while found == nil {
                other.turn(waiting: 5)
                for number in judge.listeners.indices where Line(judge.listeners[number]).isReady(milliseconds: 0) {
                    found = (number, try Line(acceptedFrom: judge.listeners[number]))
                }
            }
            let (number, line) = try #require(found)
            try other.turn(untilReadable: line)
            _ = try line.receiveMessage()
            try line.send(number == 0 ? Herd.answer(503) : Self.good)
            line.close()
            try other.turn(untilReadable: client)
            _ = try client.receiveMessage()
        }
        #expect(other.worker.upstreams.directory.pools[0].endpoints.allSatisfy { $0.health.isSettled })
        for (address, sighting) in sightings.now { judge.stepped.post(.sighted(upstream: "back", address, sighting)) }
        while changes.now.isEmpty { judge.stepped.turn(waiting: 10) }
        #expect(changes.words == ["failures"])
        for (address, change) in changes.now {
            if case .left(let absence, _) = change { other.post(.left(upstream: "back", address, absence)) }
        }
        other.turn(waiting: 1_000)
        #expect(other.worker.upstreams.directory.pools[0].endpoints.map(\.health.isSettled) == [false, true])
        #expect(try judge.ask(4, [Self.good, Self.good]) == [0, 4])
        client.close()
        other.end()
        judge.end()
    }

    @Test func aWorkersWindowCountsForTheJudge() throws {
        let changes = Changes()
        var judge = try Herd(
            3, { $0.outliers.interval = 100_000 }, services: { $0.addressChanged = { _, address, change in changes.add(address, change) } })
        judge.endWindow()
        #expect(try judge.ask(120, [Self.good, Self.good, Self.good]) == [40, 40, 40])
        let addresses = judge.snapshot.addresses
        for (number, failures) in [(0, 0), (1, 0), (2, 40)] {
            let window = AnswerWindow(successes: 40 - failures, failures: failures)
            judge.stepped.post(.sighted(upstream: "back", addresses[number], .window(window)))
        }
        judge.endWindow()
        #expect(changes.words == ["success"] && changes.now[0].address.isSame(as: addresses[2]))
        judge.end()
    }

    // MARK: what the operator sees

    @Test func theStatusSaysWhyAnAddressIsOut() throws {
        let panics = Mutexed<[Bool]>([])
        var herd = try Herd(
            3, { $0.outliers.maxEjected = 100 }, services: { $0.panicChanged = { _, begins, _, _ in panics.change { $0.append(begins) } } })
        let answers = [Herd.answer(503), Self.good, Self.good]
        _ = try herd.ask(15, answers)
        var status = try #require(herd.stepped.worker.upstreamStatuses().first)
        #expect(status.name == "back" && !status.isPanicking && status.addresses.map(\.state) == [.ejected, .in, .in])
        #expect(status.addresses[0].reason == "failures" && status.addresses[0].detail == "5 failures in a row")
        let (since, until) = (try #require(status.addresses[0].since), try #require(status.addresses[0].until))
        #expect(abs(until.microseconds - since.microseconds - 10_000_000) < 10)
        #expect(status.addresses.map(\.share) == [0, 100, 100] && status.addresses[0].ejections == 1)
        // One more, and too few are left.
        _ = try herd.ask(10, [Self.good, Herd.answer(503), Self.good])
        status = try #require(herd.stepped.worker.upstreamStatuses().first)
        #expect(status.isPanicking && status.addresses.map(\.state) == [.ejected, .ejected, .in])
        #expect(panics.now == [true])
        #expect(try herd.ask(6, [Self.good, Self.good, Self.good]) == [2, 2, 2])
        herd.stepped.pass(milliseconds: 12_000)
        #expect(panics.now == [true, false])
        herd.end()
    }
}

/// A value that closures and a test share.
final class Mutexed<Value: Sendable>: Sendable {
    private let value: Mutex<Value>
    init(_ value: Value) { self.value = Mutex(value) }
    var now: Value { value.withLock { $0 } }
    func change(_ body: (inout Value) -> Void) { value.withLock { body(&$0) } }
}
