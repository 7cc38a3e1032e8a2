@testable import HTTP
import Testing
import Wire

private typealias F = HTTP2Bytes

/// The server's side of one HTTP/2 connection, fed with frames (RFC 9113).
@Suite struct HTTP2ServerTests {
    @Test("The preface is answered with the server's settings and a connection window of 1 MiB")
    func greeting() {
        var line = HTTP2Line(greeted: false)
        line.receive(F.preface + F.settings([(3, 100), (4, 65_535)]))
        #expect(line.sent() == ["SETTINGS 24", "WINDOW 0 983041", "SETTINGS ack"])
        #expect(line.takeEvents().isEmpty)
    }

    @Test("Bytes that are no preface, and a first frame that is no SETTINGS, end the connection")
    func badGreeting() {
        for bytes in [Array("GET / HTTP/1.1\r\n".utf8), F.preface + F.ping(), F.preface + F.frame(.settings, 1)] {
            var line = HTTP2Line(greeted: false)
            line.receive(bytes)
            #expect(line.takeEvents() == ["fault protocol_error"])
            #expect(line.sent().last == "GOAWAY 0 protocol_error")
        }
    }

    @Test("A request and its answer; the answer's last frame ends the stream")
    func exchange() {
        var line = HTTP2Line()
        line.receive(F.get(1, "/a") + F.get(3, "/b"))
        #expect(line.takeEvents() == ["head 1 GET /a", "head 3 GET /b"])
        line.answer(1, "hello")
        line.answer(3)
        #expect(line.sent() == ["HEADERS 1", "DATA 1 5 end", "HEADERS 3 end"])
        #expect(line.machine.streamCount == 0)
    }

    @Test("If the answer's last frame has left, an empty one ends the stream")
    func lateEnd() {
        var line = HTTP2Line()
        line.receive(F.get(1))
        let id = StreamID(number: 1)
        _ = line.machine.sendHead(("HTTP/1.1 200 OK\r\nA: b\r\n\r\n" as StaticString).rawBytes, on: id, into: &line.output)
        #expect(line.sent() == ["HEADERS 1"])
        line.machine.sendEnd(on: id, into: &line.output)
        line.machine.release(id, into: &line.output)
        #expect(line.sent() == ["DATA 1 0 end"])
    }

    @Test("Interim answers come before the final one")
    func interim() {
        var line = HTTP2Line()
        line.receive(F.post(1, [("expect", "100-continue")]))
        let text: StaticString = "HTTP/1.1 100 Continue\r\n\r\nrest"
        let head = line.machine.sendHead(text.rawBytes, on: StreamID(number: 1), into: &line.output)
        #expect(head.length == 25 && !head.isFinal)
        line.answer(1)
        #expect(line.sent() == ["HEADERS 1", "HEADERS 1 end", "RST 1 no_error"])
    }

    @Test("Content, trailers and the end of a request")
    func content() {
        var line = HTTP2Line()
        line.receive(F.post(1) + F.data(1, "hello ") + F.data(1, "world") + F.frame(.headers, 0x5, 1, F.block([("x-end", "yes")])))
        #expect(line.takeEvents() == ["head 1 POST / +", "content 1 hello world", "trailers 1 x-end: yes", "end 1"])
    }

    @Test("Padding is no content")
    func padding() {
        var line = HTTP2Line()
        line.receive(F.frame(.headers, 0xC, 1, [3] + F.request("POST") + [0, 0, 0]))
        line.receive(F.frame(.data, 0x9, 1, [2] + Array("hi".utf8) + [0, 0]))
        #expect(line.takeEvents() == ["head 1 POST / +", "content 1 hi", "end 1"])
        line.receive(F.frame(.data, 0x8, 1, [9, 1]))
        #expect(line.takeEvents() == ["fault protocol_error"])
    }

