import Foundation
import TestThreads
import Testing

/// Any bytes end in an answer or a closed connection, and upstreams see only whole, plain requests. Seeded: a failure
/// comes again.
@Suite(.ownThread) struct RobustnessTests {
    /// SplitMix64.
    private struct Chance {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var word = state
            word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
            word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
            return word ^ (word >> 31)
        }

        mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }
    }

    private static let seeds = [
        requestHead("GET /a/b?c=d", ["X-A: b", "Accept: */*"]),
        requestHead("POST /a", length: 5) + "hello" + requestHead("GET /b"),
        requestHead("POST /a", ["Transfer-Encoding: chunked", "TE: trailers"]) + "5;x=y\r\nhello\r\n3\r\nabc\r\n0\r\nT: v\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
        requestHead("OPTIONS *", ["Connection: close, X-B", "X-B: c", "Authorization: Bearer a.b.c"]),
        requestHead("PUT http://test/x", ["Expect: 100-continue"], length: 3) + "abc",
    ]

    /// Pieces that mean something to a parser.
    private static let pieces = [
        "\r\n", "\n", "\r", "\0", " ", "\t", ":", ",", ";", "%2f", "..", "//", "chunked", "Content-Length: 3\r\n", "Host: b\r\n",
        "Transfer-Encoding: chunked\r\n", "0\r\n\r\n", "ffffffffffffffff\r\n", "HTTP/1.1", "\u{FF}", "GET ", "-1", "X-User-Id: root\r\n",
    ]

    private static func mutated(_ chance: inout Chance) -> [UInt8] {
        var bytes = Array(seeds[chance.below(seeds.count)].utf8)
        for _ in 0...chance.below(4) {
            let at = chance.below(bytes.count + 1)
            switch chance.below(5) {
            case 0: bytes.insert(contentsOf: Array(pieces[chance.below(pieces.count)].utf8), at: at)
            case 1: bytes.insert(UInt8(truncatingIfNeeded: chance.next()), at: at)
            case 2: bytes.removeSubrange(at..<min(bytes.count, at + chance.below(6)))
            case 3 where at < bytes.count: bytes[at] ^= 1 << UInt8(chance.below(8))
            default: bytes += Array(seeds[chance.below(seeds.count)].utf8.prefix(chance.below(60)))
            }
        }
        return bytes
    }

    @Test(arguments: [1, 2, 3, 4])
    func noBytesHarm(_ seed: UInt64) throws {
        let bad = Watched<[String]>([])
        let upstream = try Upstream { request, connection in
            let names = request.fields.map { $0.name.lowercased() }
            let isPlain =
                request.startLine.wholeMatch(of: /[!#$%&'*+.^_`|~0-9A-Za-z-]+ [\x21-\x7E]+ HTTP\/1\.1/) != nil
                && names.filter { $0 == "host" }.count == 1 && names.filter { $0 == "content-length" }.count <= 1
                && !(names.contains("content-length") && names.contains("transfer-encoding"))
                && !(request.fields + request.trailers).contains { $0.name.lowercased().replacing("_", with: "-") == "x-user-id" }
                && !request.head.contains(0)
            if !isPlain { bad.change { $0.append(request.description) } }
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"
            TOLLGATE_HEADER_TIMEOUT=1s
            TOLLGATE_BODY_TIMEOUT=1s
            TOLLGATE_IDLE_TIMEOUT=1s
            TOLLGATE_ACCESS_LOG=off
            """)
        var chance = Chance(state: seed)
        for _ in 0..<400 {
            let bytes = Self.mutated(&chance)
            let connection = try gateway.connect()
            if chance.below(4) == 0 {
                // In two parts, wherever that falls.
                let cut = chance.below(bytes.count + 1)
                try? connection.send(Array(bytes[..<cut]))
                try? connection.send(Array(bytes[cut...]))
            } else {
                try? connection.send(bytes)
            }
            connection.finishSending()
            let (answer, end) = connection.takeRest()
            #expect(end != .silence, "no end after \(text(of: bytes).debugDescription)")
            #expect(answer.isEmpty || text(of: answer).hasPrefix("HTTP/1.1 "))
        }
        #expect(bad.now.isEmpty)
        #expect(try gateway.ask("GET /x").status == 200)
        #expect(try gateway.metric("tollgate_http_requests_in_flight") == 0)
        #expect(try gateway.stop() == 0)
    }

    @Test func manyConnectionsThatComeAndGoLeaveNothingBehind() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            "TOLLGATE_WORKERS=2\nTOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_ALL=\"/* upstream=u auth=none\"")
        let descriptors = { try FileManager.default.contentsOfDirectory(atPath: "/proc/\(gateway.process.pid)/fd").count }
        try gateway.ask("GET /x")
        let (before, memory) = (try descriptors(), try gateway.residentKiB)
        for number in 0..<600 {
            let connection = try gateway.connect()
            switch number % 4 {
            case 0: try connection.ask("GET /x")
            case 1: try connection.send("GET /half HTTP/1.1\r\nHo")
            case 2: try connection.send(requestHead("POST /x", length: 1_000) + "some")
            default: break
            }
            if number % 3 == 0 { connection.reset() }
        }
        try eventually("every descriptor is closed") { try descriptors() <= before + 4 }
        #expect(try gateway.residentKiB - memory < 8 * 1_024)
    }
}
