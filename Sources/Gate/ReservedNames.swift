import HTTP
public import Wire

/// Field names as CGI-like servers compare them: without case, and with every byte that is not a letter or digit as `-`.
/// `X-User-Id`, `x_user_id` and `X.User.Id` are one name.
enum FoldedName {
    static func folded(_ byte: UInt8) -> UInt8 {
        byte.isASCIILetter || byte.isASCIIDigit ? byte.lowercasedASCII : UInt8(ascii: "-")
    }

    static func matches(_ name: RawSpan, _ other: RawSpan) -> Bool {
        guard name.byteCount == other.byteCount else { return false }
        if name.byteCount >= 8, isSpellingByWords(name, of: other) { return true }
        for offset in 0..<name.byteCount where folded(name[offset]) != folded(other[offset]) { return false }
        return true
    }

    /// Whether a name and one of as many bytes, at least eight, differ at most in the bit that tells small letters from capitals. Then they
    /// match: the counterparts of letters are letters, and those of digits and `-` are controls, which no name holds.
    private static func isSpellingByWords(_ name: RawSpan, of other: RawSpan) -> Bool {
        let last = name.byteCount - 8
        var difference = name.load64(last) ^ other.load64(last)
        var offset = 0
        while offset < last {
            difference |= name.load64(offset) ^ other.load64(offset)
            offset += 8
        }
        return difference & ~UInt64(repeatingByte: 0x20) == 0
    }

    /// Whether `name` is `other` in any case, with the same punctuation.
    static func isSpelling(_ name: RawSpan, of other: RawSpan) -> Bool {
        guard name.byteCount == other.byteCount else { return false }
        for offset in 0..<name.byteCount where name[offset].lowercasedASCII != other[offset].lowercasedASCII { return false }
        return true
    }

    /// Folded comparison in which runs of `-` count as one: `transfer---encoding` is `Transfer-Encoding`.
    static func matchesByRuns(_ name: RawSpan, _ other: RawSpan) -> Bool {
        var offset = 0
        var otherOffset = 0
        while offset < name.byteCount, otherOffset < other.byteCount {
            let byte = folded(name[offset])
            guard byte == folded(other[otherOffset]) else { return false }
            offset += 1
            otherOffset += 1
            guard byte == UInt8(ascii: "-") else { continue }
            while offset < name.byteCount, folded(name[offset]) == byte { offset += 1 }
            while otherOffset < other.byteCount, folded(other[otherOffset]) == byte { otherOffset += 1 }
        }
        return offset == name.byteCount && otherOffset == other.byteCount
    }
}

/// Names of request fields that are removed or rewritten: the gateway's own, `ProxyFields`, every name of an attribute's field, and
/// look-alikes of framing fields. Built once from those tables, from which its bounds follow. Its users hold the value, because a lazy global costs
/// a call at every use.
///
/// Length, first and last letter reject most names; one hash probe decides most of the others.
public struct ReservedNames: Sendable {
    static let shared = ReservedNames()

    /// Bounds of the names that begin with one letter.
    @usableFromInline struct Bounds: Sendable {
        /// Bit n: a name of n bytes exists.
        @usableFromInline var lengths: UInt64 = 0
        /// Last letters of framing names, whose look-alikes may have any length.
        @usableFromInline var lastLetters: UInt32 = 0
    }

    private struct Entry: Sendable {
        var name: StaticString
        /// The next entry of the slot, plus one; 0 for none.
        var next: UInt8
    }

    /// By the low five bits of the first byte, which ignores case.
    @usableFromInline let bounds: [Bounds]
    /// The first entry of each slot, plus one; 0 for none.
    private let slots: [UInt8]
    /// `ProxyFields` first, by their index.
    private let entries: [Entry]
    private let keepable: Int
    private let framing: [StaticString]

