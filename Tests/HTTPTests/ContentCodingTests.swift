import Testing
import Wire

@testable import HTTP

/// The codings that clients accept, and content that is compressed and decoded.
@Suite struct ContentCodingTests {
    private static let codings: [ContentCoding] = [.zstd, .br, .gzip]

    private func accepted(_ values: [String]) throws -> AcceptedCodings {
        let bytes = Array("GET / HTTP/1.1\r\nHost: h\r\n\(values.map { "Accept-Encoding: \($0)\r\n" }.joined())\r\n".utf8)
        var head = RequestHead()
        let outcome = head.parse(bytes.rawBytes, limits: HeadLimits())
        try #require(outcome == .complete)
        return AcceptedCodings(head.fields, bytes.rawBytes)
    }

    @Test func theClientsWeightsDecideAndThenTheOrder() throws {
        let cases: [(values: [String], best: ContentCoding)] = [
            ([], .identity), ([""], .identity), (["gzip"], .gzip), (["x-gzip"], .gzip), (["GZIP"], .gzip), (["deflate"], .identity),
            (["gzip, deflate, br, zstd"], .zstd), (["gzip, br"], .br), (["gzip;q=1.0, br;q=0.9"], .gzip), (["gzip;q=0.001"], .gzip),
            (["gzip", "br"], .br), (["gzip ;\tq=0.5 , br;Q=0.4"], .gzip), (["*"], .zstd), (["*;q=0.1, br"], .br), (["*;q=0"], .identity),
            (["gzip;q=0"], .identity), (["gzip;q=0, *"], .zstd), (["zstd;q=0, *"], .br), (["identity;q=1, gzip;q=0.5"], .identity),
            (["identity;q=0.5, gzip;q=0.5"], .gzip), (["identity;q=0, gzip;q=0.001"], .gzip), (["identity"], .identity),
            (["identity;q=0"], .identity), (["br;q=0.500, gzip;q=0.501"], .gzip), (["gzip, gzip;q=0"], .gzip), (["gzip,"], .gzip),
            // Malformed.
            (["gzip;q=2"], .identity), (["gzip;q=1.001"], .identity), (["gzip;q=0.0001"], .identity), (["gzip;q="], .identity),
            (["gzip;q=.5"], .identity), (["gzip;q=0.5;x=1"], .identity), (["gzip, b r"], .identity), (["gzip;q=-1"], .identity),
            (["gzip;level=1"], .identity), (["gzip;"], .identity), ([";q=1"], .identity), (["gzip", "br;q=x"], .identity),
        ]
        for (values, best) in cases { #expect(try accepted(values).best(of: Self.codings) == best, "\(values)") }
        #expect(try accepted(["gzip;q=0.5, *;q=1"]).best(of: [.gzip]) == .identity)
        let refusing = try [["identity;q=0"], ["*;q=0"], ["gzip, *;q=0"], ["*;q=0, identity"], ["gzip"], []].map {
            try accepted($0).refusesIdentity
        }
        #expect(refusing == [true, true, true, false, false, false])
    }

    /// The decoded form; nil if it is broken or cut.
    private func decode(_ coding: ContentCoding, _ content: [UInt8], room: Int = 1_000, isWhole: Bool = true) -> [UInt8]? {
        var decoder = ContentDecoder(coding)!
        var input = ByteBuffer()
        var out = ByteBuffer()
        input.append(content)
        while true {
            let before = out.count
            switch decoder.decode(&input, room: room, into: &out) {
            case .full where out.count - before == room: continue
            case .full, .broken: return nil
            case .starved: return !isWhole || decoder.mayEnd() ? out.readable.array : nil
            }
        }
    }

    private func content(_ random: inout SplitMix64) -> [UInt8] {
        let words = (0..<Int.random(in: 0...300, using: &random)).map { _ in
            UInt64.random(in: 0...(random.next() % 4 == 0 ? .max : 99), using: &random)
        }
        return Array(words.map { "\($0)" }.joined(separator: ",").utf8)
    }

    @Test(arguments: codings) func contentComesBackHoweverItIsSplitAndFlushed(_ coding: ContentCoding) {
        var encoder = ContentEncoder(coding)!
        for seed in 0..<200 {
            var random = SplitMix64(seed: UInt64(seed))
            let content = seed == 0 ? [UInt8](repeating: 7, count: 1_000_000) : content(&random)
            let begun = encoder.begin(padding: UInt8(seed % 100))
            #expect(begun)
            var out = ByteBuffer()
            var (rest, isRight) = (content[...], true)
            while !rest.isEmpty, random.next() % 40 > 0 {
                let piece = rest.prefix(Int.random(in: 1...rest.count, using: &random))
                rest = rest.dropFirst(piece.count)
                encoder.encode(Array(piece).rawBytes, .run, into: &out)
                guard random.next() % 2 == 0 else { continue }
                encoder.encode(RawSpan(), .flush, into: &out)
                isRight = isRight && decode(coding, out.readable.array, isWhole: false) == Array(content.prefix(content.count - rest.count))
            }
            // Some are given up, and the encoder begins anew.
            if !rest.isEmpty { continue }
            encoder.encode(RawSpan(), .finish, into: &out)
            #expect(isRight && decode(coding, out.readable.array) == content, "seed \(seed)")
        }
        let held = encoder.heldBytes
        #expect(held > 100_000 && held < 1_500_000)
    }

    @Test func theNameOfGzipHidesTheLength() {
        var encoder = ContentEncoder(.gzip)!
        var lengths: [Int] = []
        for padding: UInt8 in [0, 1, 50, 99] {
            var out = ByteBuffer()
            let begun = encoder.begin(padding: padding)
            encoder.encode(Array("secret".utf8).rawBytes, .finish, into: &out)
            lengths.append(begun ? out.count : 0)
        }
        #expect(lengths.map { $0 - lengths[0] } == [0, 2, 51, 100])
    }

    @Test func whatIsNotOfACodingIsBrokenAndNeverMoreThanTheRoom() {
        for coding in ContentCoding.allCases where coding != .identity {
            for seed in 0..<300 {
                var random = SplitMix64(seed: UInt64(seed))
                var bytes: [UInt8] = seed % 3 == 0 ? [0x28, 0xB5, 0x2F, 0xFD] : []
                if seed % 3 == 1, coding != .deflate, var encoder = ContentEncoder(coding), encoder.begin(padding: 3) {
                    var out = ByteBuffer()
                    encoder.encode(content(&random).rawBytes, .finish, into: &out)
                    bytes = out.readable.array
                    bytes[Int.random(in: 0..<bytes.count, using: &random)] ^= 1 << UInt8.random(in: 0...7, using: &random)
                } else {
                    bytes += (0..<Int.random(in: 1...200, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
                }
                var decoder = ContentDecoder(coding)!
                var input = ByteBuffer()
                var out = ByteBuffer()
                var total = 0
                input.append(bytes)
                while case .full = decoder.decode(&input, room: 500, into: &out), total < 1 << 20 {
                    #expect(out.count <= 500)
                    total += out.count
                    out.removeAll()
                }
                #expect(out.count <= 500)
            }
        }
    }

    @Test func aWindowBeyondThatOfTheWebIsRefused() {
        // A frame with a window of 8 MiB, and of 128 MiB, and a block of one byte.
        for (window, expected) in [(0x68, Array("a".utf8) as [UInt8]?), (0x88, nil)] {
            let frame: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD, 0, UInt8(window), 0x09, 0, 0, UInt8(ascii: "a")]
            #expect(decode(.zstd, frame) == expected)
        }
    }
}
