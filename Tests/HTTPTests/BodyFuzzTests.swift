import HTTP
import Testing
import Wire

@Suite struct BodyFuzzTests {
    @Test("A chunked body, broken or not, comes out the same in any split", arguments: 1...3)
    func chunked(seed: UInt64) {
        var maker = MessageMaker(random: SplitMix64(seed: seed))
        var good = 0
        for _ in 0..<fuzzRounds {
            let (plain, content) = body(&maker.random)
            let bytes = maker.broken(plain)
            var whole = BodyRun(.chunked)
            whole.feed(bytes[...])
            if bytes == plain {
                good += 1
                guard whole.end == "ended", whole.content == content else {
                    Issue.record("seed \(seed): \(ByteNotation.text(bytes)): \(whole.described)")
                    return
                }
            }
            var pieces = BodyRun(.chunked)
            var start = 0
            while start < bytes.count {
                let end = min(bytes.count, start + Int.random(in: 1...7, using: &maker.random))
                pieces.feed(bytes[start..<end])
                start = end
            }
            guard pieces.described == whole.described else {
                Issue.record(
                    "seed \(seed): \(ByteNotation.text(bytes)): \(whole.described) but in pieces \(pieces.described)")
                return
            }
        }
        #expect(good > 20)
    }

    /// A chunked body and its content.
    private func body(_ random: inout SplitMix64) -> ([UInt8], [UInt8]) {
        var bytes: [UInt8] = []
        var content: [UInt8] = []
        for _ in 0..<Int.random(in: 0...4, using: &random) {
            let chunk = (0..<Int.random(in: 1...20, using: &random)).map { _ in
                UInt8.random(in: 32...126, using: &random)
            }
            let padding = String(repeating: "0", count: Int.random(in: 0...3, using: &random))
            let ending = ["", ";a", ";a=b;c=\"d e\""].randomElement(using: &random)!
            bytes += Array(
                "\(padding)\(String(chunk.count, radix: 16, uppercase: Bool.random(using: &random)))\(ending)\r\n".utf8)
            bytes += chunk + [13, 10]
            content += chunk
        }
        let trailers = ["", "X-Sum: 1\r\n", "A: b\r\nContent-Length: 3\r\n"].randomElement(using: &random)!
        return (bytes + Array("0\r\n\(trailers)\r\n".utf8), content)
    }

    @Test(
        "Whoever sends overhead without end is cut off within a bound",
        arguments: ["1;xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\na\r\n", "0000000000000001;x=y;z=0123456789\r\na\r\n"])
    func endlessOverhead(chunk: String) {
        var run = BodyRun(.chunked)
        let piece = Array(chunk.utf8)
        var sent = 0
        while run.end == nil, sent < 1_000_000 {
            run.feed(piece[...])
            sent += piece.count
        }
        #expect(run.end == "400 chunk_overhead" && sent < 200_000)
    }

    @Test("One-byte chunks without end are fine: they are content")
    func smallChunks() {
        var decoder = BodyDecoder(.chunked)
        let piece = Array("1\r\na\r\n".utf8)
        for _ in 0..<20000 {
            #expect(decoder.next(piece.rawBytes) == .data(skip: 3, count: 1))
            #expect(decoder.next(Array(piece[4...]).rawBytes) == .needMore(consumed: 2))
        }
    }

    @Test("PROXY headers, broken or not, are read the same in any split", arguments: 1...2)
    func proxyHeaders(seed: UInt64) {
        let good: [[UInt8]] = [
            Array("PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\nGET".utf8),
            Array("PROXY TCP6 2001:db8::1 ::2 1 65535\r\n".utf8), Array("PROXY UNKNOWN\r\n".utf8),
            ByteNotation.bytes("\\r\\n\\r\\n\\0\\r\\nQUIT\\n\\x21\\x11\\0\\x0cabcdefghijkl"),
            ByteNotation.bytes("\\r\\n\\r\\n\\0\\r\\nQUIT\\n\\x21\\x21\\0\\x26\\(a*38)"),
        ]
        var maker = MessageMaker(random: SplitMix64(seed: seed))
        for _ in 0..<fuzzRounds {
            let bytes = maker.broken(good.randomElement(using: &maker.random)!)
            let whole = Described.proxy(bytes.rawBytes).prefix { $0 != "\n" }
            let cut = Int.random(in: 0...bytes.count, using: &maker.random)
            let early = Described.proxy(bytes.rawBytes.extracting(0..<cut)).prefix { $0 != "\n" }
            guard early == "incomplete" || early == whole else {
                Issue.record("seed \(seed), cut at \(cut): \(ByteNotation.text(bytes)): \(early) but then \(whole)")
                return
            }
        }
    }
}
