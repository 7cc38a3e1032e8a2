import HTTP
import TestThreads
import Testing
import Wire

@testable import Proxy

/// The head that goes to the client, byte for byte: an upstream's, or the gateway's own.
@Suite(.ownThread) struct ForwardedResponseTests {
    private func relayed(
        _ answer: String, to method: HTTP.Method = .get, minorVersion: UInt8 = 1, limit: String? = nil,
        _ persistence: Persistence = .implied
    ) throws -> String {
        let bytes = Array(answer.utf8)
        var head = ResponseHead()
        let outcome = head.parse(bytes.rawBytes, requestMethod: method, limits: HeadLimits())
        try #require(outcome == .complete)
        var edits = FieldEdits()
        if let limit {
            edits.add("RateLimit" as String, limit)
            edits.remove(.rateLimit)
            edits.remove(.xRateLimitRemaining)
        }
        var out = ByteBuffer()
        ForwardedResponse.write(
            head, bytes.rawBytes, framing: head.framing.relayed(to: minorVersion == 0 ? .http10 : .http11),
            requestID: Array("id-1".utf8).rawBytes, edits: edits,
            persistence: persistence, into: &out)
        return out.readable.text
    }

    static let heads: [(what: String, answer: String, expected: String)] = [
        (
            "a plain one", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nX-Request-Id: id-1\r\n\r\n"
        ),
        (
            "what belongs to the connection",
            "HTTP/1.1 200 OK\r\nConnection: keep-alive, x-mine\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nContent-Length: 0\r\nX-B: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-B: 2\r\nX-Request-Id: id-1\r\n\r\n"
        ),
        (
            "a chunked one", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX-A: b\r\nX-Request-Id: id-1\r\nTransfer-Encoding: chunked\r\n\r\n"
        ),
        (
            "one that ends with its connection, of an old server", "HTTP/1.0 200 Fine\r\nServer: old\r\n\r\n",
            "HTTP/1.1 200 Fine\r\nServer: old\r\nX-Request-Id: id-1\r\nTransfer-Encoding: chunked\r\n\r\n"
        ),
        (
            "a length that is said twice", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\nX-Request-Id: id-1\r\n\r\n"
        ),
        (
            "one without content", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nX-Request-Id: id-1\r\n\r\n"
        ),
        (
            "one that is not modified keeps the length it speaks of",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\nETag: \"x\"\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\nETag: \"x\"\r\nX-Request-Id: id-1\r\n\r\n"
        ),
        (
            "names under which only the gateway answers, however they are spelled",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Request-Id: theirs\r\nX-New-Access-Token: t\r\nx_new_refresh_token: t\r\nX-New-Token-Expires-At: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Request-Id: id-1\r\n\r\n"
        ),
        (
            "one without a reason", "HTTP/1.1 299\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 299 \r\nContent-Length: 0\r\nX-Request-Id: id-1\r\n\r\n"
        ),
    ]

    @Test(arguments: heads) func aHeadComesTo(_ what: String, _ answer: String, _ expected: String) throws {
        #expect(try relayed(answer) == expected)
    }

    @Test func theAnswerToAHeadRequestKeepsItsLength() throws {
        #expect(try relayed("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n", to: .head).value(of: "Content-Length") == "12")
    }

    @Test func anOldClientReadsToTheEndOfTheConnection() throws {
        let text = try relayed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", minorVersion: 0, .close)
        #expect(text == "HTTP/1.1 200 OK\r\nX-Request-Id: id-1\r\nConnection: close\r\n\r\n")
    }

    @Test func limitsOfTheGatewaysOwnTakeThePlaceOfTheUpstreams() throws {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nRateLimit: \"x\";r=9\r\nX-RateLimit-Remaining: 9\r\n\r\n"
        #expect(try relayed(answer).value(of: "RateLimit") == "\"x\";r=9")
        let own = try relayed(answer, limit: "\"a\";r=1", .keepAlive)
        #expect(own.hasSuffix("X-Request-Id: id-1\r\nRateLimit: \"a\";r=1\r\nConnection: keep-alive\r\n\r\n"))
        #expect(own.value(of: "X-RateLimit-Remaining") == nil)
    }

