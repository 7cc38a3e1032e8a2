import Testing
import Wire

@Suite struct Base64URLTests {
    @Test func spellsTheVectorsOfRFC4648() {
        let vectors = [
            ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy"), ("\u{3ff}\u{fff}~?", "z7_gv79-Pw"),
        ]
        for (plain, spelled) in vectors {
            #expect(encode(Array(plain.utf8)) == spelled)
            #expect(decode(Array(spelled.utf8)) == Array(plain.utf8))
        }
    }

    @Test func everyLengthAndByteComesBack() {
        var random = SplitMix64(seed: 1)
        for length in 0..<200 {
            let bytes = (0..<length).map { _ in UInt8.random(in: 0...255, using: &random) }
            let text = Array(encode(bytes).utf8)
            #expect(text.count == Base64URL.encodedCount(length))
            #expect(Base64URL.decodedCount(text.count) == length)
            #expect(decode(text) == bytes)
        }
    }

    @Test func anyTextThatDecodesIsSpelledLikeThatAgain() {
        var random = SplitMix64(seed: 2)
        let alphabet = Array("ABCDWXYZabcdwxyz0189-_".utf8)
        var canonical = 0
        for _ in 0..<50_000 {
            var text = (0..<Int.random(in: 0...24, using: &random)).map { _ in alphabet.randomElement(using: &random)! }
            if Int.random(in: 0..<4, using: &random) == 0, !text.isEmpty {
                text[Int.random(in: 0..<text.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            guard let bytes = decode(text) else { continue }
            canonical += 1
            #expect(Array(encode(bytes).utf8) == text)
        }
        #expect(canonical > 5_000)
    }

    @Test func everyByteOutsideTheAlphabetIsRefusedAtEveryPlace() {
        let alphabet = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        for length in [2, 4, 8, 11, 16] {
            for place in 0..<length {
                for byte in UInt8.min...UInt8.max {
                    var text = [UInt8](repeating: UInt8(ascii: "A"), count: length)
                    text[place] = byte
                    if !alphabet.contains(byte) { #expect(decode(text) == nil) }
                    if length % 4 == 0 && alphabet.contains(byte) { #expect(decode(text) != nil) }
                }
            }
        }
    }

    @Test(arguments: ["A", "AAAAA", "Zh", "Zm9", "Zg==", "Zg=", "Zm9v\n", " Zm9v", "Zm 9", "+/+/", "AAAAAAAAB"])
    func otherSpellingsAreRefused(_ text: String) {
        #expect(decode(Array(text.utf8)) == nil)
    }

    @Test func aRefusedTextLeavesTheBufferAsItWas() {
        var out = ByteBuffer()
        out.append("kept" as StaticString)
        #expect(!Base64URL.decode("AAAAAAAAAAAAAAA=".utf8Bytes.rawBytes, into: &out))
        #expect(out.text == "kept")
    }

    private func encode(_ bytes: [UInt8]) -> String { Base64URL.encode(bytes.rawBytes) }
    private func decode(_ text: [UInt8]) -> [UInt8]? { Base64URL.decode(text.rawBytes) }
}
