import Testing
import Wire

@testable import HTTP

/// Where a stream may be ended or written into: between two events, between two messages.
struct FrameScanTests {
    /// The gaps in the text, as the offsets behind which the content could end.
    private static func gaps(_ text: String) -> [Int] {
        var scan = EventStreamScan()
        var gaps = scan.isInGap ? [0] : []
        for (offset, byte) in text.utf8.enumerated() {
            let piece = [byte]
            scan.advance(over: piece.rawBytes)
            if scan.isInGap { gaps.append(offset + 1) }
        }
        return gaps
    }

    @Test(arguments: [
        ("", [0]),
        ("data: a\n\n", [0, 9]),
        ("data: a\ndata: b\n\n", [0, 17]),
        ("data: a\r\n\r\n", [0, 10, 11]),
        ("data: a\r\r", [0, 9]),
        ("data: a\n\ndata: b\n\n", [0, 9, 18]),
        // Comments and empty lines belong to no event.
        (": hello\n", [0, 8]),
        (":\n:\n", [0, 2, 4]),
        ("\n\n", [0, 1, 2]),
        ("data: a\n:x\n\n", [0, 12]),
        ("id: 1\n", [0]),
        ("data", [0]),
        ("event: a\rdata: b\n\r\n", [0, 18, 19]),
    ])
    func eventsEndWithAnEmptyLine(_ text: String, _ expected: [Int]) { #expect(Self.gaps(text) == expected) }

    /// The first gap behind `start`, found in content that comes in two pieces.
    private static func gap(in bytes: [UInt8], from start: Int, splitAt middle: Int, _ whole: FrameScan) -> Int? {
        let (before, first, second) = (Array(bytes[..<start]), Array(bytes[start..<middle]), Array(bytes[middle...]))
        var scan = whole
        scan.advance(over: before.rawBytes)
        if let found = scan.advanceToGap(in: first.rawBytes) { return start + found }
        guard let found = scan.advanceToGap(in: second.rawBytes) else { return nil }
        return middle + found
    }

    /// However the bytes come, the gaps are in the same places.
    @Test func theFirstGapIsFoundWhateverTheSplit() {
        let text = ": hi\n\nid: 1\r\nevent: x\r\ndata: a\r\n\r\ndata: b\n\n\rdata: c\r\rretry: 5\n"
        let bytes = Array(text.utf8)
        let gaps = Self.gaps(text)
        for start in 0...bytes.count {
            for middle in start...bytes.count {
                let found = Self.gap(in: bytes, from: start, splitAt: middle, .events(EventStreamScan()))
                var expected = gaps.first { $0 > start }
                // The LF of a CR LF is taken along if it is there.
                if let gap = expected, gap < bytes.count, gap != middle, bytes[gap - 1] == 13, bytes[gap] == 10 { expected = gap + 1 }
                #expect(found == expected, "\(start) \(middle)")
            }
        }
    }

    @Test func messagesOfGRPCEndWhereTheirPrefixSays() {
        let message: [UInt8] = [0, 0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0] + [UInt8](repeating: 7, count: 256)
        let gaps = [8, 13, message.count]
        for start in 0...message.count {
            for middle in stride(from: start, through: message.count, by: 3) {
                let found = Self.gap(in: message, from: start, splitAt: middle, .messages(GRPCMessageScan()))
                let expected = gaps.first { $0 > start }
                #expect(found == expected, "\(start) \(middle)")
            }
        }
    }

    private static func scan(_ fields: String, takesTrailers: Bool = true, status: String = "200 OK") -> FrameScan {
        var head = ResponseHead()
        let bytes = Array("HTTP/1.1 \(status)\r\n\(fields)\r\n\r\n".utf8)
        guard head.parse(bytes.rawBytes, requestMethod: .get, limits: HeadLimits()) == .complete,
            let form = FrameScan.ContentForm(head, bytes.rawBytes)
        else { return .none }
        return FrameScan(form, head, bytes.rawBytes, takesTrailers: takesTrailers)
    }

    @Test func onlyStreamsThatMayEndEarlyAreFollowed() {
        let events = FrameScan.events(EventStreamScan()), messages = FrameScan.messages(GRPCMessageScan())
        #expect(Self.scan("Content-Type: text/event-stream") == events)
        #expect(Self.scan("Content-Type: Text/Event-Stream; charset=utf-8\r\nTransfer-Encoding: chunked") == events)
        #expect(Self.scan("Content-Type: text/event-stream\r\nContent-Encoding: identity") == events)
        #expect(Self.scan("Content-Type: application/grpc+proto") == messages)
        #expect(Self.scan("Content-Type: application/grpc") == messages)
        for fields in [
            "Content-Type: text/event-streams", "Content-Type: text/event-stream\r\nContent-Encoding: gzip",
            "Content-Type: text/event-stream\r\nContent-Length: 10", "Content-Type: application/grpc-web", "Content-Type: text/html",
            "X: y",
        ] {
            #expect(Self.scan(fields) == .none, "\(fields)")
        }
        #expect(Self.scan("Content-Type: text/event-stream", status: "500 No") == .none)
        #expect(Self.scan("Content-Type: application/grpc", takesTrailers: false) == .none)
    }
}
