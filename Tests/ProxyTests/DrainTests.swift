import Gate
import TestThreads
import Testing
import Threads
import Transport
import Wire

@testable import Proxy

/// The end of a worker: every request gets its answer, and idle clients do not delay it.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct DrainTests {
    @Test func aRequestUnderWayIsAnsweredAndItsConnectionCloses() throws {
        let bench = try Bench()
        let client = try bench.client()
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        bench.worker.mailbox.post(.drain(within: 60_000))
        bench.worker.settle()
        try upstream.send(ExchangeTests.ok)
        let answer = try client.receiveMessage()
        #expect(answer.body == "ok" && answer.value(of: "Connection") == "close")
        client.close()
        bench.worker.join()
        upstream.close()
        bench.upstream.close()
    }

    @Test func aConnectionThatWasJustMadeStillGetsItsFirstAnswer() throws {
        // On a clock of its own: it has a second for its first request.
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        var stepped = try SteppedWorker(forwardingTo: listener)
        let held = try Line(to: stepped.address)
        try held.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try stepped.accept(listener)
        try stepped.turn(untilReadable: upstream)
        _ = try upstream.receiveMessage()
        let fresh = try Line(to: stepped.address)
        while stepped.worker.downstream.clients.count < 2 { stepped.turn(waiting: 10) }
        stepped.post(.drain(within: 60_000))
        stepped.turn(waiting: 1_000)
        stepped.pass(milliseconds: 500)
        try fresh.send("GET /fresh HTTP/1.1\r\nHost: h\r\n\r\n")
        let second = try stepped.accept(listener)
        try stepped.turn(untilReadable: second)
        _ = try second.receiveMessage()
        try second.send(ExchangeTests.ok)
        try stepped.turn(untilReadable: fresh)
        #expect(try fresh.receiveMessage().value(of: "Connection") == "close")
        try upstream.send(ExchangeTests.ok)
        try stepped.turn(untilReadable: held)
        #expect(try held.receiveMessage().status == 200)
        for line in [held, fresh, upstream, second] { line.close() }
        stepped.join()
    }

    @Test func anIdleConnectionGetsOneMoreAnswer() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        var stepped = try SteppedWorker(forwardingTo: listener)
        let (late, silent) = (try Line(to: stepped.address), try Line(to: stepped.address))
        let upstream = try stepped.exchange(late, listener)
        _ = try stepped.exchange(silent, over: upstream, listener)
        stepped.post(.drain(within: 60_000))
        stepped.turn(waiting: 1_000)
        stepped.pass(milliseconds: 29_000)
        try late.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi")
        try stepped.turn(untilReadable: upstream)
        #expect(try upstream.receiveMessage().hasSuffix("hi"))
        try upstream.send(ExchangeTests.ok)
        try stepped.turn(untilReadable: late)
        #expect(try late.receiveMessage().value(of: "Connection") == "close")
        late.close()
        #expect(!silent.isReady(milliseconds: 0))
        stepped.pass(milliseconds: 1_000)
        stepped.join()
        #expect(try silent.receiveAll() == ("", .closed))
        for line in [silent, upstream] { line.close() }
    }

    /// On addresses where something else comes before the first request.
    @Test func aConnectionThatSaysNothingDoesNotHoldItUp() throws {
        for kind in ["h2c", "proxy", "proxy, h2c"] {
            var settings = WorkerSettings()
            settings.headTimeout = 3_600_000
            var stepped = try SteppedWorker(
                [], upstreams: [], settings: settings, allowsHTTP2: kind.hasSuffix("h2c"), announces: kind.hasPrefix("proxy"))
            let client = try Line(to: stepped.address)
            try stepped.turn { $0.downstream.clients.count == 1 }
            stepped.post(.drain(within: 3_600_000))
            stepped.turn(waiting: 1_000)
            stepped.pass(milliseconds: 2_000)
            #expect(stepped.worker.phase == .ended, "\(kind)")
            #expect(try client.receiveAll() == ("", .closed))
            client.close()
            if stepped.worker.phase != .ended { stepped.end() }
        }
    }

    @Test func aConnectionOfTheAdminListenerDoesNotHoldItUp() throws {
        let bench = try Bench()
        let admin = try Line(to: bench.worker.adminAddress)
        try admin.send("GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try admin.receiveMessage().status == 200)
        bench.worker.mailbox.post(.drain(within: 3_600_000))
        bench.worker.join()
        #expect(try admin.receiveAll().text == "")
        #expect(!bench.worker.mailbox.post(.drain(within: 0)))
        admin.close()
        bench.upstream.close()
    }

    // MARK: another process has the listeners

    @Test func afterAHandoverAnIdleConnectionGetsOneMoreAnswer() throws {
        let bench = try Bench()
        let idle = try bench.client()
        try idle.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        try upstream.send(ExchangeTests.ok)
        #expect(try idle.receiveMessage().value(of: "Connection") == nil)
        let admin = try Line(to: bench.worker.adminAddress)
        try admin.send("GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try admin.receiveMessage().status == 200)
        bench.worker.mailbox.post(.drain(within: 600_000, handsOver: true))
        bench.worker.settle()
        #expect(throws: (any Error).self) { try bench.client().send("GET / HTTP/1.1\r\nHost: h\r\n\r\n") }
        try idle.send("GET /again HTTP/1.1\r\nHost: h\r\n\r\n")
        _ = try upstream.receiveMessage()
        try upstream.send(ExchangeTests.ok)
        #expect(try idle.receiveMessage().value(of: "Connection") == "close")
        // It ends once the admin connection has had its last answer, too.
        try admin.send("GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try admin.receiveMessage().value(of: "Connection") == "close")
        for line in [idle, admin] { line.close() }
        bench.worker.join()
        upstream.close()
        bench.upstream.close()
    }

    @Test func afterHalfOfTheTimeIdleConnectionsClose() throws {
        let bench = try Bench()
        let idle = try bench.client()
        try idle.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        try upstream.send(ExchangeTests.ok)
        _ = try idle.receiveMessage()
        bench.worker.mailbox.post(.drain(within: 1_000, handsOver: true))
        #expect(try idle.receiveAll().text == "")
        for line in [idle, upstream] { line.close() }
        bench.worker.join()
        bench.upstream.close()
    }
}
