import Testing
import Wire

@Suite struct PercentEncodingTests {
    @Test func allButUnreservedCharactersAreEncodedAndComeBack() {
        #expect(PercentEncoding.encode("aZ09-._~") == "aZ09-._~")
        #expect(PercentEncoding.encode("a b/ü:%&+\u{1}") == "a%20b%2F%C3%BC%3A%25%26%2B%01")
        #expect(PercentEncoding.decode(PercentEncoding.encode("a b/ü:%&+").utf8).map { String(decoding: $0, as: UTF8.self) } == "a b/ü:%&+")
    }

    @Test(arguments: [
        ("", ""), ("plain+text", "plain+text"), ("a%40b", "a@b"), ("%c3%A9", "é"), ("%25%32%35", "%25"), ("%", nil), ("%4", nil),
        ("%zz", nil), ("a%4", nil), ("%+4", nil),
    ])
    func encodingsAreDecodedOnce(_ text: String, _ decoded: String?) {
        #expect(PercentEncoding.decode(text.utf8) == decoded.map { Array($0.utf8) })
    }
}
