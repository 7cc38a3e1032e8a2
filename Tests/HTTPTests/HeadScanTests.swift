import HTTP
import Testing
import Wire

@Suite struct HeadScanTests {
    private let head = Array("GET / HTTP/1.1\r\nHost: example.test\r\n\r\nGET".utf8)

    @Test("The end of a head is found in any split")
    func everySplit() {
        let end = head.count - 3
        for first in 0...head.count {
            for second in first...head.count {
                var scan = HeadScan()
                let early = scan.isComplete(head.rawBytes.extracting(0..<first))
                let late = scan.isComplete(head.rawBytes.extracting(0..<second))
                #expect(early == (first >= end) && late == (second >= end), "\(first), \(second)")
            }
        }
    }

    @Test("What only looks like the end is not")
    func lookalikes() {
        for text in ["\n\n", "\r\n\n", "\n\r\n", "\r\r\n\n", "a\r\n\r\r\n", "\r\n", ""] {
            var scan = HeadScan()
            let isComplete = scan.isComplete(Array(text.utf8).rawBytes)
            #expect(!isComplete, "\(text.debugDescription)")
        }
        var scan = HeadScan()
        let isComplete = scan.isComplete(Array("\r\n\r\n".utf8).rawBytes)
        #expect(isComplete)
    }

    @Test("A head that drips in is parsed a handful of times, and when it is complete")
    func drip() {
        let head = Array("GET / HTTP/1.1\r\nHost: a\r\nX: \(String(repeating: "y", count: 20000))\r\n\r\n".utf8)
        var scan = HeadScan()
        var parses = 0
        for count in 1...head.count where scan.isDue(head.rawBytes.extracting(0..<count), limits: HeadLimits()) {
            parses += 1
            var parsed = RequestHead()
            let outcome = parsed.parse(head.rawBytes.extracting(0..<count), limits: HeadLimits())
            #expect((outcome == .complete) == (count == head.count))
        }
        #expect((2...20).contains(parses))
    }

    @Test("Empty lines before a request do not make every byte of it worth a parse")
    func leadingEmptyLines() {
        let head = Array("\r\n\r\nGET / HTTP/1.1\r\nHost: \(String(repeating: "a", count: 2000))\r\n\r\n".utf8)
        var scan = HeadScan()
        let due = (1...head.count).filter { scan.isDue(head.rawBytes.extracting(0..<$0), limits: HeadLimits()) }
        #expect(due.count < 20 && due.last == head.count)
    }

    @Test("A head that grows too long is due at its bound")
    func tooLong() {
        let limits = HeadLimits(headBytes: 1000)
        let bytes = Array(repeating: UInt8(ascii: "A"), count: 1000)
        var scan = HeadScan()
        let due = [600, 999, 1000].map { scan.isDue(bytes.rawBytes.extracting(0..<$0), limits: limits) }
        #expect(due == [true, false, true])
    }

    @Test("What cannot become a head is found out long before its bound")
    func rubbish() {
        var scan = HeadScan()
        let rubbish = Array("\u{16}\u{3}\u{1}".utf8) + Array(repeating: 0, count: 500)
        var refusedAt: Int?
        for count in 1...rubbish.count where refusedAt == nil {
            let bytes = rubbish.rawBytes.extracting(0..<count)
            guard scan.isDue(bytes, limits: HeadLimits()) else { continue }
            if Described.request(bytes) != "incomplete" { refusedAt = count }
        }
        #expect(refusedAt == 1)
    }
}
