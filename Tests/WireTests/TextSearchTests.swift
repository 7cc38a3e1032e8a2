import Testing
import Wire

@Suite struct TextSearchTests {
    @Test(
        arguments: [
            ("", "a", nil), ("a", "a", 0), ("ba", "a", 1), ("aab", "ab", 1), ("abab", "ab", 0), ("http://x", "://", 4),
            ("a:/b://", "://", 4),
            ("ab", "abc", nil), ("\r\n", "\n", nil), ("a\r\nb\n", "\n", 3), ("e\u{301}", "\u{E9}", 0), ("e\u{301}", "e", nil),
            ("a", "", nil),
        ] as [(String, String, Int?)])
    func aTextIsFoundByItsCharacters(_ text: String, _ part: String, _ place: Int?) {
        let found = text.firstRange(of: part)
        #expect(found.map { text.distance(from: text.startIndex, to: $0.lowerBound) } == place)
        #expect(found.map { text[$0] == part } ?? true)
        #expect(text.contains(part) == (place != nil))
    }

    @Test(arguments: [
        ("a-b-c", "-", "_", "a_b_c"), ("aaa", "aa", "b", "ba"), ("'", "'", "''", "''"), ("a", "b", "c", "a"), ("", "a", "b", ""),
        ("1\r\n2\n3", "\n", "\r\n", "1\r\n2\r\n3"), ("ab", "ab", "", ""), ("a", "", "b", "a"),
    ])
    func eachPlaceIsReplacedOnce(_ text: String, _ part: String, _ other: String, _ out: String) {
        #expect(text.replacing(part, with: other) == out)
    }
}
