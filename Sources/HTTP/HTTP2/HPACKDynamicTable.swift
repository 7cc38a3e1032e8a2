import Wire

/// The dynamic table of a decoder (RFC 7541 §2.3.2): field lines in one buffer, the newest last, and a ring of their entries.
///
/// Its memory grows with its content and is bounded by its limit: lines take less than their entries' sizes (4 bytes more than name and
/// value, not 32), and there is an entry for every 32 bytes at most.
struct HPACKDynamicTable: ~Copyable {
    private var lines = ByteBuffer()
    /// Where the first byte of `lines` stands, counted as in the entries.
    private var linesStart: UInt32 = 0
    /// A power of two, or empty.
    private var ring: [HPACKEntry] = []
    private var oldest = 0
    private(set) var count = 0
    /// The sum of the entries' sizes.
    private(set) var size = 0
    /// The greatest size, as the peer's encoder set it.
    private(set) var limit: Int

    /// An empty table for at most `limit` bytes (at most 65,535), which owns no memory yet.
    init(limit: Int) {
        precondition((0...65535).contains(limit))
        self.limit = limit
    }

    /// The entry at `index`; 0 is the newest. It must be there.
    @inline(__always)
    subscript(_ index: Int) -> HPACKEntry {
        precondition(index >= 0 && index < count)
        return ring[(oldest &+ count &- 1 &- index) & (ring.count &- 1)]
    }

    /// The line of an entry of this table.
    @inline(__always)
    @_lifetime(borrow self)
    func line(_ entry: HPACKEntry) -> RawSpan {
        let start = Int(entry.start &- linesStart)
        return lines.readable.extracting(start..<start &+ entry.lineCount)
    }

    /// Sets the greatest size and evicts what exceeds it.
    mutating func resize(to limit: Int) {
        self.limit = limit
        evict(for: 0)
    }

    /// Inserts a field, whose start is set here, by its line. One that is larger than the table empties it (RFC 7541 §4.4).
    mutating func insert(_ line: RawSpan, nameCount: Int, _ name: FieldIdentity, isValueValid: Bool) {
        let size = line.byteCount &+ 28
        evict(for: size)
        guard size <= limit else { return }
        if count == ring.count { grow() }
        if lines.capacity == 0 { lines.reserve(min(limit, 512)) }
        ring[(oldest &+ count) & (ring.count &- 1)] = HPACKEntry(
            start: linesStart &+ UInt32(truncatingIfNeeded: lines.count), nameCount: UInt16(truncatingIfNeeded: nameCount),
            valueCount: UInt16(truncatingIfNeeded: line.byteCount &- nameCount &- 4), name: name, isValueValid: isValueValid)
        // With room for as much again, a full table moves its lines to the front seldom.
        if linesStart > 0, lines.capacity < 2 &* lines.count { lines.reserve(lines.count) }
        lines.append(line)
        count &+= 1
        self.size &+= size
    }

    /// Evicts the oldest entries until `room` more bytes fit, or none is left.
    private mutating func evict(for room: Int) {
        while count > 0, size &+ room > limit {
            let entry = ring[oldest]
            lines.discard(entry.lineCount)
            linesStart &+= UInt32(truncatingIfNeeded: entry.lineCount)
            size &-= entry.size
            oldest = (oldest &+ 1) & (ring.count &- 1)
            count &-= 1
        }
    }

    private mutating func grow() {
        let entries = ring
        ring = []
        ring.reserveCapacity(max(entries.count * 2, 16))
        for index in 0..<max(entries.count * 2, 16) {
            // An unused slot holds an arbitrary entry.
            let old = entries.isEmpty ? 0 : (oldest + index) % entries.count
            ring.append(entries.isEmpty ? HPACKStaticTable.shared.entries[0] : entries[old])
        }
        oldest = 0
    }
}
