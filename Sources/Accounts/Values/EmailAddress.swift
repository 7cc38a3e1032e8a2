/// An email address: trimmed, in NFC, its domain in lower case and without full-width forms, 254 bytes at most.
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
        let domain = PlainText.folded(try Self.plain(domain: parts[1]))
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

    /// A domain with the dots and letters of full width that people's keyboards write as the plain ones which every mail server reads them
    /// for (UTS 46, section 4); throws for other forms of compatibility, such as ligatures and letters in circles.
    private static func plain(domain: String) throws(MalformedText) -> String {
        var plain = String.UnicodeScalarView()
        for scalar in domain.unicodeScalars {
            switch scalar.value {
            case 0x3002, 0xFF0E, 0xFF61: plain.append(".")
            case 0xFF01...0xFF5E: plain.append(Unicode.Scalar(UInt8(scalar.value - 0xFEE0)))
            case 0xAA, 0xB2, 0xB3, 0xB9, 0xBA, 0x2070...0x209F, 0x2100...0x218F, 0x2460...0x24FF, 0x3200...0x33FF, 0xFB00...0xFB06,
                0xFE50...0xFE6F, 0xFF5F...0xFFEF, 0x1D400...0x1D7FF, 0x1F100...0x1F1FF:
                throw MalformedText()
            default: plain.append(scalar)
            }
        }
        // The plain form of a special is one.
        guard !plain.contains(where: { $0 == "@" || isForeign($0) }) else { throw MalformedText() }
        return String(plain)
    }

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
