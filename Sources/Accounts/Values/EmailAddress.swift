/// An email address: trimmed, in NFC, its domain in lower case, 254 bytes at most.
package struct EmailAddress: Sendable, Hashable {
    /// As it is shown and written to.
    package let text: String
    /// What addresses are compared by: the text in lower case.
    package let key: String

    /// A fault for what is no address: not just one `@`, nothing before it, an empty label behind it, too long, or with
    /// characters that cannot stand in one or that are not shown.
    package init(_ raw: String) throws(AccountError) {
        guard case .success(let clean?) = PlainText.clean(raw, limit: Self.longest),
            !clean.unicodeScalars.contains(where: Self.isForeign)
        else { throw .malformedEmail }
        let parts = clean.unicodeScalars.split(separator: "@", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, !parts[0].isEmpty else { throw .malformedEmail }
        let domain = PlainText.folded(parts[1])
        let labels = domain.unicodeScalars.split(separator: ".", omittingEmptySubsequences: false)
        let text = "\(parts[0])@\(domain)"
        guard !labels.contains(where: \.isEmpty), text.utf8.count <= Self.longest else { throw .malformedEmail }
        self.init(stored: text)
    }

    /// An address that was one when it was stored.
    package init(stored text: String) {
        self.text = text
        key = PlainText.folded(text)
    }

    /// The part before the `@`.
    package var localPart: String { text.lastIndex(of: "@").map { String(text[..<$0]) } ?? text }

    private static let longest = 254

    /// White space, the specials of RFC 5322 §3.2.3 but `@` and `.`, which no address holds unquoted, and characters that
    /// are not shown: two addresses that look the same must be the same.
    private static func isForeign(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "(", ")", "<", ">", "[", "]", ":", ";", ",", "\\", "\"": return true
        case let scalar:
            let properties = scalar.properties
            return properties.isWhitespace || properties.isDefaultIgnorableCodePoint || properties.generalCategory == .format
        }
    }
}
