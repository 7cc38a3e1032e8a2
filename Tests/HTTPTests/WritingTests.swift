import HTTP
import Testing
import Wire

@Suite struct WritingTests {
    @Test(
        "A chunk size is written in hexadecimal without padding",
        arguments: [
            (1, "1\r\n"), (9, "9\r\n"), (15, "f\r\n"), (16, "10\r\n"), (255, "ff\r\n"), (256, "100\r\n"),
            (65536, "10000\r\n"), (Int.max, "7fffffffffffffff\r\n"),
        ])
    func chunkSize(size: Int, text: String) {
        var out = ByteBuffer()
        ChunkWriter.appendSize(size, to: &out)
        #expect(out.readable.text == text)
    }

    @Test("What is written in chunks is read back, in any split")
    func roundTrip() {
        var random = SplitMix64(seed: 7)
        var out = ByteBuffer()
        var content: [UInt8] = []
        for _ in 0..<20 {
            let chunk = (0..<Int.random(in: 1...300, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            content += chunk
            ChunkWriter.appendSize(chunk.count, to: &out)
            out.append(chunk)
            out.append(ChunkWriter.chunkEnd)
        }
        out.append(ChunkWriter.lastChunkBeforeTrailers)
        out.append("X-Sum: 1\r\n\r\n" as StaticString)
        let written = out.readable.array
        for split in stride(from: 0, to: written.count, by: 3) {
            var run = BodyRun(.chunked)
            run.feed(written[..<split])
            run.feed(written[split...])
            #expect(run.content == content && run.trailers == ["X-Sum: 1"] && run.end == "ended")
        }
    }

    @Test("Statuses have their registered phrases, and others none")
    func reasons() {
        #expect("\(StatusText.reason(200))" == "OK")
        #expect("\(StatusText.reason(431))" == "Request Header Fields Too Large")
        #expect("\(StatusText.reason(503))" == "Service Unavailable")
        for status in [-1, 0, 99, 199, 299, 399, 499, 599, 600, 1000] {
            #expect("\(StatusText.reason(status))".isEmpty)
        }
    }

    @Test("Content goes on to HTTP/1.0 as far as the connection lasts, to HTTP/1.1 in chunks")
    func relaying() {
        #expect(BodyFraming.chunked.relayed(to: .http10) == .untilClose)
        #expect(BodyFraming.chunked.relayed(to: .http11) == .chunked)
        #expect(BodyFraming.untilClose.relayed(to: .http11) == .chunked)
        #expect(BodyFraming.length(5).relayed(to: .http10) == .length(5))
        #expect(BodyFraming.none.relayed(to: .http11) == .none)
    }

    @Test("A fault of a request says so in its status; the same in a response is 502")
    func faults() {
        for reason in [HTTPFault.Reason.requestLine, .headTooLarge, .version, .unknownTransferCoding, .expectation] {
            let fault = HTTPFault(reason)
            #expect(fault.status == reason.requestStatus)
            #expect(fault.ofResponse.status == 502 && fault.ofResponse.reason == reason)
        }
        let texts = Set(HTTPFault.Reason.allCases.map { "\($0.text)" })
        #expect(texts.count == HTTPFault.Reason.allCases.count)
    }
}
