@testable import HTTP
import Testing
import Wire

private typealias F = HTTP2Bytes

/// Streams of a connection to an upstream: how many, how they end, and how the connection does.
@Suite struct HTTP2ClientStreamTests {
    @Test("No more streams are opened than the upstream allows, and never more than 100")
    func concurrency() {
        var line = HTTP2ClientLine(greeted: false)
        #expect((0..<101).compactMap { _ in line.send() }.count == 100)
        line = HTTP2ClientLine()
        line.receive(F.settings([(HTTP2Setting.maxConcurrentStreams, 2)]))
        #expect(line.send() == 1)
        #expect(line.send() == 3)
        #expect(line.send() == nil)
        // A bound below what is under way stops new streams only.
        line.receive(F.settings([(HTTP2Setting.maxConcurrentStreams, 1)]) + F.answer(1, ends: true))
        #expect(line.send() == nil)
        line.receive(F.answer(3, ends: true))
        #expect(line.send() == 5)
        line.receive(F.settings([(HTTP2Setting.maxConcurrentStreams, 0)]) + F.answer(5, ends: true))
        #expect(line.send() == nil)
        line.receive(F.settings([(HTTP2Setting.maxConcurrentStreams, 1_000_000)]))
        #expect(line.takeEvents().last == "settings 100")
        #expect(line.send() == 7)
    }

    @Test("A stream counts until it is released")
    func released() {
        var line = HTTP2ClientLine()
        line.releases = false
        line.receive(F.settings([(HTTP2Setting.maxConcurrentStreams, 1)]))
        line.send()
        line.receive(F.answer(1, ends: true))
        #expect(line.send() == nil)
        line.machine.release(StreamID(number: 1), into: &line.output)
        #expect(line.send() == 3)
    }

    @Test("GOAWAY leaves out the streams above its last one, and lets the others end")
    func goAway() {
        var line = HTTP2ClientLine()
        for _ in 0..<4 { line.send() }
        line.receive(F.goAway(3))
        #expect(line.takeEvents() == ["away no_error", "reset 5 refused_stream", "reset 7 refused_stream"])
        #expect(line.send() == nil)
        line.receive(F.answer(1, ends: true) + F.answer(3, ends: true))
        #expect(line.takeEvents() == ["head 1 200 untilClose", "end 1", "head 3 200 untilClose", "end 3"])
        let (isOver, streams) = (line.machine.isGoingAway, line.machine.streamCount)
        #expect(isOver && streams == 0)
        // Nothing was reset: the upstream knows of the others, and has dropped these.
        #expect(line.sent().allSatisfy { $0.hasPrefix("HEADERS") })
    }

    @Test("A graceful shutdown says GOAWAY twice; the second cannot take more than the first")
    func goAwayTwice() {
        var line = HTTP2ClientLine()
        for _ in 0..<3 { line.send() }
        line.receive(F.goAway(0x7FFF_FFFF))
        #expect(line.takeEvents() == ["away no_error"])
        #expect(line.send() == nil)
        line.receive(F.goAway(3) + F.goAway(5, .enhanceYourCalm))
        #expect(line.takeEvents() == ["away no_error", "reset 5 refused_stream", "away enhance_your_calm"])
    }

    @Test("The numbers of streams end")
    func numbers() {
        var line = HTTP2ClientLine()
        line.machine.lastStream = 0x7FFF_FFFD
        #expect(line.send() == 0x7FFF_FFFF)
        #expect(line.send() == nil)
        line.receive(F.answer(0x7FFF_FFFF, ends: true))
        #expect(line.takeEvents() == ["head 2147483647 200 untilClose", "end 2147483647"])
    }

    @Test("A stream that is let go before its end is reset; what was in flight is dropped")
    func cancelled() {
        var line = HTTP2ClientLine()
        line.send()
        line.receive(F.answer(1) + F.frame(.data, 0, 1, Array("abcdef".utf8)).prefix(12))
        _ = line.sent()
        line.machine.release(StreamID(number: 1), into: &line.output)
        #expect(line.sent() == ["RST 1 cancel"])
        line.receive(Array("def".utf8) + F.data(1, "ghi") + F.trailers(1, [("a", "b")]) + F.reset(1) + F.window(1, 5))
        #expect(line.takeEvents() == ["head 1 200 chunked", "content 1 abc"])
        #expect(line.sent() == [])
        // Dropped content does not use the connection's window up.
        let piece = String(repeating: "x", count: 16_000)
        for _ in 0..<200 { line.receive(F.data(1, piece)) }
        #expect(line.takeEvents() == [])
        #expect(line.sent().allSatisfy { $0.hasPrefix("WINDOW 0 ") })
        // HPACK's table stays in step: the next answer is understood.
        line.send()
        line.receive(F.answer(3, ends: true))
        #expect(line.takeEvents() == ["head 3 200 untilClose", "end 3"])
    }

