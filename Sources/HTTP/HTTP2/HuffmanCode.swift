import Wire

/// The Huffman code of HPACK (RFC 7541, appendix B), and its decoding tables.
///
/// The code is canonical: codes of one length are consecutive numbers in the order of their symbols, so the lengths define it.
struct HuffmanCode: Sendable {
    static let shared = HuffmanCode()

    /// Bits that one lookup takes: the codes of letters, digits and the usual marks are no longer. Its table of 512 bytes stays in the
    /// first cache. Lookups of 12 bits, with two symbols if both fit, took a tenth less time with their 16 KiB in that cache and a tenth
    /// more without.
    private static let lookupBits = 8
    /// The symbol that is no byte: its first bits pad a string, and as a symbol it is a fault (RFC 7541 §5.2).
    private static let endOfString = 256

    /// The bits of each byte's code, and at last those of the end of string.
    private static let lengths: [UInt8] = [
        13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
        6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
        13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
        15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
        20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
        22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
        26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
        20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
        30,
    ]

    /// The codes of one length.
    private struct Rank {
        var length: Int
        /// The code of the first symbol.
        var first: UInt64
        /// Where its symbols begin in `symbols`.
        var index: Int
        /// The first bits beyond these codes, from the highest bit of a word on; the greatest word for the last rank.
        var bound: UInt64
    }

    /// By the first bits of a code its symbol, and its length in the high byte; 0 if it is longer than a lookup.
    private var steps: [UInt16] = []
    /// The lengths that a lookup does not find, in rising order.
    private var longRanks: [Rank] = []
    /// All symbols in the order of their codes.
    private var symbols: [UInt16] = []

    private init() {
        let ranks = makeRanks()
        longRanks = ranks.filter { $0.length > Self.lookupBits }
        let shortRanks = ranks.filter { $0.length <= Self.lookupBits }
        for bits in 0..<UInt64(1 << Self.lookupBits) {
            let short = code(in: bits << UInt64(64 - Self.lookupBits), shortRanks)
            steps.append(short.map { UInt16($0.symbol | $0.length << 8) } ?? 0)
        }
    }

    private mutating func makeRanks() -> [Rank] {
        var ranks: [Rank] = []
        var code: UInt64 = 0
        for length in 1...30 {
            code <<= 1
            let members = Self.lengths.indices.filter { Self.lengths[$0] == length }
            guard !members.isEmpty else { continue }
            let end = code + UInt64(members.count)
            let bound = end == 1 << UInt64(length) ? UInt64.max : end << UInt64(64 - length)
            ranks.append(Rank(length: length, first: code, index: symbols.count, bound: bound))
            symbols += members.map { UInt16($0) }
            code = end
        }
        return ranks
    }

    /// The code that `word` begins with, if one of `ranks` has it.
    private func code(in word: UInt64, _ ranks: [Rank]) -> (symbol: Int, length: Int)? {
        for rank in ranks where word < rank.bound || rank.bound == .max {
            let number = word >> UInt64(64 - rank.length) - rank.first
            return (Int(symbols[rank.index + Int(number)]), rank.length)
        }
        return nil
    }

    // MARK: decoding

    /// Appends the text that `code` encodes to `out`; at most 8 bytes for 5 bytes of code.
    ///
    /// Works on a word whose highest `available` bits are the next bits of the code. Eight bytes refill it to at least 56 bits, enough
    /// for seven lookups, whose symbols are stored at once.
    func decode(_ code: RawSpan, into out: inout ByteBuffer) throws(HPACKFault) {
        let steps = steps.span
        var bits: UInt64 = 0
        var available = 0
        var offset = 0
        while code.holds(8, at: offset) {
            bits |= code.load64(offset).byteSwapped &>> UInt64(truncatingIfNeeded: available)
            offset &+= (63 &- available) &>> 3
            available |= 56
            var text: UInt64 = 0
            var count = 0
            while count < 7 {
                let step = steps[Int(truncatingIfNeeded: bits &>> UInt64(64 &- Self.lookupBits))]
                if step == 0 { break }
                text |= UInt64(step & 0xFF) &<< UInt64(truncatingIfNeeded: 8 &* count)
                count &+= 1
                bits &<<= UInt64(step &>> 8)
                available &-= Int(step &>> 8)
            }
            out.append(lowBytes: text, count: count)
            // With fewer than 30 bits left the long code comes after the next refill.
            if count < 7, available >= 30 { try decodeLong(&bits, &available, into: &out) }
        }
        try decodeTail(code, offset, bits, available, into: &out)
    }

