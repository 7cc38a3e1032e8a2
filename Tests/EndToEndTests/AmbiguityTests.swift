import TestThreads
import Testing

/// What two parsers could read differently is refused, ends its connection, and reaches nobody.
@Suite(.ownThread) struct AmbiguityTests {
    /// Name, bytes, status. Each is followed by a second request that must not be taken for one.
    private static let requests: [(String, String, Int)] = [
        ("length and chunks", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("chunks and length", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400),
        ("two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        ("the same length twice", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", 400),
        ("a list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\na", 400),
        ("a signed length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na", 400),
        ("a negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\na", 400),
        ("a hexadecimal length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\na", 400),
        ("a huge length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551617\r\n\r\na", 400),
        ("an empty length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n", 400),
        ("a length with an underscore", "POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 1\r\n\r\na", 400),
        ("chunked twice", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("xchunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
        ("gzip, chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        ("identity", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 501),
        ("a vertical tab before chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \u{0B}chunked\r\n\r\n0\r\n\r\n", 400),
        ("a space before the colon", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
        ("chunks in HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("a folded field", "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n", 400),
        ("a folded length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n 1\r\n\r\na", 400),
        ("a bare line feed", "GET / HTTP/1.1\nHost: a\n\n", 400),
        ("a bare line feed in the head", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400),
        ("a bare carriage return", "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400),
        ("NUL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\0c\r\n\r\n", 400),
        ("NUL in a name", "GET / HTTP/1.1\r\nHost: a\r\nX\0A: b\r\n\r\n", 400),
        ("a field without a colon", "GET / HTTP/1.1\r\nHost: a\r\nXA\r\n\r\n", 400),
        ("a field without a name", "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400),
        ("no host", "GET / HTTP/1.1\r\n\r\n", 400),
        ("two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("a list of hosts", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
        ("a host with two final dots", "GET / HTTP/1.1\r\nHost: a..\r\n\r\n", 400),
        ("a host that begins with a dot", "GET / HTTP/1.1\r\nHost: .a\r\n\r\n", 400),
        ("a host with an empty label", "GET / HTTP/1.1\r\nHost: a..b:80\r\n\r\n", 400),
        ("a host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
        ("a host with a user", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400),
        ("two different hosts", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("a fragment", "GET /#a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("a tab for a space", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("a space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("a space at the end", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
        ("a target beyond ASCII", "GET /ä HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("no version", "GET /\r\nHost: a\r\n\r\n", 400),
        ("a relative target", "GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("an asterisk for GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("a method with a colon", "GE:T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 501),
        ("HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505),
        ("HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ("HTTP/2's preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        ("small http", "GET / http/1.1\r\nHost: a\r\n\r\n", 400),
        ("HTTP/01.1", "GET / HTTP/01.1\r\nHost: a\r\n\r\n", 400),
        ("the length named in Connection", "POST / HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\nContent-Length: 1\r\n\r\na", 400),
        (
            "the coding named in Connection",
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400
        ),
        ("an unknown expectation", "POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\na", 417),
        ("a TLS greeting", "\u{16}\u{03}\u{01}\u{02}\u{00}\r\n\r\n", 400),
        ("a chunk size with 0x", chunked("0x1\r\na\r\n0\r\n\r\n"), 400),
        ("a chunk size with a sign", chunked("+1\r\na\r\n0\r\n\r\n"), 400),
        ("a chunk size with a space", chunked(" 1\r\na\r\n0\r\n\r\n"), 400),
        ("an empty chunk size", chunked("\r\na\r\n0\r\n\r\n"), 400),
        ("a chunk size that overflows", chunked("10000000000000001\r\na\r\n0\r\n\r\n"), 400),
        ("a chunk size with a bare line feed", chunked("1\na\r\n0\r\n\r\n"), 400),
        ("an extension with a bare line feed", chunked("1;a\nb\r\na\r\n0\r\n\r\n"), 400),
        ("an endless extension", chunked("1;" + String(repeating: "a", count: 5_000) + "\r\na\r\n0\r\n\r\n"), 400),
        ("a chunk longer than it says", chunked("1\r\nab\r\n0\r\n\r\n"), 400),
        ("a chunk that ends with a line feed", chunked("1\r\na\n0\r\n\r\n"), 400),
        ("a folded trailer", chunked("0\r\nX-A: b\r\n c\r\n\r\n"), 400),
        ("a trailer without a colon", chunked("0\r\nXA\r\n\r\n"), 400),
        ("a trailer with a bare line feed", chunked("0\r\nX-A: b\n\r\n"), 400),
        ("too many trailers", chunked("0\r\n" + (0..<200).map { "X-\($0): 1\r\n" }.joined() + "\r\n"), 400),
    ]

    private static func chunked(_ body: String) -> String {
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body
    }

    @Test func nothingAmbiguousGoesThrough() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(ForwardingTests.settings(upstream))
        for (name, request, status) in Self.requests {
            let connection = try gateway.connect()
            try connection.send(request + requestHead("GET /smuggled"))
            let answer: Message
            do {
                answer = try connection.answer()
            } catch {
                Issue.record("\(name): \(error)")
                continue
            }
            #expect(answer.status == status, "\(name)")
            #expect(answer["Connection"] == "close", "\(name)")
            let (rest, end) = connection.takeRest()
            #expect(rest.isEmpty && end != .silence, "\(name) is followed by \(text(of: rest)) and \(end)")
        }
        #expect(upstream.requests.now.isEmpty, "\(upstream.requests.now.map(\.startLine))")
        #expect(upstream.connections.now == 0)
        #expect(try gateway.ask("GET /fine").status == 200)
    }

    /// The head has gone out when the body turns out to be wrong: the upstream must never see an end of it.
    @Test func aBodyThatBreaksOffIsNeverMadeWhole() throws {
        let upstream = try Upstream.raw({ connection, _ in
            let all = connection.takeRest()
            guard !text(of: all.bytes).hasSuffix("0\r\n\r\n") else { throw Fault("made whole") }
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        })
        let gateway = try Gateway(ForwardingTests.settings(upstream))
        for (first, second, isRefused) in [
            ("4\r\nabcd\r\n", "z\r\n", true), ("4\r\nabcd\r\n", "4\r\nabcdX\r\n", true), ("4\r\nabcd\r\n", "", false),
            ("9\r\nabc", "", false),
        ] {
            let before = upstream.connections.now
            let connection = try gateway.connect()
            try connection.send(requestHead("POST /x", ["Transfer-Encoding: chunked"]) + first)
            try upstream.connections.wait(for: "the request at the upstream", until: { $0 > before })
            if second.isEmpty { connection.finishSending() } else { try connection.send(second) }
            let (bytes, end) = connection.takeRest()
            #expect(end != .silence)
            #expect(!text(of: bytes).hasPrefix("HTTP/1.1 200"))
            if isRefused { #expect(text(of: bytes).hasPrefix("HTTP/1.1 400")) }
        }
        let short = try gateway.connect()
        try short.send(requestHead("POST /x", length: 10) + "abc")
        try upstream.connections.wait(for: "the request at the upstream", until: { $0 >= 5 })
        short.finishSending()
        #expect(!text(of: short.takeRest().bytes).hasPrefix("HTTP/1.1 200"))
    }

    @Test func emptyLinesBeforeARequestAreForgivenTwice() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(ForwardingTests.settings(upstream))
        let connection = try gateway.connect()
        try connection.send("\r\n\r\n" + requestHead("GET /x"))
        #expect(try connection.answer().status == 200)
    }

    @Test func everyByteAloneIsAsGoodAsAllTogether() throws {
        let upstream = try Upstream { request, connection in
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(request.body.count)\r\n\r\n\(request.text)")
        }
        let gateway = try Gateway(ForwardingTests.settings(upstream))
        let connection = try gateway.connect()
        for byte in (requestHead("POST /x?y", ["X-A: b", "Transfer-Encoding: chunked"]) + "3\r\nabc\r\n2\r\nde\r\n0\r\nT: u\r\n\r\n").utf8 {
            try connection.send([byte])
        }
        #expect(try connection.answer().text == "abcde")
        #expect(upstream.requests.now[0].trailers.count == 1)
    }
}
