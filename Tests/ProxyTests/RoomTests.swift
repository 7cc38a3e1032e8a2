import Gate
import HTTP
import Synchronization
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Two workers that have one connection to their upstream between them (`max-connections=1`).
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct RoomTests {
    private static let request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

    /// The questions of a worker to the other.
    private final class Asked: Sendable {
        private let counts = Mutex<[Int]>([])
        var now: [Int] { counts.withLock { $0 } }
        func note(_ count: Int) { counts.withLock { $0.append(count) } }
    }

    private final class Answers: Sendable {
        let count = Atomic<Int>(0)
    }

    private func worker(_ upstream: UpstreamSnapshot, _ asked: Asked = Asked()) throws -> SteppedWorker {
        let rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: .none)
        return try SteppedWorker(
            [rule], upstreams: [upstream],
            makeRoom: { _, count in
                asked.note(count)
                return true
            })
    }

    private func upstream(_ listener: Socket) throws -> UpstreamSnapshot {
        RunningWorker.upstream("back", [try listener.localAddress()]) { $0.maxConnections = 1 }
    }

    @Test func aConnectionThatOneKeepsIdleGivesWayToTheOthersRequest() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        let (back, asked) = (try upstream(listener), Asked())
        var first = try worker(back)
        var second = try worker(back, asked)
        let one = try Line(to: first.address)
        let kept = try first.exchange(one, listener)
        let other = try Line(to: second.address)
        try other.send(Self.request)
        while asked.now.isEmpty { second.turn(waiting: 10) }
        #expect(asked.now == [1])
        #expect(!other.isReady(milliseconds: 0), "it waits")
        // The other worker closes what it keeps, and no more than is wanted.
        let answers = Answers()
        first.post(.makeRoom(RoomRequest(upstream: "back", connections: 1, workers: 1) { answers.count.add(1, ordering: .relaxed) }))
        while answers.count.load(ordering: .relaxed) == 0 { first.turn(waiting: 10) }
        #expect(try kept.receiveAll().end == .closed)
        second.post(.roomMade(upstream: "back"))
        let fresh = try second.accept(listener)
        try second.turn(untilReadable: fresh)
        _ = try fresh.receiveMessage()
        try fresh.send(ExchangeTests.ok)
        try second.turn(untilReadable: other)
        #expect(try other.receiveMessage().status == 200)
        first.end()
        second.end()
        #expect(back.connections.acquire(within: 1), "everything was given back")
        #expect(!back.connections.hasIdle)
    }

    /// A reload lowers the bound: connections above it close as soon as they are idle, and a busy one is not kept.
    @Test func aBoundThatIsLoweredHoldsForConnectionsThatAreThere() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        let wide = RunningWorker.upstream("back", [try listener.localAddress()]) { $0.maxConnections = 3 }
        var worker = try worker(wide)
        let lines = try (0..<3).map { _ in try Line(to: worker.address) }
        for line in lines { try line.send(Self.request) }
        let busy = try (0..<3).map { _ in try worker.accept(listener) }
        for line in busy.prefix(2) {
            try worker.turn(untilReadable: line)
            _ = try line.receiveMessage()
            try line.send(ExchangeTests.ok)
        }
        for _ in 0..<2 where worker.worker.upstreams.maxIdle(0) == nil { worker.turn(waiting: 10) }
        var narrow = wide.settings
        narrow.maxConnections = 1
        worker.worker.upstreams.directory.adopt(
            [UpstreamSnapshot(settings: narrow, addresses: wide.addresses, connections: wide.connections)], at: EventLoop.now().monotonic)
        worker.worker.upstreams.closeRetired()
        try busy[2].send(ExchangeTests.ok)
        for line in lines { try worker.turn(untilReadable: line) }
        let open = worker.worker.upstreams.directory.pools[0].endpoints[0].connections
        #expect(open <= 1)
        worker.end()
    }

    @Test func whereAllAreBusyNobodyWaits() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        let (back, asked) = (try upstream(listener), Asked())
        var first = try worker(back)
        var second = try worker(back, asked)
        let one = try Line(to: first.address)
        try one.send(Self.request)
        let busy = try first.accept(listener)
        let other = try Line(to: second.address)
        try other.send(Self.request)
        try second.turn(untilReadable: other)
        #expect(try other.receiveMessage().status == 503)
        #expect(asked.now.isEmpty)
        busy.close()
        first.end()
        second.end()
        #expect(back.connections.acquire(within: 1))
    }

    @Test func aWorkerThatDoesNotAnswerHoldsARequestUpForASecondAtMost() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        let (back, asked) = (try upstream(listener), Asked())
        var first = try worker(back)
        var second = try worker(back, asked)
        _ = try first.exchange(try Line(to: first.address), listener)
        let lines = try (0..<3).map { _ in try Line(to: second.address) }
        for line in lines { try line.send(Self.request) }
        while asked.now.reduce(0, +) < 1 { second.turn(waiting: 10) }
        second.pass(milliseconds: 1_500)
        for _ in 0..<3 { second.pass(milliseconds: 1_500) }
        for line in lines {
            try second.turn(untilReadable: line)
            #expect(try line.receiveMessage().status == 503)
        }
        #expect(second.worker.upstreams.directory.pools[0].endpoints[0].outstanding == 0)
        let isRoomWanted = second.worker.upstreams.directory.roomIsWanted
        #expect(!isRoomWanted)
        first.end()
        second.end()
    }

    @Test func whoLeavesWhileWaitingLeavesNothingBehind() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        let (back, asked) = (try upstream(listener), Asked())
        var first = try worker(back)
        var second = try worker(back, asked)
        _ = try first.exchange(try Line(to: first.address), listener)
        let line = try Line(to: second.address)
        try line.send(Self.request)
        while asked.now.isEmpty { second.turn(waiting: 10) }
        line.reset()
        while second.worker.downstream.clients.count > 0 { second.turn(waiting: 10) }
        #expect(second.worker.upstreams.directory.pools[0].endpoints[0].outstanding == 0)
        first.end()
        second.post(.roomMade(upstream: "back"))
        second.turn()
        #expect(second.worker.exchanges.count == 0)
        second.end()
        #expect(back.connections.acquire(within: 1))
    }
}
