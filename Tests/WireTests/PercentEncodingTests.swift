import Testing
import Wire

@Suite struct PercentEncodingTests {
    @Test(arguments: [
        ("", ""), ("plain+text", "plain+text"), ("a%40b", "a@b"), ("%c3%A9", "é"), ("%25%32%35", "%25"), ("%", nil), ("%4", nil),
        ("%zz", nil), ("a%4", nil), ("%+4", nil),
    ])
    func encodingsAreDecodedOnce(_ text: String, _ decoded: String?) {
        #expect(PercentEncoding.decode(text.utf8) == decoded.map { Array($0.utf8) })
    }
}
