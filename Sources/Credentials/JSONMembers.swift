import Wire

/// The members of one JSON object without duplicate names: a token's header, its claims, or a JWK.
///
/// It owns the text and is reused for the next object, so that it stops allocating once it has grown. After a fault it is empty.
struct JSONMembers: ~Copyable {
    /// A member's value; slices refer to the object's text.
    enum Value {
        case string(JSONText)
        /// A string with an unpaired surrogate (RFC 8259, 8.2). It compares unequal to every text.
        case halved
        case number(Slice)
        case bool(Bool)
        case null
        case array(Slice)
        case object(Slice)
    }

    enum Fault: Error {
        /// Not canonical base64url, invalid JSON, more than 32 levels, no object, or more than 256 members.
        case malformed
        case duplicateName
    }

    private var text = ByteBuffer()
    private var index = MemberIndex()

    /// Loads the object in `json`.
    mutating func load(_ json: RawSpan) throws(Fault) {
        text.removeAll()
        text.append(json)
        try index.load(text, takesHalves: false)
    }

    /// Loads the object at `slice` of another one's text.
    mutating func load(_ slice: Slice, of other: borrowing JSONMembers) throws(Fault) { try load(other.source(slice)) }

    /// Loads the object whose JSON is `letters` in base64url. Half a surrogate pair in a string is malformed unless `takesHalves`.
    mutating func load(base64URL letters: RawSpan, takesHalves: Bool = false) throws(Fault) {
        text.removeAll()
        index.removeAll()
        guard Base64URL.decode(letters, into: &text) else { throw .malformed }
        try index.load(text, takesHalves: takesHalves)
    }

    /// The value of a member; names are case-sensitive.
    subscript(_ name: RawSpan) -> Value? { index.value(of: name, in: text.readable) }
    subscript(_ name: StaticString) -> Value? { self[name.rawBytes] }

    /// The JSON at `slice`.
    @_lifetime(borrow self)
    func source(_ slice: Slice) -> RawSpan { text.readable[slice] }

    /// Whether `string`, unescaped, is `other`.
    func text(_ string: JSONText, equals other: RawSpan) -> Bool {
        string.hasEscapes
            ? JSONReader(text.readable).text(string, equals: other) : text.readable[string.slice].equals(other)
    }

    /// Appends `string`, unescaped, to `out`.
    func append(_ string: JSONText, to out: inout ByteBuffer) {
        if string.hasEscapes {
            JSONReader(text.readable).unescape(string, into: &out)
        } else {
            out.append(text.readable[string.slice])
        }
    }

    /// The string value of member `name`; nil if it is absent or no string.
    func string(_ name: StaticString) -> String? {
        guard case .string(let string)? = self[name] else { return nil }
        return JSONReader(text.readable).string(string)
    }

    /// The number at `slice`, rounded down; nil if it does not fit.
    func floor(_ slice: Slice) -> Int64? { JSONReader(text.readable).floor(slice) }
}
