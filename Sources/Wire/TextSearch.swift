/// A text in another, character by character. The standard library's own searches come with its engine of regular expressions, which is a
/// sixteenth of the program, so shipped targets do without that module. Tests have both, and these are disfavored there.
extension StringProtocol {
    /// Where `text`, which is not empty, stands first; nil if it does not.
    @_disfavoredOverload package func firstRange(of text: some StringProtocol) -> Range<Index>? {
        guard let first = text.first else { return nil }
        var start = startIndex
        while let found = self[start...].firstIndex(of: first) {
            if self[found...].starts(with: text) { return found..<index(found, offsetBy: text.count) }
            start = index(after: found)
        }
        return nil
    }

    @_disfavoredOverload package func contains(_ text: some StringProtocol) -> Bool { firstRange(of: text) != nil }

    /// With `other` in the place of each `text`.
    @_disfavoredOverload package func replacing(_ text: some StringProtocol, with other: some StringProtocol) -> String {
        var out = ""
        var rest = self[...]
        while let found = rest.firstRange(of: text) {
            out += rest[..<found.lowerBound]
            out += other
            rest = rest[found.upperBound...]
        }
        return out + rest
    }
}
