@testable import HTTP
import Testing
import Wire

/// The client's side of HTTP/2 towards an upstream, frame by frame.
@Suite struct HTTP2ClientTests {
    @Test("The connection begins with the preface, and SETTINGS that switch push off")
    func start() {
        var line = HTTP2ClientLine(greeted: false)
        let bytes = line.output.readable.array
        #expect(Array(bytes.prefix(24)) == HTTP2Bytes.preface)
        #expect(HTTP2Bytes.describe(Array(bytes.dropFirst(24))) == ["SETTINGS 12", "WINDOW 0 983041"])
        #expect(Array(bytes.dropFirst(24 + 9).prefix(6)) == [0, 2, 0, 0, 0, 0])
        _ = line.sent()
        line.receive(HTTP2Bytes.settings())
        #expect(line.sent() == ["SETTINGS ack"])
    }

    @Test("A request is answered")
    func request() {
        var line = HTTP2ClientLine()
        #expect(line.send() == 1)
        #expect(line.sent() == ["HEADERS 1 end"])
        line.receive(HTTP2Bytes.answer(1, "200", [("content-length", "5")]) + HTTP2Bytes.data(1, "hello", ends: true))
        #expect(line.takeEvents() == ["head 1 200 length(5)", "content 1 hello", "end 1"])
        #expect(line.sent() == [])
        let streams = line.machine.streamCount
        #expect(streams == 0)
        #expect(line.send() == 3)
    }

    @Test("A request may precede the upstream's SETTINGS")
    func earlyRequest() {
        var line = HTTP2ClientLine(greeted: false)
        #expect(line.send() == 1)
        line.receive(HTTP2Bytes.settings([(HTTP2Setting.maxConcurrentStreams, 10)]) + HTTP2Bytes.answer(1, "404", ends: true))
        #expect(line.takeEvents() == ["settings 10", "head 1 404 untilClose", "end 1"])
    }

    // MARK: answers

