import HTTP
import Testing
import Wire

/// Small blocks that mean large sections: each is refused before it costs more memory than the limits say, and the table stays in step.
@Suite struct FieldSectionLimitTests {
    private static let pseudoFields: [UInt8] = [0x82, 0x87, 0x84, 0x01, 0x01, 0x61]

    /// Reads `block` behind the pseudo-fields of a request; its outcome's first line, and the bytes that the section then holds.
    private func read(_ reader: inout BlockReader, _ block: FieldBlock) -> (outcome: String, stored: Int) {
        let outcome = reader.read(Self.pseudoFields + block.bytes)
        return (outcome.split(separator: "\r\n").first.map(String.init) ?? "", reader.section.head.byteCount)
    }

    @Test("References of one byte to a field of 4 KiB store no more than 32 KiB")
    func references() {
        var reader = BlockReader()
        var block = FieldBlock()
        block.literal(FieldPair("x", String(repeating: "v", count: 3900)), .incremental)
        #expect(read(&reader, block).outcome == "GET / HTTP/1.1")
        block = FieldBlock()
        for _ in 0..<8 { block.indexed(62) }
        #expect(read(&reader, block).outcome == "GET / HTTP/1.1")
        for _ in 0..<20_000 { block.indexed(62) }
        let bomb = read(&reader, block)
        #expect(bomb.outcome == "over limit too_large" && bomb.stored <= 32_768)
        block = FieldBlock()
        block.indexed(62)
        #expect(read(&reader, block).outcome == "GET / HTTP/1.1")
    }

    @Test("Fields of two octets that each insert a name of 4,000 bytes again store no more either")
    func insertions() {
        var reader = BlockReader()
        var block = FieldBlock()
        block.literal(FieldPair(String(repeating: "n", count: 4000), ""), .incremental)
        for _ in 0..<7 { block.literal(FieldPair("", ""), .incremental, nameIndex: 62) }
        #expect(read(&reader, block).outcome == "GET / HTTP/1.1")
        for _ in 0..<15_000 { block.literal(FieldPair("", ""), .incremental, nameIndex: 62) }
        let bomb = read(&reader, block)
        let size = reader.decoder.tableSize
        #expect(bomb.outcome == "over limit too_large" && bomb.stored <= 32_768 && size == 4032)
    }

    @Test("References to an empty field are refused by their number")
    func emptyFields() {
        var reader = BlockReader()
        var block = FieldBlock()
        for _ in 0..<96 { block.indexed(19) }
        #expect(read(&reader, block).outcome == "GET / HTTP/1.1")
        block.indexed(19)
        #expect(read(&reader, block).outcome == "over limit too_many_fields")
        for _ in 0..<20_000 { block.indexed(19) }
        let bomb = read(&reader, block)
        #expect(bomb.outcome == "over limit too_many_fields" && bomb.stored < 2000)
    }

    @Test("Cookie crumbs are one field, so a browser's 180 cookies pass, and are bounded by their number and their bytes")
    func crumbs() {
        var reader = BlockReader()
        var block = FieldBlock()
        for index in 0..<180 { block.literal(FieldPair("cookie", "cookie-\(index)=\(String(repeating: "v", count: 40))"), nameIndex: 32) }
        for _ in 0..<95 { block.indexed(19) }
        #expect(read(&reader, block).outcome == "GET / HTTP/1.1")
        block = FieldBlock()
        for _ in 0..<256 { block.indexed(32) }
        #expect(read(&reader, block).outcome == "GET / HTTP/1.1")
        for _ in 0..<20_000 { block.indexed(32) }
        let empty = read(&reader, block)
        #expect(empty.outcome == "over limit too_many_crumbs" && empty.stored < 2000)
        block = FieldBlock()
        block.literal(FieldPair("cookie", String(repeating: "v", count: 4000)), .incremental, nameIndex: 32)
        for _ in 0..<200 { block.indexed(62) }
        let large = read(&reader, block)
        #expect(large.outcome == "over limit too_large" && large.stored <= 32_768)
    }

    @Test("The sum counts name, value and 32 bytes a field; joined crumbs their values and two bytes")
    func sums() {
        let pseudo = [(7, 3), (7, 5), (5, 1), (10, 1)].reduce(0) { $0 + $1.0 + $1.1 + 32 }
        for (fields, size) in [([("x", "12345")], 38), ([("cookie", "a=b"), ("cookie", "c=d")], 41 + 5), ([("x", ""), ("y", "")], 66)] {
            var block = FieldBlock()
            for field in fields { block.literal(FieldPair(field.0, field.1)) }
            var reader = BlockReader()
            reader.limits.bytes = pseudo + size
            #expect(read(&reader, block).outcome == "GET / HTTP/1.1")
            reader.limits.bytes -= 1
            #expect(read(&reader, block).outcome == "over limit too_large")
        }
    }

    @Test("The largest section within the limits is a head that HTTP/1.1's limits accept")
    func largest() {
        var reader = BlockReader()
        var block = FieldBlock()
        for index in 0..<95 { block.literal(FieldPair("x-\(index)", String(repeating: "v", count: 300))) }
        block.literal(FieldPair("cookie", String(repeating: "c", count: 300)))
        let outcome = reader.read(Self.pseudoFields + block.bytes, as: .request(hasContent: true))
        #expect(outcome.hasPrefix("GET / HTTP/1.1\r\nhost: a\r\n"))
        let described = Described.request(reader.section.head)
        #expect(described.hasPrefix("accepted GET / 1.1 host=a chunked keep-alive"))
    }

    @Test("What came before a fault can be logged")
    func refused() {
        var reader = BlockReader()
        var block = FieldBlock()
        block.literal(FieldPair("x", String(repeating: "v", count: 40_000)))
        #expect(read(&reader, block).outcome == "over limit too_large")
        let text = PseudoField.allCases.map { reader.section.pseudoField($0).text }
        #expect(text == ["GET", "https", "a", "/", "", ""])
    }
}
