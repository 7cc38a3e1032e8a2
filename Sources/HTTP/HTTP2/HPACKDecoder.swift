import Wire

/// The HPACK decoder of one connection (RFC 7541): its dynamic table. Owns no memory before the peer first inserts a field.
///
/// A block is always decoded to its end, also for a section that is malformed or too large, so that the table stays in step with the
/// peer's. After a `HPACKFault` the connection must be closed: the table may differ from the peer's.
package struct HPACKDecoder: ~Copyable {
    private var table: HPACKDynamicTable
    /// The greatest size of the table, from our SETTINGS_HEADER_TABLE_SIZE.
    private let tableLimit: Int
    private let staticTable = HPACKStaticTable.shared
    private let huffman = HuffmanCode.shared
    private let names = FieldNameIndex.shared

    /// A decoder with the table size that our SETTINGS announce, at most 65,535.
    package init(tableLimit: Int = 4096) {
        self.tableLimit = tableLimit
        table = HPACKDynamicTable(limit: tableLimit)
    }

    /// Bytes of the dynamic table, as the tables' bound counts them (RFC 7541 §4.1).
    package var tableSize: Int { table.size }

    /// Decodes one field block, the joined fragments of HEADERS and CONTINUATION, into `section`, whose `fault` says whether it may be
    /// served. Its work and memory are bounded by the length of the block and by `limits`.
    package mutating func decode(
        _ block: RawSpan, as kind: FieldSectionKind, limits: FieldSectionLimits = FieldSectionLimits(), into section: inout FieldSection
    ) throws(HPACKFault) {
        section.begin(kind, limits)
        var offset = try resizeTable(block)
        while offset < block.byteCount {
            let first = block[offset]
            if first & 0x80 != 0 {
                let index = try block.hpackInteger(prefix: 7, at: &offset)
                try addIndexed(index, to: &section)
            } else if first & 0x40 != 0 {
                try addLiteral(block, &offset, prefix: 6, isInserted: true, to: &section)
            } else if first & 0x20 == 0 {
                // Without indexing, or never indexed: the same to a decoder.
                try addLiteral(block, &offset, prefix: 4, isInserted: false, to: &section)
            } else {
                throw .tableSizePlace
            }
        }
        section.finish()
    }

    /// Applies the table size updates that `block` begins with (RFC 7541 §4.2); answers the offset behind them.
    private mutating func resizeTable(_ block: RawSpan) throws(HPACKFault) -> Int {
        var offset = 0
        while offset < block.byteCount, block[offset] & 0xE0 == 0x20 {
            let size = try block.hpackInteger(prefix: 5, at: &offset)
            guard size <= tableLimit else { throw .tableSize }
            table.resize(to: size)
        }
        return offset
    }

    @inline(__always)
    private func addIndexed(_ index: Int, to section: inout FieldSection) throws(HPACKFault) {
        if index > HPACKStaticTable.count {
            let entry = try dynamicEntry(index)
            section.add(table.line(entry), nameCount: Int(entry.nameCount), entry.name, isValueValid: entry.isValueValid)
        } else {
            guard index > 0 else { throw .index }
            let entry = staticTable.entries[index &- 1]
            section.add(staticTable.line(entry), nameCount: Int(entry.nameCount), entry.name, isValueValid: true)
        }
    }

    @inline(__always)
    private func dynamicEntry(_ index: Int) throws(HPACKFault) -> HPACKEntry {
        let place = index &- HPACKStaticTable.count &- 1
        guard place < table.count else { throw .index }
        return table[place]
    }

    /// Decodes a literal field at `offset`, whose index of a name has `prefix` bits.
    private mutating func addLiteral(
        _ block: RawSpan, _ offset: inout Int, prefix: Int, isInserted: Bool, to section: inout FieldSection
    ) throws(HPACKFault) {
        var line = ByteBuffer()
        swap(&line, &section.literal)
        defer { swap(&line, &section.literal) }
        line.removeAll()
        let name = try readName(block, &offset, prefix: prefix, into: &line)
        let nameCount = line.count
        line.append(": " as StaticString)
        let octets = try readOctets(block, &offset)
        let isValueValid: Bool
        if octets.isCoded, name.known.recursInAnswers || name.role == .authorization && !isInserted {
            isValueValid = try section.memo.decode(octets.bytes, with: huffman, into: &line)
        } else {
            if octets.isCoded { try huffman.decode(octets.bytes, into: &line) } else { line.append(octets.bytes) }
            isValueValid = name.role.allows(line.readable.dropping(nameCount &+ 2))
        }
        line.append("\r\n" as StaticString)
        if isInserted { table.insert(line.readable, nameCount: nameCount, name, isValueValid: isValueValid) }
        section.add(line.readable, nameCount: nameCount, name, isValueValid: isValueValid)
    }

    @inline(__always)
    private func readName(
        _ block: RawSpan, _ offset: inout Int, prefix: Int, into line: inout ByteBuffer
    ) throws(HPACKFault) -> FieldIdentity {
        let index = try block.hpackInteger(prefix: prefix, at: &offset)
        if index == 0 {
            let octets = try readOctets(block, &offset)
            if octets.isCoded { try huffman.decode(octets.bytes, into: &line) } else { line.append(octets.bytes) }
            return FieldIdentity(line.readable, names)
        }
        if index > HPACKStaticTable.count {
            let entry = try dynamicEntry(index)
            line.append(table.line(entry).extracting(0..<Int(entry.nameCount)))
            return entry.name
        }
        let entry = staticTable.entries[index &- 1]
        line.append(staticTable.line(entry).extracting(0..<Int(entry.nameCount)))
        return entry.name
    }

    /// The string literal at `offset` (RFC 7541 §5.2).
    @inline(__always)
    @_lifetime(copy block)
    private func readOctets(_ block: RawSpan, _ offset: inout Int) throws(HPACKFault) -> HPACKString {
        guard offset < block.byteCount else { throw .truncated }
        let isCoded = block[offset] & 0x80 != 0
        let count = try block.hpackInteger(prefix: 7, at: &offset)
        guard count <= block.byteCount &- offset else { throw .truncated }
        let bytes = block.extracting(offset..<offset &+ count)
        offset &+= count
        return HPACKString(bytes: bytes, isCoded: isCoded)
    }
}

