import HTTP
import Testing
import Wire

@testable import Gate

/// Entity tags of compressed answers, there and back.
@Suite struct CodedTagTests {
    private func written(_ tag: String, _ coding: ContentCoding) -> String {
        var out = ByteBuffer()
        coding.write(Array(tag.utf8).rawBytes, into: &out)
        return out.readable.text
    }

    private func restored(_ list: String) -> String {
        var out = ByteBuffer()
        ContentCoding.restoreTags(Array(list.utf8).rawBytes, into: &out)
        return out.readable.text
    }

    @Test func aTagHasTheMarkOfItsCodingAndComesBack() {
        let tags = [("\"a\"", "W/\"a-gzip\""), ("W/\"a\"", "W/\"a-gzip\""), ("\"\"", "W/\"-gzip\""), ("a", ""), ("\"a", "")]
        for (tag, marked) in tags { #expect(written(tag, .gzip) == marked) }
        let lists = [
            ("W/\"a-zstd\"", "W/\"a-zstd\", \"a\", W/\"a\""), ("\"a-gzip\"", "\"a-gzip\""), ("W/\"a\",\"b\"", "W/\"a\", \"b\""),
            ("W/\"-br\" , \"c\"", "W/\"-br\", \"\", W/\"\", \"c\""), ("W/\"gzip\"", "W/\"gzip\""), ("*", ""), ("", ""),
            ("W/\"a-gzip-br\"", "W/\"a-gzip-br\", \"a-gzip\", W/\"a-gzip\""),
        ]
        for (list, expected) in lists { #expect(restored(list) == expected) }
        let codings = ["\"a\", W/\"b-br\"", "W/\"a-gzip\"", "\"a-gzip\"", "*"].map { ContentCoding.ofTags(Array($0.utf8).rawBytes) }
        #expect(codings == [.br, .gzip, nil, nil])
    }

    @Test func theTagOfATierIsFoundBehindTheMark() throws {
        let plan = FilterPlan([try FilterPath(parsing: "tier")], tiers: .standard, isStrict: true, isShadow: false)
        var tag = ByteBuffer()
        plan.write(Array("\"v1\"".utf8).rawBytes, for: .lowest, into: &tag)
        let marked = written(tag.readable.text, .zstd)
        var out = ByteBuffer()
        let isKnown = plan.restore(Array("\(marked), W/\"x-zstd\"".utf8).rawBytes, for: .lowest, keepsOthers: false, into: &out)
        #expect(isKnown && out.readable.text == "\"v1\"")
    }
}
