import Gate
import Testing
import Threads
import Transport
import Wire

@testable import Proxy

/// WebSockets on a clock that the test moves: a peer has a moment for what must come, and a busy machine would take longer.
extension WebSocketTests {
    private func listen() throws -> Socket { try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!) }

    @Test func aClientThatEndsItsSideBehindACloseFrameStillGetsTheAnswer() throws {
        let listener = try listen()
        defer { listener.close() }
        var worker = try SteppedWorker(forwardingTo: listener, takesWebSockets: true)
        let (client, upstream) = try worker.openWebSocket(to: listener)
        let asked = close(1000, "", masked: true)
        try client.send(asked)
        client.finishSending()
        try worker.turn(untilReadable: upstream)
        #expect(try upstream.take(asked.count) == asked)
        worker.pass(milliseconds: 1_000)
        try upstream.send(close(1000, "", masked: false))
        #expect(try worker.takeAll(client) == close(1000, "", masked: false))
        for line in [client, upstream] { line.close() }
        // Nothing is left of it.
        while worker.worker.exchanges.count + worker.worker.downstream.clients.count + worker.worker.upstreams.connections.count > 0 {
            worker.turn(waiting: 10)
        }
        worker.end()
    }

    @Test func aDrainSays1001BetweenTwoFrames() throws {
        let listener = try listen()
        defer { listener.close() }
        var worker = try SteppedWorker(forwardingTo: listener, takesWebSockets: true)
        let (idle, idleUpstream) = try worker.openWebSocket(to: listener)
        let (client, upstream) = try worker.openWebSocket(to: listener)
        let whole = frame(0x82, [UInt8](repeating: 1, count: 300), masked: false)
        try upstream.send(Array(whole[..<100]))
        try worker.turn(untilReadable: client)
        #expect(try client.take(100) == Array(whole[..<100]))
        worker.post(.drain(within: 60_000))
        #expect(try worker.takeAll(idle) == close(1001, "going away", masked: false))
        #expect(try worker.takeAll(idleUpstream) == close(1001, "going away", masked: true))
        // The other one is inside a frame: it ends first.
        worker.pass(milliseconds: 300)
        #expect(!client.isReady(milliseconds: 20))
        try upstream.send(whole[100...] + frame(0x81, [9], masked: false))
        #expect(try worker.takeAll(client) == Array(whole[100...]) + close(1001, "going away", masked: false))
        for line in [idle, idleUpstream, client, upstream] { line.close() }
        worker.join()
    }

    @Test func anIdleWebSocketIsClosed() throws {
        let listener = try listen()
        defer { listener.close() }
        var worker = try SteppedWorker(forwardingTo: listener, takesWebSockets: true)
        let (client, upstream) = try worker.openWebSocket(to: listener)
        for _ in 0..<3 {
            worker.pass(milliseconds: 200_000)
            try upstream.send(frame(0x89, [], masked: false))
            try worker.turn(untilReadable: client)
            #expect(try client.take(2) == [0x89, 0])
        }
        worker.pass(milliseconds: 299_000)
        #expect(!client.isReady(milliseconds: 20))
        worker.pass(milliseconds: 2_000)
        #expect(try client.take(8) == close(1001, "idle", masked: false))
        #expect(try upstream.take(12) == close(1001, "idle", masked: true))
        for line in [client, upstream] { line.close() }
        worker.end()
    }
}