    /// Lets go of streams that are under way, `count` of them.
    private func abandon(_ count: Int, ends: Bool = true) -> HTTP2ClientLine {
        var line = HTTP2ClientLine()
        for _ in 0..<count { line.send("POST /", ends: ends) }
        _ = line.sent()
        for number in 0..<count { line.machine.release(StreamID(number: UInt32(2 * number + 1)), into: &line.output) }
        return line
    }

    @Test("Resets beyond the budget wait for it: more of them would make the upstream end the connection for all")
    func budgetOfResets() {
        var line = abandon(100)
        #expect(line.sent() == (0..<15).map { "RST \(2 * $0 + 1) cancel" })
        // The others' answers are dropped; they are no fault, and use no window up.
        let piece = String(repeating: "x", count: 16_000)
        for stream: UInt32 in [31, 33] {
            line.receive(F.answer(stream))
            for _ in 0..<100 { line.receive(F.data(stream, piece)) }
        }
        line.receive(F.data(31, "end", ends: true) + F.reset(35) + F.trailers(37, [("a", "b")]))
        #expect(line.takeEvents() == [])
        #expect(line.sent().allSatisfy { $0.hasPrefix("WINDOW 0 ") })
        // Those that are over are not reset any more.
        line.resetAbandoned()
        #expect(line.sent() == ["RST 33 cancel", "RST 39 cancel", "RST 41 cancel"])
        line.receive(F.goAway(43))
        line.resetAbandoned()
        #expect(line.sent() == ["RST 43 cancel"])
    }

    @Test("A stream that waits for its reset counts for the upstream's bound, and its connection takes others below it")
    func abandonedStreamsCount() {
        var line = abandon(100)
        line.receive(F.settings([(HTTP2Setting.maxConcurrentStreams, 86)]))
        #expect(line.send() == 201)
        #expect(line.send() == nil)
        line.receive(F.answer(31, ends: true))
        #expect(line.send() == 203)
        #expect(line.machine.streamCount == 2)
    }

    @Test("An answer does not end a stream whose request is not over")
    func abandonedRequest() {
        var line = abandon(16, ends: false)
        _ = line.sent()
        line.receive(F.answer(31, ends: true))
        line.resetAbandoned()
        #expect(line.sent() == ["RST 31 cancel"])
        // The budget fills up to its burst again, and no further.
        for _ in 0..<10 { line.resetAbandoned() }
        for _ in 0..<20 { line.send() }
        _ = line.sent()
        for number in 16..<36 { line.machine.release(StreamID(number: UInt32(2 * number + 1)), into: &line.output) }
        #expect(line.sent().count == 15)
    }

    @Test("A request that is not over when its answer is: the stream is reset")
    func earlyAnswer() {
        var line = HTTP2ClientLine()
        line.send("POST /", ends: false)
        line.receive(F.answer(1, "413", ends: true))
        #expect(line.takeEvents() == ["head 1 413 untilClose", "end 1"])
        #expect(line.sent() == ["HEADERS 1", "RST 1 cancel"])
        line.send("POST /", ends: false)
        line.machine.release(StreamID(number: 3), .internalError, into: &line.output)
        #expect(line.sent() == ["HEADERS 3", "RST 3 internal_error"])
    }

    @Test("A PING shows that a connection is alive")
    func ping() {
        var line = HTTP2ClientLine()
        line.machine.ping(into: &line.output)
        line.machine.ping(into: &line.output)
        #expect(line.sent() == ["PING"])
        line.receive(F.ping("other678", ack: true))
        let waits = line.machine.awaitsPong
        #expect(waits)
        line.receive(F.ping("tollgate", ack: true))
        let waitsStill = line.machine.awaitsPong
        #expect(!waitsStill)
        line.receive(F.ping())
        #expect(line.sent() == ["PING ack"])
    }

    @Test("The gateway ends the connection")
    func close() {
        var line = HTTP2ClientLine()
        line.machine.close(.noError, into: &line.output)
        line.machine.close(.noError, into: &line.output)
        #expect(line.sent() == ["GOAWAY 0 no_error"])
        line.receive(F.answer(1))
        #expect(line.takeEvents() == [])
        #expect(line.send() == nil)
    }

