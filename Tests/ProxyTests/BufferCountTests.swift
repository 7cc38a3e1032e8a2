import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// The count of the memory that heads and bodies take, over more connections than one turn looks at.
@Suite(.ownThread) struct BufferCountTests {
    @Test func aTurnLooksAtAFewConnectionsAndTheCountHasThemAll() throws {
        let clients = BufferCount.looksOfTurn + 44
        let part = "GET / HTTP/1.1\r\nX-Long: " + String(repeating: "x", count: 1_000)
        var settings = WorkerSettings()
        settings.maxBuffers = part.utf8.count * (clients - 1)
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        var stepped = try SteppedWorker(forwardingTo: listener, settings: settings)
        defer { stepped.end() }
        var lines: [Line] = []
        for _ in 1...clients {
            let line = try Line(to: stepped.address)
            try line.send(part)
            lines.append(line)
        }
        var turns = 0
        while stepped.buffered < clients * part.utf8.count, turns < 1_000 {
            stepped.turn(waiting: 10)
            turns += 1
        }
        #expect(stepped.buffered == clients * part.utf8.count)
        var turnsInBetween = 0
        for _ in 0..<6 {
            stepped.advance(milliseconds: 600)
            let before = stepped.worker.load.counting.clients
            stepped.turn()
            let after = stepped.worker.load.counting.clients
            #expect(after - before <= BufferCount.looksOfTurn)
            if after > 0 { turnsInBetween += 1 }
        }
        #expect(turnsInBetween > 0 && stepped.worker.load.isShortOfMemory)
        for line in lines { line.close() }
    }
}

extension SteppedWorker {
    /// The bytes that its clients have sent and it has not passed on.
    fileprivate var buffered: Int {
        var bytes = 0
        for client in worker.downstream.clients.indices where worker.downstream.clients[client].phase != .free {
            bytes += worker.downstream.clients[client].input.count
        }
        return bytes
    }
}
