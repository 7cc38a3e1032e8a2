import Credentials
import Gate
@testable import Limits
import Synchronization
import System
import TestThreads
import Testing
import Threads
import Transport
import Wire

@testable import Proxy

/// Messages of the control plane, beside what comes in the same turn.
@Suite(.ownThread) struct MessageOrderTests {
    private func rule(_ auth: AuthMode) -> RouteRule {
        RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: auth)
    }

    /// A client is told that it has signed out, and sends its next request: the session is among the ended ones by then.
    @Test func aMessageCountsForRequestsThatWereSentAfterIt() throws {
        // Without an address, so that each request is answered in its turn.
        var stepped = try SteppedWorker([rule(.none)], upstreams: [RunningWorker.upstream("back", [])])
        defer { stepped.end() }
        let client = try Line(to: stepped.address)
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        try stepped.turn(untilReadable: client)
        #expect(try client.receiveMessage().status == 503)
        stepped.post(.adoptPolicy(try Policy(rules: [rule(.required)], trust: Trust(issuers: []))))
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        try stepped.turn(untilReadable: client)
        #expect(try client.receiveMessage().status == 401)
        client.close()
    }

    /// The loop reports 512 events at once, and the wake-up for the message may be behind them.
    @Test func aMessageCountsForRequestsThatWereSentAfterItAmongManyEvents() throws {
        _ = DescriptorLimit.raise()
        var stepped = try SteppedWorker([rule(.none)], upstreams: [RunningWorker.upstream("back", [])])
        defer { stepped.end() }
        var clients: [Line] = []
        while clients.count < 520 {
            clients.append(try Line(to: stepped.address))
            try stepped.turn { $0.downstream.clients.count == clients.count }
        }
        for client in clients { try client.send("GET / HTTP/1.1\r\nHost: h\r\n") }
        stepped.post(.adoptPolicy(try Policy(rules: [rule(.required)], trust: Trust(issuers: []))))
        for client in clients { try client.send("\r\n") }
        stepped.turn()
        stepped.turn()
        let statuses = try clients.map { client in
            #expect(client.isReady(milliseconds: 0))
            return try client.receiveMessage().status
        }
        #expect(statuses.allSatisfy { $0 == 401 }, "\(statuses.count { $0 != 401 }) were answered by the rules before")
        for client in clients { client.close() }
    }

    /// A listener has a connection waiting when the worker is told to close it.
    @Test func aListenerThatADrainHasClosedAcceptsNoMore() throws {
        var stepped = try SteppedWorker([rule(.none)], upstreams: [RunningWorker.upstream("back", [])])
        let client = try Line(to: stepped.address)
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        stepped.post(.drain(within: 20_000))
        try stepped.turn(untilReadable: client)
        #expect(try client.receiveMessage().status == 503)
        stepped.join()
        client.close()
    }

    @Test func whatTheControlPlaneAsksAWorkerThatEndsIsAnswered() throws {
        var stepped = try SteppedWorker([rule(.none)], upstreams: [])
        let told = Told()
        let mailbox = stepped.worker.mailbox
        stepped.post(.drain(within: 0))
        // Posted after the last reading of the mailbox.
        stepped.post(
            .confirm {
                mailbox.post(.take([]) { _ in told.add("take") })
                mailbox.post(.lease(LeaseCall(keys: [], arguments: [])) { _ in told.add("lease") })
            })
        stepped.join()
        #expect(told.all == ["take", "lease"])
    }

    private final class Told: Sendable {
        private let texts = Mutex<[String]>([])
        func add(_ text: String) { texts.withLock { $0.append(text) } }
        var all: [String] { texts.withLock { $0 } }
    }
}
