import HTTP
import Wire

/// One field of a list, as a peer's encoder has it.
struct FieldPair: Equatable, CustomStringConvertible {
    var name: [UInt8]
    var value: [UInt8]

    init(_ name: [UInt8], _ value: [UInt8]) { (self.name, self.value) = (name, value) }
    init(_ name: String, _ value: String) { (self.name, self.value) = (Array(name.utf8), Array(value.utf8)) }

    var description: String { "\(ByteNotation.text(name)): \(ByteNotation.text(value))" }
    /// By which the bounds of tables and sections count it.
    var size: Int { name.count + value.count + 32 }
}

/// A field block that a test writes, representation by representation (RFC 7541 §6).
struct FieldBlock {
    enum Indexing: UInt8, CaseIterable { case incremental = 0x40, without = 0x00, never = 0x10 }

    var bytes: [UInt8] = []

    mutating func indexed(_ index: Int) { integer(index, prefix: 7, 0x80) }

    mutating func literal(_ field: FieldPair, _ indexing: Indexing = .without, nameIndex: Int = 0, isCoded: Bool = false) {
        integer(nameIndex, prefix: indexing == .incremental ? 6 : 4, indexing.rawValue)
        if nameIndex == 0 { string(field.name, isCoded: isCoded) }
        string(field.value, isCoded: isCoded)
    }

    mutating func tableSize(_ size: Int) { integer(size, prefix: 5, 0x20) }

    mutating func string(_ text: [UInt8], isCoded: Bool) {
        let octets = isCoded ? AppendixB.encode(text) : text
        integer(octets.count, prefix: 7, isCoded ? 0x80 : 0)
        bytes += octets
    }

    mutating func integer(_ value: Int, prefix: Int, _ form: UInt8) {
        let mask = 1 << prefix - 1
        guard value >= mask else { return bytes.append(form | UInt8(value)) }
        bytes.append(form | UInt8(mask))
        var rest = value - mask
        while rest >= 128 {
            bytes.append(UInt8(rest % 128) | 0x80)
            rest /= 128
        }
        bytes.append(UInt8(rest))
    }

    /// The bytes of two-digit numbers; white space between them counts for nothing.
    static func hex(_ text: String) -> [UInt8] {
        let digits = text.filter { !$0.isWhitespace }
        return stride(from: 0, to: digits.count, by: 2).map { offset in
            let start = digits.index(digits.startIndex, offsetBy: offset)
            return UInt8(digits[start..<digits.index(start, offsetBy: 2)], radix: 16)!
        }
    }
}

/// A decoder with its section, and the outcomes as text.
struct BlockReader: ~Copyable {
    var decoder: HPACKDecoder
    var section = FieldSection()
    var limits = FieldSectionLimits()

    init(tableLimit: Int = 4096) { decoder = HPACKDecoder(tableLimit: tableLimit) }

    /// The head or the lines of trailers; `malformed` or `over limit` with its reason; or `broken` with the block's fault.
    mutating func read(_ block: [UInt8], as kind: FieldSectionKind = .request(hasContent: false)) -> String {
        do throws(HPACKFault) {
            try decoder.decode(block.rawBytes, as: kind, limits: limits, into: &section)
        } catch {
            return "broken \(error.text)"
        }
        guard let fault = section.fault else { return section.head.array.map { String(UnicodeScalar($0)) }.joined() }
        return "\(fault.isOverLimit ? "over limit" : "malformed") \(fault.text)"
    }

    /// The fields of a section without pseudo-fields, or the one outcome that is no list.
    mutating func readFields(_ block: [UInt8]) -> [String] {
        var lines = read(block, as: .trailers).split(separator: "\r\n", omittingEmptySubsequences: false).map(String.init)
        if lines.count > 1 { lines.removeLast(2) }
        return lines
    }
}

/// The dynamic table by the RFC's words, for an encoder: newest first.
struct PlainTable {
    private(set) var fields: [FieldPair] = []
    private var limit: Int

    private(set) var size = 0

    init(limit: Int) { self.limit = limit }

    mutating func insert(_ field: FieldPair) {
        fields.insert(field, at: 0)
        size += field.size
        evict()
    }

    mutating func resize(to limit: Int) {
        self.limit = limit
        evict()
    }

    private mutating func evict() {
        while size > limit { size -= fields.removeLast().size }
    }
}