/// A string literal: text or, if `isCoded`, its Huffman code.
private struct HPACKString: ~Escapable {
    let bytes: RawSpan
    let isCoded: Bool

    @_lifetime(copy bytes)
    init(bytes: RawSpan, isCoded: Bool) {
        self.bytes = bytes
        self.isCoded = isCoded
    }
}

extension RawSpan {
    /// Octets of an integer behind its prefix: five hold 35 bits, more than any length or index in a block.
    private static var maxIntegerOctets: Int { 5 }

    /// The integer whose prefix is the lowest `prefix` bits of the octet at `offset` (RFC 7541 §5.1), which must be there.
    @inline(__always)
    func hpackInteger(prefix: Int, at offset: inout Int) throws(HPACKFault) -> Int {
        let mask = (1 &<< prefix) &- 1
        let start = Int(self[offset]) & mask
        offset &+= 1
        return start < mask ? start : try longHPACKInteger(start, at: &offset)
    }

    private func longHPACKInteger(_ start: Int, at offset: inout Int) throws(HPACKFault) -> Int {
        var value = start
        for place in 0..<Self.maxIntegerOctets {
            guard offset < byteCount else { throw .truncated }
            let octet = self[offset]
            offset += 1
            value += Int(octet & 0x7F) << (7 * place)
            if octet & 0x80 == 0 { return value }
        }
        throw .integer
    }

    /// Whether the bytes may be a field's value (RFC 9113 §8.2.1, RFC 9110 §5.5): no controls but HTAB, no white space at the ends.
    @inline(__always)
    var isFieldValue: Bool {
        let count = byteCount
        guard count > 0 else { return true }
        return !ByteClass.isBlank(self[0]) && !ByteClass.isBlank(self[count &- 1]) && firstControl(from: 0) == count
    }
}

extension FieldName {
    /// Whether the field usually has the same value in many answers, is not secret, and is sent without indexing by servers such as nginx.
    @inline(__always)
    fileprivate var recursInAnswers: Bool {
        let fields =
            Self.server.bit | Self.date.bit | Self.contentType.bit | Self.contentEncoding.bit | Self.cacheControl.bit | Self.vary.bit
        return bit & fields != 0
    }
}