    /// Decodes one code that is longer than a lookup, of at least 30 bits.
    private func decodeLong(_ bits: inout UInt64, _ available: inout Int, into out: inout ByteBuffer) throws(HPACKFault) {
        guard let long = code(in: bits, longRanks), long.symbol != Self.endOfString else { throw .huffmanEndOfString }
        out.append(UInt8(truncatingIfNeeded: long.symbol))
        bits &<<= UInt64(truncatingIfNeeded: long.length)
        available &-= long.length
    }

    /// Decodes the rest of a string: `available` bits, and then the bytes from `offset` on, fewer than eight. It is padded with at most
    /// seven ones.
    private func decodeTail(
        _ code: RawSpan, _ offset: Int, _ start: UInt64, _ startAvailable: Int, into out: inout ByteBuffer
    ) throws(HPACKFault) {
        let steps = steps.span
        // Bits behind the available ones belong to the rest, and come again with it.
        var bits = start & ~(UInt64.max >> UInt64(startAvailable))
        var available = startAvailable
        var restCount = 8 * (code.byteCount - offset)
        var rest = code.lastWord(from: offset)
        while true {
            let moved = min(restCount, 64 - available)
            if moved > 0 {
                bits |= rest >> UInt64(available)
                rest <<= UInt64(moved)
                restCount -= moved
                available += moved
            }
            var text: UInt64 = 0
            var count = 0
            while count < 8, available >= Self.lookupBits {
                let step = steps[Int(truncatingIfNeeded: bits &>> UInt64(64 &- Self.lookupBits))]
                if step == 0 { break }
                text |= UInt64(step & 0xFF) &<< UInt64(truncatingIfNeeded: 8 &* count)
                count &+= 1
                bits &<<= UInt64(step &>> 8)
                available &-= Int(step &>> 8)
            }
            if count > 0 {
                out.append(lowBytes: text, count: count)
                continue
            }
            // A long code, or the last few bits.
            guard available > 0 else { return }
            let padded = bits | UInt64.max >> UInt64(available)
            // Padding is the first bits of the end of string, which are all ones, and shorter than a byte (RFC 7541 §5.2).
            if padded == .max, available < 8 { return }
            let step = steps[Int(padded >> UInt64(64 - Self.lookupBits))]
            var symbol = Int(step & 0xFF)
            var length = Int(step >> 8)
            if step == 0, let long = self.code(in: padded, longRanks) { (symbol, length) = long }
            guard length <= available else { throw .huffmanPadding }
            guard symbol != Self.endOfString else { throw .huffmanEndOfString }
            out.append(UInt8(truncatingIfNeeded: symbol))
            bits <<= UInt64(length)
            available -= length
        }
    }
}

extension RawSpan {
    /// The fewer than eight bytes from `offset` on, the first in the highest bits, the rest zero.
    fileprivate func lastWord(from offset: Int) -> UInt64 {
        let count = byteCount - offset
        if offset + count >= 8 { return load64(byteCount - 8).byteSwapped << UInt64(64 - 8 * count) }
        var word: UInt64 = 0
        for index in offset..<byteCount { word |= UInt64(self[index]) << UInt64(56 - 8 * (index - offset)) }
        return word
    }
}
