import Wire

extension FieldName {
    /// The field called `name`, in any mix of case.
    package static func recognise(_ name: RawSpan) -> FieldName {
        let count = name.byteCount
        guard count > 0, count <= WordTriple.longest else { return .other }
        return FieldNameIndex.shared.find(WordTriple(name, 0, count), count)
    }
}

/// One to 24 bytes as three words: the first eight bytes, the second eight and the last eight; zero where there are none.
struct WordTriple {
    static let longest = 24

    var first: UInt64
    var second: UInt64 = 0
    var last: UInt64 = 0

    /// The `count` bytes of `bytes` from `start` on, which must be there.
    @inline(__always)
    init(_ bytes: RawSpan, _ start: Int, _ count: Int) {
        first = bytes.loadUpTo8(start, min(count, 8))
        if count > 8 { last = bytes.load64(start &+ count &- 8) }
        if count > 16 { second = bytes.load64(start &+ 8) }
    }

    init(first: UInt64, second: UInt64, last: UInt64) {
        (self.first, self.second, self.last) = (first, second, last)
    }

    /// Whether the `count` bytes are all letters, digits and `-`.
    @inline(__always)
    func isPlainName(_ count: Int) -> Bool {
        guard ByteScan.isPlainName(first | ByteScan.plainFilling(min(count, 8))) else { return false }
        guard count <= 8 || ByteScan.isPlainName(last) else { return false }
        return count <= 16 || ByteScan.isPlainName(second)
    }

    /// A word for each byte that is the bits in which it may differ from another: all but the case of letters.
    var caselessMask: WordTriple {
        WordTriple(first: Self.mask(first), second: Self.mask(second), last: Self.mask(last))
    }

    private static func mask(_ word: UInt64) -> UInt64 {
        var mask: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 64, by: 8) {
            mask |= (UInt8(truncatingIfNeeded: word >> shift).isASCIILetter ? 0xDF : 0xFF) << shift
        }
        return mask
    }
}

/// Finds a field name in a perfect hash of all that are known: one probe, one comparison of three words.
///
/// Arrays, held by each `FieldTable`: a lazy global costs a call at every use, and an `InlineArray` in it a copy.
struct FieldNameIndex {
    static let shared = FieldNameIndex()

    /// Found by search: under it no two known names share a slot.
    private static let multiplier: UInt64 = 0x1291_F006_309D_57ED

    private struct Entry {
        var words = WordTriple(first: 0, second: 0, last: 0)
        var mask = WordTriple(first: 0, second: 0, last: 0)
        var count = 0
        var name = FieldName.other
    }

    /// Index in `entries` of the name in each slot; that of an empty slot matches nothing.
    private var slots = [UInt8](repeating: 0, count: 256)
    private var entries = [Entry()]

    private init() {
        for name in FieldName.allCases where name != .other {
            var spelling = ByteBuffer(capacity: WordTriple.longest)
            spelling.append(name.text)
            let count = spelling.count
            let words = WordTriple(spelling.readable, 0, count)
            let slot = Self.slot(words, count)
            precondition(slots[slot] == 0, "two known field names share a slot: find another multiplier")
            slots[slot] = UInt8(entries.count)
            entries.append(Entry(words: words, mask: words.caselessMask, count: count, name: name))
        }
    }

    @inline(__always)
    private static func slot(_ words: WordTriple, _ count: Int) -> Int {
        let capitals: UInt64 = 0x2020_2020_2020_2020
        let mixed = ((words.first | capitals) ^ ((words.last | capitals) &<< 3)) &+ UInt64(truncatingIfNeeded: count)
        return Int(truncatingIfNeeded: (mixed &* multiplier) &>> 56)
    }

    /// The field called by the `count` bytes in `words`.
    @inline(__always)
    func find(_ words: WordTriple, _ count: Int) -> FieldName {
        let entry = entries[Int(slots[Self.slot(words, count)])]
        let difference =
            (words.first ^ entry.words.first) & entry.mask.first
            | (words.second ^ entry.words.second) & entry.mask.second
            | (words.last ^ entry.words.last) & entry.mask.last
        return difference == 0 && entry.count == count ? entry.name : .other
    }
}
