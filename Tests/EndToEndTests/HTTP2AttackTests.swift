import Foundation
import TestThreads
import Testing

/// Clients of HTTP/2 that hold or waste what others need, over the wire.
@Suite(.ownThread) struct HTTP2AttackTests {
    private static let noAnswer: Upstream.Script = { request, connection in
        guard request.target != "/slow" else { return _ = connection.takeRest() }
        try Upstream.ok(request, connection)
    }

    private func expectService(_ gateway: Gateway) throws {
        let peer = try HTTP2Peer(gateway)
        try peer.ask(1, "GET", "/x")
        #expect(text(of: try peer.content(1)) == "ok", "others are served as before")
    }

    private func ended(_ gateway: Gateway, _ reason: String) throws -> Bool {
        try gateway.metric("tollgate_http2_connections_ended_total", "reason=\"\(reason)\"") == 1
    }

    // MARK: time

    @Test func framesWithoutARequestDoNotKeepAConnection() throws {
        let upstream = try Upstream()
        // Pieces that arrive so that no frame ever ends with them are late by the header timeout.
        let gateway = try Gateway(HTTP2Tests.settings(upstream, "TOLLGATE_IDLE_TIMEOUT=2s\nTOLLGATE_HEADER_TIMEOUT=2s"))
        let ping = HTTP2Peer.frame(6, 1, 0, [UInt8](repeating: 0, count: 8))
        // Whole PINGs, and PINGs in two pieces.
        for cut in [17, 5] {
            let peer = try HTTP2Peer(gateway, first: HTTP2Peer.head(1, "GET", "/x"))
            _ = try peer.content(1)
            let start = Date()
            #expect(throws: Fault.self) {
                while Date().timeIntervalSince(start) < 60 {
                    try peer.connection.send([UInt8](ping.prefix(cut)))
                    usleep(60_000)
                    if cut < 17 { try peer.connection.send([UInt8](ping.dropFirst(cut))) }
                    usleep(60_000)
                }
            }
            #expect(Date().timeIntervalSince(start) < 40)
        }
    }

    @Test func aHundredHalfBodiesAreLateAndLetGo() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(HTTP2Tests.settings(upstream, "TOLLGATE_BODY_TIMEOUT=1s"))
        let peer = try HTTP2Peer(gateway)
        for stream in 0..<100 {
            try peer.ask(2 * stream + 1, "POST", "/x", [("content-length", "10")], ends: false)
            try peer.send(0, 0, 2 * stream + 1, [1])
        }
        var over = Set<Int>()
        let frames = try peer.take { frame in
            if frame.type == 3 { over.insert(frame.stream) }
            return over.count == 100
        }
        let heads = frames.filter { $0.type == 1 }
        #expect(try heads.allSatisfy { try HTTP2Fields($0.payload)[":status"] == "408" } && heads.count == 100)
        try peer.ask(201, "GET", "/x")
        #expect(text(of: try peer.content(201)) == "ok")
        #expect(try gateway.metric("tollgate_http2_connections_ended_total") == 0)
    }

    @Test func aHundredZeroWindowsHoldNoAnswerForLong() throws {
        let content = [UInt8](repeating: 1, count: 300_000)
        let upstream = try Upstream { request, connection in
            guard request.target == "/big" else { return try Upstream.ok(request, connection) }
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(content.count)\r\n\r\n")
            try connection.send(content)
        }
        let gateway = try Gateway(HTTP2Tests.settings(upstream, "TOLLGATE_SEND_TIMEOUT=1s"))
        let before = try gateway.residentKiB
        let peer = try HTTP2Peer(gateway, settings: [(4, 0)])
        for stream in 0..<100 { try peer.ask(2 * stream + 1, "GET", "/big") }
        var (heads, over) = (0, 0)
        // The first answers may be over before the last begin.
        func note(_ frame: HTTP2Peer.Frame) {
            if frame.type == 1 { heads += 1 }
            if frame.type == 3 { over += 1 }
        }
        try peer.take { frame in
            note(frame)
            return heads == 100
        }
        #expect(try gateway.residentKiB - before < 24 * 1_024, "at most one read of each answer is held")
        while over < 100 { note(try peer.next()) }
        try expectService(gateway)
    }

    @Test func windowsThatOpenByteByByteEndTheConnection() throws {
        let content = [UInt8](repeating: 1, count: 100_000)
        let upstream = try Upstream { request, connection in
            guard request.target == "/big" else { return try Upstream.ok(request, connection) }
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(content.count)\r\n\r\n")
            try connection.send(content)
        }
        let gateway = try Gateway(HTTP2Tests.settings(upstream))
        let peer = try HTTP2Peer(gateway, settings: [(4, 1)])
        try peer.ask(1, "GET", "/big")
        try peer.take { $0.type == 0 }
        for _ in 0..<3_000 { do { try peer.widen(1, by: 1) } catch { break } }
        try eventually("the tiny windows are counted") { try ended(gateway, "window_update") }
        try expectService(gateway)
    }

    // MARK: streams

    @Test func streamsBeyondTheBoundAreRefusedAndCounted() throws {
        let upstream = try Upstream(Self.noAnswer)
        let gateway = try Gateway(HTTP2Tests.settings(upstream, "TOLLGATE_HTTP2_STREAMS=5"))
        let peer = try HTTP2Peer(gateway)
        let settings = try peer.take { $0.type == 4 }.last
        #expect(settings?.payload.prefix(6) == [0, 3, 0, 0, 0, 5])
        for stream in 0..<6 { try peer.ask(2 * stream + 1, "GET", "/slow") }
        #expect(try peer.take { $0.type == 3 }.last?.description == "RST 11 7")
        for stream in 6..<600 { do { try peer.ask(2 * stream + 1, "GET", "/slow") } catch { break } }
        try eventually("the refused streams are counted") { try ended(gateway, "refused_stream") }
        try upstream.connections.wait(for: "the requests that were not refused", until: { $0 >= 5 })
        #expect(upstream.connections.now == 5)
        try expectService(gateway)
    }

    @Test func framesForStreamsThatAreOverEndTheConnection() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(HTTP2Tests.settings(upstream))
        let peer = try HTTP2Peer(gateway)
        try peer.ask(1, "GET", "/x")
        _ = try peer.content(1)
        for _ in 0..<3_000 { do { try peer.send(3, 0, 1, HTTP2Peer.word(8)) } catch { break } }
        try eventually("the frames are counted") { try ended(gateway, "closed_stream") }
        // Each DATA makes the gateway reset the stream once more.
        let other = try HTTP2Peer(gateway)
        for stream in 0..<500 {
            do {
                try other.ask(2 * stream + 1, "GET", "/closed/x")
                try other.send(0, 1, 2 * stream + 1, [1])
            } catch { break }
        }
        try eventually("the resets are counted") { try ended(gateway, "provoked_reset") }
        try expectService(gateway)
    }

    @Test func manyRequestsInOneReadAreTakenInTurns() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(HTTP2Tests.settings(upstream, "TOLLGATE_HTTP2_STREAMS=1000"))
        let peer = try HTTP2Peer(gateway)
        try peer.widen(0, by: 1 << 20)
        let requests = (0..<1_000).flatMap { HTTP2Peer.head(2 * $0 + 1, "GET", "/closed/x") }
        try peer.connection.send(requests)
        var ends = 0
        let frames = try peer.take { frame in
            if frame.endsStream { ends += 1 }
            return ends == 1_000 || frame.type == 7
        }
        #expect(ends == 1_000 && !frames.contains { $0.type == 3 }, "none was refused")
        #expect(try gateway.metric("tollgate_http2_connections_ended_total") == 0)
        try expectService(gateway)
    }

    @Test func prioritiesHaveNoEffectHoweverTheyDepend() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(HTTP2Tests.settings(upstream))
        let peer = try HTTP2Peer(gateway)
        for (stream, parent) in [(1, 3), (3, 5), (5, 1), (5, 3), (3, 1), (1, 0), (2_147_483_647, 1)] {
            try peer.send(2, 0, stream, HTTP2Peer.word(parent | 1 << 31) + [255])
        }
        for stream in [1, 3, 5] {
            try peer.ask(stream, "GET", "/x")
            try peer.send(2, 0, stream, HTTP2Peer.word(stream + 2) + [0])
        }
        var ends = 0
        try peer.take { frame in
            if frame.endsStream { ends += 1 }
            return ends == 3
        }
    }

    // MARK: fields

    @Test func cookieCrumbsAreJoinedUnderABound() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(HTTP2Tests.settings(upstream))
        let peer = try HTTP2Peer(gateway)
        let crumbs = (0..<256).map { ("cookie", "c\($0)=\($0)") }
        try peer.ask(1, "GET", "/x", crumbs)
        #expect(text(of: try peer.content(1)) == "ok")
        #expect(upstream.requests.now[0].all("Cookie") == [crumbs.map(\.1).joined(separator: "; ")])
        try peer.ask(3, "GET", "/x", crumbs + [("cookie", "one=more")])
        let head = try peer.take { $0.type == 1 }.last
        #expect(try HTTP2Fields(head?.payload ?? [])[":status"] == "431")
    }

    /// A block that says much with a few bytes: a field in the table, and then its index again and again.
    private func bomb(_ name: String, _ value: String, times: Int) -> [UInt8] {
        let pseudo = HTTP2Peer.block([(":method", "GET"), (":scheme", "http"), (":path", "/x"), (":authority", "test")])
        var field = HTTP2Peer.block([(name, value)])
        field[0] = 0x40
        return pseudo + field + [UInt8](repeating: 0x80 | 62, count: times)
    }

    @Test func fieldsThatUnpackToMuchAreCountedBeforeTheyAreStored() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(HTTP2Tests.settings(upstream))
        try expectService(gateway)
        let before = try gateway.residentKiB
        // 10,000 fields of 4 KB would be 40 MB; cookies have a bound of their own.
        for block in [
            bomb("x", String(repeating: "a", count: 4_000), times: 10_000), bomb("cookie", "a", times: 10_000),
            bomb("cookie", "", times: 10_000),
        ] {
            let peer = try HTTP2Peer(gateway)
            for stream in 0..<20 {
                try peer.send(1, 5, 2 * stream + 1, block)
                let head = try peer.take { $0.type == 1 }.last
                #expect(try HTTP2Fields(head?.payload ?? [])[":status"] == "431")
            }
        }
        #expect(try gateway.residentKiB - before < 8 * 1_024)
        try expectService(gateway)
    }

    @Test func malformedRequestsAreLoggedAndCounted() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(HTTP2Tests.settings(upstream, "TOLLGATE_ACCESS_LOG=json"))
        let peer = try HTTP2Peer(gateway)
        try peer.ask(1, "GET", "/x", [("te", "gzip")])
        #expect(try peer.take { $0.type == 3 }.last?.description == "RST 1 1")
        try peer.ask(3, "GET", "/x", [("Upper", "x")])
        #expect(try peer.take { $0.type == 3 }.last?.description == "RST 3 1")
        try peer.ask(5, "GET", "/x")
        #expect(text(of: try peer.content(5)) == "ok")
        let lines = try gateway.accessLog(3)
        #expect(lines.map { $0["status"].number } == [400, 400, 200])
        #expect(lines.map { $0["error"].text } == ["connection", "field_name", nil])
        #expect(try gateway.metric("tollgate_http_requests_total", "code_class=\"4xx\"") == 2)
    }

    @Test func trailersBehindAnAnnouncedLengthAreDropped() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(HTTP2Tests.settings(upstream))
        let peer = try HTTP2Peer(gateway)
        try peer.ask(1, "POST", "/x", [("content-length", "5"), ("trailer", "x-sum")], ends: false)
        try peer.send(0, 0, 1, Array("hello".utf8))
        try peer.send(1, 5, 1, HTTP2Peer.block([("x-sum", "1")]))
        #expect(text(of: try peer.content(1)) == "ok")
        let request = upstream.requests.now[0]
        #expect(request["Content-Length"] == "5" && request.text == "hello" && request.trailers.isEmpty)
    }
}
