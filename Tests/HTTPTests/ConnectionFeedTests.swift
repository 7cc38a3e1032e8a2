import HTTP
import Testing
import Wire

/// The events of a connection for a stream of bytes, as lines, with adjoining pieces of content put together.
private struct Transcript {
    private(set) var lines: [String] = []
    private var content: [UInt8] = []

    mutating func add(_ line: String) {
        flush()
        lines.append(line)
    }

    mutating func add(content piece: RawSpan) { content += piece.array }

    mutating func flush() {
        if !content.isEmpty { lines.append("content \(ByteNotation.text(content))") }
        content = []
    }
}

/// Both connection machines, fed whole, byte by byte and cut in two at every place: the events are the same.
@Suite struct ConnectionFeedTests {
    /// Every way of cutting `count` bytes: not at all, in two, into single bytes.
    private static func cuts(_ count: Int) -> [[Int]] { [[]] + (1..<count).map { [$0] } + [Array(1..<count)] }

    private static func pieces(_ bytes: [UInt8], _ cuts: [Int]) -> [ArraySlice<UInt8>] {
        zip([0] + cuts, cuts + [bytes.count]).map { bytes[$0..<$1] }
    }

    // MARK: server

    static let requests: [(name: String, bytes: String, events: [String])] = [
        ("one", "GET /a HTTP/1.1\r\nHost: h\r\n\r\n", ["head GET /a", "answered"]),
        (
            "two behind each other", "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n",
            ["head GET /a", "answered", "head GET /b", "answered"]
        ),
        (
            "a body and another request",
            "\r\nPOST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n",
            ["head POST /a", "content hello", "end", "answered", "head GET /b", "answered"]
        ),
        (
            "chunks",
            "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n",
            ["head POST /a", "content abcde", "end", "answered", "head GET /b", "answered"]
        ),
        (
            "trailers", "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n",
            ["head POST /a", "content a", "trailers X-Sum: 1", "end", "answered"]
        ),
        ("no request", "GET /a HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n", ["fault 400"]),
        ("too many empty lines", String(repeating: "\r\n", count: 20) + "GET / HTTP/1.1\r\nHost: h\r\n\r\n", ["fault 400"]),
        (
            "a broken chunk", "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n",
            ["head POST /a", "content abc", "fault 400"]
        ),
        (
            "a broken trailer", "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX Sum: 1\r\n\r\n",
            ["head POST /a", "fault 400"]
        ),
        (
            "the last request", "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /b HTTP/1.1\r\n",
            ["head GET /a", "answered", "close"]
        ),
    ]

    @Test(arguments: requests) func aServerSeesTheSameHoweverTheBytesAreCut(_ name: String, _ text: String, _ events: [String]) {
        let bytes = Array(text.utf8)
        for cuts in Self.cuts(bytes.count) {
            let got = Self.serve(Self.pieces(bytes, cuts), answersEarly: false)
            if got != events {
                Issue.record("\(name), cut at \(cuts.count == 1 ? cuts : []): \(got)")
                return
            }
        }
    }

    /// An answer before the body has come: a short rest is dropped, and the next request is read.
    @Test func aBodyThatNobodyWantsIsDroppedHoweverItIsCut() {
        let text = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nunwanted!GET /b HTTP/1.1\r\nHost: h\r\n\r\n"
        let bytes = Array(text.utf8)
        for cuts in Self.cuts(bytes.count) {
            let got = Self.serve(Self.pieces(bytes, cuts), answersEarly: true)
            #expect(got == ["head POST /a", "answered", "end", "head GET /b", "answered"], "\(cuts.first ?? 0)")
        }
    }

