import HTTP
import Testing
import Wire

/// Tokens that come as the same octets again, which a worker does not decode again.
@Suite struct HuffmanMemoTests {
    private func token(_ number: Int, _ count: Int) -> String {
        var random = SplitMix64(seed: UInt64(number))
        let text = (0..<count).map { _ in "abcXYZ019-_.".randomElement(using: &random)! }
        return "Bearer \(String(text))"
    }

    private func block(_ value: String, _ indexing: FieldBlock.Indexing = .never) -> [UInt8] {
        var block = FieldBlock()
        block.literal(FieldPair("authorization", value), indexing, nameIndex: 23, isCoded: true)
        return block.bytes
    }

    @Test("Every token is read as it was sent, the first time and each time after, also when there are more than a worker keeps")
    func tokens() {
        var reader = BlockReader()
        for round in 0..<3 {
            for number in 0..<3000 where number % 3 != round || number < 50 {
                let value = token(number, 40 + number % 700)
                guard reader.readFields(block(value)) == ["authorization: \(value)"] else {
                    Issue.record("round \(round), token \(number)")
                    return
                }
            }
        }
    }

    @Test("Tokens that differ in any one byte are told apart", arguments: [3, 8, 12, 200])
    func differences(_ count: Int) {
        var reader = BlockReader()
        let value = Array(token(1, count).utf8)
        #expect(reader.readFields(block(String(decoding: value, as: UTF8.self))).count == 1)
        for place in value.indices {
            var other = value
            other[place] = other[place] == UInt8(ascii: "o") ? UInt8(ascii: "s") : UInt8(ascii: "o")
            let text = String(decoding: other, as: UTF8.self)
            #expect(reader.readFields(block(text)) == ["authorization: \(text)"])
        }
    }

    @Test("Fields that recur in answers are read as they were sent each time, and the peer's table holds them")
    func answers() {
        var reader = BlockReader()
        for round in 0..<6 {
            let date = FieldPair("date", "Fri, 27 Nov 2026 20:00:0\(round / 2) GMT")
            var block = FieldBlock()
            block.literal(date, .incremental, nameIndex: 33, isCoded: true)
            block.literal(FieldPair("server", "nginx/1.22.1"), .incremental, nameIndex: 54, isCoded: true)
            block.literal(FieldPair("content-type", "text/x"), .without, nameIndex: 31, isCoded: true)
            block.indexed(63)
            #expect(reader.readFields(block.bytes) == ["\(date)", "server: nginx/1.22.1", "content-type: text/x", "\(date)"])
        }
    }

    @Test("A code that is broken is refused each time, and so is a token with a control character")
    func faults() {
        var reader = BlockReader()
        // One octet more: the code of "0", and three zeros as padding.
        let octets = AppendixB.encode(Array(token(1, 200).utf8)) + [0]
        var broken = FieldBlock()
        broken.integer(23, prefix: 4, 0x10)
        broken.integer(octets.count, prefix: 7, 0x80)
        broken.bytes += octets
        for _ in 0..<3 {
            #expect(reader.readFields(broken.bytes) == ["broken huffman_padding"])
            #expect(reader.readFields(block(token(2, 200) + "\n")) == ["malformed field_value"])
        }
    }

    @Test("Connections of one worker share what was decoded, and a token may be inserted by one and repeated by another")
    func connections() {
        let value = token(1, 300)
        var section = FieldSection()
        for indexing in [FieldBlock.Indexing.never, .incremental, .without, .never] {
            var decoder = HPACKDecoder()
            let bytes = block(value, indexing)
            #expect(throws: Never.self) { try decoder.decode(bytes.rawBytes, as: .trailers, into: &section) }
            let text = section.head.text
            #expect(text == "authorization: \(value)\r\n\r\n")
        }
    }
}
