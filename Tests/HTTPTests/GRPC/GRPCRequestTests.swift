import HTTP
import Testing
import Wire

/// The parts of a request of gRPC that the gateway reads.
@Suite struct GRPCRequestTests {
    private func isGRPC(_ fields: String) -> Bool {
        let bytes = Array("POST /p.S/M HTTP/1.1\r\nHost: h\r\n\(fields)\r\n".utf8)
        var head = RequestHead()
        guard head.parse(bytes.rawBytes, limits: HeadLimits()) == .complete else { return false }
        return head.isGRPC(bytes.rawBytes)
    }

    private func timeout(_ fields: String) -> GRPCTimeoutField {
        let bytes = Array("POST /p.S/M HTTP/1.1\r\nHost: h\r\n\(fields)\r\n".utf8)
        var head = RequestHead()
        guard head.parse(bytes.rawBytes, limits: HeadLimits()) == .complete else { return .malformed }
        return head.grpcTimeout(bytes.rawBytes)
    }

    @Test(arguments: [
        "application/grpc", "Application/GRPC", "application/grpc+proto", "application/grpc+json", "application/grpc;charset=utf-8",
        "application/grpc ; x=y",
    ])
    func itIsToldByItsContentType(_ value: String) { #expect(isGRPC("Content-Type: \(value)\r\n")) }

    @Test(arguments: [
        "application/grpc-web", "application/grpc-web+proto", "application/grpc-web-text", "application/grpcx", "application/grp",
        "text/plain",
        "application/json", "", "x application/grpc",
    ])
    func anyOtherIsOrdinaryHTTP(_ value: String) { #expect(!isGRPC("Content-Type: \(value)\r\n")) }

    @Test func withoutContentTypeItIsOrdinaryHTTP() { #expect(!isGRPC("Accept: application/grpc\r\n")) }

    @Test func itsTimeoutMayComeOnce() {
        #expect(timeout("X-A: b\r\n") == .none)
        #expect(timeout("grpc-timeout: 5S\r\n") == .timeout(GRPCTimeout(nanoseconds: 5_000_000_000)))
        #expect(timeout("GRPC-Timeout: 5S\r\n") == .timeout(GRPCTimeout(nanoseconds: 5_000_000_000)))
        #expect(timeout("grpc-timeout: 5S\r\ngrpc-timeout: 5S\r\n") == .malformed)
        #expect(timeout("grpc-timeout: 5S\r\ngrpc-timeout: x\r\n") == .malformed)
        #expect(timeout("grpc-timeout: \r\n") == .malformed)
    }
}

/// `grpc-timeout` and `grpc-message` as bytes.
@Suite struct GRPCValueTests {
    private func parsed(_ text: String) -> UInt64? { text.withRawBytes { GRPCTimeout($0)?.nanoseconds } }

    private func written(_ nanoseconds: UInt64) -> String {
        var out = ByteBuffer()
        out.append("<000000000>" as StaticString)
        GRPCTimeout(nanoseconds: nanoseconds).write(over: 1, of: &out)
        let text = out.readable.text
        #expect(text.hasPrefix("<") && text.hasSuffix(">") && text.utf8.count == 11)
        return String(text.dropFirst().dropLast())
    }

    static let times: [(String, UInt64)] = [
        ("1n", 1), ("0n", 0), ("100m", 100_000_000), ("5S", 5_000_000_000), ("250u", 250_000), ("2M", 120_000_000_000),
        ("1H", 3_600_000_000_000), ("00000005S", 5_000_000_000), ("99999999S", 99_999_999_000_000_000),
        ("99999999H", GRPCTimeout.longest), ("99999999M", GRPCTimeout.longest),
    ]

    @Test(arguments: times)
    func aTimeHasUpToEightDigitsAndAUnit(_ text: String, _ nanoseconds: UInt64) { #expect(parsed(text) == nanoseconds) }

    @Test(arguments: ["", "5", "S", "5s", "5 S", "-5S", "+5S", "5.0S", "5SS", "123456789S", "5h", "٥S", " 5S", "0x5S"])
    func anyOtherTextIsNoTime(_ text: String) { #expect(parsed(text) == nil) }

    @Test func aTimeIsWrittenInTheSmallestUnitThatHasRoom() {
        #expect(written(5_000_000_000) == "05000000u")
        #expect(written(99_999_999) == "99999999n" && written(100_000_000) == "00100000u")
        #expect(written(3_600_000_000_000) == "03600000m" && written(0) == "00000000n")
        #expect(written(.max).last == "M")
    }

    @Test("A time that is written is no later than the time that was left, and earlier by less than a thousandth")
    func writingRoundsDown() {
        var random = SplitMix64(seed: 1_530)
        for _ in 0..<20_000 {
            let time = random.next() >> UInt64(random.next() % 64)
            guard let read = parsed(written(time)) else {
                Issue.record("\(time) becomes \(written(time))")
                return
            }
            let kept = min(time, GRPCTimeout.longest)
            guard read <= kept, kept - read <= kept / 1_000 else {
                Issue.record("\(time) becomes \(read)")
                return
            }
        }
    }

    @Test("Any text comes back from its percent-encoding, which is printable ASCII")
    func messages() {
        var random = SplitMix64(seed: 99)
        for length in 0..<300 {
            let bytes = (0..<length).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            var out = ByteBuffer()
            GRPCMessage.append(bytes.rawBytes, to: &out)
            let encoded = out.readable.array
            #expect(encoded.allSatisfy { (0x20...0x7E).contains($0) })
            #expect(PercentEncoding.decode(encoded) == bytes)
        }
    }

    @Test func onlyWhatMustBeIsPercentEncoded() {
        var out = ByteBuffer()
        GRPCMessage.append(Array("100% grün, \"a b\"~\r\n".utf8).rawBytes, to: &out)
        #expect(out.readable.text == "100%25 gr%C3%BCn, \"a b\"~%0D%0A")
    }
}
