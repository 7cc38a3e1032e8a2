@testable import HTTP
import Testing
import Wire

/// Requests to an upstream as frames: their fields, content, trailers and ends.
@Suite struct HTTP2ClientRequestTests {
    /// The head that a server reads from the frames of a request.
    private func read(_ head: String, isSecure: Bool = false) -> String {
        var client = HTTP2Core.client()
        var server = HTTP2Core.server()
        var wire = ByteBuffer()
        var answers = ByteBuffer()
        var section = FieldSection()
        var request = RequestHead()
        client.start(into: &wire)
        let sent = client.sendRequest(Array(head.utf8).rawBytes, isSecure: isSecure, endsStream: true, owner: 0, into: &wire)
        #expect(sent?.length == head.utf8.count)
        let now = MonotonicTime(nanoseconds: 0)
        let event = server.next(&wire, &section, &request, HeadLimits(), at: now, into: &answers)
        #expect(event == .head(StreamID(number: 1)))
        return section.pseudoField(.scheme).text + " " + section.head.text
    }

    @Test("The request line and Host become pseudo-fields, other names are in lower case")
    func pseudoFields() {
        #expect(
            read("GET /a?b=c HTTP/1.1\r\nHost: a.example:81\r\nX-Id: 7\r\naccept: */*\r\n\r\n")
                == "http GET /a?b=c HTTP/1.1\r\nhost: a.example:81\r\nx-id: 7\r\naccept: */*\r\n\r\n")
        #expect(
            read("PATCH / HTTP/1.1\r\nX: y\r\nHost: b\r\n\r\n", isSecure: true) == "https PATCH / HTTP/1.1\r\nhost: b\r\nx: y\r\n\r\n")
        #expect(read("OPTIONS * HTTP/1.1\r\nHost: b\r\n\r\n") == "http OPTIONS * HTTP/1.1\r\nhost: b\r\n\r\n")
    }

    @Test("Fields that mean framing or the connection in HTTP/1.1 are dropped")
    func droppedFields() {
        for line in [
            "Connection: close", "Keep-Alive: timeout=5", "Proxy-Connection: close", "Transfer-Encoding: chunked", "Upgrade: h2c",
            "TE: gzip", "TE: trailers, gzip",
        ] {
            #expect(
                read("GET / HTTP/1.1\r\nHost: b\r\n\(line)\r\nA: b\r\n\r\n") == "http GET / HTTP/1.1\r\nhost: b\r\na: b\r\n\r\n", "\(line)")
        }
    }

    @Test("TE: trailers passes, which gRPC needs, and so does a length")
    func passedFields() {
        #expect(read("GET / HTTP/1.1\r\nHost: b\r\nTE: Trailers\r\n\r\n") == "http GET / HTTP/1.1\r\nhost: b\r\nte: Trailers\r\n\r\n")
        #expect(
            read("POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 0\r\n\r\n")
                == "http POST / HTTP/1.1\r\nhost: b\r\ncontent-length: 0\r\n\r\n")
    }

    @Test("No table on the way keeps credentials")
    func credentials() {
        for (name, start) in [("Authorization", [0x1F, 8] as [UInt8]), ("Cookie", [0x1F, 17]), ("X-Internal-Key", [0x10, 14])] {
            var line = HTTP2ClientLine()
            line.send("GET /", ["\(name): secret"])
            let bytes = line.output.readable.array
            let value = Array("secret".utf8)
            let place = bytes.indices.first { bytes[$0...].starts(with: value) }!
            // The name's index or length follows the form "never indexed", then the value's length.
            let name = start[0] == 0x10 ? start + Array(name.lowercased().utf8) : start
            #expect(Array(bytes[..<place].suffix(name.count + 1)) == name + [6])
        }
    }

    @Test("A head above 16 KiB goes out in several frames")
    func longHead() {
        var line = HTTP2ClientLine()
        line.send("GET /", (0..<3).map { "X-\($0): " + String(repeating: "y", count: 7_000) })
        #expect(line.sent() == ["HEADERS 1 end more", "CONTINUATION 1"])
    }

    @Test("Content ends with its last frame, or with an empty one if that has left")
    func ends() {
        var line = HTTP2ClientLine()
        for _ in 0..<4 { line.send("POST /", ends: false) }
        #expect(line.sent() == ["HEADERS 1", "HEADERS 3", "HEADERS 5", "HEADERS 7"])
        #expect(line.send(1, content: "all", ends: true) == 3)
        #expect(line.send(3, content: "some") == 4)
        line.machine.sendEnd(on: StreamID(number: 3), into: &line.output)
        line.machine.sendEnd(on: StreamID(number: 5), into: &line.output)
        #expect(line.send(7, content: "x") == 1)
        line.machine.sendTrailers(Array("A: b\r\n".utf8).rawBytes, on: StreamID(number: 7), into: &line.output)
        #expect(line.sent() == ["DATA 1 3 end", "DATA 3 4 end", "DATA 5 0 end", "DATA 7 1", "HEADERS 7 end"])
        line.machine.sendEnd(on: StreamID(number: 7), into: &line.output)
        #expect(line.sent() == [])
    }

    @Test("A head ends its stream only where the client's did: servers of gRPC demand DATA, also of a call without messages")
    func endOfHead() {
        var line = HTTP2ClientLine()
        line.send("POST /", ends: false)
        line.machine.sendEnd(on: StreamID(number: 1), into: &line.output)
        line.send("POST /", ends: true)
        line.machine.sendEnd(on: StreamID(number: 3), into: &line.output)
        #expect(line.sent() == ["HEADERS 1", "DATA 1 0 end", "HEADERS 3 end"])
    }

    @Test("No more content is sent than the windows allow")
    func windows() {
        var line = HTTP2ClientLine()
        line.receive(HTTP2Bytes.settings([(HTTP2Setting.initialWindowSize, 10)]))
        line.send("POST /", ends: false)
        _ = line.sent()
        #expect(line.send(1, content: "0123456789abcde", ends: true) == 10)
        #expect(line.send(1, content: "abcde", ends: true) == 0)
        line.receive(HTTP2Bytes.window(1, 3))
        #expect(line.send(1, content: "abcde", ends: true) == 3)
        line.receive(HTTP2Bytes.settings([(HTTP2Setting.initialWindowSize, 12)]))
        #expect(line.send(1, content: "de", ends: true) == 2)
        #expect(line.takeEvents() == ["settings 100", "room 1", "settings 100", "room 0"])
        #expect(line.sent() == ["DATA 1 10", "DATA 1 3", "SETTINGS ack", "DATA 1 2 end"])
        #expect(line.machine.room(of: StreamID(number: 1)) == 0)
    }

    @Test("The connection's window holds all streams")
    func connectionWindow() {
        var line = HTTP2ClientLine()
        line.receive(HTTP2Bytes.settings([(HTTP2Setting.initialWindowSize, 1 << 20)]))
        line.send("POST /", ends: false)
        line.send("POST /", ends: false)
        let piece = String(repeating: "x", count: 20_000)
        var total = 0
        while case let count = line.send(1, content: piece), count > 0 { total += count }
        #expect(total == 65_535)
        #expect(line.machine.room(of: StreamID(number: 3)) == 0)
        line.receive(HTTP2Bytes.window(3, 9) + HTTP2Bytes.window(0, 9))
        #expect(line.takeEvents() == ["settings 100", "room 0"])
        #expect(line.machine.room(of: StreamID(number: 3)) == 9)
    }

    @Test("Faulty windows end the stream, or the connection if they are its own")
    func faultyWindows() {
        let cases: [([UInt8], String)] = [
            (HTTP2Bytes.window(1, 0), "bad 1 connection"), (HTTP2Bytes.window(1, 0x7FFF_FFFF), "bad 1 connection"),
            (HTTP2Bytes.window(0, 0), "fault protocol_error"), (HTTP2Bytes.window(0, 0x7FFF_FFFF), "fault flow_control_error"),
            (HTTP2Bytes.settings([(HTTP2Setting.initialWindowSize, 0x8000_0000)]), "fault flow_control_error"),
            (HTTP2Bytes.settings([(HTTP2Setting.maxFrameSize, 1)]), "fault protocol_error"),
        ]
        for (frames, event) in cases {
            var line = HTTP2ClientLine()
            line.send("POST /", ends: false)
            line.receive(frames)
            #expect(line.takeEvents().last == event)
        }
    }

    @Test("Content of a stream that is over is dropped")
    func contentOfStreamThatIsOver() {
        var line = HTTP2ClientLine()
        line.releases = false
        line.send("POST /", ends: false)
        line.receive(HTTP2Bytes.reset(1, .refusedStream))
        _ = line.sent()
        #expect(line.send(1, content: "abc") == 3)
        line.machine.sendEnd(on: StreamID(number: 1), into: &line.output)
        line.machine.sendTrailers(Array("A: b\r\n".utf8).rawBytes, on: StreamID(number: 1), into: &line.output)
        line.machine.release(StreamID(number: 1), into: &line.output)
        #expect(line.sent() == [])
    }
}
