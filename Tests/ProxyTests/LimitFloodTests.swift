import Gate
import TestThreads
import Testing
import Threads
import Transport
import Wire

@testable import Proxy

/// A client that invents values of a counted field, over sockets, against a worker with little room for counts.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct LimitFloodTests {
    private static let room = 32

    private func rule(_ name: String, _ limit: String) throws -> RouteRule {
        var rule = RouteRule(name: name, path: "/" + name, isPrefix: false, target: .upstream(0), auth: .none)
        rule.limits = [try LimitPolicy(parsing: limit, tiers: .standard)]
        return rule
    }

    /// Answers every request on the first connection of `listener` until it is closed.
    private func serve(_ listener: Socket) throws -> WorkerThread {
        try WorkerThread(name: "upstream") {
            do {
                let line = try Line(acceptedFrom: listener)
                while true {
                    _ = try line.receiveMessage()
                    try line.send(ExchangeTests.ok)
                }
            } catch {
                // The worker has ended; anything else leaves a client without its answer.
            }
        }
    }

    private func get(_ client: Line, _ path: String, _ field: String) throws -> Int {
        try client.send("GET \(path) HTTP/1.1\r\nHost: h\r\n\(field)\r\n\r\n")
        return try client.receiveMessage().status
    }

    @Test func inventedValuesKeepNobodyOutAndForgetNobody() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        let upstream = try serve(listener)
        let worker = try RunningWorker(
            [try rule("keyed", "100/d+by=header:x-api-key"), try rule("plain", "2/d+by=address"), try rule("minute", "2/m+by=address")],
            upstreams: [RunningWorker.upstream("back", [listener.localAddress()])], proxies: [try #require(CIDR(parsing: "127.0.0.0/8"))],
            counts: Self.room)
        defer {
            worker.stop()
            upstream.join()
            listener.close()
        }
        let client = try Line(to: worker.address)
        defer { client.close() }
        for path in ["/plain", "/minute"] {
            #expect(try (0..<3).map { _ in try get(client, path, "X-Forwarded-For: 192.0.2.1") } == [200, 200, 429])
        }
        for number in 0..<10 * Self.room {
            #expect(try get(client, "/keyed", "X-Api-Key: \(number)") == 200)
        }
        for number in 1...60 {
            for path in ["/plain", "/minute"] {
                #expect(try get(client, path, "X-Forwarded-For: 198.51.100.\(number)") == 200)
                if number == 1 { #expect(try get(client, path, "X-Forwarded-For: 192.0.2.1") == 429) }
            }
        }
    }
}
