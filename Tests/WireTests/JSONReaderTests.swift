import Testing
import Wire

@Suite struct JSONReaderTests {
    @Test(arguments: [
        ("null", "null end"), (" true\n", "true end"), ("\t\r\n false ", "false end"), ("0", "0 end"), ("-0", "-0 end"),
        (#""""#, "'' end"), ("[]", "[ ] end"), ("{}", "{ } end"), ("[1]", "[ 1 ] end"), ("[ 1 , 2 ]", "[ 1 2 ] end"),
        (#"{"a":1}"#, "{ a: 1 } end"), (#"{ "a" : [ ] , "b" : { } }"#, "{ a: [ ] b: { } } end"),
        (#"{"a":1,"a":2}"#, "{ a: 1 a: 2 } end"), (#"[[[]],{"":null}]"#, "[ [ [ ] ] { : null } ] end"),
        ("[1e5,1E+5,-1.25e-5,0.0,10.01,1e0]", "[ 1e5 1E+5 -1.25e-5 0.0 10.01 1e0 ] end"),
        ("123456789012345678901234567890.5e+12345", "123456789012345678901234567890.5e+12345 end"),
        (#""a\"\\\/\b\f\n\r\tz""#, "'a\"\\/\u{8}\u{c}\n\r\tz' end"), (#""\u0041\u00e9\u6F22""#, "'Aé漢' end"),
        (#""\ud83d\ude42""#, "'🙂' end"), (#""x\uD83D\uDE42\u0000y""#, "'x🙂\u{0}y' end"), (#""漢🙂é""#, "'漢🙂é' end"),
        ("\"\u{7f}\u{2028}\u{10FFFF}\"", "'\u{7f}\u{2028}\u{10FFFF}' end"), (#"{"k\u0065y":"v"}"#, "{ key: 'v' } end"),
    ])
    func whatRFC8259AllowsIsRead(_ text: String, _ tokens: String) {
        #expect(walk(text.utf8Bytes) == tokens)
    }

    @Test(arguments: [
        ("", 0), ("   ", 3), ("nul", 3), ("nulL", 3), ("True", 0), ("[1,]", 3), ("[,1]", 1), ("[1 2]", 3), ("[1", 2), ("[", 1),
        ("]", 0), ("{", 1), ("}", 0), ("[}", 1), ("{]", 1), ("[1}", 2), (#"{"a":1]"#, 6), (#"{"a"}"#, 4), (#"{"a":}"#, 5),
        (#"{"a":1,}"#, 7), (#"{,"a":1}"#, 1), (#"{a:1}"#, 1), (#"{'a':1}"#, 1), (#"{"a" 1}"#, 5), (#"{1:1}"#, 1),
        (#"{"a":1 "b":2}"#, 7), (#"{null:1}"#, 1), ("1 2", 2), ("[] []", 3), ("truex", 4), ("\u{FEFF}1", 0), ("/**/1", 0),
        ("[1]//", 3), ("\u{c}1", 0), ("1\u{0}", 1), ("NaN", 0), ("Infinity", 0), ("undefined", 0),
        ("01", 1), ("-", 1), ("-a", 1), ("+1", 0), (".5", 0), ("1.", 2), ("1.e1", 2), ("1e", 2), ("1e+", 3), ("-01", 2),
        ("0x10", 1), ("1.2.3", 3), ("1_000", 1), ("--1", 1), ("１", 0),
        (#"""#, 1), (#""a"#, 2), (#""\"#, 2), (#""\x""#, 2), (#""\u12""#, 5), (#""\u12g4""#, 5), (#""\U0041""#, 2), (#""\u00"#, 5),
        ("\"a\nb\"", 2), ("\"\t\"", 1), ("\"\u{0}\"", 1), ("\"\u{1f}\"", 1), ("'a'", 0),
        (#""\ud83d""#, 1), (#""\ude42""#, 1), (#""\ud83dx""#, 1), (#""\ud83d\n""#, 1), (#""\ud83d\u0041""#, 7),
        (#""\ud83d\ud83d""#, 7), (#""\ud83d\u""#, 9), (#""ab\uDFFF""#, 3),
    ])
    func syntaxErrorsHaveTheirOffset(_ text: String, _ offset: Int) {
        #expect(walk(text.utf8Bytes) == "fault at \(offset)")
    }

    @Test(
        arguments: [
            [0x80], [0xFF], [0xC0, 0x80], [0xC1, 0xBF], [0xC3], [0xC3, 0x28], [0xE0, 0x80, 0x80], [0xE2, 0x82], [0xE2, 0x28, 0xA1],
            [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF], [0xF0, 0x80, 0x80, 0x80], [0xF0, 0x9F, 0x99], [0xF4, 0x90, 0x80, 0x80],
            [0xF5, 0x80, 0x80, 0x80],
        ] as [[UInt8]])
    func textThatIsNoUTF8IsRefused(_ bytes: [UInt8]) {
        for padding in 0..<9 {
            let text = [UInt8(ascii: "\"")] + [UInt8](repeating: 0x61, count: padding) + bytes + [UInt8(ascii: "\"")]
            let found = fault(text)
            #expect(found?.kind == .notUnicode)
            #expect(found?.offset == 1 + padding)
        }
    }

    @Test func halfASurrogatePairIsHandedOutToReadersThatTakeIt() throws {
        let cases = [
            (#"\ud83d"#, "\u{FFFD}"), (#"a\ude42b"#, "a\u{FFFD}b"), (#"\ud83d\ud83d\ude42"#, "\u{FFFD}🙂"), (#"\ud83d\n"#, "\u{FFFD}\n"),
        ]
        for (text, plain) in cases {
            let bytes = "[\"\(text)\",{\"k\":\"\(text)\"}]".utf8Bytes
            var reader = JSONReader(bytes.rawBytes, takesHalves: true)
            var found: [String] = []
            var token = try reader.next()
            while token != .end {
                if case .string(let string) = token {
                    found.append(reader.string(string))
                    #expect(string.hasHalves && !reader.text(string, equals: reader.string(string).utf8Bytes.rawBytes))
                }
                token = try reader.next()
            }
            #expect(found == [plain, plain])
            #expect(fault(bytes)?.kind == .notUnicode)
            let name = "{\"\(text)\":1}".utf8Bytes
            var strict = JSONReader(name.rawBytes, takesHalves: true)
            _ = try strict.next()
            #expect(throws: JSONFault.self) { _ = try strict.next() }
        }
    }

    @Test func itRefusesMoreThanTheMaximumDepth() {
        for depth in [1, 2, 32, 64] {
            for (open, close) in [("[", "]"), (#"{"a":"#, "}")] {
                let inside = open == "[" ? "" : "1"
                let within = String(repeating: open, count: depth) + inside + String(repeating: close, count: depth)
                let beyond = String(repeating: open, count: depth + 1) + inside + String(repeating: close, count: depth + 1)
                #expect(fault(within.utf8Bytes, depth) == nil)
                #expect(fault(beyond.utf8Bytes, depth)?.kind == .tooDeep)
            }
        }
        #expect(fault([UInt8](repeating: UInt8(ascii: "["), count: 1_000_000))?.kind == .tooDeep)
        let mixed = #"[{"a":[{"b":[]}]},[],{},[[]]]"#
        #expect(fault(mixed.utf8Bytes, 5) == nil)
        #expect(fault(mixed.utf8Bytes, 4)?.kind == .tooDeep)
    }

    @Test func aFaultStays() throws {
        let bytes = "[1,x]".utf8Bytes
        var reader = JSONReader(bytes.rawBytes)
        _ = try reader.next()
        _ = try reader.next()
        for _ in 0..<3 {
            do throws(JSONFault) {
                _ = try reader.next()
                Issue.record("read past a fault")
            } catch {
                #expect(error.kind == .unexpectedByte)
                #expect(error.offset == 3)
            }
        }
    }

    @Test func unwantedMembersAreSkippedWhole() throws {
        let bytes = #"{"a":{"x":[1,{"y":[]}]},"b":"s","c":[],"d":7}"#.utf8Bytes
        var reader = JSONReader(bytes.rawBytes)
        #expect(try reader.next() == .beginObject)
        var names: [String] = []
        while case .key(let name) = try reader.next() {
            names.append(reader.string(name))
            try reader.skipValue()
            #expect(reader.depth == 1)
        }
        #expect(names == ["a", "b", "c", "d"])
        #expect(try reader.next() == .end)
    }

    @Test func aSkippedMemberIsCheckedLikeAnyOther() throws {
        let bytes = #"{"a":[1,}"#.utf8Bytes
        var reader = JSONReader(bytes.rawBytes)
        _ = try reader.next()
        _ = try reader.next()
        do throws(JSONFault) {
            try reader.skipValue()
            Issue.record("skipped broken JSON")
        } catch {
            #expect(error.offset == 8)
        }
    }

    @Test func keysCompareWithoutTheirEscapes() throws {
        let bytes = #"{"exp":1,"e\u0078p":2,"exp\n":3}"#.utf8Bytes
        var reader = JSONReader(bytes.rawBytes)
        _ = try reader.next()
        var hits = 0
        while case .key(let name) = try reader.next() {
            if reader.text(name, equals: "exp") { hits += 1 }
            #expect(reader.text(name, equals: "ex") == false)
            #expect(reader.text(name, equals: reader.string(name).utf8Bytes.rawBytes) == true)
            try reader.skipValue()
        }
        #expect(hits == 2)
    }

    @Test(
        arguments: [
            ("0", 0, 0), ("-0", 0, 0), ("-0.0", 0, 0), ("7", 7, 7), ("-7", -7, -7), ("7.0", 7, 7), ("70e-1", 7, 7), ("0.7e1", 7, 7),
            ("1.5e1", 15, 15), ("1e3", 1_000, 1_000), ("1E+3", 1_000, 1_000), ("7.5", nil, 7), ("-7.5", nil, -8), ("-0.1", nil, -1),
            ("0.1", nil, 0), ("1e-400", nil, 0), ("-1e-400", nil, -1), ("0e400", 0, 0), ("0.000e99999999999999999999", 0, 0),
            ("1e18", 1_000_000_000_000_000_000, 1_000_000_000_000_000_000), ("1e19", nil, nil), ("1e99999999999999999999", nil, nil),
            ("9223372036854775807", .max, .max), ("9223372036854775807.0", .max, .max), ("9223372036854775808", nil, nil),
            ("-9223372036854775808", .min, .min), ("-9223372036854775808.5", nil, nil), ("-9223372036854775809", nil, nil),
            ("18446744073709551616", nil, nil), ("9223372036854775807.9", nil, .max), ("922337203685477580.7e1", .max, .max),
            ("1700000000.123", nil, 1_700_000_000), ("0.0000000000000000000017e21", nil, 1), ("0.0000000000000000000017e22", 17, 17),
            ("100000000000000000000e-20", 1, 1), ("1234567890123456789012e-21", nil, 1),
        ] as [(String, Int64?, Int64?)])
    func numbersAreReadExactly(_ text: String, _ whole: Int64?, _ floor: Int64?) throws {
        let bytes = text.utf8Bytes
        var reader = JSONReader(bytes.rawBytes)
        guard case .number(let slice) = try reader.next() else { Issue.record("no number"); return }
        #expect(reader.integer(slice) == whole)
        #expect(reader.floor(slice) == floor)
    }

    @Test func noBytesTrapTheReader() {
        var random = SplitMix64(seed: 7)
        let pieces =
            [
                "{", "}", "[", "]", ":", ",", "\"", "\\", "\\u", "d83d", "\\udE42", "true", "null", "1", "-", ".", "e", " ", "é", "\"a\":",
            ].map(\.utf8Bytes) + [[0xFF], [0xF0, 0x9F], [0x00]]
        for _ in 0..<60_000 {
            let bytes = (0..<Int.random(in: 0...16, using: &random)).flatMap { _ in pieces.randomElement(using: &random)! }
            _ = walk(bytes)
        }
        for _ in 0..<20_000 {
            _ = walk((0..<Int.random(in: 0...24, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) })
        }
    }

    @Test func aTextCutShortAnywhereEndsEarly() {
        let whole = #"{"a\n":[1,-2.5,true,null,"\ud83d\ude42",{"b":{}}],"c":"漢"}"#.utf8Bytes
        #expect(fault(whole) == nil)
        for length in 0..<whole.count {
            let kind = fault(Array(whole.prefix(length)))?.kind
            #expect(kind == .endsEarly || kind == .notUnicode, "cut to \(length)")
        }
    }

    @Test func oneByteChangedNeverTrapsAndWhatReadsIsJSONStill() {
        var random = SplitMix64(seed: 8)
        let whole = #"{"a\n":[1,-2.5e3,true,null,"\ud83d\ude42",{"b":{}}],"c":"漢"}"#.utf8Bytes
        for _ in 0..<40_000 {
            var bytes = whole
            bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            guard fault(bytes) == nil else { continue }
            #expect(String(validating: bytes, as: UTF8.self) != nil)
        }
    }

    private func fault(_ bytes: [UInt8], _ depth: Int = 32) -> JSONFault? {
        var reader = JSONReader(bytes.rawBytes, maximumDepth: depth)
        do throws(JSONFault) {
            while try reader.next() != .end {}
            return nil
        } catch {
            return error
        }
    }

    private func walk(_ bytes: [UInt8]) -> String {
        var reader = JSONReader(bytes.rawBytes)
        var words: [String] = []
        do throws(JSONFault) {
            while true {
                let token = try reader.next()
                words.append(word(token, reader))
                if token == .end { return words.joined(separator: " ") }
            }
        } catch {
            return "fault at \(error.offset)"
        }
    }

    private func word(_ token: JSONToken, _ reader: borrowing JSONReader) -> String {
        switch token {
        case .beginObject: "{"
        case .endObject: "}"
        case .beginArray: "["
        case .endArray: "]"
        case .key(let text): "\(reader.string(text)):"
        case .string(let text): "'\(reader.string(text))'"
        case .number(let slice):
            reader.floor(slice) == reader.integer(slice) || reader.integer(slice) == nil ? reader.source(slice).text : "inconsistent"
        case .bool(let value): "\(value)"
        case .null: "null"
        case .end: "end"
        }
    }
}
