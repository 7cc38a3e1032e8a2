import HTTP
import Wire

/// A set of methods as bits: known methods by their raw value, others by a number from `MethodNames`.
package struct MethodSet: Hashable, Sendable {
    package var bits: UInt64

    package init(bits: UInt64 = 0) { self.bits = bits }

    /// Every method that is served. `TRACE` would echo headers such as cookies to scripts; `CONNECT` is refused before
    /// routing.
    package static let all = MethodSet(bits: ~(1 << UInt64(Method.trace.rawValue) | 1 << UInt64(Method.connect.rawValue)))

    package mutating func insert(bit: UInt64) { bits |= 1 << bit }
    package func contains(bit: UInt64) -> Bool { bits & (1 << bit) != 0 }
    package mutating func formUnion(_ other: Self) { bits |= other.bits }
    package var count: Int { bits.nonzeroBitCount }

    /// A byte of a token (RFC 9110, 5.6.2).
    static func isTokenByte(_ byte: UInt8) -> Bool {
        if byte.isASCIILetter || byte.isASCIIDigit { return true }
        switch byte {
        case UInt8(ascii: "!"), UInt8(ascii: "#"), UInt8(ascii: "$"), UInt8(ascii: "%"), UInt8(ascii: "&"),
            UInt8(ascii: "'"), UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "^"), UInt8(ascii: "_"), UInt8(ascii: "`"), UInt8(ascii: "|"), UInt8(ascii: "~"):
            return true
        default:
            return false
        }
    }
}

/// The methods that rules name, each with its bit.
struct MethodNames: Sendable {
    /// Names without a `Method` case; the first has bit `firstOther`.
    private(set) var others: [String] = []
    private static let firstOther = UInt64(Method.allCases.count)
    /// Maximum number of such names.
    static let capacity = 64 - Method.allCases.count

    /// The bit of `name`, assigned if it is new; nil if no bit is left, or the method is not served.
    mutating func intern(_ name: String) -> UInt64? {
        guard !name.isEmpty, name.utf8.allSatisfy(MethodSet.isTokenByte) else { return nil }
        let known = name.withRawBytes { Method($0) }
        if known != .other { return MethodSet.all.contains(bit: UInt64(known.rawValue)) ? UInt64(known.rawValue) : nil }
        if let index = others.firstIndex(of: name) { return Self.firstOther + UInt64(index) }
        guard others.count < Self.capacity else { return nil }
        others.append(name)
        return Self.firstOther + UInt64(others.count - 1)
    }

    /// The bit of a request's method. A method that no rule names has the bit of `Method.other`, which only rules for all
    /// methods contain.
    func bit(_ method: Method, _ text: RawSpan) -> UInt64 {
        guard method == .other else { return UInt64(method.rawValue) }
        for (index, name) in others.enumerated() where name.withRawBytes({ $0.equals(text) }) {
            return Self.firstOther + UInt64(index)
        }
        return UInt64(Method.other.rawValue)
    }

    /// One more than the highest bit in use.
    var endOfBits: UInt64 { Self.firstOther + UInt64(others.count) }

    /// The names of `set`, as `Allow` lists them.
    func write(_ set: MethodSet, into out: inout ByteBuffer) {
        forEachPiece(of: set) { out.append($0) }
    }

    /// Calls `body` with each piece of that list, in order.
    func forEachPiece(of set: MethodSet, _ body: (RawSpan) -> Void) {
        var isFirst = true
        for bit in 0..<endOfBits where bit != UInt64(Method.other.rawValue) && set.contains(bit: bit) {
            if !isFirst { body((", " as StaticString).rawBytes) }
            isFirst = false
            if let known = Method(rawValue: UInt8(bit)) {
                body(known.text.rawBytes)
            } else {
                others[Int(bit - Self.firstOther)].withRawBytes(body)
            }
        }
    }
}
