import Foundation
import TestThreads
import Testing

/// Long answers whose token expires or whose session ends.
@Suite(.ownThread) struct StreamExpiryTests {
    private static let secret = "TOLLGATE_JWT_SECRET=\"a secret of more than thirty-two bytes\""

    private let upstream: Upstream
    private let gateway: Gateway

    init() throws {
        // A chunk every tenth of a second, for a minute at most; without a length for who asks so.
        upstream = try Upstream { request, connection in
            let isChunked = !request.target.hasSuffix("bare")
            try connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + (isChunked ? "Transfer-Encoding: chunked\r\n\r\n" : "Connection: close\r\n\r\n"))
            for _ in 0..<600 {
                try connection.send(isChunked ? "3\r\na\n\n\r\n" : "a\n\n")
                Thread.sleep(forTimeInterval: 0.1)
            }
            connection.close()
        }
        gateway = try Gateway(
            """
            \(Gateway.contracts)
            \(Self.secret)
            TOLLGATE_CLOCK_SKEW=0s
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_CLOSE="/close/* upstream=u"
            TOLLGATE_ROUTE_KEEP="/keep/* upstream=u stream-expiry=keep"
            """)
    }

    /// A stream that has begun.
    private func stream(_ path: String, _ bearer: String) throws -> Connection {
        let connection = try gateway.connect()
        connection.setTimeout(seconds: 30)
        try connection.send(requestHead("GET \(path)", [bearer]))
        let head = Message(head: try connection.take(through: "\r\n\r\n"))
        guard head.status == 200 else { throw Fault("no stream: \(head)") }
        return connection
    }

    private func logged(_ error: String) throws {
        try gateway.process.output.wait(for: "\(error) in the access log") { $0.contains { $0.contains(error) } }
    }

    @Test func aStreamEndsWithItsToken() throws {
        let bearer = try gateway.bearer("--sub", "ada", "--ttl", "3s")
        let (closing, keeping) = (try stream("/close/x", bearer), try stream("/keep/x", bearer))
        let (bytes, end) = closing.takeRest()
        #expect(end == .orderly && !text(of: bytes).contains("\r\n0\r\n"))
        try logged("token_expired")
        // The other one is still fed.
        for _ in 0..<20 { #expect(try keeping.take(8).count == 8) }
        #expect(try gateway.ask("GET /close/x", [bearer]).status == 401)
    }

    @Test func anAnswerWithoutALengthEndsWithAReset() throws {
        let closing = try stream("/close/bare", try gateway.bearer("--sub", "ada", "--ttl", "3s"))
        // To a client of HTTP/1.1 it is chunked, whose end is then missing.
        #expect(!text(of: closing.takeRest().bytes).contains("\r\n0\r\n"))
        let old = try gateway.connect()
        old.setTimeout(seconds: 30)
        try old.send("GET /close/bare HTTP/1.0\r\nHost: test\r\n\(try gateway.bearer("--sub", "ada", "--ttl", "3s"))\r\n\r\n")
        #expect(old.takeRest().end == .reset)
    }

    @Test func aStreamEndsWithItsSession() throws {
        let (ada, bob) = (try gateway.signUp("ada@example.org"), try gateway.signUp("bob@example.org"))
        let streams = try ["/close/x", "/keep/x"].map { try stream($0, "Authorization: Bearer \(ada.access)") }
        let other = try stream("/close/x", "Authorization: Bearer \(bob.access)")
        // A stream is what has gone on for a while.
        for connection in streams + [other] { _ = try connection.take(8 * 12) }
        let began = Date()
        #expect(try gateway.send("POST /auth/signout", bearer: ada.access).status == 200)
        #expect(streams[0].takeRest().end == .orderly)
        #expect(Date().timeIntervalSince(began) < 15)
        try logged("session_ended")
        for connection in [streams[1], other] { for _ in 0..<20 { #expect(try connection.take(8).count == 8) } }
    }

    @Test func whatIsNoStreamComesToItsEnd() throws {
        let short = try Upstream()
        let gateway = try Gateway(
            """
            \(Self.secret)
            TOLLGATE_CLOCK_SKEW=0s
            TOLLGATE_UPSTREAM_U="\(short.url)"
            TOLLGATE_ROUTE_R="/* upstream=u"
            """)
        let bearer = try gateway.bearer("--sub", "ada", "--ttl", "3s")
        var answers: [Int] = []
        repeat { answers.append(try gateway.ask("GET /", [bearer]).status) } while answers.last == 200
        #expect(answers.count > 1 && answers.dropLast().allSatisfy { $0 == 200 } && answers.last == 401)
    }
}
