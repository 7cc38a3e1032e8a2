import Telemetry
import Testing
import Wire

@Suite struct TraceContextTests {
    private static let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    @Test func aValidOneIsReadAndWrittenBack() throws {
        let context = try #require(parse(Self.valid))
        #expect(context.isSampled)
        #expect(context.traceID.high == 0x0af7_6519_16cd_43dd)
        #expect(context.traceID.low == 0x8448_eb21_1c80_319c)
        #expect(context.spanID == 0xb7ad_6b71_6920_3331)
        #expect(written(context) == Self.valid)
    }

    @Test(arguments: [
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-ever",
        "fe-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff-",
    ])
    func ofHigherVersionsTheKnownPartsCount(_ text: String) throws {
        #expect(written(try #require(parse(text))) == Self.valid)
    }

    @Test(arguments: [
        "", "00", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319cb-7ad6b7169203331-01",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x", " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "0x-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 ",
    ])
    func invalidValuesAreIgnored(_ text: String) { #expect(parse(text) == nil) }

    @Test func aChildStaysInItsTraceAndIsSampledOnlyIfTheCallerIsTrusted() throws {
        let parent = try #require(parse(Self.valid))
        let child = parent.child(spanID: 7, trustsSampling: false)
        #expect(written(child) == "00-0af7651916cd43dd8448eb211c80319c-0000000000000007-00")
        #expect(parent.child(spanID: 7, trustsSampling: true).isSampled)
        #expect(parent.child(spanID: 0, trustsSampling: true).spanID != 0)
    }

    @Test func oneThatIsStartedIsValidWhateverTheRandomBytes() {
        for words in [(0, 0, 0), (0, 5, 0), (5, 0, 9)] as [(UInt64, UInt64, UInt64)] {
            let context = TraceContext(traceHigh: words.0, traceLow: words.1, spanID: words.2)
            #expect(parse(written(context)) == context)
        }
    }

    @Test func noBytesTrapIt() {
        var random = SplitMix64(seed: 10)
        for _ in 0..<50_000 {
            var bytes = Array(Self.valid.utf8)
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            if Bool.random(using: &random) { bytes.removeLast(Int.random(in: 0...55, using: &random)) }
            _ = TraceContext(parsing: bytes.rawBytes)
        }
    }

    private func parse(_ text: String) -> TraceContext? { text.withRawBytes { TraceContext(parsing: $0) } }

    private func written(_ context: TraceContext) -> String {
        var out = ByteBuffer()
        context.write(into: &out)
        return out.readable.text
    }
}

@Suite struct RequestIDTests {
    @Test func anIDIsAUUIDOfVersion7() {
        // The example of RFC 9562, appendix A.6.
        let time = WallTime(microseconds: 0x017F_22E2_79B0 * 1_000 + 999)
        #expect(id(time, (0xCC3 << 52, 0x18C4_DC0C_0C07_398F & ~(3 << 62) | 0)).hasPrefix("017f22e2-79b0-7cc3-"))
        for random in [(0, 0), (.max, .max)] as [(UInt64, UInt64)] {
            let text = Array(id(time, random))
            #expect(text.count == RequestID.length)
            #expect(text[14] == "7")
            #expect("89ab".contains(text[19]))
            for (index, character) in text.enumerated() {
                #expect([8, 13, 18, 23].contains(index) ? character == "-" : character.isHexDigit)
            }
        }
        #expect(id(time, (0, 0)) == "017f22e2-79b0-7000-8000-000000000000")
        #expect(id(time, (.max, .max)) == "017f22e2-79b0-7fff-bfff-ffffffffffff")
    }

    @Test func laterIDsSortLater() {
        let ids = [0, 1, 1_000, 1_700_000_000_000, 1_700_000_000_001].map { id(WallTime(microseconds: $0 * 1_000), (.max, 0)) }
        #expect(ids == ids.sorted())
    }

    @Test(arguments: [
        ("abc-123_X.y:z/+=@", true), ("a", true), (String(repeating: "a", count: 128), true), ("", false),
        (String(repeating: "a", count: 129), false), ("a b", false), ("a\r\nb", false), ("a\"b", false), ("a,b", false), ("é", false),
        ("<x>", false), ("a;b", false), ("a\\b", false), ("{}", false),
    ])
    func onlyAHarmlessIDOfAProxyIsKept(_ text: String, _ safe: Bool) {
        #expect(text.withRawBytes { RequestID.isSafe($0) } == safe)
    }

    private func id(_ time: WallTime, _ random: (UInt64, UInt64)) -> String {
        var out = ByteBuffer()
        RequestID.write(at: time, random: random, into: &out)
        return out.readable.text
    }
}

@Suite struct ReadinessTests {
    @Test func noChecksIsReady() {
        #expect(text(Readiness()) == #"{"status":"ready","checks":[]}"#)
        #expect(Readiness().statusCode == 200)
    }

    @Test func degradedStillServesAndUnreadyDoesNot() {
        var readiness = Readiness()
        readiness.add("keys", .ready)
        readiness.add("redis", .degraded, "counting locally")
        #expect(readiness.statusCode == 200)
        #expect(
            text(readiness) == #"{"status":"degraded","checks":[{"name":"keys","status":"ready"},"#
                + #"{"name":"redis","status":"degraded","reason":"counting locally"}]}"#)
        readiness.add("draining", .unready, "told to stop")
        #expect(readiness.statusCode == 503)
        #expect(readiness.state == .unready)
    }

    private func text(_ readiness: Readiness) -> String {
        var out = ByteBuffer()
        readiness.write(into: &out)
        return out.readable.text
    }
}
