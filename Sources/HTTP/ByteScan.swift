import Wire

/// Eight bytes at a time (SWAR): tests on a 64-bit word that set the high bit of every byte they are about.
///
/// In these masks the lowest bit set is exact; above it a borrow may have set others. So callers use the lowest only.
enum ByteScan {
    static let ones: UInt64 = 0x0101_0101_0101_0101
    static let highs: UInt64 = 0x8080_8080_8080_8080

    /// The same byte eight times.
    @inline(__always)
    static func spread(_ byte: UInt8) -> UInt64 { UInt64(byte) &* ones }

    /// Marks the bytes of `word` that equal `byte`, which must be ASCII.
    @inline(__always)
    static func equal(_ word: UInt64, _ byte: UInt8) -> UInt64 {
        ((word ^ spread(byte)) &- ones) & ~word & highs
    }

    /// The same for sixteen bytes, the first eight in the first lane.
    @inline(__always)
    static func equal(_ words: SIMD2<UInt64>, _ byte: UInt8) -> SIMD2<UInt64> {
        let words = SIMD2(UInt64(littleEndian: words[0]), UInt64(littleEndian: words[1]))
        let difference = (words ^ SIMD2(repeating: spread(byte))) &- SIMD2(repeating: ones)
        return difference & ~words & SIMD2(repeating: highs)
    }

    /// Marks the control characters in `word`, HTAB and DEL included.
    @inline(__always)
    static func control(_ word: UInt64) -> UInt64 {
        ((word &- spread(0x20)) | ((word ^ spread(0x7F)) &- ones)) & ~word & highs
    }

    /// The same for sixteen bytes, the first eight in the first lane.
    @inline(__always)
    static func control(_ words: SIMD2<UInt64>) -> SIMD2<UInt64> {
        let words = SIMD2(UInt64(littleEndian: words[0]), UInt64(littleEndian: words[1]))
        let low = words &- SIMD2(repeating: spread(0x20))
        let delete = (words ^ SIMD2(repeating: spread(0x7F))) &- SIMD2(repeating: ones)
        return (low | delete) & ~words & SIMD2(repeating: highs)
    }

    /// Whether 64 bytes, in any order, hold a control character. Borrows reach only bytes above one, so they find none that is not there.
    @inline(__always)
    static func hasControl(_ words: SIMD8<UInt64>) -> Bool {
        let low = words &- SIMD8(repeating: spread(0x20))
        let delete = (words ^ SIMD8(repeating: spread(0x7F))) &- SIMD8(repeating: ones)
        let marks = (low | delete) & ~words
        let four = marks.lowHalf | marks.highHalf
        let two = four.lowHalf | four.highHalf
        return (two[0] | two[1]) & highs != 0
    }

    /// Marks the bytes of `word` that a request target may not hold: controls, space, DEL, `#` and bytes beyond ASCII.
    @inline(__always)
    static func outsideTarget(_ word: UInt64) -> UInt64 {
        let ascii = (word &- spread(0x21)) | ((word ^ spread(0x7F)) &- ones) | ((word ^ spread(0x23)) &- ones)
        return ((ascii & ~word) | word) & highs
    }

    /// Whether `word` holds only letters, digits and `-`, as nearly all field names do. Exact in every byte: no sum carries into
    /// the next.
    @inline(__always)
    static func isPlainName(_ word: UInt64) -> Bool {
        let low = word & ~highs
        let small = low | spread(0x20)
        let letters = (small &+ spread(0x80 - 0x61)) & ~(small &+ spread(0x80 - 0x7B))
        let digits = (low &+ spread(0x80 - 0x30)) & ~(low &+ spread(0x80 - 0x3A))
        let hyphens = ~((low ^ spread(0x2D)) &+ spread(0x7F))
        return (letters | digits | hyphens) & ~word & highs == highs
    }

    /// Whether the last of eight bytes of a host name is a dot; nil unless all are letters, digits, `-` and dots that do not follow one
    /// another. `isAfterDot`: the byte before them is a dot. Exact in every byte.
    @inline(__always)
    static func hostEnd(_ word: UInt64, _ isAfterDot: Bool) -> Bool? {
        let difference = word ^ spread(0x2E)
        let dots = ~((difference & ~highs) &+ ~highs | difference) & highs
        let follows = dots &<< 8 | (isAfterDot ? 0x80 : 0)
        // `-` in place of the dots, which differs in the lowest two bits.
        guard dots & follows == 0, isPlainName(word ^ (dots &>> 7 &* 3)) else { return nil }
        return dots &>> 63 != 0
    }

    /// Characters of a plain name behind the first `count` (1 to 8) bytes of a word, where a shorter text has zeros.
    @inline(__always)
    static func plainFilling(_ count: Int) -> UInt64 {
        count < 8 ? spread(0x2D) &<< UInt64(truncatingIfNeeded: 8 &* count) : 0
    }

