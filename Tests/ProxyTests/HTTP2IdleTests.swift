import TestThreads
import Testing

@testable import Proxy

/// How long a connection of HTTP/2 lasts without requests, on a clock that the test moves.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct HTTP2IdleTests {
    private static let ping: [UInt8] = [0, 0, 8, 6, 0, 0, 0, 0, 0] + [UInt8](repeating: 1, count: 8)
    private static let idleTimeout: UInt64 = 2_000

    private func worker() throws -> SteppedWorker {
        var settings = WorkerSettings()
        settings.idleTimeout = Self.idleTimeout
        return try SteppedWorker([], upstreams: [], settings: settings, allowsHTTP2: true)
    }

    /// A client whose one request has just been answered.
    private func client(of worker: inout SteppedWorker) throws -> Line {
        let client = try Line(to: worker.address)
        // GET / of http://a
        let fields: [UInt8] = [0x82, 0x84, 0x86, 0x01, 0x01, UInt8(ascii: "a")]
        let head: [UInt8] = [0, 0, UInt8(fields.count), 1, 5, 0, 0, 0, 1] + fields
        try client.send(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0] + head)
        var types: [UInt8] = []
        while !types.contains(1) {
            try worker.turn(untilReadable: client)
            types += Self.types(try #require(try client.receive()))
        }
        return client
    }

    /// The types of these frames.
    private static func types(_ bytes: [UInt8]) -> [UInt8] {
        var (types, rest): ([UInt8], ArraySlice<UInt8>) = ([], bytes[...])
        while rest.count >= 9 {
            types.append(rest[rest.startIndex + 3])
            rest = rest.dropFirst(9 + rest.prefix(3).reduce(0) { $0 << 8 | Int($1) })
        }
        return types
    }

    @Test(arguments: [17, 5]) func aFrameThatComesWhenTheTimeIsUpKeepsNoConnection(_ cut: Int) throws {
        var worker = try worker()
        defer { worker.end() }
        let client = try client(of: &worker)
        worker.pass(milliseconds: 100)
        // Its rest, if it comes in two pieces, comes when the time is up.
        worker.pass(milliseconds: Self.idleTimeout - 130)
        if cut < 17 {
            try client.send(Array(Self.ping[..<cut]))
            worker.turn(waiting: 1_000)
        }
        worker.advance(milliseconds: 60)
        try client.send(Array(Self.ping[(cut < 17 ? cut : 0)...]))
        worker.turn(waiting: 1_000)
        worker.turn()
        let types = Self.types(try #require(try client.receive()))
        #expect(types.last == 7, "GOAWAY, and before it a PING's answer: \(types)")
        client.close()
    }
}
