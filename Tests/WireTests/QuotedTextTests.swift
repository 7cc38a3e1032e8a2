import Testing
import Wire

@Suite struct QuotedTextTests {
    @Test(arguments: [
        ("", "\"\""), ("a b", "\"a b\""), ("a\u{1B}[2J\nb", "\"a\u{FFFD}[2J\u{FFFD}b\""),
        (String(repeating: "x", count: 80), "\"\(String(repeating: "x", count: 80))\""),
        (String(repeating: "ü", count: 81), "\"\(String(repeating: "ü", count: 80))…\""),
        (String(repeating: "x", count: 200_000), "\"\(String(repeating: "x", count: 80))…\""),
    ])
    func untrustedTextIsQuotedAndCut(_ text: String, _ shown: String) { #expect(quoted(text) == shown) }
}
