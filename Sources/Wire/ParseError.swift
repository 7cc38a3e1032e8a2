/// A parse error as a predicate that follows the quoted text in a message: `is no duration, write one like 10s`. Never contains
/// the text itself, which may be a secret.
package struct ParseError: Error, Hashable, Sendable {
    /// The predicate: the problem, then what would be right.
    package let text: String
    package init(_ text: String) { self.text = text }
}
