@testable import HTTP
import Testing
import Wire

private typealias F = HTTP2Bytes

/// The same bytes in any pieces mean the same; any bytes at all keep the machine's bounds.
@Suite struct HTTP2FeedTests {
    private let talk =
        F.preface + F.settings([(4, 70_000)]) + F.get(1, "/one") + F.post(3) + F.data(3, "hello")
        + F.frame(.data, 0x8, 3, [2, 65, 66, 0, 0])
        + F.ping() + F.window(0, 1_000) + F.frame(.headers, 1, 5, Array(F.request("GET", "/five")[..<10]))
        + F.frame(.continuation, 4, 5, Array(F.request("GET", "/five")[10...])) + F.data(3, "", ends: true) + F.reset(5)
        + F.frame(.headers, 0x25, 7, [0, 0, 0, 0, 16] + F.request("GET", "/seven")) + F.settings([(4, 10)]) + F.reset(99)

    private func events(_ feed: (inout HTTP2Line) -> Void) -> ([String], [UInt8]) {
        var line = HTTP2Line(greeted: false)
        feed(&line)
        return (line.takeEvents(), line.output.readable.array)
    }

    @Test("Fed whole, byte by byte, and cut at every place")
    func cuts() {
        let whole = events { $0.receive(talk) }
        #expect(whole.0.first == "head 1 GET /one" && whole.0.last == "fault protocol_error")
        #expect(whole.0.contains("content 3 helloAB"))
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
        var random = SplitMix64(seed: 9_113)
        for _ in 0..<400 {
            var line = HTTP2Line()
            for _ in 0..<60 {
                var bytes = Self.randomFrame(&random)
                if random.next() % 24 == 0, !bytes.isEmpty {
                    bytes[Int(random.next() % UInt64(bytes.count))] ^= UInt8(truncatingIfNeeded: random.next())
                }
                line.receive(bytes, in: 1 + Int(random.next() % 40))
                if random.next() % 3 == 0, line.machine.streamCount > 0 {
                    let index = Int(random.next() % UInt64(line.machine.streamCount))
                    line.answer(line.machine.streams[index].number, String(repeating: "y", count: Int(random.next() % 40_000)))
                }
                #expect(line.machine.streamCount <= 100)
                #expect(!line.sent().contains { $0.hasPrefix("rest") || $0.hasPrefix("TYPE") })
                line.now = line.now.advanced(milliseconds: random.next() % 50)
            }
        }
    }

    private static func randomFrame(_ random: inout SplitMix64) -> [UInt8] {
        let stream = UInt32(random.next() % 16)
        switch random.next() % 12 {
        case 0, 1, 2: return F.get(stream | 1, "/\(random.next() % 9)")
        case 3: return F.post(stream | 1)
        case 4: return F.data(stream, String(repeating: "x", count: Int(random.next() % 3_000)), ends: random.next() % 2 == 0)
        case 5: return F.reset(stream)
        case 6: return F.window(random.next() % 2 == 0 ? 0 : stream, UInt32(truncatingIfNeeded: random.next() >> 40))
        case 7: return F.settings([(UInt16(random.next() % 8), UInt32(truncatingIfNeeded: random.next() >> 44))])
        case 8: return F.ping()
        case 9: return F.frame(.headers, UInt8(random.next() & 0x2D), stream | 1, F.request())
        case 10: return F.frame(.continuation, UInt8(random.next() & 4), stream | 1, F.block([("a", "b")]))
        default: return F.frame(.data, UInt8(random.next() & 9), stream, (0..<(random.next() % 20)).map { UInt8(truncatingIfNeeded: $0) })
        }
    }

    /// Steps of a client and of the gateway on one stream.
    private enum Step: CaseIterable { case head, headEnds, data, dataEnds, trailers, reset, window, answerHead, content, end, release }

    @Test("Every order of four steps of the client and the gateway on one stream")
    func walk() {
        var walks = 0
        func visit(_ steps: [Step]) {
            if steps.count == 4 {
                walks += 1
                return check(steps)
            }
            for step in Step.allCases { visit(steps + [step]) }
        }
        visit([])
        #expect(walks == 14_641)
    }

    private func check(_ steps: [Step]) {
        var line = HTTP2Line()
        let id = StreamID(number: 1)
        var isOpen = false
        for step in steps {
            switch step {
            case .head: line.receive(F.post(1))
            case .headEnds: line.receive(F.get(1))
            case .data: line.receive(F.data(1, "x"))
            case .dataEnds: line.receive(F.data(1, "y", ends: true))
            case .trailers: line.receive(F.frame(.headers, 5, 1, F.block([("a", "b")])))
            case .reset: line.receive(F.reset(1))
            case .window: line.receive(F.window(1, 9))
            case .answerHead where isOpen:
                _ = line.machine.sendHead(("HTTP/1.1 200 OK\r\n\r\n" as StaticString).rawBytes, on: id, into: &line.output)
            case .content where isOpen: _ = line.machine.sendContent([1].rawBytes, isLast: false, on: id, into: &line.output)
            case .end where isOpen: line.machine.sendEnd(on: id, into: &line.output)
            case .release: line.machine.release(id, into: &line.output)
            case .answerHead, .content, .end: break
            }
            isOpen = line.machine.streamCount == 1
        }
        let events = line.takeEvents()
        // A stream has one request, at most one end of it and one reset, and nothing after either.
        #expect(events.count { $0.hasPrefix("head 1") } <= 1, "\(steps)")
        #expect(events.count { $0 == "reset 1" || $0 == "end 1" } <= 2, "\(steps)")
        if let ended = events.firstIndex(of: "end 1") { #expect(!events[ended...].contains { $0.hasPrefix("content") }, "\(steps)") }
        if let reset = events.firstIndex(of: "reset 1") { #expect(events[(reset + 1)...].allSatisfy { $0.hasPrefix("fault") }, "\(steps)") }
        // Nothing is sent on a stream after its end or its reset but what answers a late frame.
        let frames = line.sent().filter { $0.hasPrefix("HEADERS 1") || $0.hasPrefix("DATA 1") }
        if let end = frames.firstIndex(where: { $0.hasSuffix("end") }) {
            #expect(end == frames.count - 1 || steps.contains(.content) || steps.contains(.answerHead), "\(steps)")
        }
    }
}
