public import Wire

/// One field line of a head, as offsets into the bytes that were parsed.
@frozen
public struct Field: Equatable, Sendable {
    public var name: Slice
    /// Without the white space around it; may be empty.
    public var value: Slice
    public var known: FieldName
    /// Whether it must not be forwarded: a `Connection` field names it (RFC 9110 §7.6.1), or it is not allowed in the trailer section
    /// that it stands in.
    public var isNominated: Bool

    @inlinable public init(name: Slice, value: Slice, known: FieldName, isNominated: Bool = false) {
        self.name = name
        self.value = value
        self.known = known
        self.isNominated = isNominated
    }

    /// Whether the field is hop-by-hop, by its name or because `Connection` names it.
    @inlinable public var endsHere: Bool { isNominated || known.isHopByHop }
}

extension RawSpan {
    /// Whether the name of a field begins with `Access-Control-`: the fields of CORS.
    package var isNameOfCORS: Bool {
        let prefix: StaticString = "access-control-"
        let count = prefix.utf8CodeUnitCount
        return byteCount > count && extracting(0..<count).equalsIgnoringCase(prefix)
    }
}

/// The field lines of one message, in order. Allocates once and is reused for every message.
///
/// It has the index of each recognised name's first field, so looking one up costs no search.
public struct FieldTable: ~Copyable {
    private let pin = AddressPin()
    @usableFromInline var entries: UniqueArray<Field>
    /// Bit sets of the names that are present, and of those that are repeated.
    @usableFromInline var present: UInt64 = 0
    @usableFromInline var repeated: UInt64 = 0
    /// The index of a name's first field, by the name's raw value. Meaningful only for names that are present.
    @usableFromInline var firsts = InlineArray<64, UInt8>(repeating: 0)
    public internal(set) var count = 0
    let index = FieldNameIndex.shared

    /// A table with room for `capacity` fields, at most 256.
    public init(capacity: Int = 100) {
        precondition((0...256).contains(capacity))
        entries = UniqueArray(repeating: Field(name: Slice(), value: Slice(), known: .other), count: capacity)
    }

    public var capacity: Int { entries.count }

    @inlinable public subscript(_ index: Int) -> Field {
        precondition(index < count)
        return entries[index]
    }

    /// Whether a field called `name` is there; for `other`, whether any is that is not recognised.
    @inlinable public func contains(_ name: FieldName) -> Bool { present & name.bit != 0 }

    /// Whether there is more than one field called `name`.
    @inlinable public func isRepeated(_ name: FieldName) -> Bool { repeated & name.bit != 0 }

    /// The index of the first field called `name`.
    @inlinable public func first(_ name: FieldName) -> Int? {
        contains(name) ? Int(firsts[Int(name.rawValue)]) : nil
    }

    /// How many fields are called `name`.
    public func occurrences(of name: FieldName) -> Int {
        guard isRepeated(name) else { return contains(name) ? 1 : 0 }
        var found = 0
        for index in 0..<count where entries[index].known == name { found += 1 }
        return found
    }

    mutating func removeAll() {
        count = 0
        present = 0
        repeated = 0
    }

    /// Takes the fields of `other`, whose content is undefined until it is emptied.
    mutating func take(_ other: inout FieldTable) {
        swap(&entries, &other.entries)
        present = other.present
        repeated = other.repeated
        firsts = other.firsts
        count = other.count
    }

    /// Keeps the fields that pass, in order.
    package mutating func keep(where passes: (Field) -> Bool) {
        let former = count
        removeAll()
        for index in 0..<former where passes(entries[index]) { append(entries[index]) }
    }

    /// Adds a field; there must be room.
    @inline(__always)
    mutating func append(_ field: Field) {
        entries[count] = field
        let bit = field.known.bit
        if present & bit == 0 { firsts[Int(field.known.rawValue)] = UInt8(truncatingIfNeeded: count) }
        repeated |= present & bit
        present |= bit
        count &+= 1
    }
}
