/// What is wrong with a text and what would be right, as the words behind the text itself:
/// `is no duration, write one like 10s`. Never holds the text.
package struct ParseError: Error, Hashable, Sendable {
    package let text: String
    package init(_ text: String) { self.text = text }
}
