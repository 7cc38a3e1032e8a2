/// Untrusted text made safe for a terminal: each control character, line feeds included, becomes U+FFFD.
package func visible(_ text: some StringProtocol) -> String { visible(text.unicodeScalars) }

private func visible(_ scalars: some Sequence<Unicode.Scalar>) -> String {
    var clean = ""
    for scalar in scalars {
        let isVisible = scalar.value >= 0x20 && !(0x7F...0x9F).contains(scalar.value)
        clean.unicodeScalars.append(isVisible ? scalar : "\u{FFFD}")
    }
    return clean
}

/// Untrusted text for a message: as `visible`, in quotes, cut after 80 characters.
package func quoted(_ text: some StringProtocol) -> String {
    let clean = visible(text.unicodeScalars.prefix(81))
    return clean.unicodeScalars.count > 80 ? "\"\(String(clean.unicodeScalars.prefix(80)))…\"" : "\"\(clean)\""
}

/// A number with its noun: `1 file`, `2 files`.
package func counted(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }

/// A list of words joined as `a, b or c`.
package func alternatives(_ words: [String]) -> String {
    guard words.count > 1, let last = words.last else { return words.first ?? "" }
    return "\(words.dropLast().joined(separator: ", ")) or \(last)"
}