    /// The offset in the word of the lowest byte that `mask` marks.
    @inline(__always)
    static func lowest(_ mask: UInt64) -> Int { mask.trailingZeroBitCount >> 3 }
}

extension RawSpan {
    /// Whether `count` bytes lie at `offset`. Written as the loads' own bounds check, so that the compiler keeps only one.
    @inline(__always)
    func holds(_ count: Int, at offset: Int) -> Bool {
        UInt(bitPattern: offset) <= UInt(bitPattern: byteCount) && count <= byteCount &- offset
    }

    /// The first offset at or after `start` that holds a control character other than HTAB; the end if there is none.
    @inline(__always)
    func firstControl(from start: Int) -> Int {
        var offset = start
        while holds(16, at: offset) {
            let masks = ByteScan.control(unsafe unsafeLoadUnaligned(fromByteOffset: offset, as: SIMD2<UInt64>.self))
            if masks[0] | masks[1] == 0 {
                offset &+= 16
                // A long value, such as a token.
                if offset &- start == 128 { offset = endOfCleanBlocks(from: offset) }
                continue
            }
            offset &+= masks[0] != 0 ? ByteScan.lowest(masks[0]) : 8 &+ ByteScan.lowest(masks[1])
            if self[offset] != ByteClass.tab { return offset }
            offset &+= 1
        }
        if holds(8, at: offset) {
            let mask = ByteScan.control(load64(offset))
            offset &+= mask == 0 ? 8 : ByteScan.lowest(mask)
        }
        while holds(1, at: offset), !ByteClass.isControl(self[offset]) || self[offset] == ByteClass.tab { offset &+= 1 }
        return offset
    }

    /// The offset of the first 64 bytes behind `start` that are not there or hold a control character.
    private func endOfCleanBlocks(from start: Int) -> Int {
        var offset = start
        while holds(64, at: offset),
            !ByteScan.hasControl(unsafe unsafeLoadUnaligned(fromByteOffset: offset, as: SIMD8<UInt64>.self))
        {
            offset &+= 64
        }
        return offset
    }

    /// The first offset at or after `start` that cannot be part of a request target; the end if there is none.
    @inline(__always)
    func firstOutsideTarget(from start: Int) -> Int {
        var offset = start
        while holds(8, at: offset) {
            let mask = ByteScan.outsideTarget(load64(offset))
            if mask != 0 { return offset &+ ByteScan.lowest(mask) }
            offset &+= 8
        }
        while holds(1, at: offset), ByteScan.outsideTarget(UInt64(self[offset]) | 0x4141_4141_4141_4100) == 0 {
            offset &+= 1
        }
        return offset
    }

    /// The first offset at or after `start` that holds `byte`, which must be ASCII; the end if there is none.
    @inline(__always)
    func firstOffset(of byte: UInt8, from start: Int) -> Int {
        var offset = start
        while holds(8, at: offset) {
            let mask = ByteScan.equal(load64(offset), byte)
            if mask != 0 { return offset &+ ByteScan.lowest(mask) }
            offset &+= 8
        }
        while holds(1, at: offset), self[offset] != byte { offset &+= 1 }
        return offset
    }

    /// The first carriage return at or after `start`; the end if there is none.
    @inline(__always)
    func firstCarriageReturn(from start: Int) -> Int {
        var offset = start
        while holds(16, at: offset) {
            let masks = ByteScan.equal(
                unsafe unsafeLoadUnaligned(fromByteOffset: offset, as: SIMD2<UInt64>.self), ByteClass.carriageReturn)
            if masks[0] != 0 { return offset &+ ByteScan.lowest(masks[0]) }
            if masks[1] != 0 { return offset &+ 8 &+ ByteScan.lowest(masks[1]) }
            offset &+= 16
        }
        return firstOffset(of: ByteClass.carriageReturn, from: offset)
    }

    /// `count` bytes (1 to 8) from `start` on, the first lowest, the rest zero.
    @inline(__always)
    func loadUpTo8(_ start: Int, _ count: Int) -> UInt64 {
        if holds(8, at: start) { return load64(start) & (UInt64.max &>> UInt64(truncatingIfNeeded: 64 &- 8 &* count)) }
        var word: UInt64 = 0
        for offset in 0..<count { word |= UInt64(self[start &+ offset]) &<< UInt64(truncatingIfNeeded: 8 &* offset) }
        return word
    }
}

extension Slice {
    /// From `start` up to `end`, offsets in a head: its bound keeps them far below 2³².
    @inline(__always)
    init(from start: Int, to end: Int) {
        self.init()
        self.start = UInt32(truncatingIfNeeded: start)
        self.count = UInt32(truncatingIfNeeded: end &- start)
    }
}
