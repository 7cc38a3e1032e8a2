import Telemetry
import Testing
import Wire

@Suite struct LogTests {
    private let arrived = WallTime(microseconds: 1_767_323_045_678_900)

    @Test func aLineOfJSONIsOneObjectWithTheFieldsInOrder() {
        #expect(
            accessLine(.json) == #"{"ts":"2026-01-02T03:04:05.678Z","level":"info","msg":"access","#
                + #""request_id":"r-1","trace_id":"00000000000000010000000000000002","span_id":"0000000000000003","#
                + #""client_ip":"192.0.2.1","method":"GET","path":"/a b/\"x\"?[redacted]","user_agent":"curl/8\n","#
                + #""status":200,"bytes_out":18446744073709551615,"duration_ms":12.045,"limit_remaining":-1,"cache":"hit"}"# + "\n")
    }

    @Test func aLineOfTextQuotesWhatNeedsIt() {
        #expect(
            accessLine(.text) == "ts=2026-01-02T03:04:05.678Z level=info msg=access request_id=r-1 "
                + "trace_id=00000000000000010000000000000002 span_id=0000000000000003 client_ip=192.0.2.1 method=GET "
                + #"path="/a b/\"x\"?[redacted]" user_agent="curl/8\n" status=200 bytes_out=18446744073709551615 "#
                + "duration_ms=12.045 limit_remaining=-1 cache=hit\n")
    }

    private func accessLine(_ format: LogFormat) -> String {
        let log = AccessLogLine(format)
        var part = ByteBuffer()
        log.begin(at: arrived, into: &part)
        log.add(.requestID, "r-1", to: &part)
        log.add(TraceContext(traceHigh: 1, traceLow: 2, spanID: 3), to: &part)
        log.add(.clientIP, IPAddress(v4: 0xC000_0201), to: &part)
        log.add(.method, "GET", to: &part)
        log.addPath("/a b/\"x\"".utf8Bytes.rawBytes, hasQuery: true, to: &part)
        log.add(.userAgent, "curl/8\n".utf8Bytes.rawBytes, to: &part)
        log.add(.userID, RawSpan(), to: &part)
        var out = ByteBuffer()
        out.append(part.readable)
        log.add(.status, 200, to: &out)
        log.add(.bytesOut, UInt64.max, to: &out)
        log.add(.duration, micros: 12_045, to: &out)
        log.add(.limitRemaining, -1, to: &out)
        log.add(.cache, "hit", to: &out)
        log.end(into: &out)
        return out.readable.text
    }

    @Test(
        arguments: [(0, "0.000"), (1, "0.001"), (99, "0.099"), (100, "0.100"), (1_000, "1.000"), (3_600_000_001, "3600000.001")]
            as [(UInt64, String)])
    func durationsAreMillisecondsWithThreeDecimals(_ micros: UInt64, _ text: String) {
        var out = ByteBuffer()
        AccessLogLine(.json).add(.duration, micros: micros, to: &out)
        #expect(out.readable.text == ",\"duration_ms\":\(text)")
    }

    @Test(arguments: [
        ("plain", "plain"), ("", #""""#), ("a b", #""a b""#), ("a=b", #""a=b""#), ("a\nlevel=error", #""a\nlevel=error""#),
        ("back\\slash", #""back\\slash""#), ("é", #""é""#),
    ])
    func aValueOfALineOfTextCannotBeTwo(_ value: String, _ spelled: String) {
        var out = ByteBuffer()
        LogLine(.text).add("x", value, to: &out)
        #expect(out.readable.text == " x=\(spelled)")
    }

    @Test func theLineIsOneJSONObjectForAnyInput() throws {
        var random = SplitMix64(seed: 9)
        let log = AccessLogLine(.json)
        var out = ByteBuffer()
        for _ in 0..<5_000 {
            let bytes = (0..<Int.random(in: 0...60, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
            out.removeAll()
            log.begin(at: arrived, into: &out)
            log.addPath(bytes.rawBytes, hasQuery: Bool.random(using: &random), to: &out)
            log.add(.host, bytes.rawBytes, to: &out)
            log.end(into: &out)
            #expect(out.readable.firstIndex(of: 0x0A) == out.count - 1)
            var reader = JSONReader(out.readable)
            while try reader.next() != .end {}
        }
    }

    @Test func oneLineIsBoundedHoweverLongAValueIs() {
        var out = ByteBuffer()
        let long = [UInt8](repeating: UInt8(ascii: "x"), count: 30_000)
        AccessLogLine(.json).add(.userAgent, long.rawBytes, to: &out)
        AccessLogLine(.json).addPath(long.rawBytes, hasQuery: false, to: &out)
        #expect(out.count < 2 * AccessLogLine.maxValue + 64)
    }

    @Test func otherLinesCarryTheirLevel() {
        var out = ByteBuffer()
        let log = LogLine(.json)
        log.begin(.warning, "key set is old", at: arrived, into: &out)
        log.add("issuer", "aunt" as StaticString, to: &out)
        log.end(into: &out)
        #expect(out.readable.text == #"{"ts":"2026-01-02T03:04:05.678Z","level":"warning","msg":"key set is old","issuer":"aunt"}"# + "\n")
        #expect(LogLevel.debug < .error)
    }
}
