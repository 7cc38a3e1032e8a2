import Wire

/// The index of one JSON object's members: names and slices of the text. Refuses duplicate names.
struct MemberIndex: ~Copyable {
    private struct Member {
        /// A hash of the unescaped name: different fingerprints mean different names.
        var fingerprint: UInt64
        /// A slice of `plainNames` if the name has escapes, else of the text.
        var name: Slice
        var isUnescaped: Bool
        var value: JSONMembers.Value
    }

    /// The maximum number of members. The quadratic search for duplicates stays within microseconds.
    static let maximumMembers = 256

    private var members: [Member] = []
    private var plainNames = ByteBuffer()

    mutating func removeAll() {
        members.removeAll(keepingCapacity: true)
        plainNames.removeAll()
    }

    /// Indexes the object in `text`.
    mutating func load(_ text: borrowing ByteBuffer, takesHalves: Bool) throws(JSONMembers.Fault) {
        removeAll()
        do throws(JSONMembers.Fault) {
            var reader = JSONReader(text.readable, maximumDepth: 32, takesHalves: takesHalves)
            guard Self.next(&reader) == .beginObject else { throw .malformed }
            while try readMember(&reader) {}
            guard Self.next(&reader) == .end else { throw .malformed }
        } catch {
            removeAll()
            throw error
        }
    }

    func value(of name: RawSpan, in json: RawSpan) -> JSONMembers.Value? {
        let fingerprint = Self.fingerprint(name)
        // By index: an iterator would retain and release the array for each lookup.
        for index in members.indices where members[index].fingerprint == fingerprint {
            if bytes(of: members[index].name, members[index].isUnescaped, json).equals(name) {
                return members[index].value
            }
        }
        return nil
    }

    /// Indexes the next member; false at the object's end.
    private mutating func readMember(_ reader: inout JSONReader) throws(JSONMembers.Fault) -> Bool {
        switch Self.next(&reader) {
        case .key(let name)?:
            try add(name, &reader)
            return true
        case .endObject?: return false
        case nil, .beginObject?, .beginArray?, .endArray?, .string?, .number?, .bool?, .null?, .end?: throw .malformed
        }
    }

    private mutating func add(_ name: JSONText, _ reader: inout JSONReader) throws(JSONMembers.Fault) {
        guard members.count < Self.maximumMembers else { throw .malformed }
        var plain = name.slice
        if name.hasEscapes {
            let start = plainNames.count
            reader.unescape(name, into: &plainNames)
            plain = Slice(start: start, count: plainNames.count - start)
        }
        let fingerprint = try newFingerprint(plain, name.hasEscapes, reader.bytes)
        let value = try Self.readValue(&reader)
        members.append(Member(fingerprint: fingerprint, name: plain, isUnescaped: name.hasEscapes, value: value))
    }

    /// The fingerprint of a new name; throws if a member has that name already.
    private func newFingerprint(
        _ name: Slice, _ isUnescaped: Bool, _ json: RawSpan
    ) throws(JSONMembers.Fault) -> UInt64 {
        let bytes = bytes(of: name, isUnescaped, json)
        guard value(of: bytes, in: json) == nil else { throw .duplicateName }
        return Self.fingerprint(bytes)
    }

    @_lifetime(borrow self, copy json)
    private func bytes(of name: Slice, _ isUnescaped: Bool, _ json: RawSpan) -> RawSpan {
        if isUnescaped { return plainNames.readable[name] }
        return json[name]
    }

    private static func readValue(_ reader: inout JSONReader) throws(JSONMembers.Fault) -> JSONMembers.Value {
        switch next(&reader) {
        case .string(let text)?: return text.hasHalves ? .halved : .string(text)
        case .number(let slice)?: return .number(slice)
        case .bool(let value)?: return .bool(value)
        case .null?: return .null
        case .beginArray?: return .array(try readRest(&reader))
        case .beginObject?: return .object(try readRest(&reader))
        case nil, .key?, .endObject?, .endArray?, .end?: throw .malformed
        }
    }

    /// Skips to the end of the array or object that has just begun; returns its slice, brackets included.
    private static func readRest(_ reader: inout JSONReader) throws(JSONMembers.Fault) -> Slice {
        let start = reader.offset - 1
        let outer = reader.depth - 1
        while reader.depth > outer {
            guard next(&reader) != nil else { throw .malformed }
        }
        return Slice(start: start, count: reader.offset - start)
    }

    private static func next(_ reader: inout JSONReader) -> JSONToken? {
        do throws(JSONFault) { return try reader.next() } catch { return nil }
    }

    /// A hash of the length and the first and last eight bytes.
    private static func fingerprint(_ name: RawSpan) -> UInt64 {
        let count = name.byteCount
        var word = UInt64(truncatingIfNeeded: count) &* 0x9E37_79B9_7F4A_7C15
        if count >= 8 { return word ^ name.load64(0) ^ name.load64(count - 8).byteSwapped }
        for offset in 0..<count { word ^= UInt64(name[offset]) << UInt64(8 * offset) }
        return word
    }
}
