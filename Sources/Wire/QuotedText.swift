extension Unicode.Scalar {
    /// Whether it moves or reverses the text around it in a terminal or a page: the controls of C0 and C1, line separators, and the
    /// controls of bidirectional text (UAX #9, 2).
    package var isControl: Bool {
        switch value {
        case 0..<0x20, 0x7F...0x9F, 0x061C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}

/// Untrusted text made safe for a terminal: each control character, line feeds included, becomes U+FFFD.
package func visible(_ text: some StringProtocol) -> String { visible(text.unicodeScalars) }

private func visible(_ scalars: some Sequence<Unicode.Scalar>) -> String {
    var clean = ""
    for scalar in scalars {
        clean.unicodeScalars.append(scalar.isControl ? "\u{FFFD}" : scalar)
    }
    return clean
}

/// Untrusted text for a message: as `visible`, in quotes, without the secrets of a URL, cut after 80 characters.
package func quoted(_ text: some StringProtocol) -> String {
    let clean = visible(maskingURLSecrets(maskingUser(String(text))).unicodeScalars.prefix(81))
    return clean.unicodeScalars.count > 80 ? "\"\(String(clean.unicodeScalars.prefix(80)))…\"" : "\"\(clean)\""
}

/// `text` with `***` for a user with a password before an `@`, where the scheme of a URL is missing.
private func maskingUser(_ text: String) -> String {
    guard let at = text.lastIndex(of: "@"), !text.contains("://") else { return text }
    let start = text[..<at].lastIndex(where: { " =\t,\"'/".contains($0) }).map(text.index(after:)) ?? text.startIndex
    return text[start..<at].contains(":") ? "\(text[..<start])***\(text[at...])" : text
}

/// A number with its noun: `1 file`, `2 files`.
package func counted(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }

/// A list of words joined as `a, b or c`.
package func alternatives(_ words: [String]) -> String {
    guard words.count > 1, let last = words.last else { return words.first ?? "" }
    return "\(words.dropLast().joined(separator: ", ")) or \(last)"
}
