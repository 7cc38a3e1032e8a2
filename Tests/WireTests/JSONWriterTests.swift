import Testing
import Wire

@Suite struct JSONWriterTests {
    @Test func commasStandWhereTheyMust() {
        var out = ByteBuffer()
        out.append("> " as StaticString)
        write(name: Array("n\"".utf8).rawBytes, into: &out)
        #expect(out.text == #"> {"a":[],"b":[1,-2,[true,false],{"c":null}],"name":"n\"","u":18446744073709551615}"#)
    }

    /// Logs are read in terminals, which obey some of these.
    @Test func controlsOfEveryKindAreEscaped() throws {
        let cases: [(String, String)] = [
            ("a\u{1B}[2J", #"a\u001b[2J"#), ("\u{80}\u{9B}\u{9F}\u{A0}", "\\u0080\\u009b\\u009f\u{A0}"),
            ("x\u{202E}y\u{202A}", #"x\u202ey\u202a"#),
            ("\u{2066}\u{2069}\u{206A}", "\\u2066\\u2069\u{206A}"), ("\u{200D}\u{200E}\u{200F}\u{61C}", "\u{200D}\\u200e\\u200f\\u061c"),
            ("\u{2028}\u{2029}", #"\u2028\u2029"#), ("é漢🙂", "é漢🙂"),
        ]
        for (text, escaped) in cases {
            var out = ByteBuffer()
            text.withRawBytes { appendJSONString($0, into: &out) }
            #expect(out.text == "\"\(escaped)\"")
            let bytes = Array(out.text.utf8)
            var reader = JSONReader(bytes.rawBytes)
            if case .string(let found) = try reader.next() {
                #expect(reader.string(found) == text)
            } else {
                Issue.record("\(text) is no string")
            }
        }
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
