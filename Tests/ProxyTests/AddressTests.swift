import Credentials
import Gate
import Glibc
import Telemetry
import TestServers
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// The addresses of an upstream: each is spoken to by its own name, and leaves when the configuration says so.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct AddressTests {
    private let rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: .none)

    private func listener() throws -> Socket { try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!) }

    private func snapshot(_ addresses: UpstreamAddress..., ownHost: Bool = true) -> UpstreamSnapshot {
        var settings = UpstreamSettings(name: "back")
        settings.sendsOwnHost = ownHost
        return UpstreamSnapshot(settings: settings, addresses: addresses)
    }

    @Test(arguments: [true, false]) func aRetryElsewhereGoesByTheOtherAddressesNameAndPath(_ ownHost: Bool) throws {
        let gone = try HeldPort()
        let refusing = try #require(SocketAddress(parsing: "127.0.0.1:\(gone.number)"))
        let second = try listener()
        defer { second.close() }
        let addresses = [
            UpstreamAddress(address: refusing, authority: "one.test:81", pathPrefix: "/first/base"),
            UpstreamAddress(address: try second.localAddress(), authority: "two.test", pathPrefix: "/2"),
        ]
        var stepped = try SteppedWorker([rule], upstreams: [snapshot(addresses[0], addresses[1], ownHost: ownHost)])
        defer { stepped.end() }
        let client = try Line(to: stepped.address)
        var kept: Line?
        // Whichever address is chosen first, the one that answers reads its own.
        for number in 0..<4 {
            try client.send("PUT /p?q=1 HTTP/1.1\r\nHost: client.test\r\nContent-Length: 2\r\nX-N: \(number)\r\n\r\nab")
            let upstream = try kept ?? stepped.accept(second)
            kept = upstream
            try stepped.turn(untilReadable: upstream)
            let request = try upstream.receiveMessage()
            #expect(request.hasPrefix("PUT /2/p?q=1 HTTP/1.1\r\nHost: \(ownHost ? "two.test" : "client.test")\r\n"))
            #expect(request.value(of: "X-N") == "\(number)" && request.body == "ab")
            try upstream.send(ExchangeTests.ok)
            try stepped.turn(untilReadable: client)
            #expect(try client.receiveMessage().body == "ok")
        }
        // A client of HTTP/1.0 may name no host: then the address's own name stands for it.
        try client.send("GET / HTTP/1.0\r\n\r\n")
        let upstream = try #require(kept)
        try stepped.turn(untilReadable: upstream)
        #expect(try upstream.receiveMessage().hasPrefix("GET /2/ HTTP/1.1\r\nHost: two.test\r\n"))
        withExtendedLifetime(gone) { for line in [client, upstream] { line.close() } }
    }

    // MARK: reloads

    private func adopt(_ snapshot: UpstreamSnapshot, _ stepped: inout SteppedWorker) throws {
        var labels = MetricLabels(WorkerTelemetry.words)
        labels.declare(routes: ["all"], upstreams: ["back"], tiers: ["free", "premium"], issuers: [])
        let policy = try Policy(rules: [rule], trust: .init(issuers: []))
        stepped.post(.adopt(policy, [snapshot], WorkerSettings(), labels))
        stepped.turn(waiting: 1_000)
    }

    @Test func aReloadThatChangesNothingKeepsConnections() throws {
        let upstream = try listener()
        defer { upstream.close() }
        let address = UpstreamAddress(address: try upstream.localAddress())
        var stepped = try SteppedWorker([rule], upstreams: [snapshot(address)])
        defer { stepped.end() }
        let client = try Line(to: stepped.address)
        let kept = try stepped.exchange(client, upstream)
        try adopt(snapshot(address), &stepped)
        _ = try stepped.exchange(client, over: kept, upstream)
        for line in [client, kept] { line.close() }
    }

    @Test func anAddressThatIsGoneLosesItsIdleConnectionsAtOnceAndItsBusyOnesWhenTheyAreDone() throws {
        let (old, new) = (try listener(), try listener())
        defer {
            old.close()
            new.close()
        }
        let before = UpstreamAddress(address: try old.localAddress())
        var stepped = try SteppedWorker([rule], upstreams: [snapshot(before)])
        defer { stepped.end() }
        let clients = [try Line(to: stepped.address), try Line(to: stepped.address)]
        // Both at once, so that there are two connections; one is given back.
        for client in clients { try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n") }
        let lines = [try stepped.accept(old), try stepped.accept(old)]
        for line in lines {
            try stepped.turn(untilReadable: line)
            _ = try line.receiveMessage()
        }
        try lines[0].send(ExchangeTests.ok)
        while !clients.contains(where: { $0.isReady(milliseconds: 0) }) { stepped.turn(waiting: 10) }
        try adopt(snapshot(UpstreamAddress(address: try new.localAddress())), &stepped)
        #expect(try lines[0].receiveAll().end == .closed)
        #expect(!lines[1].isReady(milliseconds: 0))
        let answered = clients[0].isReady(milliseconds: 0) ? 0 : 1
        #expect(try clients[answered].receiveMessage().body == "ok")
        try lines[1].send(ExchangeTests.ok)
        try stepped.turn(untilReadable: clients[1 - answered])
        #expect(try clients[1 - answered].receiveMessage().body == "ok")
        #expect(try lines[1].receiveAll().end == .closed)
        let fresh = try stepped.exchange(clients[0], new)
        for line in clients + lines + [fresh] { line.close() }
    }
}