    /// Drives a connection as a gateway does that answers each request with nothing, when it is complete or at once.
    private static func serve(_ pieces: [ArraySlice<UInt8>], answersEarly: Bool) -> [String] {
        var connection = ServerConnection()
        var head = RequestHead()
        var trailers = FieldTable(capacity: 40)
        var input = ByteBuffer()
        var transcript = Transcript()
        func answer(_ connection: inout ServerConnection) -> Bool {
            if answersEarly { connection.bodyAbandoned() }
            _ = connection.sendHead(.length(0))
            transcript.add("answered")
            if case .closeAfterFlush = connection.answerSent() {
                transcript.add("close")
                return false
            }
            return true
        }
        for piece in pieces {
            input.append(Array(piece))
            reading: while true {
                switch connection.next(&input, &head, &trailers, HeadLimits()) {
                case .needMore, .headBegun: break reading
                case .head:
                    transcript.add("head \(input.readable[head.methodText].text) \(input.readable[head.path].text)")
                    let isWhole = !head.framing.hasContent
                    input.discard(head.length)
                    if isWhole || answersEarly {
                        guard answer(&connection) else { return transcript.lines }
                    } else {
                        _ = connection.bodyWanted(hasArrived: true)
                    }
                case .content(let count):
                    transcript.add(content: input.readable.extracting(0..<count))
                    input.discard(count)
                case .trailers(let length):
                    transcript.add("trailers \(Described.lines(trailers, input.readable).joined())")
                    input.discard(length)
                case .end:
                    transcript.add("end")
                    if !answersEarly { guard answer(&connection) else { return transcript.lines } }
                case .fault(let fault):
                    transcript.add("fault \(fault.status)")
                    return transcript.lines
                case .reset, .close:
                    transcript.add("close")
                    return transcript.lines
                }
            }
        }
        transcript.flush()
        return transcript.lines
    }

    // MARK: client

    static let answers: [(name: String, bytes: String, events: [String])] = [
        ("a length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", ["head 200", "content ok", "end reusable"]),
        ("none", "HTTP/1.1 204 No Content\r\n\r\n", ["head 204", "end reusable"]),
        (
            "chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n",
            ["head 200", "content ab", "end reusable"]
        ),
        (
            "trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n",
            ["head 200", "content a", "trailers X-Sum: 1", "end reusable"]
        ),
        ("the last", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", ["head 200", "content a", "end"]),
        ("to the end", "HTTP/1.1 200 OK\r\n\r\nall there is", ["head 200", "content all there is", "end"]),
        (
            "hints", "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            ["interim 103", "head 200", "end reusable"]
        ),
        ("cut short", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", ["head 200", "content ab", "fault 502"]),
        ("no answer", "nonsense\r\n\r\n", ["fault 502"]),
        ("something behind", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nX", ["head 200", "end reusable", "fault 502"]),
        ("a broken chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", ["head 200", "fault 502"]),
    ]

    @Test(arguments: answers) func aClientSeesTheSameHoweverTheBytesAreCut(_ name: String, _ text: String, _ events: [String]) {
        let bytes = Array(text.utf8)
        for cuts in Self.cuts(bytes.count) {
            let got = Self.request(Self.pieces(bytes, cuts))
            if got != events {
                Issue.record("\(name), cut at \(cuts.count == 1 ? cuts : []): \(got)")
                return
            }
        }
    }

    @Test func interimAnswersAreBounded() {
        let hint = "HTTP/1.1 103 Early Hints\r\n\r\n"
        let bytes = Array(String(repeating: hint, count: Int(ClientConnection.maxInterim) + 1).utf8)
        let got = Self.request([bytes[...]])
        #expect(got.count == Int(ClientConnection.maxInterim) + 1 && got.last == "fault 502")
    }

    /// Reads the answer to one GET, to the end of the connection.
    private static func request(_ pieces: [ArraySlice<UInt8>]) -> [String] {
        var connection = ClientConnection()
        var head = ResponseHead()
        var trailers = FieldTable(capacity: 40)
        var input = ByteBuffer()
        var transcript = Transcript()
        var hasEnded = false
        connection.requestSent(.get)
        for piece in pieces {
            input.append(Array(piece))
            reading: while true {
                switch connection.next(&input, &head, &trailers, HeadLimits()) {
                case .needMore: break reading
                case .interim:
                    transcript.add("interim \(head.status)")
                    input.discard(head.length)
                case .head:
                    transcript.add("head \(head.status)")
                    input.discard(head.length)
                case .upgraded:
                    transcript.add("upgraded")
                    return transcript.lines
                case .content(let count):
                    transcript.add(content: input.readable.extracting(0..<count))
                    input.discard(count)
                case .trailers(let length):
                    transcript.add("trailers \(Described.lines(trailers, input.readable).joined())")
                    input.discard(length)
                case .end:
                    hasEnded = true
                    transcript.add(connection.isReusable ? "end reusable" : "end")
                case .fault(let fault):
                    transcript.add("fault \(fault.status)")
                    return transcript.lines
                }
            }
        }
        transcript.flush()
        guard !hasEnded else { return transcript.lines }
        switch connection.inputClosed() {
        case .end: transcript.add("end")
        case .fault(let fault): transcript.add("fault \(fault.status)")
        case .needMore, .interim, .head, .upgraded, .content, .trailers: transcript.add("unexpected")
        }
        return transcript.lines
    }
}
