import Foundation
import TestThreads
import Testing

/// Clients that take their time do not get more of it than they may have.
@Suite(.ownThread) struct SlowClientTests {
    private static func gateway(_ upstream: Upstream, _ more: String) throws -> Gateway {
        try Gateway("TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_ALL=\"/* upstream=u auth=none\"\n" + more)
    }

    /// Sends one byte after the other, a twentieth of a second apart, until the gateway has enough; answers how long that took.
    private func drip(_ connection: Connection, _ text: String) -> Double {
        let start = ProcessInfo.processInfo.systemUptime
        for byte in text.utf8 {
            guard connection.isQuiet else { break }
            do { try connection.send([byte]) } catch { break }
            usleep(50_000)
        }
        return ProcessInfo.processInfo.systemUptime - start
    }

    @Test func aHeadThatDripsIsCutOff() throws {
        let upstream = try Upstream()
        let gateway = try Self.gateway(upstream, "TOLLGATE_HEADER_TIMEOUT=600ms")
        let connection = try gateway.connect()
        let took = drip(connection, requestHead("GET /x", ["X-Slow: " + String(repeating: "s", count: 200)]))
        #expect((0.5...3).contains(took), "\(took) s")
        #expect(try connection.answer().status == 408)
        try connection.expectEnd()
        #expect(upstream.connections.now == 0)
    }

    @Test func aSecondHeadThatDripsIsCutOffToo() throws {
        let upstream = try Upstream()
        let gateway = try Self.gateway(upstream, "TOLLGATE_HEADER_TIMEOUT=600ms\nTOLLGATE_IDLE_TIMEOUT=60s")
        let connection = try gateway.connect()
        #expect(try connection.ask("GET /x").status == 200)
        let took = drip(connection, requestHead("GET /x", ["X-Slow: " + String(repeating: "s", count: 200)]))
        #expect((0.5...3).contains(took), "\(took) s")
        #expect(try connection.answer().status == 408)
        #expect(upstream.requests.now.count == 1)
    }

    @Test func whoSaysNothingIsSentAwayInSilence() throws {
        let upstream = try Upstream()
        let gateway = try Self.gateway(upstream, "TOLLGATE_HEADER_TIMEOUT=300ms\nTOLLGATE_IDLE_TIMEOUT=300ms")
        try gateway.connect().expectEnd()
        let idle = try gateway.connect()
        #expect(try idle.ask("GET /x").status == 200)
        try idle.expectEnd()
    }

    @Test func aBodyThatDripsIsCutOff() throws {
        let upstream = try Upstream()
        let gateway = try Self.gateway(upstream, "TOLLGATE_BODY_TIMEOUT=600ms")
        for head in [requestHead("POST /x", length: 500), requestHead("POST /x", ["Transfer-Encoding: chunked"]) + "1f4\r\n"] {
            let connection = try gateway.connect()
            try connection.send(head)
            let took = drip(connection, String(repeating: "b", count: 200))
            #expect((0.5...4).contains(took), "\(took) s")
            #expect(try connection.answer().status == 408)
            try connection.expectEnd()
        }
        #expect(upstream.requests.now.isEmpty, "the upstream never sees an end of it")
    }

    @Test func aBodyThatIsOnlySlowIsPatientlyReceived() throws {
        let upstream = try Upstream { request, connection in
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Count: \(request.body.count)\r\n\r\nok")
        }
        let gateway = try Self.gateway(upstream, "TOLLGATE_BODY_TIMEOUT=600ms")
        let connection = try gateway.connect()
        try connection.send(requestHead("POST /x", length: 20 * 4_096))
        for _ in 0..<20 {
            try connection.send([UInt8](repeating: 98, count: 4_096))
            usleep(60_000)
        }
        #expect(try connection.answer()["X-Count"] == "81920")
    }

    @Test func aReaderThatStopsIsCutOff() throws {
        let ended = Watched(false)
        let upstream = try Upstream.raw({ connection, _ in
            _ = try connection.take(through: "\r\n\r\n")
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(200 << 20)\r\n\r\n")
            let piece = [UInt8](repeating: 120, count: 1 << 20)
            do { for _ in 0..<200 { try connection.send(piece) } } catch {}
            ended.change { $0 = true }
        })
        let gateway = try Self.gateway(upstream, "TOLLGATE_SEND_TIMEOUT=500ms")
        let connection = try gateway.connect(receiveBuffer: 16_384)
        try connection.send(requestHead("GET /x"))
        _ = try connection.take(1_000)
        try ended.wait(for: "the end of the stuck answer", until: { $0 })
        #expect(try gateway.metric("tollgate_http_requests_in_flight") == 0)
    }

    @Test func oneSlowClientHoldsUpNobody() throws {
        let upstream = try Upstream()
        let gateway = try Self.gateway(upstream, "TOLLGATE_HEADER_TIMEOUT=30s")
        let slow = try (0..<50).map { _ in
            let connection = try gateway.connect()
            try connection.send("GET /slow HTTP/1.1\r\nHost:")
            return connection
        }
        let connection = try gateway.connect()
        for _ in 0..<20 { #expect(try connection.ask("GET /x").status == 200) }
        for client in slow { try client.send(" test\r\n\r\n") }
        for client in slow { #expect(try client.answer().status == 200) }
    }
}
