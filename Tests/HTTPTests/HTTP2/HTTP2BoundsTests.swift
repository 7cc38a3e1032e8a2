@testable import HTTP
import Testing
import Wire

private typealias F = HTTP2Bytes

/// Bounds that the operator sets, and frames that count against a client although they mean nothing any more.
@Suite struct HTTP2BoundsTests {
    @Test("The bounds are announced, and kept")
    func announced() {
        var line = HTTP2Line(greeted: false, HTTP2Bounds(streams: 2, connectionWindow: 65_536))
        line.receive(F.preface + F.settings())
        #expect(line.output.readable.dropping(9).bigEndian16(0) == 3 && line.output.readable.dropping(9).bigEndian32(2) == 2)
        #expect(line.sent() == ["SETTINGS 24", "WINDOW 0 1", "SETTINGS ack"])
        line.receive(F.get(1) + F.get(3) + F.get(5))
        #expect(line.sent() == ["RST 5 refused_stream"])
        #expect(line.takeEvents() == ["head 1 GET /", "head 3 GET /"])
    }

    @Test("Requests beyond a small bound, sent before it was known, are refused and no more")
    func refusedInFlight() {
        var line = HTTP2Line(HTTP2Bounds(streams: 4))
        let streams = (0..<100).map { UInt32(2 * $0 + 1) }
        for stream in streams { line.receive(F.post(stream)) }
        _ = line.sent()
        for stream in streams.dropFirst(4) { line.receive(F.data(stream, "x")) }
        #expect(line.sent().allSatisfy { !$0.hasPrefix("RST") && !$0.hasPrefix("GOAWAY") })
        #expect(line.takeEvents().count { $0.hasPrefix("head") } == 4)
    }

    @Test("An upload's window grows to the bound, and no further")
    func streamWindow() {
        var line = HTTP2Line(HTTP2Bounds(streamWindow: 100_000))
        line.receive(F.post(1))
        _ = line.sent()
        var (window, largest) = (65_535, 65_535)
        let piece = String(repeating: "x", count: 16_000)
        for _ in 0..<50 {
            line.receive(F.data(1, piece))
            window -= 16_000
            line.machine.consumed(16_000, of: StreamID(number: 1), into: &line.output)
            for frame in line.sent() where frame.hasPrefix("WINDOW 1 ") { window += Int(frame.split(separator: " ")[2])! }
            largest = max(largest, window)
        }
        #expect(largest == 100_000)
    }

    @Test("A connection holds at most twice its window")
    func connectionWindow() {
        var line = HTTP2Line(HTTP2Bounds(connectionWindow: 65_536))
        let piece = String(repeating: "x", count: 16_000)
        var taken = 0
        for stream in 0..<100 where line.events.last?.hasPrefix("fault") != true {
            line.receive(F.post(UInt32(2 * stream + 1)) + F.data(UInt32(2 * stream + 1), piece))
            if line.events.last?.hasPrefix("content") == true { taken += 16_000 }
        }
        #expect(line.takeEvents().last == "fault flow_control_error")
        #expect(taken > 65_536 && taken <= 2 * 65_536)
    }

    @Test("What is in flight when the gateway resets a stream is forgiven once")
    func forgivenOnce() {
        var line = HTTP2Line()
        line.receive(F.post(1))
        line.answer(1, "no", status: 413)
        for _ in 0..<1_001 { line.receive(F.reset(1)) }
        #expect(line.takeEvents() == ["head 1 POST / +"])
        line.receive(F.reset(1))
        #expect(line.takeEvents() == ["fault closed_stream"])
        var other = HTTP2Line()
        other.receive(F.post(1))
        other.answer(1, "no", status: 413)
        let trailers = F.frame(.headers, 5, 1, F.block([("a", "b")]))
        other.receive(trailers)
        #expect(other.takeEvents() == ["head 1 POST / +"])
        other.receive(trailers)
        #expect(other.takeEvents() == ["fault stream_closed"])
    }

    @Test("Requests after the last GOAWAY of a drain count as refused ones")
    func afterDrain() {
        var line = HTTP2Line()
        line.machine.drain(into: &line.output)
        line.machine.finishDraining(into: &line.output)
        for number in 0..<200 { line.receive(F.get(UInt32(2 * number + 1))) }
        #expect(line.takeEvents().isEmpty)
        line.receive(F.get(401))
        #expect(line.takeEvents() == ["fault refused_stream"])
    }

    @Test("A client that says GOAWAY is answered, and told that no more comes")
    func clientLeaves() {
        var line = HTTP2Line()
        line.receive(F.get(1) + F.frame(.goAway, 0, 0, F.word(0) + F.word(0)))
        #expect(line.sent() == ["GOAWAY 1 no_error"])
        #expect(line.machine.acceptsNoMore && line.machine.streamCount == 1)
        line.answer(1, "hello")
        #expect(line.sent() == ["HEADERS 1", "DATA 1 5 end"])
        #expect(line.takeEvents() == ["head 1 GET /"])
    }

    @Test("A client that opens its windows byte by byte is cut off; one with small windows is not")
    func tinyWindows() {
        for (increment, isCutOff) in [(1, true), (255, true), (256, false), (4_096, false)] {
            var line = HTTP2Line()
            line.receive(F.settings([(4, UInt32(increment))]) + F.get(1))
            let content = [UInt8](repeating: 1, count: 10_000_000)
            var sent = 0
            while line.events.last?.hasPrefix("fault") != true, sent < content.count {
                sent += line.machine.sendContent(content.rawBytes.dropping(sent), isLast: true, on: StreamID(number: 1), into: &line.output)
                line.output.removeAll()
                line.receive(F.window(1, UInt32(increment)) + F.window(0, UInt32(increment)))
            }
            #expect(line.events.contains("fault window_update") == isCutOff, "\(increment)")
        }
    }
}