    /// An upstream's fields, and those of them that the client gets besides the gateway's.
    @Test(arguments: [
        ("Access-Control-Allow-Origin: *\r\nACCESS-CONTROL-MAX-AGE: 5\r\nX-A: 1\r\naccess-control-anything: x", "X-A: 1\r\n"),
        ("Vary: Accept-Encoding, origin", "Vary: Accept-Encoding\r\n"), ("Vary: Origin", ""),
        ("Vary: ORIGIN , ,Accept,", "Vary: Accept\r\n"),
        ("Vary: Accept\r\nX-A: 1\r\nVary: Origin\r\nX-B: 2\r\nVary: Cookie", "Vary: Accept\r\nX-A: 1\r\nX-B: 2\r\nVary: Cookie\r\n"),
        ("Vary: *", "Vary: *\r\n"), ("Vary: X-Origin", "Vary: X-Origin\r\n"), ("Vary:", ""),
        ("Access-Control: x\r\nX-Access-Control-Y: y", "Access-Control: x\r\nX-Access-Control-Y: y\r\n"),
        ("Connection: vary\r\nVary: Accept", ""), ("Vary: Origin, Authorization", "Vary: Authorization\r\n"),
    ])
    func fieldsOfCORSAreReplaced(_ fields: String, _ kept: String) throws {
        let bytes = Array("HTTP/1.1 200 OK\r\n\(fields)\r\nContent-Length: 0\r\n\r\n".utf8)
        var head = ResponseHead()
        let outcome = head.parse(bytes.rawBytes, requestMethod: .get, limits: HeadLimits())
        try #require(outcome == .complete)
        var decided = FieldEdits()
        decided.removeCORS()
        decided.add("Vary", "Origin")
        // As the exchange takes it over from the decision.
        var edits = FieldEdits()
        edits.append(decided)
        var out = ByteBuffer()
        ForwardedResponse.write(
            head, bytes.rawBytes, framing: head.framing, requestID: Array("id-1".utf8).rawBytes, edits: edits, persistence: .implied,
            into: &out)
        let text = out.readable.text
        #expect(text == "HTTP/1.1 200 OK\r\n\(kept)Content-Length: 0\r\nX-Request-Id: id-1\r\nVary: Origin\r\n\r\n")
        // Without a policy all of them pass, and a value that is reused has forgotten it.
        edits.removeAll()
        let removesCORS = edits.removesCORS
        #expect(!removesCORS)
    }

    /// A client of HTTP/2 gets the fields that one of HTTP/1 gets.
    @Test(arguments: [true, false]) func aBlockHasTheFieldsOfTheLines(_ removesCORS: Bool) throws {
        let cors =
            "HTTP/1.1 200 OK\r\nVary: Accept, origin\r\nAccess-Control-Allow-Origin: *\r\nX-A: \(String(repeating: "v", count: 300))\r\n\r\n"
        for answer in Self.heads.map(\.answer) + [cors] {
            let bytes = Array(answer.utf8)
            var head = ResponseHead()
            let outcome = head.parse(bytes.rawBytes, requestMethod: .get, limits: HeadLimits())
            try #require(outcome == .complete)
            var edits = FieldEdits()
            if removesCORS { edits.removeCORS() }
            edits.add("Vary", "Origin")
            let (framing, id) = (head.framing.relayed(to: .http2), Array("id-1".utf8))
            var text = ByteBuffer()
            var lines = ByteBuffer()
            var fields = ByteBuffer()
            var block = ByteBuffer()
            ForwardedResponse.write(
                head, bytes.rawBytes, framing: framing, requestID: id.rawBytes, edits: edits, persistence: .implied, into: &text)
            ForwardedResponse.writeBlock(
                head, bytes.rawBytes, framing: framing, requestID: id.rawBytes, edits: edits, lines: &lines, into: &fields)
            HPACKEncoder().status(head.status, into: &block)
            block.append(fields.readable)
            HPACKEncoder().lines(lines.readable, into: &block)
            var decoder = HPACKDecoder()
            var section = FieldSection()
            try decoder.decode(block.readable, as: .response(hasContent: false), into: &section)
            let (decoded, written, fault) = (section.head.text, text.readable.text, section.fault)
            #expect(Self.fields(decoded) == Self.fields(written) && fault == nil, "\(answer)")
        }
    }

