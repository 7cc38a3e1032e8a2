import Testing
import Wire

@Suite struct JSONWriterTests {
    @Test func commasStandWhereTheyMust() {
        var out = ByteBuffer()
        out.append("> " as StaticString)
        write(name: Array("n\"".utf8).rawBytes, into: &out)
        #expect(out.text == #"> {"a":[],"b":[1,-2,[true,false],{"c":null}],"name":"n\"","u":18446744073709551615}"#)
    }

    private func write(name: RawSpan, into out: inout ByteBuffer) {
        JSONWriter.append(to: &out) { json in
            json.beginObject()
            json.key("a" as StaticString)
            json.beginArray()
            json.endArray()
            json.key("b" as StaticString)
            json.beginArray()
            json.number(1)
            json.number(-2)
            json.beginArray()
            json.bool(true)
            json.bool(false)
            json.endArray()
            json.beginObject()
            json.key("c" as StaticString)
            json.null()
            json.endObject()
            json.endArray()
            json.field("name", name)
            json.key("u" as StaticString)
            json.number(UInt64.max)
            json.endObject()
        }
    }

    @Test(arguments: [
        ("", #""""#), ("plain text", #""plain text""#), ("a\"b\\c/d", #""a\"b\\c/d""#),
        ("\n\r\t", #""\n\r\t""#), ("\u{0}\u{8}\u{1f}\u{7f}", "\"\\u0000\\u0008\\u001f\u{7f}\""),
        ("naïve 漢 🙂", "\"naïve 漢 🙂\""), ("</script>", #""</script>""#),
    ])
    func stringsAreEscaped(_ plain: String, _ spelled: String) {
        #expect(escaped(plain.utf8Bytes) == spelled)
    }

    @Test func bytesThatAreNoUTF8BecomeReplacementCharacters() {
        #expect(escaped([0x61, 0xFF, 0x62]) == "\"a\u{FFFD}b\"")
        #expect(escaped([0xC0, 0xAF]) == "\"\u{FFFD}\u{FFFD}\"")
        #expect(escaped([0xED, 0xA0, 0x80]) == "\"\u{FFFD}\u{FFFD}\u{FFFD}\"")
        #expect(escaped([0xF0, 0x9F, 0x99]) == "\"\u{FFFD}\u{FFFD}\u{FFFD}\"")
    }

    @Test func everyStringThatIsWrittenReadsBackAsItself() throws {
        var random = SplitMix64(seed: 3)
        for _ in 0..<20_000 {
            let bytes = (0..<Int.random(in: 0...40, using: &random)).map { _ in
                Bool.random(using: &random) ? UInt8.random(in: 0...255, using: &random) : UInt8(ascii: "x")
            }
            let written = escaped(bytes).utf8Bytes
            var reader = JSONReader(written.rawBytes)
            guard case .string(let text) = try reader.next() else { Issue.record("no string"); return }
            #expect(reader.string(text) == String(decoding: bytes, as: UTF8.self) || String(validating: bytes, as: UTF8.self) == nil)
        }
    }

    private func escaped(_ bytes: [UInt8]) -> String {
        var out = ByteBuffer()
        appendJSONString(bytes.rawBytes, into: &out)
        return out.text
    }
}
