import HTTP
import Testing
import Wire

/// Answers to the standard health check of gRPC.
@Suite struct GRPCHealthCheckTests {
    private func isServing(_ content: [UInt8], inPieces size: Int = .max, status: String? = "0") -> Bool {
        var check = GRPCHealthCheck()
        var rest = content[...]
        while !rest.isEmpty {
            check.received(Array(rest.prefix(size)).rawBytes)
            rest = rest.dropFirst(size)
        }
        if let status {
            let lines = Array("x-more: 1\r\ngrpc-status: \(status)\r\n\r\n".utf8)
            var trailers = FieldTable()
            let fault = parseTrailers(lines.rawBytes, Slice(start: 0, count: lines.count - 2), into: &trailers)
            #expect(fault == nil)
            check.ended(trailers, lines.rawBytes)
        }
        return check.isServing
    }

    private func framed(_ message: [UInt8], flag: UInt8 = 0) -> [UInt8] {
        [flag, 0, 0, UInt8(message.count >> 8), UInt8(message.count & 255)] + message
    }

    @Test func theRequestIsOneEmptyMessage() {
        #expect(GRPCHealthCheck.request.rawBytes.array == framed([]))
        #expect("\(GRPCHealthCheck.path)" == "/grpc.health.v1.Health/Check")
    }

    @Test(arguments: [1, 2, 3, .max])
    func onlyServingIsHealthy(_ size: Int) {
        #expect(isServing(framed([8, 1]), inPieces: size))
        for status: UInt8 in [0, 2, 3, 127] { #expect(!isServing(framed([8, status]), inPieces: size)) }
        #expect(!isServing(framed([])), "a status that is not written is UNKNOWN")
    }

    @Test func aServingAnswerMustEndWell() {
        for status in ["1", "00", "", "14"] { #expect(!isServing(framed([8, 1]), status: status)) }
        #expect(!isServing(framed([8, 1]), status: nil))
    }

    @Test func otherFieldsAreSkipped() {
        #expect(isServing(framed([0x12, 2, 8, 2, 8, 1, 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x25, 1, 2, 3, 4, 0x30, 0x96, 1])))
        #expect(isServing(framed([8, 2, 8, 1])), "the last value counts")
        #expect(isServing(framed([8, 0x81, 0])), "a varint may be longer than it must")
    }

    @Test(
        arguments: [
            [], [0], [0, 0, 0, 0], [0, 0, 0, 0, 2], [0, 0, 0, 0, 2, 8], [0, 0, 0, 0, 2, 8, 1, 0], [1, 0, 0, 0, 2, 8, 1],
            [0, 0, 0, 0, 1, 8],
            [0, 255, 255, 255, 255, 8, 1], [0, 0, 0, 0, 2, 15, 1], [0, 0, 0, 0, 3, 8, 1, 0x12], [0, 0, 0, 0, 4, 8, 1, 0x12, 5],
            [0, 0, 0, 0, 4, 8, 1, 0x19, 0], [0, 0, 0, 0, 2, 8, 1, 0, 0, 0, 0, 2, 8, 1],
        ] as [[UInt8]])
    func whatIsNotOneWholeMessageIsNotHealthy(_ content: [UInt8]) { #expect(!isServing(content)) }

    @Test("Any content is read without a trap, and only a short one can be healthy")
    func anyContent() {
        var random = SplitMix64(seed: 8)
        for _ in 0..<20_000 {
            let message = (0..<Int(random.next() % 24)).map { _ in UInt8(truncatingIfNeeded: random.next() >> (random.next() % 2 * 4)) }
            _ = isServing(random.next() % 4 == 0 ? message : framed(message), inPieces: Int(random.next() % 7) + 1)
        }
        #expect(!isServing(framed([8, 1] + [UInt8](repeating: 0x12, count: 2_000))))
    }
}
