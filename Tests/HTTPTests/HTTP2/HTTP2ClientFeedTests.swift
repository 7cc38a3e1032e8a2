@testable import HTTP
import Testing
import Wire

private typealias F = HTTP2Bytes

/// The same bytes of an upstream in any pieces mean the same; any bytes at all keep the machine's bounds.
@Suite struct HTTP2ClientFeedTests {
    private let talk =
        F.settings([(3, 50), (4, 70_000)]) + F.frame(.settings, 1) + F.window(0, 1_000) + F.answer(3, "103")
        + F.answer(1, "200", [("a", "b")])
        + F.data(1, "hello") + F.answer(3, "404", [("content-length", "0")], ends: true) + F.ping()
        + F.frame(.data, 0x8, 1, [2, 65, 66, 0, 0])
        + F.frame(.headers, 1, 5, Array(F.block([(":status", "200"), ("x", "y")])[..<10]))
        + F.frame(.continuation, 4, 5, Array(F.block([(":status", "200"), ("x", "y")])[10...])) + F.window(7, 9)
        + F.trailers(1, [("grpc-status", "0")]) + F.answer(7) + F.data(7, "x") + F.reset(7, .refusedStream) + F.goAway(9)
        + F.answer(9, "200", [("content-length", "3")]) + F.data(9, "abcd") + F.frame(.pushPromise)

    private func events(_ feed: (inout HTTP2ClientLine) -> Void) -> ([String], [UInt8]) {
        var line = HTTP2ClientLine(greeted: false)
        for number in 0..<6 { line.send(number == 3 ? "POST /" : "GET /", ends: number != 3) }
        feed(&line)
        return (line.takeEvents(), line.output.readable.array)
    }

