import HTTP
import Testing
import Wire

@Suite struct HPACKTableTests {
    @Test("The newest field has the lowest index, and the oldest is evicted first")
    func order() {
        var reader = BlockReader(tableLimit: 100)
        var block = FieldBlock()
        block.literal(FieldPair("a", "1"), .incremental)
        block.literal(FieldPair("b", "2"), .incremental)
        block.indexed(62)
        block.indexed(63)
        #expect(reader.readFields(block.bytes) == ["a: 1", "b: 2", "b: 2", "a: 1"])
        block = FieldBlock()
        block.literal(FieldPair("c", "3"), .incremental)
        block.indexed(62)
        block.indexed(63)
        #expect(reader.readFields(block.bytes) == ["c: 3", "c: 3", "b: 2"])
        block = FieldBlock()
        block.indexed(64)
        #expect(reader.readFields(block.bytes) == ["broken index"])
    }

    @Test("A field larger than the table empties it and is not kept; its name may come from an entry that it evicts")
    func largeFields() {
        var reader = BlockReader(tableLimit: 100)
        var block = FieldBlock()
        block.literal(FieldPair("name", "1"), .incremental)
        block.literal(FieldPair("name", String(repeating: "v", count: 64)), .incremental, nameIndex: 62)
        #expect(reader.readFields(block.bytes).count == 2)
        var size = reader.decoder.tableSize
        #expect(size == 100)
        block = FieldBlock()
        block.indexed(62)
        block.literal(FieldPair("name", String(repeating: "w", count: 65)), .incremental, nameIndex: 62)
        #expect(
            reader.readFields(block.bytes) == ["name: \(String(repeating: "v", count: 64))", "name: \(String(repeating: "w", count: 65))"])
        size = reader.decoder.tableSize
        #expect(size == 0)
    }

    @Test("A smaller table evicts, and a larger one holds more again")
    func sizes() {
        var reader = BlockReader()
        var block = FieldBlock()
        for name in ["a", "b", "c"] { block.literal(FieldPair(name, "1"), .incremental) }
        _ = reader.readFields(block.bytes)
        block = FieldBlock()
        block.tableSize(68)
        block.indexed(63)
        #expect(reader.readFields(block.bytes) == ["b: 1"])
        block = FieldBlock()
        block.tableSize(0)
        block.tableSize(4096)
        #expect(reader.readFields(block.bytes) == [])
        let size = reader.decoder.tableSize
        #expect(size == 0)
    }

    @Test("Entries of 32 bytes, the smallest, fill the table with 128")
    func smallestEntries() {
        var reader = BlockReader()
        var block = FieldBlock()
        for _ in 0..<200 { block.literal(FieldPair("", ""), .incremental) }
        _ = reader.readFields(block.bytes)
        let size = reader.decoder.tableSize
        #expect(size == 4096)
        for (index, expected) in [(62 + 127, "malformed field_name"), (62 + 128, "broken index")] {
            block = FieldBlock()
            block.indexed(index)
            #expect(reader.readFields(block.bytes) == [expected])
        }
    }

    @Test("The table stays in step while sections are malformed or over their limits")
    func faultySections() {
        var reader = BlockReader()
        reader.limits = FieldSectionLimits(fields: 3, bytes: 500)
        var block = FieldBlock()
        block.literal(FieldPair("Bad", "x"), .incremental)
        block.literal(FieldPair("good", "1"), .incremental)
        block.literal(FieldPair("bad", "a\nb"), .incremental)
        #expect(reader.readFields(block.bytes) == ["malformed upper_case_name"])
        block = FieldBlock()
        for index in 0..<5 { block.literal(FieldPair("n\(index)", "v"), .incremental) }
        #expect(reader.readFields(block.bytes) == ["over limit too_many_fields"])
        block = FieldBlock()
        block.indexed(62)
        block.indexed(62 + 4)
        block.indexed(62 + 6)
        #expect(reader.readFields(block.bytes) == ["n4: v", "n0: v", "good: 1"])
        // The reason is kept with the entry, for the name and for the value.
        let uses = [
            (62 + 5, 0, "malformed field_value"), (62 + 7, 0, "malformed upper_case_name"), (0, 62 + 7, "malformed upper_case_name"),
            (0, 62 + 5, "bad: y"),
        ]
        for (index, nameIndex, expected) in uses {
            block = FieldBlock()
            if index > 0 { block.indexed(index) } else { block.literal(FieldPair("", "y"), nameIndex: nameIndex) }
            #expect(reader.readFields(block.bytes) == [expected])
        }
    }
}
