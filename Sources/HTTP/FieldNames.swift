import Wire

/// Names of fields that a message loses, beside those of `FieldName`: in any case, and with any punctuation for `-`, because CGI-like
/// servers take `x_user.id` for `X-User-Id`.
public final class FieldNames: Sendable {
    package let names: [String]
    private let folded: [[UInt8]]
    /// Bit n: a name of n bytes, or of 63 and more, is among them.
    private let lengths: UInt64

    package init(_ names: [String]) {
        self.names = names
        folded = names.map { $0.utf8.map(Self.folded) }
        lengths = folded.reduce(0) { $0 | 1 << UInt64(min($1.count, 63)) }
    }

    private static func folded(_ byte: UInt8) -> UInt8 {
        byte.isASCIILetter || byte.isASCIIDigit ? byte.lowercasedASCII : UInt8(ascii: "-")
    }

    /// Whether this is one of them.
    public func contains(_ name: RawSpan) -> Bool {
        guard lengths >> UInt64(min(name.byteCount, 63)) & 1 != 0 else { return false }
        for own in folded where own.count == name.byteCount {
            var offset = 0
            while offset < own.count, own[offset] == Self.folded(name[offset]) { offset += 1 }
            if offset == own.count { return true }
        }
        return false
    }
}