    /// Frames of an upstream, and the events that they are for the request on stream 1.
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        var request = "GET /"
        let frames: [UInt8]
        let events: [String]
        /// The last frame that is written, if any.
        var written: String?
        var testDescription: String { name }
    }

    static let cases: [Case] = {
        typealias B = HTTP2Bytes
        return [
            Case(
                name: "interim answers precede the final one",
                frames: B.answer(1, "100") + B.answer(1, "103", [("link", "</a>")]) + B.answer(1, "204", ends: true),
                events: ["interim 1 100", "interim 1 103", "head 1 204 none", "end 1"]),
            Case(
                name: "content of unknown length", frames: B.answer(1) + B.data(1, "abc") + B.data(1, "", ends: true),
                events: ["head 1 200 chunked", "content 1 abc", "end 1"]),
            Case(
                name: "trailers follow content",
                frames: B.answer(1) + B.data(1, "abc") + B.trailers(1, [("grpc-status", "0"), ("grpc-message", "")]),
                events: ["head 1 200 chunked", "content 1 abc", "trailers 1 grpc-status: 0|grpc-message: ", "end 1"]),
            Case(
                name: "an answer of trailers alone, as gRPC has", frames: B.answer(1, "200", [("grpc-status", "7")], ends: true),
                events: ["head 1 200 untilClose", "end 1"]),
            Case(
                name: "empty trailers are none", frames: B.answer(1) + B.trailers(1, []),
                events: ["head 1 200 chunked", "end 1"]),
            Case(
                name: "the answer to HEAD has a length and no content", request: "HEAD /",
                frames: B.answer(1, "200", [("content-length", "5")], ends: true), events: ["head 1 200 none", "end 1"]),
            Case(
                name: "the answer to HEAD may end by an empty frame", request: "HEAD /",
                frames: B.answer(1, "200", [("content-length", "5")]) + B.data(1, "", ends: true), events: ["head 1 200 none", "end 1"]),
            Case(
                name: "content of an answer to HEAD is malformed", request: "HEAD /",
                frames: B.answer(1, "200") + B.data(1, "x"), events: ["head 1 200 none", "bad 1 content_length"],
                written: "RST 1 protocol_error"),
            Case(
                name: "304 has no content, whatever its length says",
                frames: B.answer(1, "304", [("content-length", "5")], ends: true), events: ["head 1 304 none", "end 1"]),
            Case(
                name: "204 with content is malformed", frames: B.answer(1, "204") + B.data(1, "x"),
                events: ["head 1 204 none", "bad 1 content_length"], written: "RST 1 protocol_error"),
            Case(
                name: "more content than its length", frames: B.answer(1, "200", [("content-length", "2")]) + B.data(1, "abc"),
                events: ["head 1 200 length(2)", "bad 1 content_length"], written: "RST 1 protocol_error"),
            Case(
                name: "less content than its length",
                frames: B.answer(1, "200", [("content-length", "4")]) + B.data(1, "abc", ends: true),
                events: ["head 1 200 length(4)", "bad 1 truncated"], written: "RST 1 protocol_error"),
            Case(
                name: "trailers before all of the content",
                frames: B.answer(1, "200", [("content-length", "4")]) + B.data(1, "abc") + B.trailers(1, [("a", "b")]),
                events: ["head 1 200 length(4)", "content 1 abc", "bad 1 truncated"], written: "RST 1 protocol_error"),
            Case(
                name: "a length without content", frames: B.answer(1, "200", [("content-length", "4")], ends: true),
                events: ["bad 1 truncated"], written: "RST 1 protocol_error"),
            Case(
                name: "lengths that differ", frames: B.answer(1, "200", [("content-length", "4"), ("content-length", "5")]),
                events: ["bad 1 duplicate_content_length"], written: "RST 1 protocol_error"),
            Case(
                name: "101 has no meaning in HTTP/2", frames: B.answer(1, "101"), events: ["bad 1 upgraded"],
                written: "RST 1 protocol_error"),
            Case(
                name: "an interim answer that ends the stream", frames: B.answer(1, "103", ends: true), events: ["bad 1 truncated"],
                written: "RST 1 protocol_error"),
            Case(
                name: "too many interim answers", frames: (0..<17).flatMap { _ in B.answer(1, "103") },
                events: (0..<16).map { _ in "interim 1 103" } + ["bad 1 status_line"], written: "RST 1 protocol_error"),
            Case(
                name: "no status", frames: B.frame(.headers, 4, 1, B.block([("a", "b")])), events: ["bad 1 status_line"],
                written: "RST 1 protocol_error"),
            Case(
                name: "a status that is no number", frames: B.answer(1, "2x0"), events: ["bad 1 status_line"],
                written: "RST 1 protocol_error"),
            Case(
                name: "a pseudo-field of requests", frames: B.answer(1, "200", [(":path", "/")]), events: ["bad 1 status_line"],
                written: "RST 1 protocol_error"),
            Case(
                name: "a pseudo-field behind a field", frames: B.frame(.headers, 4, 1, B.block([("a", "b"), (":status", "200")])),
                events: ["bad 1 status_line"], written: "RST 1 protocol_error"),
            Case(
                name: "a name in upper case", frames: B.answer(1, "200", [("Server", "x")]), events: ["bad 1 field_name"],
                written: "RST 1 protocol_error"),
            Case(
                name: "a field of the connection", frames: B.answer(1, "200", [("connection", "close")]), events: ["bad 1 connection"],
                written: "RST 1 protocol_error"),
            Case(
                name: "a transfer coding", frames: B.answer(1, "200", [("transfer-encoding", "chunked")]), events: ["bad 1 connection"],
                written: "RST 1 protocol_error"),
            Case(
                name: "a line break in a value", frames: B.answer(1, "200", [("a", "b\r\nc: d")]), events: ["bad 1 field_value"],
                written: "RST 1 protocol_error"),
            Case(
                name: "a head above 32 KiB",
                frames: B.frame(.headers, 0, 1, B.block([(":status", "200"), ("a", String(repeating: "b", count: 15_000))]))
                    + B.frame(.continuation, 0, 1, B.block([("a", String(repeating: "b", count: 15_000))]))
                    + B.frame(.continuation, 4, 1, B.block([("a", String(repeating: "b", count: 15_000))])),
                events: ["bad 1 head_too_large"], written: "RST 1 cancel"),
            Case(
                name: "more than 100 fields", frames: B.answer(1, "200", (0..<100).map { ("f\($0)", "") }),
                events: ["bad 1 too_many_fields"], written: "RST 1 cancel"),
            Case(
                name: "trailers that do not end the stream", frames: B.answer(1) + B.trailers(1, [("a", "b")], ends: false),
                events: ["head 1 200 chunked", "bad 1 trailer"], written: "RST 1 protocol_error"),
            Case(
                name: "trailers with a pseudo-field", frames: B.answer(1) + B.trailers(1, [(":status", "200")]),
                events: ["head 1 200 chunked", "bad 1 trailer"], written: "RST 1 protocol_error"),
            Case(
                name: "content before the head", frames: B.data(1, "x"), events: ["bad 1 status_line"], written: "RST 1 protocol_error"),
            Case(
                name: "the upstream refuses the stream", frames: B.reset(1, .refusedStream), events: ["reset 1 refused_stream"]),
            Case(
                name: "the upstream breaks its answer off", frames: B.answer(1) + B.data(1, "ab") + B.reset(1, .internalError),
                events: ["head 1 200 chunked", "content 1 ab", "reset 1 internal_error"]),
            Case(
                name: "a reset behind the answer is nothing", frames: B.answer(1, ends: true) + B.reset(1, .noError),
                events: ["head 1 200 untilClose", "end 1"]),
            Case(
                name: "a field section in several frames",
                frames: B.frame(.headers, 1, 1, B.block([(":status", "200")])) + B.frame(.continuation, 0, 1)
                    + B.frame(.continuation, 4, 1, B.block([("a", "b")])),
                events: ["head 1 200 untilClose", "end 1"]),
            Case(
                name: "padding and priorities are passed over",
                frames: B.frame(.headers, 0x2C, 1, [2] + B.word(0) + [9] + B.block([(":status", "200")]) + [0, 0])
                    + B.frame(.data, 0x9, 1, [3] + Array("abc".utf8) + [0, 0, 0]),
                events: ["head 1 200 chunked", "content 1 abc", "end 1"]),
            // Connection errors.
            Case(
                name: "a push, which was switched off", frames: B.frame(.pushPromise, 4, 1, B.word(2) + B.request()),
                events: ["fault protocol_error"], written: "GOAWAY 0 protocol_error"),
            Case(
                name: "a setting that switches push on", frames: B.settings([(HTTP2Setting.enablePush, 1)]),
                events: ["fault protocol_error"], written: "GOAWAY 0 protocol_error"),
            Case(
                name: "an answer on a stream that was not opened", frames: B.answer(3), events: ["fault protocol_error"],
                written: "GOAWAY 0 protocol_error"),
            Case(
                name: "a stream of the upstream's own", frames: B.answer(2), events: ["fault protocol_error"],
                written: "GOAWAY 0 protocol_error"),
            Case(
                name: "content on a stream that was not opened", frames: B.data(3, "x"), events: ["fault protocol_error"],
                written: "GOAWAY 0 protocol_error"),
            Case(
                name: "a reset of a stream that was not opened", frames: B.reset(3), events: ["fault protocol_error"],
                written: "GOAWAY 0 protocol_error"),
            Case(
                name: "a field block that cannot be decoded", frames: B.frame(.headers, 4, 1, [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]),
                events: ["fault compression_error"], written: "GOAWAY 0 compression_error"),
            Case(
                name: "a frame inside a field section", frames: B.frame(.headers, 0, 1, B.block([(":status", "200")])) + B.ping(),
                events: ["fault protocol_error"], written: "GOAWAY 0 protocol_error"),
            Case(
                name: "an endless field section",
                frames: B.frame(.headers, 0, 1) + (0..<9).flatMap { _ in B.frame(.continuation, 0, 1, [UInt8](repeating: 0x88, count: 9)) },
                events: ["fault continuation"], written: "GOAWAY 0 enhance_your_calm"),
            Case(
                name: "a frame above 16 KiB", frames: B.frame(.headers, 4, 1, [UInt8](repeating: 0x88, count: 16_385)),
                events: ["fault frame_size_error"], written: "GOAWAY 0 frame_size_error"),
        ]
    }()

    @Test("The frames of an upstream, whole and in pieces", arguments: cases)
    func answers(_ test: Case) {
        for pieces in [Int.max, 1, 7] {
            var line = HTTP2ClientLine()
            line.send(test.request)
            _ = line.sent()
            line.receive(test.frames, in: pieces)
            #expect(line.takeEvents() == test.events, "in pieces of \(pieces)")
            #expect(line.sent().filter { !$0.hasPrefix("WINDOW") }.last == test.written)
            let (streams, isOver) = (line.machine.streamCount, line.machine.isGoingAway)
            #expect(streams == (isOver ? 1 : 0))
        }
    }
}
