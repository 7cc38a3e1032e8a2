@_spi(_Unicode) private import Swift

/// Text that people write about themselves, brought into one form.
enum PlainText {
    /// Without white space around it and in Unicode's composed form (NFC); nil if nothing is left. A fault with control
    /// characters in it, or above `limit` bytes.
    static func clean(_ text: String, limit: Int) -> Result<String?, Unfit> {
        guard text.utf8.count <= 4 * limit else { return .failure(Unfit()) }
        let scalars = text.unicodeScalars
        guard let first = scalars.firstIndex(where: { !$0.properties.isWhitespace }),
            let last = scalars.lastIndex(where: { !$0.properties.isWhitespace })
        else { return .success(nil) }
        let composed = composed(String(scalars[first...last]))
        guard composed.utf8.count <= limit, !composed.unicodeScalars.contains(where: isControl) else {
            return .failure(Unfit())
        }
        return .success(composed)
    }

    struct Unfit: Error {}

    /// The beginning of what a program calls itself, at most 256 bytes, without control characters; nil if nothing is
    /// left.
    static func label(_ text: String) -> String? {
        var label = ""
        for scalar in text.unicodeScalars where !isControl(scalar) {
            guard label.utf8.count + 4 <= 256 else { break }
            label.unicodeScalars.append(scalar)
        }
        return label.isEmpty ? nil : label
    }

    /// The form in which texts are compared without regard to case.
    static func folded(_ text: String) -> String { composed(text.lowercased()) }

    /// The standard library composes text to compare it, and hands that out for no other use without Foundation.
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