    /// Each line behind the first, its name in lower case.
    private static func fields(_ head: String) -> [String] {
        head.split(separator: "\r\n" as Character).dropFirst().filter { !$0.isEmpty }.map { line in
            let parts = line.split(separator: ":", maxSplits: 1)
            return parts[0].lowercased() + ":" + parts[1]
        }.sorted()
    }

    @Test func aHintIsPassedOnWithoutAWordOfOurOwn() throws {
        let bytes = Array("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: close\r\n\r\n".utf8)
        var head = ResponseHead()
        let outcome = head.parse(bytes.rawBytes, requestMethod: .get, limits: HeadLimits())
        try #require(outcome == .complete)
        var out = ByteBuffer()
        ForwardedResponse.writeInterim(head, bytes.rawBytes, edits: FieldEdits(), into: &out)
        let text = out.readable.text
        #expect(text == "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    }

    // MARK: the gateway's own

    static let own: [(status: Int, isHead: Bool, persistence: Persistence, fields: String, content: String)] = [
        (200, false, .implied, "Content-Type: text/plain\r\nContent-Length: 2\r\n", "hi"),
        (200, true, .implied, "Content-Type: text/plain\r\nContent-Length: 2\r\n", ""),
        (404, false, .close, "Content-Type: text/plain\r\nContent-Length: 2\r\n", "hi"),
        (503, false, .keepAlive, "Content-Type: text/plain\r\nContent-Length: 2\r\n", "hi"),
        (204, false, .implied, "Content-Type: text/plain\r\n", ""),
        (304, false, .implied, "Content-Type: text/plain\r\n", ""),
    ]

    @Test(arguments: own) func anAnswerOfOurOwnIs(
        _ status: Int, _ isHead: Bool, _ persistence: Persistence, _ fields: String, _ content: String
    ) {
        var edits = FieldEdits()
        edits.add("Retry-After", decimal: 1)
        var out = ByteBuffer()
        OwnResponse.write(
            status: status, contentType: "text/plain", body: Array("hi".utf8).rawBytes, isHead: isHead,
            requestID: Array("id-1".utf8).rawBytes, edits: edits,
            persistence: persistence, at: WallTime(seconds: 784_111_777), into: &out)
        let connection =
            switch persistence {
            case .implied: ""
            case .keepAlive: "Connection: keep-alive\r\n"
            case .close: "Connection: close\r\n"
            }
        let reason = StatusText.reason(status).description
        let text = out.readable.text
        #expect(
            text == "HTTP/1.1 \(status) \(reason)\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: tollgate\r\n\(fields)"
                + "Cache-Control: no-store\r\nX-Request-Id: id-1\r\nRetry-After: 1\r\n\(connection)\r\n\(content)")
    }

    @Test func anAnswerOfOurOwnIsKeptOnlyByLeave() {
        func head(_ caching: String?) -> String {
            var edits = FieldEdits()
            if let caching { edits.add("Cache-Control" as String, caching) }
            var out = ByteBuffer()
            OwnResponse.write(
                status: 304, contentType: "", body: RawSpan(), isHead: false, requestID: Array("id-1".utf8).rawBytes,
                edits: edits, saysCaching: caching != nil, persistence: .implied, at: WallTime(seconds: 0), into: &out)
            return out.readable.text
        }
        #expect(head(nil).contains("\r\nCache-Control: no-store\r\n"))
        let own = head("no-cache")
        #expect(own.contains("\r\nCache-Control: no-cache\r\n") && !own.contains("no-store"))
    }
}
