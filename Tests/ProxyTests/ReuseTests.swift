import Glibc
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Kept connections to upstreams: bytes that come on an idle one answer no request.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct ReuseTests {
    private static let late = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlate"

    @Test func whatCameTogetherWithTheNextRequestIsNotItsAnswer() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let client = try Line(to: stepped.address)
        let kept = try stepped.exchange(client, listener)
        let idle = try #require(
            stepped.worker.upstreams.connections.indices.first { stepped.worker.upstreams.connections[$0].phase == .idle })
        // The loop has nothing left to tell; then both are there before it looks again, the request first.
        stepped.turn()
        try client.send("GET /second HTTP/1.1\r\nHost: h\r\n\r\n")
        try Line(stepped.worker.downstream.clients[.first].connection.socket).wait(POLLIN)
        try kept.send(Self.late)
        try Line(stepped.worker.upstreams.connections[idle].connection.socket).wait(POLLIN)
        stepped.turn()
        let fresh = try stepped.accept(listener)
        try stepped.turn(untilReadable: fresh)
        #expect(try fresh.receiveMessage().hasPrefix("GET /second "))
        try fresh.send(ExchangeTests.ok)
        try stepped.turn(untilReadable: client)
        #expect(try client.receiveMessage().body == "ok")
        for line in [client, kept, fresh] { line.close() }
    }

    /// `isLong`: whether it was idle for longer than it is trusted unseen.
    @Test(arguments: [true, false]) func whatTheLoopHasNotToldOfIsLookedForAfterALongRest(_ isLong: Bool) throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let client = try Line(to: stepped.address)
        let kept = try stepped.exchange(client, listener)
        let idle = try #require(
            stepped.worker.upstreams.connections.indices.first { stepped.worker.upstreams.connections[$0].phase == .idle })
        // As if it came just after the loop had looked.
        let token = Token(.upstream, stepped.worker.upstreams.connections.handle(idle)).bits
        stepped.worker.upstreams.connections[idle].connection.watch(Interest(), token: token, in: stepped.worker.loop)
        if isLong { stepped.pass(milliseconds: stepped.worker.settings.upstreamTrust + 1) }
        try kept.send(Self.late)
        try Line(stepped.worker.upstreams.connections[idle].connection.socket).wait(POLLIN)
        try client.send("GET /second HTTP/1.1\r\nHost: h\r\n\r\n")
        guard isLong else {
            try stepped.turn(untilReadable: kept)
            #expect(try kept.receiveMessage().hasPrefix("GET /second "), "no call is spent on a connection that was just used")
            for line in [client, kept] { line.close() }
            return
        }
        let fresh = try stepped.accept(listener)
        try stepped.turn(untilReadable: fresh)
        #expect(try fresh.receiveMessage().hasPrefix("GET /second "))
        try fresh.send(ExchangeTests.ok)
        try stepped.turn(untilReadable: client)
        #expect(try client.receiveMessage().body == "ok")
        for line in [client, kept, fresh] { line.close() }
    }

    @Test func aConnectionThatRestedLongAndIsStillThereIsUsedAgain() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let client = try Line(to: stepped.address)
        let kept = try stepped.exchange(client, listener)
        stepped.pass(milliseconds: stepped.worker.settings.upstreamTrust + 1)
        _ = try stepped.exchange(client, over: kept, listener)
        #expect(!Line(listener).isReady(milliseconds: 0))
        for line in [client, kept] { line.close() }
    }
}
