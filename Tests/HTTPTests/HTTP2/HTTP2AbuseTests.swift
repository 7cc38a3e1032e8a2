@testable import HTTP
import Testing
import Wire

private typealias F = HTTP2Bytes

/// Clients that cost more than they have use for. Each kind has a bound, and ordinary clients stay below it.
@Suite struct HTTP2AbuseTests {
    /// Sends `bytes(number)` again and again; returns how often it went well, and the fault that ended it.
    private func flood(
        atMost: Int = 20_000, milliseconds: UInt64 = 0, _ first: [UInt8] = [], _ bytes: (Int) -> [UInt8]
    ) -> (count: Int, fault: String?) {
        var line = HTTP2Line()
        line.receive(first)
        for number in 0..<atMost {
            line.now = line.now.advanced(milliseconds: milliseconds)
            line.receive(bytes(number))
            if let last = line.takeEvents().last, last.hasPrefix("fault") { return (number, last) }
            line.output.removeAll()
        }
        return (atMost, nil)
    }

    @Test("Floods end the connection with ENHANCE_YOUR_CALM")
    func floods() {
        let stream = { (number: Int) in UInt32(2 * number + 1) }
        let cases: [(String, [UInt8], (Int) -> [UInt8])] = [
            // CVE-2023-44487
            ("reset", [], { F.get(stream($0)) + F.reset(stream($0)) }),
            // CVE-2025-8671: the client makes the gateway reset.
            ("provoked_reset", [], { F.post(stream($0)) + F.window(stream($0), 0) }),
            ("provoked_reset", [], { F.frame(.headers, 5, stream($0), F.request("GET", "/", [("te", "x")])) }),
            ("refused_stream", (0..<100).flatMap { F.get(stream($0)) }, { F.get(stream(100 + $0)) }),
            ("empty_data", F.post(1), { _ in F.data(1, "") }),
            ("empty_data", F.post(1), { _ in F.frame(.data, 8, 1, [3, 0, 0, 0]) }),
            ("ping", [], { _ in F.ping() }),
            ("settings", [], { _ in F.settings() }),
            ("settings", [], { _ in F.frame(.settings, 1) }),
            ("priority", [], { F.frame(.priority, 0, stream($0), [0, 0, 0, 0, 1]) }),
            ("priority", [], { _ in [0, 0, 0, 0x10, 0, 0, 0, 0, 0] }),
            ("window_update", [], { _ in F.window(0, 1) }),
            ("window_update", F.post(1), { _ in F.window(1, 1) }),
            ("closed_stream", F.get(1) + F.reset(1), { _ in F.reset(1) }),
        ]
        for (kind, first, bytes) in cases {
            let outcome = flood(first, bytes)
            #expect(outcome.fault == "fault \(kind)")
            #expect(outcome.count <= 1_000)
        }
    }

    @Test("CONTINUATION without end is cut off after eight frames (CVE-2024-27316)")
    func continuations() {
        let outcome = flood(F.frame(.headers, 1, 1, F.request())) { _ in F.frame(.continuation, 0, 1, [0, 1, 97, 1, 98]) }
        #expect(outcome.fault == "fault continuation")
        #expect(outcome.count == 8)
    }

    @Test("A field section that is sent in large frames is cut off at 64 KiB")
    func longSection() {
        let outcome = flood(F.frame(.headers, 1, 1, F.request())) { _ in F.frame(.continuation, 0, 1, Array(repeating: 0, count: 16_000)) }
        #expect(outcome.fault == "fault continuation")
        #expect(outcome.count == 4)
    }

    @Test("Ordinary clients never come near a bound")
    func ordinary() {
        let stream = { (number: Int) in UInt32(2 * number + 1) }
        // Ten requests a second are cancelled, as by a search field that asks with every key.
        #expect(flood(atMost: 3_000, milliseconds: 100) { F.get(stream($0)) + F.reset(stream($0)) }.fault == nil)
        // A page of a hundred images is left, every ten seconds.
        #expect(
            flood(atMost: 50, milliseconds: 10_000) { page in
                (0..<100).flatMap { F.get(stream(page * 100 + $0)) } + (0..<100).flatMap { F.reset(stream(page * 100 + $0)) }
            }.fault == nil)
        // gRPC pings for bandwidth at every round trip of 20 ms.
        #expect(flood(atMost: 3_000, milliseconds: 20) { _ in F.ping() }.fault == nil)
        // Priorities with each request, a hundred a second.
        #expect(flood(atMost: 3_000, milliseconds: 10) { F.frame(.priority, 0, stream($0), [0, 0, 0, 0, 1]) }.fault == nil)
    }

    @Test("WINDOW_UPDATE for each frame of an answer is no flood")
    func updatesForAnswers() {
        var line = HTTP2Line()
        for number in 0..<5_000 {
            let stream = UInt32(2 * number + 1)
            line.receive(F.get(stream))
            line.answer(stream, "hello")
            line.receive(F.window(0, 5) + F.window(stream, 5))
        }
        #expect(!line.takeEvents().contains { $0.hasPrefix("fault") })
    }

    @Test("A hundred uploads that are refused at once, with content in flight, are no flood")
    func refusedUploads() {
        var line = HTTP2Line()
        let stream = { (number: Int) in UInt32(2 * number + 1) }
        for number in 0..<100 { line.receive(F.post(stream(number))) }
        for number in 0..<100 { line.answer(stream(number), "no", status: 413) }
        for number in 0..<100 {
            for _ in 0..<4 { line.receive(F.data(stream(number), String(repeating: "x", count: 16_000))) }
        }
        #expect(!line.takeEvents().contains { $0.hasPrefix("fault") })
    }

    @Test("Requests that are answered do not count, however many")
    func manyRequests() {
        var line = HTTP2Line()
        for number in 0..<20_000 {
            line.receive(F.get(UInt32(2 * number + 1)))
            line.answer(UInt32(2 * number + 1))
            line.output.removeAll()
        }
        #expect(!line.takeEvents().contains { $0.hasPrefix("fault") })
    }
}
