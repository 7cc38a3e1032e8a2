@testable import HTTP
import Testing
import Wire

private typealias F = HTTP2Bytes

/// Flow control (RFC 9113 §5.2).
@Suite struct HTTP2WindowTests {
    @Test("No more content is sent than the windows allow")
    func sending() {
        var line = HTTP2Line()
        line.receive(F.settings([(4, 10)]) + F.get(1))
        _ = line.sent()
        let id = StreamID(number: 1)
        let content = [UInt8](repeating: 1, count: 25)
        #expect(line.machine.sendContent(content.rawBytes, isLast: true, on: id, into: &line.output) == 10)
        #expect(line.machine.sendContent(content.rawBytes, isLast: true, on: id, into: &line.output) == 0)
        #expect(line.machine.room(of: id) == 0)
        line.receive(F.window(1, 5))
        #expect(line.takeEvents() == ["head 1 GET /", "room 1"])
        #expect(line.machine.sendContent(content.rawBytes, isLast: true, on: id, into: &line.output) == 5)
        line.receive(F.settings([(4, 20)]))
        #expect(line.takeEvents() == ["room 0"])
        #expect(line.machine.sendContent(content.rawBytes.dropping(15), isLast: true, on: id, into: &line.output) == 10)
        #expect(line.sent() == ["DATA 1 10", "DATA 1 5", "SETTINGS ack", "DATA 1 10 end"])
    }

    @Test("The connection's window holds all streams, and a lowered setting makes a window negative")
    func connectionWindow() {
        var line = HTTP2Line()
        line.receive(F.settings([(4, 1 << 20)]) + F.get(1) + F.get(3))
        let content = [UInt8](repeating: 1, count: 20_000)
        var sent = 0
        while true {
            let count = line.machine.sendContent(content.rawBytes, isLast: false, on: StreamID(number: 1), into: &line.output)
            if count == 0 { break }
            sent += count
        }
        #expect(sent == 65_535)
        #expect(line.machine.room(of: StreamID(number: 3)) == 0)
        line.receive(F.settings([(4, 0)]) + F.window(0, 100_000))
        #expect(line.machine.room(of: StreamID(number: 1)) == 0)
        line.receive(F.window(1, 65_535))
        #expect(line.machine.room(of: StreamID(number: 1)) == 0)
        line.receive(F.window(1, 7))
        #expect(line.machine.room(of: StreamID(number: 1)) == 7)
    }

    @Test("A client that sends more than its window is reset, and the connection's window ends it")
    func receivingTooMuch() {
        var line = HTTP2Line()
        line.receive(F.post(1))
        let piece = String(repeating: "x", count: 16_384)
        for _ in 0..<4 { line.receive(F.data(1, piece)) }
        #expect(line.sent().last == "RST 1 flow_control_error")
        #expect(line.takeEvents().last == "reset 1")
    }

    @Test("Content that nothing takes is not paid back to its stream; the others go on")
    func stalledUpload() {
        var line = HTTP2Line()
        line.receive(F.post(1) + F.post(3))
        let piece = String(repeating: "x", count: 16_000)
        for _ in 0..<4 { line.receive(F.data(1, piece)) }
        #expect(!line.sent().contains { $0.hasPrefix("WINDOW 1") })
        for _ in 0..<200 {
            line.receive(F.data(3, piece))
            line.machine.consumed(16_000, of: StreamID(number: 3), into: &line.output)
        }
        #expect(line.takeEvents().allSatisfy { !$0.hasPrefix("fault") && !$0.hasPrefix("reset") })
    }

    @Test("Bytes that all streams hold together are bounded")
    func boundedMemory() {
        var line = HTTP2Line()
        let piece = String(repeating: "x", count: 16_000)
        var taken = 0
        stream: for stream in 0..<100 {
            let number = UInt32(2 * stream + 1)
            line.receive(F.post(number))
            for _ in 0..<4 {
                line.receive(F.data(number, piece))
                if line.events.last?.hasPrefix("fault") == true { break stream }
                taken += 16_000
            }
        }
        #expect(line.takeEvents().last == "fault flow_control_error")
        #expect(taken <= 2 << 20)
    }

    @Test("The window of an upload that is taken at once grows to half a MiB")
    func growingWindow() {
        var line = HTTP2Line()
        line.receive(F.post(1))
        _ = line.sent()
        var window = 65_535
        var largest = window
        let piece = String(repeating: "x", count: 16_000)
        for _ in 0..<200 {
            line.receive(F.data(1, piece))
            window -= 16_000
            line.machine.consumed(16_000, of: StreamID(number: 1), into: &line.output)
            for frame in line.sent() where frame.hasPrefix("WINDOW 1 ") { window += Int(frame.split(separator: " ")[2])! }
            largest = max(largest, window)
        }
        #expect(largest == 512 * 1_024)
    }

    @Test("A stream that ends gives back what it held")
    func release() {
        var line = HTTP2Line()
        let piece = String(repeating: "x", count: 16_000)
        for stream in 0..<1_000 {
            let number = UInt32(2 * stream + 1)
            line.receive(F.post(number) + F.data(number, piece) + F.data(number, piece, ends: true))
            line.answer(number)
        }
        #expect(!line.takeEvents().contains { $0.hasPrefix("fault") })
    }
}
