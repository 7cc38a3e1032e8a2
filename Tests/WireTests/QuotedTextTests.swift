import Testing
import Wire

@Suite struct QuotedTextTests {
    @Test(arguments: [
        ("", "\"\""), ("a b", "\"a b\""), ("a\u{1B}[2J\nb", "\"a\u{FFFD}[2J\u{FFFD}b\""),
        (String(repeating: "x", count: 80), "\"\(String(repeating: "x", count: 80))\""),
        (String(repeating: "ü", count: 81), "\"\(String(repeating: "ü", count: 80))…\""),
        ("a\u{9B}2J\u{202E}b\u{2066}c\u{200F}\u{2028}é🙂", "\"a\u{FFFD}2J\u{FFFD}b\u{FFFD}c\u{FFFD}\u{FFFD}é🙂\""),
        ("http://user:secret@host:1", "\"http://***@host:1\""), ("jwks=user:secret@host", "\"jwks=***@host\""),
        ("user:s@cret@host", "\"***@host\""),
        ("redis://\(String(repeating: "p", count: 90)):secret@h", "\"redis://***@h\""), ("ada@example.org", "\"ada@example.org\""),
        ("password@/api", "\"password@/api\""),
        (String(repeating: "x", count: 200_000), "\"\(String(repeating: "x", count: 80))…\""),
    ])
    func untrustedTextIsQuotedAndCut(_ text: String, _ shown: String) { #expect(quoted(text) == shown) }
}