    @Test("Trailers of an answer end the stream")
    func answerTrailers() {
        var line = HTTP2Line()
        line.receive(F.get(1))
        let id = StreamID(number: 1)
        _ = line.machine.sendHead(("HTTP/1.1 200 OK\r\n\r\n" as StaticString).rawBytes, on: id, into: &line.output)
        _ = line.machine.sendContent([1].rawBytes, isLast: false, on: id, into: &line.output)
        line.machine.sendTrailers(("x-end: yes\r\n" as StaticString).rawBytes, on: id, into: &line.output)
        line.machine.release(id, into: &line.output)
        #expect(line.sent() == ["HEADERS 1", "DATA 1 1", "HEADERS 1 end"])
    }

    @Test("A long head is cut into CONTINUATION frames")
    func longAnswerHead() {
        var line = HTTP2Line()
        line.receive(F.get(1))
        var head = ByteBuffer()
        head.append("HTTP/1.1 200 OK\r\n")
        for number in 0..<5 { head.append("x-\(number): \(String(repeating: "~", count: 8_000))\r\n") }
        head.append("\r\n")
        _ = line.machine.sendHead(head.readable, on: StreamID(number: 1), into: &line.output)
        line.machine.sendEnd(on: StreamID(number: 1), into: &line.output)
        #expect(line.sent() == ["HEADERS 1 end more", "CONTINUATION 1 more", "CONTINUATION 1"])
    }

    @Test("A field section in several frames")
    func continuation() {
        let block = F.request("GET", "/x")
        var line = HTTP2Line()
        line.receive(
            F.frame(.headers, 0x1, 1, Array(block[..<5])) + F.frame(.continuation, 0, 1, Array(block[5..<9]))
                + F.frame(.continuation, 0x4, 1, Array(block[9...])))
        #expect(line.takeEvents() == ["head 1 GET /x"])
    }

