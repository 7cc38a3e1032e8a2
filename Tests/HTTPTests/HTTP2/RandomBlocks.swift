import HTTP
import Wire

/// An encoder that picks at random among all representations that are right for a field, and keeps its table by the RFC's words.
struct RandomEncoder {
    var random: SplitMix64
    private(set) var table: PlainTable
    /// The greatest size that the decoder allows.
    private let tableLimit: Int

    init(seed: UInt64, tableLimit: Int = 4096) {
        random = SplitMix64(seed: seed)
        self.tableLimit = tableLimit
        table = PlainTable(limit: tableLimit)
    }

    mutating func encode(_ fields: [FieldPair]) -> [UInt8] {
        var block = FieldBlock()
        if Int.random(in: 0..<8, using: &random) == 0 { resize(&block) }
        for field in fields { encode(field, &block) }
        return block.bytes
    }

    private mutating func resize(_ block: inout FieldBlock) {
        for _ in 0..<Int.random(in: 1...2, using: &random) {
            let size = Bool.random(using: &random) ? tableLimit : Int.random(in: 0...tableLimit, using: &random)
            table.resize(to: size)
            block.tableSize(size)
        }
    }

    private mutating func encode(_ field: FieldPair, _ block: inout FieldBlock) {
        let named = indices(of: field.name)
        if let index = named.first(where: { self[$0] == field }), Int.random(in: 0..<4, using: &random) > 0 { return block.indexed(index) }
        let name = Bool.random(using: &random) ? named.randomElement(using: &random) ?? 0 : 0
        let indexing = FieldBlock.Indexing.allCases.randomElement(using: &random)!
        block.literal(field, indexing, nameIndex: name, isCoded: Bool.random(using: &random))
        if indexing == .incremental { table.insert(field) }
    }

    /// The field at an index of both tables.
    private subscript(_ index: Int) -> FieldPair {
        index > AppendixA.fields.count ? table.fields[index - AppendixA.fields.count - 1] : AppendixA.fields[index - 1]
    }

    private func indices(of name: [UInt8]) -> [Int] {
        let inserted = table.fields.indices.filter { table.fields[$0].name == name }.map { $0 + AppendixA.fields.count + 1 }
        return (Self.staticIndices[name] ?? []) + inserted
    }

    private static let staticIndices = Dictionary(grouping: 1...AppendixA.fields.count) { AppendixA.fields[$0 - 1].name }

    /// Fields of trailers without a fault, some of them again and again, few of them long.
    mutating func fields() -> [FieldPair] {
        (0..<Int.random(in: 0...12, using: &random)).map { _ in
            let name = "x-\(Int.random(in: 0..<20, using: &random))"
            let names = [name, "accept-encoding", "date", "etag", "x-a-name-that-is-longer-than-three-words", "under_score!"]
            let isLong = Int.random(in: 0..<30, using: &random) == 0
            let count = Int.random(in: 0...(isLong ? 3000 : 40), using: &random)
            let seed = Bool.random(using: &random) ? UInt8.random(in: 0x21...0x7E, using: &random) : 0x61
            let value = (0..<count).map { place in
                Int.random(in: 0..<4, using: &random) > 0 ? seed : place % 7 == 0 ? 0xC3 : UInt8.random(in: 0x21...0x7E, using: &random)
            }
            return FieldPair(Array(names.randomElement(using: &random)!.utf8), value)
        }
    }
}
