import Wire

/// A CBOR value (RFC 8949) in the form that CTAP2 prescribes for authenticators: lengths are definite, there are no tags, and a map's keys
/// are integers or texts, none of them twice.
enum CBOR: Equatable, Sendable {
    enum Key: Hashable, Sendable {
        case integer(Int64)
        case text(String)
    }

    case integer(Int64)
    case bytes([UInt8])
    case text(String)
    case array([CBOR])
    case map([Key: CBOR])
    /// A boolean, null or floating-point number, which no rule here looks at.
    case other

    /// Parses exactly one value; nil for anything else.
    init?(_ bytes: [UInt8]) {
        var reader = CBORReader(bytes)
        guard let value = reader.value(), reader.isAtEnd else { return nil }
        self = value
    }

    subscript(_ key: Int64) -> CBOR? { if case .map(let members) = self { members[.integer(key)] } else { nil } }
    subscript(_ key: String) -> CBOR? { if case .map(let members) = self { members[.text(key)] } else { nil } }

    var bytes: [UInt8]? { if case .bytes(let bytes) = self { bytes } else { nil } }
}

/// A reader of bytes from an authenticator: CBOR values, and the fields of fixed length around them. Nothing is reserved for a length
/// that the input does not have.
struct CBORReader {
    /// CTAP2 allows four levels; a statement of attestation lies two levels deep.
    private static let maximumDepth = 8

    private let input: [UInt8]
    private var offset = 0

    init(_ input: [UInt8]) { self.input = input }

    var isAtEnd: Bool { offset == input.count }

    /// The next `count` bytes; nil if there are fewer.
    mutating func take(_ count: UInt64) -> [UInt8]? {
        guard count <= UInt64(input.count - offset) else { return nil }
        defer { offset += Int(count) }
        return Array(input[offset..<offset + Int(count)])
    }

    /// A number of `count` bytes, at most eight, big-endian.
    mutating func number(_ count: UInt64) -> UInt64? { take(count)?.reduce(0) { $0 << 8 | UInt64($1) } }

    /// The next value; nil if it is not in the form of CTAP2. A length may be written longer than needed, since values are compared, not
    /// their bytes.
    mutating func value(depth: Int = 0) -> CBOR? {
        guard depth < Self.maximumDepth, let head = number(1), let argument = argument(head & 0x1F) else { return nil }
        switch head >> 5 {
        case 0: return Int64(exactly: argument).map { .integer($0) }
        case 1: return Int64(exactly: argument).map { .integer(-1 - $0) }
        case 2: return take(argument).map { .bytes($0) }
        case 3: return take(argument).flatMap { String(validating: $0, as: UTF8.self) }.map { .text($0) }
        case 4: return elements(argument, depth)
        case 5: return members(argument, depth)
        case 7: return .other
        case _: return nil  // a tag
        }
    }

    /// The argument of a head whose lower five bits are `information`; nil for an indefinite length and for what is reserved.
    private mutating func argument(_ information: UInt64) -> UInt64? {
        switch information {
        case 0..<24: information
        case 24...27: number(1 << (information - 24))
        case _: nil
        }
    }

    private mutating func elements(_ count: UInt64, _ depth: Int) -> CBOR? {
        var elements: [CBOR] = []
        for _ in 0..<count {
            guard let element = value(depth: depth + 1) else { return nil }
            elements.append(element)
        }
        return .array(elements)
    }

    private mutating func members(_ count: UInt64, _ depth: Int) -> CBOR? {
        var members: [CBOR.Key: CBOR] = [:]
        for _ in 0..<count {
            let key: CBOR.Key
            switch value(depth: depth + 1) {
            case .integer(let number)?: key = .integer(number)
            case .text(let text)?: key = .text(text)
            case .bytes?, .array?, .map?, .other?, nil: return nil
            }
            guard let value = value(depth: depth + 1), members.updateValue(value, forKey: key) == nil else { return nil }
        }
        return .map(members)
    }
}
