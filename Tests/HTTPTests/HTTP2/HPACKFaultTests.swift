import HTTP
import Testing
import Wire

@Suite struct HPACKFaultTests {
    /// A block with every representation, long integers and both forms of strings.
    private var manyForms: [UInt8] {
        var block = FieldBlock()
        block.tableSize(0)
        block.tableSize(4096)
        block.indexed(16)
        block.literal(FieldPair("x-long", String(repeating: "v", count: 700)), .incremental, isCoded: true)
        block.literal(FieldPair("x-raw", String(repeating: "~", count: 300)), .never)
        block.literal(FieldPair("x-long", "w"), .without, nameIndex: 62)
        block.indexed(62)
        return block.bytes
    }

    @Test("A block that ends early is truncated, or a shorter list if it ends between two fields")
    func truncation() {
        let block = manyForms
        var reader = BlockReader()
        let whole = reader.readFields(block)
        #expect(whole.count == 5)
        var lists = 0
        for end in 0..<block.count {
            reader = BlockReader()
            let got = reader.readFields(Array(block[0..<end]))
            if got == ["broken truncated"] { continue }
            lists += 1
            #expect(got == Array(whole.prefix(got.count)), "at \(end)")
        }
        // Behind nothing, each size update (the second has three octets) and each field but the last.
        #expect(lists == 7)
    }

    @Test(
        "Integers that do not end, or are larger than any block",
        arguments: [
            ("ff", "truncated"), ("ff80808080", "truncated"), ("ff8080808000", "index"), ("ff8080808080", "integer"),
            ("ffffffffff7f", "index"), ("ffffffffffffffffffff7f", "integer"), ("ff808080808001", "integer"),
            ("3fffffffff7f", "table_size"), ("3fffffffffffffffff7f", "integer"), ("0f8080808080", "integer"),
            ("007fffffffff7f", "truncated"), ("00ffffffffff7f", "truncated"), ("0001617fffffffff7f", "truncated"),
            ("00807fffffffff7f", "truncated"),
        ])
    func integers(_ hex: String, _ fault: String) {
        var reader = BlockReader()
        #expect(reader.read(FieldBlock.hex(hex), as: .trailers) == "broken \(fault)")
    }

    @Test("Integers of every length are read, with zeros at their end too")
    func goodIntegers() {
        for count in [0, 1, 30, 126, 127, 128, 254, 255, 16_510, 16_511, 20_000] {
            var block = FieldBlock()
            block.literal(FieldPair("x", String(repeating: "v", count: count)))
            var reader = BlockReader()
            #expect(reader.readFields(block.bytes) == ["x: \(String(repeating: "v", count: count))"])
        }
        var reader = BlockReader()
        let value = String(repeating: "v", count: 127)
        #expect(reader.readFields(FieldBlock.hex("0001787f808000") + Array(value.utf8)) == ["x: \(value)"])
    }

    @Test(
        "Indices beyond the tables, and index 0", arguments: ["80", "be", "7e0161", "0f2f0161", "1f2f0161", "ff80808001", "40016101 62bf"])
    func indices(_ hex: String) {
        var reader = BlockReader()
        #expect(reader.read(FieldBlock.hex(hex), as: .trailers) == "broken index")
    }

    @Test("A table size update above the limit, or behind a field")
    func tableSizes() {
        for (sizes, isGood) in [([4096], true), ([4097], false), ([0, 4096], true), ([0, 0, 17], true), ([0, 1 << 30], false)] {
            var block = FieldBlock()
            for size in sizes { block.tableSize(size) }
            block.indexed(16)
            var reader = BlockReader()
            #expect(reader.readFields(block.bytes) == [isGood ? "accept-encoding: gzip, deflate" : "broken table_size"])
            block.tableSize(0)
            reader = BlockReader()
            #expect(reader.readFields(block.bytes) == [isGood ? "broken table_size_place" : "broken table_size"])
        }
    }

    // MARK: Huffman

    @Test("Every byte's code, alone and in every place among others")
    func codes() {
        for byte in UInt8.min...UInt8.max {
            for place in 0..<12 {
                var text = Array("a0/Zk-7.mX%Q".utf8)
                text[place] = byte
                var block = FieldBlock()
                block.literal(FieldPair(Array("x".utf8), text), isCoded: true)
                var reader = BlockReader()
                let got = reader.readFields(block.bytes)
                let isValue = byte >= 0x20 && byte != 0x7F || byte == 9
                let isInside = place > 0 && place < 11 || byte != 9 && byte != 32
                let expected = isValue && isInside ? "x: " + text.map { String(UnicodeScalar($0)) }.joined() : "malformed field_value"
                guard got == [expected] else {
                    Issue.record("byte \(byte) at \(place): \(got)")
                    return
                }
            }
        }
    }

    @Test("Strings of every length and every pair of codes are decoded")
    func pairs() {
        var random = SplitMix64(seed: 1)
        for count in 0..<300 {
            expectDecoded(
                (0..<count).map { _ in UInt8.random(in: Bool.random(using: &random) ? 0x21...0x7E : 0x80...0xFF, using: &random) })
        }
        for first in UInt8(0x21)...0x7E { for second in UInt8(0x21)...0x7E { expectDecoded([first, second, first, second, second]) } }
    }

    private func expectDecoded(_ text: [UInt8]) {
        var block = FieldBlock()
        block.literal(FieldPair(Array("x".utf8), text), isCoded: true)
        var reader = BlockReader()
        let got = reader.readFields(block.bytes)
        guard got == ["x: " + text.map { String(UnicodeScalar($0)) }.joined()] else {
            Issue.record("\(text): \(got)")
            return
        }
    }

    @Test(
        "Padding is ones and shorter than a byte; the end of string is no symbol",
        arguments: [
            // "a" is 00011, "0" 00000, "&" 11111000.
            ("1f", nil), ("f8", nil), ("00", "huffman_padding"), ("18", "huffman_padding"), ("1e", "huffman_padding"),
            ("1b", "huffman_padding"), ("fe", "huffman_padding"), ("ff", "huffman_padding"), ("1fff", "huffman_padding"),
            ("f8ff", "huffman_padding"), ("ffffff", "huffman_padding"), ("1fffffe7ffffff", "huffman_padding"),
            ("fffffffc", "huffman_end_of_string"), ("ffffffff", "huffman_end_of_string"), ("1fffffffff", "huffman_end_of_string"),
            ("1818181818181818ffffffffffffffff", "huffman_end_of_string"), ("ffffffffffffffffffffffff", "huffman_end_of_string"),
        ] as [(String, String?)])
    func padding(_ hex: String, _ fault: String?) {
        let octets = FieldBlock.hex(hex)
        for count in [0, 8, 16, 24] {
            // Eight times "a" takes five octets, so the string's end meets the reader with other numbers of octets left.
            let prefix = Array(repeating: FieldBlock.hex("18c6318c63"), count: count / 8).flatMap(\.self)
            let text = prefix + octets
            var reader = BlockReader()
            let got = reader.read([0x00, 0x01, 0x78, 0x80 | UInt8(text.count)] + text, as: .trailers)
            let expected = fault.map { "broken \($0)" } ?? "x: "
            #expect(got.hasPrefix(expected), "\(hex) behind \(count)")
        }
    }
}