    @Test("Fed whole, byte by byte, and cut at every place")
    func cuts() {
        let whole = events { $0.receive(talk) }
        #expect(
            whole.0 == [
                "settings 50", "room 0", "interim 3 103", "head 1 200 chunked", "content 1 hello", "head 3 404 length(0)", "end 3",
                "content 1 AB", "head 5 200 untilClose", "end 5", "trailers 1 grpc-status: 0", "end 1", "head 7 200 chunked", "content 7 x",
                "reset 7 refused_stream", "away no_error", "reset 11 refused_stream", "head 9 200 length(3)", "bad 9 content_length",
                "fault protocol_error",
            ])
        let bytewise = events { $0.receive(talk, in: 1) }
        #expect(bytewise == whole)
        for cut in talk.indices {
            let two = events {
                $0.receive(Array(talk[..<cut]))
                $0.receive(Array(talk[cut...]))
            }
            #expect(two == whole, "cut at \(cut)")
        }
    }

    @Test("Random frames, mostly valid, at random cuts: no trap, bounded streams, whole frames out")
    func fuzz() {
        var random = SplitMix64(seed: 7_541)
        for _ in 0..<400 {
            var line = HTTP2ClientLine()
            line.takes = random.next() % 2 == 0
            for _ in 0..<60 {
                if random.next() % 2 == 0 { line.send(random.next() % 2 == 0 ? "GET /" : "POST /", ends: random.next() % 2 == 0) }
                var bytes = Self.randomFrame(&random)
                if random.next() % 24 == 0, !bytes.isEmpty {
                    bytes[Int(random.next() % UInt64(bytes.count))] ^= UInt8(truncatingIfNeeded: random.next())
                }
                line.receive(bytes, in: 1 + Int(random.next() % 40))
                drive(&line, &random)
                #expect(line.machine.streamCount <= 100)
                #expect(line.machine.growthLeft >= 0 && line.machine.growthLeft <= HTTP2Core.maxGrowth)
                #expect(line.machine.sending.window >= 0)
                #expect(!line.sent().contains { $0.hasPrefix("rest") || $0.hasPrefix("TYPE") })
                line.now = line.now.advanced(milliseconds: random.next() % 50)
            }
        }
    }

    @Test("The conversation with random bytes changed")
    func changedBytes() {
        var random = SplitMix64(seed: 7_540)
        for _ in 0..<500 {
            var bytes = talk
            for _ in 0...(random.next() % 3) { bytes[Int(random.next() % UInt64(bytes.count))] = UInt8(truncatingIfNeeded: random.next()) }
            let whole = events { $0.receive(bytes) }
            let pieces = events { $0.receive(bytes, in: 1 + Int(random.next() % 30)) }
            #expect(whole == pieces, "\(bytes)")
        }
    }

    /// Acts on a stream, as an exchange may.
    private func drive(_ line: inout HTTP2ClientLine, _ random: inout SplitMix64) {
        guard line.machine.streamCount > 0 else { return }
        let stream = StreamID(number: line.machine.streams[Int(random.next() % UInt64(line.machine.streamCount))].number)
        switch random.next() % 8 {
        case 0:
            _ = line.send(stream.number, content: String(repeating: "y", count: Int(random.next() % 40_000)), ends: random.next() % 3 == 0)
        case 1: line.machine.sendEnd(on: stream, into: &line.output)
        case 2: line.machine.sendTrailers(Array("A: b\r\n".utf8).rawBytes, on: stream, into: &line.output)
        case 3: line.machine.release(stream, into: &line.output)
        case 4: line.machine.ping(into: &line.output)
        default: break
        }
    }

    private static func randomFrame(_ random: inout SplitMix64) -> [UInt8] {
        let stream = UInt32(random.next() % 32)
        switch random.next() % 14 {
        case 0, 1, 2: return F.answer(stream | 1, ["200", "103", "204", "404"][Int(random.next() % 4)], ends: random.next() % 2 == 0)
        case 3: return F.answer(stream | 1, "200", [("content-length", "\(random.next() % 3_000)")])
        case 4, 5: return F.data(stream | 1, String(repeating: "x", count: Int(random.next() % 3_000)), ends: random.next() % 2 == 0)
        case 6: return F.reset(stream | 1)
        case 7: return F.window(random.next() % 2 == 0 ? 0 : stream | 1, UInt32(truncatingIfNeeded: random.next() >> 40))
        case 8: return F.settings([(UInt16(random.next() % 8), UInt32(truncatingIfNeeded: random.next() >> 44))])
        case 9: return F.ping(ack: random.next() % 2 == 0)
        case 10: return F.trailers(stream | 1, [("a", "b")], ends: random.next() % 4 > 0)
        case 11: return F.frame(.continuation, UInt8(random.next() & 4), stream | 1, F.block([("a", "b")]))
        case 12 where random.next() % 4 == 0: return F.goAway(stream)
        default: return F.frame(.data, UInt8(random.next() & 9), stream, (0..<(random.next() % 20)).map { UInt8(truncatingIfNeeded: $0) })
        }
    }

    /// Steps of the upstream and of the gateway on one stream.
    private enum Step: CaseIterable {
        case interim, head, headEnds, data, dataEnds, trailers, reset, window, goAway, content, end, sendTrailers, release
    }

    @Test("Every order of four steps of the upstream and the gateway on one stream, with and without content of the request")
    func walk() {
        var walks = 0
        func visit(_ steps: [Step]) {
            if steps.count == 4 {
                walks += 1
                return check(steps, ends: walks % 2 == 0)
            }
            for step in Step.allCases { visit(steps + [step]) }
        }
        visit([])
        #expect(walks == 28_561)
    }

    private func check(_ steps: [Step], ends: Bool) {
        var line = HTTP2ClientLine()
        line.releases = false
        line.send("POST /", ends: ends)
        let id = StreamID(number: 1)
        for step in steps {
            switch step {
            case .interim: line.receive(F.answer(1, "103"))
            case .head: line.receive(F.answer(1))
            case .headEnds: line.receive(F.answer(1, ends: true))
            case .data: line.receive(F.data(1, "x"))
            case .dataEnds: line.receive(F.data(1, "y", ends: true))
            case .trailers: line.receive(F.trailers(1, [("a", "b")]))
            case .reset: line.receive(F.reset(1))
            case .window: line.receive(F.window(1, 9))
            case .goAway: line.receive(F.goAway(0))
            case .content where !ends && !steps.contains(.end) && !steps.contains(.sendTrailers): _ = line.send(1, content: "z")
            case .content: break
            case .end: line.machine.sendEnd(on: id, into: &line.output)
            case .sendTrailers: line.machine.sendTrailers(Array("A: b\r\n".utf8).rawBytes, on: id, into: &line.output)
            case .release: line.machine.release(id, into: &line.output)
            }
        }
        let events = line.takeEvents()
        // A stream has one final answer and one end of any kind, and nothing behind that.
        #expect(events.count { $0.hasPrefix("head 1") } <= 1, "\(steps)")
        let isEnd = { (event: String) in ["end 1", "reset 1", "bad 1"].contains { event.hasPrefix($0) } }
        #expect(events.count(where: isEnd) <= 1, "\(steps)")
        if let end = events.firstIndex(where: isEnd) { #expect(events[(end + 1)...].allSatisfy { $0.hasPrefix("away") }, "\(steps)") }
        if let head = events.firstIndex(where: { $0.hasPrefix("head 1") }) {
            #expect(!events[head...].contains { $0.hasPrefix("interim") }, "\(steps)")
        } else {
            #expect(!events.contains { $0.hasPrefix("content") || $0.hasPrefix("trailers") || $0 == "end 1" }, "\(steps)")
        }
        // A request has one end, nothing is sent behind it, and one reset at most.
        let frames = line.sent().filter { $0.hasPrefix("HEADERS 1") || $0.hasPrefix("DATA 1") || $0.hasPrefix("RST 1") }
        #expect(frames.count { $0.hasSuffix(" end") } <= 1, "\(steps)")
        if let end = frames.firstIndex(where: { $0.hasSuffix(" end") }) {
            #expect(frames[(end + 1)...].allSatisfy { $0.hasPrefix("RST") }, "\(steps)")
        }
        #expect(frames.count { $0.hasPrefix("RST") } <= 1, "\(steps)")
        if let reset = frames.firstIndex(where: { $0.hasPrefix("RST") }) { #expect(reset == frames.count - 1, "\(steps)") }
    }
}
