import Foundation
import TestThreads
import Testing

/// Clients that take their time do not get more of it than they may have.
@Suite(.ownThread) struct SlowClientTests {
    private static func gateway(_ upstream: Upstream, _ more: String) throws -> Gateway {
        try Gateway("TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_ALL=\"/* upstream=u auth=none\"\n" + more)
    }

    /// The timeout of those who drip: so long that a busy machine, too, sends something before. A drip would last for thirty seconds.
    private static let timeout = 4.0

    /// Whether it was cut off by the timeout, which began after `start`.
    private func isCutOff(since start: Double) -> Bool { (Self.timeout - 0.1...20).contains(ProcessInfo.processInfo.systemUptime - start) }

    /// Sends one byte after the other, a twentieth of a second apart, until the gateway has enough.
    private func drip(_ connection: Connection, _ text: String) {
        for byte in text.utf8 {
            guard connection.isQuiet else { break }
            do { try connection.send([byte]) } catch { break }
            usleep(50_000)
        }
    }

    @Test func aHeadThatDripsIsCutOff() throws {
        let upstream = try Upstream()
        let gateway = try Self.gateway(upstream, "TOLLGATE_HEADER_TIMEOUT=4s")
        let start = ProcessInfo.processInfo.systemUptime
        let connection = try gateway.connect()
        drip(connection, requestHead("GET /x", ["X-Slow: " + String(repeating: "s", count: 600)]))
        #expect(isCutOff(since: start))
        #expect(try connection.answer().status == 408)
        try connection.expectEnd()
        #expect(upstream.connections.now == 0)
    }

    @Test func aSecondHeadThatDripsIsCutOffToo() throws {
        let upstream = try Upstream()
        let gateway = try Self.gateway(upstream, "TOLLGATE_HEADER_TIMEOUT=4s\nTOLLGATE_IDLE_TIMEOUT=60s")
        let connection = try gateway.connect()
        #expect(try connection.ask("GET /x").status == 200)
        let start = ProcessInfo.processInfo.systemUptime
        drip(connection, requestHead("GET /x", ["X-Slow: " + String(repeating: "s", count: 600)]))
        #expect(isCutOff(since: start))
        #expect(try connection.answer().status == 408)
        #expect(upstream.requests.now.count == 1)
    }

    @Test func whoSaysNothingIsSentAwayInSilence() throws {
        let upstream = try Upstream()
        let gateway = try Self.gateway(upstream, "TOLLGATE_HEADER_TIMEOUT=3s\nTOLLGATE_IDLE_TIMEOUT=300ms")
        try gateway.connect().expectEnd()
        let idle = try gateway.connect()
        #expect(try idle.ask("GET /x").status == 200)
        try idle.expectEnd()
    }

    @Test func aBodyThatDripsIsCutOff() throws {
        let upstream = try Upstream()
        let gateway = try Self.gateway(upstream, "TOLLGATE_BODY_TIMEOUT=4s")
        for head in [requestHead("POST /x", length: 1_000), requestHead("POST /x", ["Transfer-Encoding: chunked"]) + "3e8\r\n"] {
            let start = ProcessInfo.processInfo.systemUptime
            let connection = try gateway.connect()
            try connection.send(head)
            drip(connection, String(repeating: "b", count: 600))
            #expect(isCutOff(since: start))
            #expect(try connection.answer().status == 408)
            try connection.expectEnd()
        }
        #expect(upstream.requests.now.isEmpty, "the upstream never sees an end of it")
    }

    @Test func aBodyThatIsOnlySlowIsPatientlyReceived() throws {
        let upstream = try Upstream { request, connection in
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Count: \(request.body.count)\r\n\r\nok")
        }
        let gateway = try Self.gateway(upstream, "TOLLGATE_BODY_TIMEOUT=4s")
        let connection = try gateway.connect()
        try connection.send(requestHead("POST /x", length: 100 * 4_096))
        // Six seconds and more.
        for _ in 0..<100 {
            try connection.send([UInt8](repeating: 98, count: 4_096))
            usleep(60_000)
        }
        #expect(try connection.answer()["X-Count"] == "409600")
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