    @Test("Requests that HTTP/1.1 could not carry unchanged are reset and counted, and the connection lives")
    func malformed() {
        let bad: [[(String, String)]] = [
            [("Upper", "x")], [("connection", "close")], [("transfer-encoding", "chunked")], [("te", "gzip")], [("x", "a\r\nb: c")],
            [("x", " a")],
            [(":path", "/again")], [("host", "b.example")], [("content-length", "5")], [("content-length", "x")], [("upgrade", "h2c")],
            [("a b", "x")], [(":other", "x")],
        ]
        var line = HTTP2Line()
        var number: UInt32 = 1
        for fields in bad {
            line.receive(F.frame(.headers, 0x5, number, F.request("GET", "/", fields)))
            #expect(line.sent() == ["RST \(number) protocol_error"], "\(fields)")
            number += 2
        }
        for block in [
            F.block([(":method", "GET")]), F.request("GET", ""), F.request("GET", "/a b"), F.request("G T"), F.block([("a", "b")]),
        ] {
            line.receive(F.frame(.headers, 0x5, number, block))
            #expect(line.sent() == ["RST \(number) protocol_error"])
            number += 2
        }
        #expect(
            line.takeEvents()
                == [
                    "field_name", "connection", "connection", "connection", "field_value", "field_value", "request_line", "host_mismatch",
                    "content_length",
                    "content_length", "connection", "field_name", "request_line", "request_line", "target", "target", "method",
                    "request_line",
                ].map { "malformed " + $0 })
        line.receive(F.get(number))
        #expect(line.takeEvents() == ["head \(number) GET /"])
    }

    @Test("Valid requests that are not served get an answer")
    func unreadable() {
        var line = HTTP2Line()
        line.receive(F.frame(.headers, 0x5, 1, F.request("GET", "/" + String(repeating: "x", count: 9_000))))
        line.receive(F.frame(.headers, 0x5, 3, F.block([(":method", "CONNECT"), (":authority", "a.example:1")])))
        line.receive(F.frame(.headers, 0x5, 5, F.request("GET", "/", (0..<101).map { ("x-\($0)", "y") })))
        #expect(line.takeEvents() == ["unreadable 1 414", "unreadable 3 501", "unreadable 5 431"])
    }

    @Test("Content must be as long as Content-Length says")
    func contentLength() {
        var line = HTTP2Line()
        line.receive(F.post(1, [("content-length", "5")]) + F.data(1, "hell", ends: true))
        line.receive(F.post(3, [("content-length", "5")]) + F.data(3, "hello!"))
        line.receive(F.post(5, [("content-length", "5")]) + F.data(5, "hello", ends: true))
        #expect(
            line.takeEvents() == [
                "head 1 POST / +", "reset 1", "head 3 POST / +", "reset 3", "head 5 POST / +", "content 5 hello", "end 5",
            ])
        let held = line.machine.receiving.held
        #expect(held == 5, "a frame that was dropped is not given back again when its stream is released")
    }

    @Test("Frames that break a rule of the connection end it")
    func connectionErrors() {
        let cases: [([UInt8], String)] = [
            (F.data(0, "x"), "protocol_error"), (F.data(1, "x"), "protocol_error"), (F.get(2), "protocol_error"),
            (F.frame(.headers, 0x5, 0, F.request()), "protocol_error"), (F.frame(.priority, 0, 0, [0, 0, 0, 3, 1]), "protocol_error"),
            (F.frame(.resetStream, 0, 1, [0, 0, 0]), "frame_size_error"), (F.reset(1), "protocol_error"), (F.reset(0), "protocol_error"),
            (F.frame(.settings, 0, 1), "protocol_error"), (F.frame(.settings, 0, 0, [1, 2, 3]), "frame_size_error"),
            (F.frame(.settings, 1, 0, [0, 0, 0, 0, 0, 0]), "frame_size_error"), (F.settings([(2, 2)]), "protocol_error"),
            (F.settings([(4, 0x8000_0000)]), "flow_control_error"), (F.settings([(5, 16_383)]), "protocol_error"),
            (F.frame(.pushPromise, 0, 1, [0, 0, 0, 2]), "protocol_error"), (F.frame(.ping, 0, 0, [1]), "frame_size_error"),
            (F.frame(.ping, 0, 1, Array("12345678".utf8)), "protocol_error"),
            (F.frame(.goAway, 0, 1, F.word(0) + F.word(0)), "protocol_error"),
            (F.window(0, 0), "protocol_error"), (F.window(1, 1), "protocol_error"), (F.window(0, 0x7FFF_FFFF), "flow_control_error"),
            (F.frame(.windowUpdate, 0, 0, [1]), "frame_size_error"), (F.frame(.continuation, 4, 1), "protocol_error"),
            (F.frame(.headers, 1, 1, F.request()) + F.ping(), "protocol_error"),
            (F.frame(.headers, 1, 1, F.request()) + F.frame(.continuation, 4, 3), "protocol_error"),
            (F.frame(.headers, 5, 1, [0x80]), "compression_error"),
            (F.frame(.ping, 0, 0, Array(repeating: 0, count: 16_385)), "frame_size_error"),
            (F.get(5) + F.get(3), "stream_closed"),
        ]
        for (bytes, code) in cases {
            var line = HTTP2Line()
            line.receive(bytes)
            #expect(line.takeEvents().last == "fault \(code)", "\(HTTP2Bytes.describe(bytes))")
            #expect(line.sent().last?.hasSuffix(code) == true)
            line.receive(F.get(7))
            #expect(line.takeEvents().isEmpty, "nothing is read after a fault")
        }
    }

    @Test("Frames that break a rule of one stream reset it")
    func streamErrors() {
        let cases: [([UInt8], String)] = [
            (F.window(1, 0), "protocol_error"), (F.window(1, 0x7FFF_FFFF), "flow_control_error"),
            (F.frame(.priority, 0, 1, [0, 0, 0, 1, 1]), "protocol_error"), (F.frame(.priority, 0, 1, [0, 0]), "frame_size_error"),
            (F.frame(.headers, 4, 1, F.block([("a", "b")])), "protocol_error"),
            (F.frame(.headers, 5, 1, F.block([(":path", "/")])), "protocol_error"),
        ]
        for (bytes, code) in cases {
            var line = HTTP2Line()
            line.receive(F.post(1) + bytes + F.get(3))
            #expect(line.takeEvents() == ["head 1 POST / +", "reset 1", "head 3 GET /"], "\(code)")
            #expect(line.sent() == ["RST 1 \(code)"])
        }
        var line = HTTP2Line()
        line.receive(F.get(1) + F.data(1, "late"))
        #expect(line.sent() == ["RST 1 stream_closed"])
    }

    @Test("Frames of unknown types and settings are ignored")
    func unknown() {
        var line = HTTP2Line()
        line.receive([0, 0, 1, 0x42, 0xFF, 0, 0, 0, 0, 1] + F.settings([(0x77, 1)]) + F.get(1))
        #expect(line.takeEvents() == ["head 1 GET /"])
        #expect(line.sent() == ["SETTINGS ack"])
    }

    @Test("PING comes back")
    func ping() {
        var line = HTTP2Line()
        line.receive(F.ping("abcdefgh"))
        #expect(line.output.readable.dropping(9).text == "abcdefgh")
        #expect(line.sent() == ["PING ack"])
    }

    @Test("Beyond 100 streams a request is refused, and may be tried again")
    func maxStreams() {
        var line = HTTP2Line()
        for number in 0..<100 { line.receive(F.get(UInt32(2 * number + 1))) }
        _ = line.sent()
        line.receive(F.get(201))
        #expect(line.sent() == ["RST 201 refused_stream"])
        line.answer(1)
        line.receive(F.get(203))
        #expect(line.takeEvents().last == "head 203 GET /")
    }

    @Test("What is in flight when the gateway resets a stream is dropped and no fault")
    func inFlight() {
        var line = HTTP2Line()
        line.receive(F.post(1))
        line.answer(1, "no", status: 413)
        #expect(line.sent() == ["HEADERS 1", "DATA 1 2 end", "RST 1 no_error"])
        line.receive(F.data(1, "more") + F.window(1, 5) + F.frame(.headers, 5, 1, F.block([("a", "b")])) + F.reset(1) + F.get(3))
        #expect(line.takeEvents() == ["head 1 POST / +", "head 3 GET /"])
        #expect(line.sent().isEmpty)
    }

    @Test("An answer that breaks off is reset, so that it does not look complete")
    func brokenAnswer() {
        var line = HTTP2Line()
        line.receive(F.get(1))
        _ = line.machine.sendHead(("HTTP/1.1 200 OK\r\n\r\n" as StaticString).rawBytes, on: StreamID(number: 1), into: &line.output)
        line.machine.release(StreamID(number: 1), into: &line.output)
        #expect(line.sent() == ["HEADERS 1", "RST 1 internal_error"])
    }

    @Test("A drain says GOAWAY twice, and takes what the client sent before it knew")
    func drain() {
        var line = HTTP2Line()
        line.receive(F.get(1))
        line.machine.drain(into: &line.output)
        #expect(line.sent() == ["GOAWAY 2147483647 no_error", "PING"])
        line.receive(F.get(3) + F.ping("tollgate", ack: true) + F.get(5))
        #expect(line.takeEvents() == ["head 1 GET /", "head 3 GET /"])
        #expect(line.sent() == ["GOAWAY 3 no_error"])
        #expect(line.machine.acceptsNoMore && line.machine.streamCount == 2)
    }

    @Test("What comes of later streams after a drain's last GOAWAY is dropped and no fault")
    func lateStream() {
        var line = HTTP2Line()
        line.receive(F.get(1))
        line.machine.drain(into: &line.output)
        line.machine.finishDraining(into: &line.output)
        _ = line.sent()
        line.receive(F.post(3) + F.window(3, 5) + F.data(3, "more") + F.frame(.headers, 5, 3, F.block([("a", "b")])) + F.reset(3))
        #expect(line.takeEvents() == ["head 1 GET /"])
        #expect(line.sent().isEmpty)
        line.answer(1)
        #expect(line.sent() == ["HEADERS 1 end"])
        line.receive(F.data(5, "of a stream that was never opened"))
        #expect(line.sent() == ["GOAWAY 1 protocol_error"])
    }
}
