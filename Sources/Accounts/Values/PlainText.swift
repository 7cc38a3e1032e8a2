@_spi(_Unicode) private import Swift

/// A text that cannot be the email, phone number, name or actor that it should be.
package struct MalformedText: Error, Equatable, Sendable {}

/// Normalisation of the texts that people enter about themselves.
enum PlainText {
    /// The text without surrounding white space, in NFC; nil if nothing is left. Throws if it has control characters or more
    /// than `limit` bytes.
    static func clean(_ text: String, limit: Int) throws(MalformedText) -> String? {
        guard text.utf8.count <= 4 * limit else { throw MalformedText() }
        let scalars = text.unicodeScalars
        guard let first = scalars.firstIndex(where: { !$0.properties.isWhitespace }),
            let last = scalars.lastIndex(where: { !$0.properties.isWhitespace })
        else { return nil }
        let composed = composed(String(scalars[first...last]))
        guard composed.utf8.count <= limit, !composed.unicodeScalars.contains(where: isControl) else {
            throw MalformedText()
        }
        return composed
    }

    /// A client's `User-Agent`, without control characters and cut at 256 bytes; nil if nothing is left.
    static func label(_ text: String) -> String? {
        var label = ""
        for scalar in text.unicodeScalars where !isControl(scalar) {
            guard label.utf8.count + 4 <= 256 else { break }
            label.unicodeScalars.append(scalar)
        }
        return label.isEmpty ? nil : label
    }

    /// A device's name as its app sends it, without control characters and cut at 64 characters; nil if nothing is left.
    static func deviceName(_ text: String) -> String? { label(text).map { String($0.prefix(64)) } }

    /// The form in which texts are compared case-insensitively: lower case, in NFC.
    static func folded(_ text: String) -> String { composed(text.lowercased()) }

    /// The text in NFC. Without Foundation the standard library offers that only behind this SPI.
    static func composed(_ text: String) -> String {
        var out = String.UnicodeScalarView()
        out.append(contentsOf: text._nfc)
        return String(out)
    }

    static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: true
        default: false
        }
    }
}