    private init() {
        var bounds = [Bounds](repeating: Bounds(), count: 32)
        var slots = [UInt8](repeating: 0, count: 1 << Self.slotBits)
        var entries: [Entry] = []
        keepable = ProxyFields.names.count
        precondition(keepable <= KeptFields.capacity, "a set of kept fields is one word")
        for name in ProxyFields.names + IdentityHeaders.requestNames {
            let bytes = name.rawBytes
            precondition((3..<63).contains(bytes.byteCount) && entries.count < 255, "a name or a table is too long")
            bounds[Int(bytes[0] & 31)].lengths |= 1 << UInt64(bytes.byteCount)
            let slot = Self.slot(bytes)
            entries.append(Entry(name: name, next: slots[slot]))
            slots[slot] = UInt8(entries.count)
        }
        let prefix = IdentityHeaders.attributePrefix.rawBytes
        bounds[Int(prefix[0] & 31)].lengths |= UInt64.max << UInt64(prefix.byteCount)
        // A name without a `-` has no look-alikes.
        framing = IdentityHeaders.framing.filter { $0.rawBytes.firstIndex(of: UInt8(ascii: "-")) != nil }
        for name in framing {
            let bytes = name.rawBytes
            bounds[Int(bytes[0] & 31)].lastLetters |= 1 << UInt32(bytes[bytes.byteCount - 1] & 31)
        }
        self.bounds = bounds
        self.slots = slots
        self.entries = entries
    }

    /// Filter before `holds`: false for most names, never for a reserved one.
    @inlinable @inline(__always)
    public func mayHold(_ name: RawSpan) -> Bool {
        let count = name.byteCount
        guard count > 0 else { return false }
        let bounds = bounds[Int(name[0] & 31)]
        return (bounds.lengths &>> UInt64(truncatingIfNeeded: min(count, 63))) & 1 != 0
            || (bounds.lastLetters &>> UInt32(name[count &- 1] & 31)) & 1 != 0
    }

    /// Whether a field of this name, which `FieldName` does not know, is reserved and not in `kept`. A kept field must have
    /// its usual spelling.
    package func holds(_ name: RawSpan, except kept: KeptFields) -> Bool {
        let bounds = bounds[Int(name[0] & 31)]
        if bounds.lengths >> UInt64(min(name.byteCount, 63)) & 1 != 0, let index = index(of: name) {
            return index >= keepable || !kept.contains(index) || !FoldedName.isSpelling(name, of: entries[index].name.rawBytes)
        }
        if IdentityHeaders.isAttribute(name) { return true }
        guard bounds.lastLetters != 0 else { return false }
        for other in framing where FoldedName.matchesByRuns(name, other.rawBytes) { return true }
        return false
    }

    /// Whether `mayHold(name)`, and it is one of `ProxyFields` in any spelling and not in `kept`.
    func holdsProxyField(_ name: RawSpan, except kept: KeptFields) -> Bool {
        guard name.byteCount >= 3, let index = index(of: name), index < keepable else { return false }
        return !kept.contains(index) || !FoldedName.isSpelling(name, of: entries[index].name.rawBytes)
    }

    /// The entry of a name of at least three bytes, in any spelling.
    private func index(of name: RawSpan) -> Int? {
        var next = Int(slots[Self.slot(name)])
        while next > 0 {
            let entry = entries[next - 1]
            if FoldedName.matches(name, entry.name.rawBytes) { return next - 1 }
            next = Int(entry.next)
        }
        return nil
    }

    private static let slotBits: UInt32 = 10

    /// Hash of the length and of the bytes at index 2, in the middle and at the end.
    private static func slot(_ name: RawSpan) -> Int {
        let count = name.byteCount
        let third = UInt32(FoldedName.folded(name[2]))
        let middle = UInt32(FoldedName.folded(name[count >> 1]))
        let last = UInt32(FoldedName.folded(name[count - 1]))
        let key = UInt32(truncatingIfNeeded: count) | third << 8 | middle << 16 | last << 24
        return Int((key &* 0x9E37_79B1) >> (32 - slotBits))
    }
}
