/// An email address: trimmed, in NFC, its domain in lower case, 254 bytes at most.
package struct EmailAddress: Sendable, Hashable {
    /// The address as it is shown and mailed to.
    package let text: String
    /// The text in lower case, by which addresses are compared.
    package let key: String

    /// Throws unless there is exactly one `@`, with a non-empty part before it and no empty label behind it, and if the text is
    /// too long or has characters that an unquoted address cannot have or that are not displayed.
    package init(_ raw: String) throws(MalformedText) {
        guard let clean = try PlainText.clean(raw, limit: Self.longest),
            !clean.unicodeScalars.contains(where: Self.isForeign)
        else { throw MalformedText() }
        let parts = clean.unicodeScalars.split(separator: "@", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, !parts[0].isEmpty else { throw MalformedText() }
        let domain = PlainText.folded(parts[1])
        let labels = domain.unicodeScalars.split(separator: ".", omittingEmptySubsequences: false)
        let text = "\(parts[0])@\(domain)"
        guard !labels.contains(where: \.isEmpty), text.utf8.count <= Self.longest else { throw MalformedText() }
        self.init(stored: text)
    }

    /// An address from the store; not checked again.
    package init(stored text: String) {
        self.text = text
        key = PlainText.folded(text)
    }

    /// The part before the `@`.
    package var localPart: String { text.lastIndex(of: "@").map { String(text[..<$0]) } ?? text }

    private static let longest = 254

    /// White space, the specials of RFC 5322 §3.2.3 except `@` and `.`, and characters that are not displayed: two addresses
    /// that look equal must be equal.
    private static func isForeign(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "(", ")", "<", ">", "[", "]", ":", ";", ",", "\\", "\"": return true
        case let scalar:
            let properties = scalar.properties
            return properties.isWhitespace || properties.isDefaultIgnorableCodePoint || properties.generalCategory == .format
        }
    }
}
