import Testing
import Wire

@Suite struct JSONTreeTests {
    private func read(_ text: String) -> JSONTree? { text.withRawBytes { JSONTree($0) } }

    @Test func onlyOneObjectWithoutDuplicatesIsRead() {
        let refused = [
            "", "[]", "1", "\"a\"", "null", "{", "{}{}", "{\"a\":1,\"a\":2}", "{\"a\":{\"b\":1,\"b\":1}}",
            "{\"a\":[{\"b\":1,\"\\u0062\":1}]}",
            "{\"a\":}", "{\"a\":[1,]}", "{\"a\":\(String(repeating: "[", count: 32))\(String(repeating: "]", count: 32))}",
        ]
        #expect(refused.filter { read($0) != nil } == [])
        #expect(read(" {} ") == .object([:]))
    }

    @Test func valuesAreReadByTheirPath() throws {
        let payload = try #require(
            read(
                """
                {"a":{"b":[{"c":"d\\u00e9"},true,null,7.0]},"half":"\\ud800","nul":"a\\u0000","none":"","real":1.5,
                 "id":"0B5E9C6E-5E0A-4F0B-9A53-6F3F2D7C1A11","s":1700000000,"ms":1700000000123,"t":"2023-11-14T22:13:20.5Z"}
                """))
        let b = payload["a"]["b"].elements
        #expect(b.map(\.bool) == [nil, true, nil, nil] && b.map(\.integer) == [nil, nil, nil, 7] && b[0]["c"].text == "dé")
        #expect(payload["half"].text == "\u{FFFD}" && payload["nul"].text == nil && payload["none"].text == "" && payload["none"].id == nil)
        #expect(payload["real"] == .number(nil) && payload["x"]["y"] == .null && payload["x"].elements == [] && payload["a"].names == ["b"])
        #expect(payload["id"].uuid?.text == "0b5e9c6e-5e0a-4f0b-9a53-6f3f2d7c1a11" && payload["half"].uuid == nil)
        #expect(payload["s"].seconds == WallTime(seconds: 1_700_000_000))
        #expect(payload["ms"].milliseconds == WallTime(microseconds: 1_700_000_000_123_000))
        #expect(payload["t"].time == WallTime(microseconds: 1_700_000_000_500_000) && payload["s"].time == nil)
        #expect(JSONTree.text(String(repeating: "a", count: 1_025)).id == nil)
    }

    @Test func timesOutsideFourDigitsOfYearsAreNone() {
        for number in [-1, 253_402_300_800, Int64.max, Int64.min] { #expect(JSONTree.number(number).seconds == nil) }
        #expect(JSONTree.number(253_402_300_800_000).milliseconds == nil && JSONTree.text("1969-12-31T23:59:59Z").time == nil)
        #expect(JSONTree.number(253_402_300_799).seconds != nil && JSONTree.number(0).milliseconds == WallTime(seconds: 0))
    }
}
