import Synchronization
import Testing
import Wire

@testable import tollgate

/// The line that a long command writes on a terminal.
@Suite struct ProgressLineTests {
    private static func at(_ milliseconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: milliseconds * 1_000_000) }

    @Test func itHasBarShareCountRateAndTimeLeft() {
        #expect(
            ProgressLine.text(bytes: 250, of: 1_000, units: 50, "accounts", milliseconds: 2_000)
                == "[######..................] 25% 50 accounts, 25/s, 0:06 left")
        #expect(
            ProgressLine.text(bytes: 1, of: 1_000_000, units: 1, "lines", milliseconds: 4_000)
                == "[........................] 0% 1 lines, 0/s, 1111:06:36 left")
        #expect(ProgressLine.text(bytes: 0, of: 10, units: 0, "lines", milliseconds: 500) == "[........................] 0% 0 lines, 0/s")
        #expect(
            ProgressLine.text(bytes: 12, of: 10, units: 7, "lines", milliseconds: 1_000)
                == "[########################] 100% 7 lines, 7/s, 0:00 left", "a file that grows meanwhile")
    }

    @Test func aStreamHasNoEnd() {
        #expect(ProgressLine.text(bytes: 250, of: nil, units: 50, "accounts", milliseconds: 62_000) == "50 accounts, 0/s, 1:02")
    }

    @Test func theLineIsRewrittenAFewTimesASecondAndRemovedAtTheEnd() {
        let said = Written()
        var line = ProgressLine({ said.append($0) }, total: nil, unit: "lines", at: Self.at(0))
        for time in [1, 150, 200, 210, 399, 400] as [UInt64] { line.advance(bytes: time, units: Int(time), at: Self.at(time)) }
        line.end()
        line.end()
        #expect(said.all == ["\r\u{1B}[K200 lines, 1000/s, 0:00", "\r\u{1B}[K400 lines, 1000/s, 0:00", "\r\u{1B}[K"])
    }

    @Test func withoutATerminalOrWhenItWasQuickNothingIsWritten() {
        let said = Written()
        var quick = ProgressLine({ said.append($0) }, total: 10, unit: "lines", at: Self.at(0))
        quick.advance(bytes: 10, units: 1, at: Self.at(100))
        quick.end()
        #expect(said.all.isEmpty)
        var piped = ProgressLine(nil, total: 10, unit: "lines", at: Self.at(0))
        piped.advance(bytes: 5, units: 1, at: Self.at(10_000))
        piped.end()
    }
}

private final class Written: Sendable {
    private let texts = Mutex<[String]>([])
    func append(_ text: String) { texts.withLock { $0.append(text) } }
    var all: [String] { texts.withLock { $0 } }
}