    @Test("An upstream that does not speak HTTP/2 is told by its first bytes")
    func otherProtocol() {
        var line = HTTP2ClientLine(greeted: false)
        line.receive(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
        #expect(line.takeEvents() == ["fault protocol_error"])
        let isOver = line.machine.isGoingAway
        #expect(isOver)
    }

    // MARK: content

    @Test("Content that is taken widens the windows; that of a slow reader does not, and holds no other up")
    func backpressure() {
        var line = HTTP2ClientLine()
        line.takes = false
        for _ in 0..<100 { line.send() }
        for number in 0..<100 { line.receive(F.answer(UInt32(2 * number + 1))) }
        let piece = String(repeating: "x", count: 16_000)
        // 99 streams fill their windows; the last one is read.
        for number in 0..<99 {
            for _ in 0..<4 { line.receive(F.data(UInt32(2 * number + 1), piece)) }
        }
        #expect(!line.sent().contains { $0.hasPrefix("WINDOW") && !$0.hasPrefix("WINDOW 0") })
        line.takes = true
        for _ in 0..<500 { line.receive(F.data(199, piece)) }
        let events = line.takeEvents()
        #expect(!events.contains { $0.hasPrefix("fault") || $0.hasPrefix("bad") })
        #expect(line.sent().contains { $0.hasPrefix("WINDOW 199 ") })
    }

    @Test("A stream that sends more than its window is reset; the connection's window ends it")
    func tooMuch() {
        var line = HTTP2ClientLine()
        line.takes = false
        line.send()
        line.receive(F.answer(1))
        let piece = String(repeating: "x", count: 16_384)
        for _ in 0..<4 { line.receive(F.data(1, piece)) }
        #expect(line.takeEvents().last == "bad 1 content_too_large")
        #expect(line.sent().last == "RST 1 flow_control_error")
    }

    @Test("The windows of all streams together grow by 4 MiB at most, which streams that end give back")
    func growth() {
        var line = HTTP2ClientLine()
        let piece = String(repeating: "x", count: 16_000)
        func download(_ stream: UInt32, _ line: inout HTTP2ClientLine) {
            line.receive(F.answer(stream))
            for _ in 0..<100 { line.receive(F.data(stream, piece)) }
            line.events = []
        }
        for number in 0..<20 {
            line.send()
            download(UInt32(2 * number + 1), &line)
        }
        var sizes = (0..<20).map { line.machine.streams[$0].receiving.size }
        #expect(sizes.first == 512 * 1_024)
        #expect(sizes.reduce(0, +) == 20 * 65_535 + HTTP2Core.maxGrowth)
        #expect(sizes.last == 65_535)
        for number in 0..<20 { line.machine.release(StreamID(number: UInt32(2 * number + 1)), into: &line.output) }
        line.send()
        download(41, &line)
        sizes = [line.machine.streams[0].receiving.size]
        #expect(sizes == [512 * 1_024])
    }

    @Test("Streams that end give back what they held")
    func givesBack() {
        var line = HTTP2ClientLine()
        line.takes = false
        let piece = String(repeating: "x", count: 16_000)
        for number in 0..<1_000 {
            let stream = UInt32(2 * number + 1)
            #expect(line.send() == stream)
            line.receive(F.answer(stream) + F.data(stream, piece) + F.data(stream, piece, ends: true))
        }
        #expect(!line.takeEvents().contains { $0.hasPrefix("fault") || $0.hasPrefix("bad") })
    }

    // MARK: floods

    @Test("Floods end the connection with ENHANCE_YOUR_CALM")
    func floods() {
        let cases: [(String, [UInt8], [UInt8])] = [
            ("ping", [], F.ping()), ("ping", [], F.ping(ack: true)), ("settings", [], F.settings()),
            ("settings", [], F.frame(.settings, 1)),
            ("empty_data", F.answer(1), F.data(1, "")), ("empty_data", F.answer(1), F.frame(.data, 8, 1, [3, 0, 0, 0])),
            ("priority", [], F.frame(.priority, 0, 1, [0, 0, 0, 0, 1])), ("priority", [], [0, 0, 0, 0x10, 0, 0, 0, 0, 0]),
            ("window_update", [], F.window(0, 1)), ("window_update", [], F.window(1, 1)),
            ("closed_stream", F.answer(1, ends: true), F.reset(1)), ("closed_stream", F.answer(1, ends: true), F.data(1, "x")),
            ("closed_stream", F.answer(1, ends: true), F.answer(1)),
        ]
        for (kind, first, frame) in cases {
            var line = HTTP2ClientLine()
            line.send()
            line.receive(first)
            var count = 0
            while count < 20_000, !line.machine.isGoingAway {
                line.receive(frame)
                count += 1
            }
            #expect(line.takeEvents().last == "fault \(kind)")
            #expect(count <= 1_010, "\(kind)")
            #expect(line.output.count < 64 * 1_024)
        }
    }

    @Test("Frames that requests and content excuse are no flood: widened windows, and gRPC's PING for each frame of content")
    func ordinary() {
        var line = HTTP2ClientLine()
        line.send("POST /", ends: false)
        for _ in 0..<20_000 {
            #expect(line.send(1, content: "0123456789") == 10)
            line.receive(F.ping() + F.window(0, 10) + F.window(1, 10))
            line.output.removeAll()
            line.machine.outputLeaves()
        }
        for number in 1..<20_000 {
            let stream = UInt32(2 * number + 1)
            #expect(line.send() == stream)
            line.receive(
                F.answer(stream) + F.data(stream, "") + F.data(stream, "", ends: true) + F.reset(stream, .noError) + F.window(0, 1))
            line.output.removeAll()
        }
        #expect(!line.takeEvents().contains { $0.hasPrefix("fault") || $0.hasPrefix("bad") })
    }
}
