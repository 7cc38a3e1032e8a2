import Wire

/// Decoded `authorization` values, and those of fields that recur in answers, by their Huffman code, for one worker. Clients such as curl
/// never index that field, so each request repeats a token as the same octets, and servers such as nginx index nothing; finding octets
/// takes a tenth of the time of decoding them.
///
/// Bounded: 512 KiB and 2,048 values, from which the oldest half is evicted. A value is answered only for equal octets, so it is the one
/// that they decode to. They are compared in constant time, as they are secrets.
struct HuffmanMemo: ~Copyable {
    private struct Slot: BitwiseCopyable {
        /// Where the code begins, counted from the first byte that was ever kept; its text lies behind it.
        var start = 0
        var codeCount: UInt16 = 0
        var textCount: UInt16 = 0
        var isFieldValue = false
    }

    /// Octets of a code that is kept: shorter ones are decoded as fast, longer ones would evict too much.
    private static let codeCounts = 8...2048
    private static let maxBytes = 524_288
    private static let slotBits = 11

    private var bytes = ByteBuffer()
    /// Where the first of `bytes` stands.
    private var bytesStart = 0
    private var slots: [Slot] = []

    /// Appends the text that `code` encodes to `out`; returns whether it may be a field's value.
    mutating func decode(_ code: RawSpan, with huffman: HuffmanCode, into out: inout ByteBuffer) throws(HPACKFault) -> Bool {
        let isKept = Self.codeCounts.contains(code.byteCount)
        let index = isKept ? Self.slot(code) : 0
        if isKept, index < slots.count, append(slots[index], code, to: &out) { return slots[index].isFieldValue }
        let start = out.count
        try huffman.decode(code, into: &out)
        let isFieldValue = out.readable.dropping(start).isFieldValue
        if isKept { keep(code, out.readable.dropping(start), isFieldValue, index) }
        return isFieldValue
    }

    /// Appends the slot's text if it is that of `code`.
    @inline(__always)
    private func append(_ slot: Slot, _ code: RawSpan, to out: inout ByteBuffer) -> Bool {
        guard Int(slot.codeCount) == code.byteCount, slot.start >= bytesStart else { return false }
        let kept = bytes.readable.dropping(slot.start &- bytesStart)
        let codeCount = code.byteCount
        guard Self.areEqual(kept.extracting(0..<codeCount), code) else { return false }
        out.append(kept.extracting(codeCount..<codeCount &+ Int(slot.textCount)))
        return true
    }

    private mutating func keep(_ code: RawSpan, _ text: RawSpan, _ isFieldValue: Bool, _ index: Int) {
        if slots.isEmpty { slots = Array(repeating: Slot(), count: 1 << Self.slotBits) }
        if bytes.count + code.byteCount + text.byteCount > Self.maxBytes {
            bytesStart += bytes.count / 2
            bytes.discard(bytes.count / 2)
        }
        slots[index] = Slot(
            start: bytesStart + bytes.count, codeCount: UInt16(code.byteCount), textCount: UInt16(text.byteCount),
            isFieldValue: isFieldValue)
        bytes.append(code)
        bytes.append(text)
    }

    /// The last octets tell tokens apart: they are of the signature.
    @inline(__always)
    private static func slot(_ code: RawSpan) -> Int {
        Int(truncatingIfNeeded: (code.load64(code.byteCount &- 8) &* 0x9E37_79B9_7F4A_7C15) &>> UInt64(64 &- slotBits))
    }

    /// Whether both hold the same bytes, which are as many, at least eight; in constant time.
    @inline(__always)
    private static func areEqual(_ one: RawSpan, _ other: RawSpan) -> Bool {
        let last = one.byteCount &- 16
        guard last >= 0 else { return (one.load64(0) ^ other.load64(0)) | (one.load64(last &+ 8) ^ other.load64(last &+ 8)) == 0 }
        var difference = one.load128(last) ^ other.load128(last)
        var offset = 0
        var wide = SIMD8<UInt64>()
        while offset &+ 48 < last {
            wide |= one.load512(offset) ^ other.load512(offset)
            offset &+= 64
        }
        let half = wide.lowHalf | wide.highHalf
        difference |= half.lowHalf | half.highHalf
        while offset < last {
            difference |= one.load128(offset) ^ other.load128(offset)
            offset &+= 16
        }
        return difference[0] | difference[1] == 0
    }
}

extension RawSpan {
    /// 64 bytes from `offset` on; traps outside the span.
    @inline(__always)
    fileprivate func load512(_ offset: Int) -> SIMD8<UInt64> { unsafe unsafeLoadUnaligned(fromByteOffset: offset, as: SIMD8<UInt64>.self) }

    /// Sixteen bytes from `offset` on; traps outside the span.
    @inline(__always)
    fileprivate func load128(_ offset: Int) -> SIMD2<UInt64> { unsafe unsafeLoadUnaligned(fromByteOffset: offset, as: SIMD2<UInt64>.self) }
}
