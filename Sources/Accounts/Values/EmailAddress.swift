/// An email address: trimmed, in NFC, its domain in lower case, 254 bytes at most.
package struct EmailAddress: Sendable, Hashable {
    /// As it is shown and written to.
    package let text: String
    /// What addresses are compared by: the text in lower case.
    package let key: String

    /// A fault for what is no address: no `@` or nothing on one side of it, too long, or with characters that cannot
    /// stand in one.
    package init(_ raw: String) throws(AccountError) {
        guard case .success(let clean?) = PlainText.clean(raw, limit: Self.longest),
            let at = clean.lastIndex(of: "@"), at > clean.startIndex, clean.index(after: at) < clean.endIndex,
            !clean.unicodeScalars.contains(where: Self.isForeign)
        else { throw .malformedEmail }
        let text = clean[...at] + PlainText.folded(String(clean[clean.index(after: at)...]))
        guard text.utf8.count <= Self.longest else { throw .malformedEmail }
        self.init(stored: String(text))
    }

    /// An address that was one when it was stored.
    package init(stored text: String) {
        self.text = text
        key = PlainText.folded(text)
    }

    /// The part before the `@`.
    package var localPart: String { text.lastIndex(of: "@").map { String(text[..<$0]) } ?? text }

    private static let longest = 254

    /// White space and the marks that surround addresses: none can stand in a header of a mail unquoted.
    private static func isForeign(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "<", ">", ",", ";", "\"": true
        case let scalar: scalar.properties.isWhitespace
        }
    }
}
