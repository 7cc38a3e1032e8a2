import Testing

@testable import Wire

@Suite struct JSONScannerTests {
    /// The steps through a text that arrives in pieces, cut at `cuts`; `nil` for a fault. With `watched`, the steps are only the
    /// names with this spelling and their scalar values.
    private func walk(_ text: [UInt8], cuts: [Int] = [], isLines: Bool = false, watched: String? = nil) -> String? {
        var scanner = JSONScanner(isLines: isLines)
        if let watched { scanner.watch(watched.utf8Bytes.rawBytes) } else { scanner.watchedNames = .max }
        var words: [String] = []
        do throws(JSONFault) {
            var start = 0
            for end in cuts + [text.count] {
                let piece = Array(text[start..<end])
                start = end
                scanner.beginPiece()
                steps: while true {
                    switch try scanner.next(piece.rawBytes) {
                    case .starved: break steps
                    case .beginObject: if watched == nil { words.append("{") }
                    case .endObject: if watched == nil { words.append("}") }
                    case .beginArray: if watched == nil { words.append("[") }
                    case .endArray: if watched == nil { words.append("]") }
                    case .key:
                        let name = scanner.text(piece.rawBytes).text
                        guard watched == nil || name == watched else { continue }
                        words.append(name + ":")
                        scanner.asksForScalar = true
                    case .scalar:
                        words.append(
                            scanner.isString ? "'\(scanner.text(piece.rawBytes).text)'" : scanner.isNull ? "null" : "-")
                    case .separator: words.append(",")
                    }
                }
                scanner.endPiece(piece.count)
            }
            try scanner.end()
            return words.joined(separator: " ")
        } catch {
            return nil
        }
    }

    /// The same steps by `JSONReader`, the oracle; scalars only as values of names.
    private func read(_ text: [UInt8], watched: String? = nil) -> String? {
        var reader = JSONReader(text.rawBytes, maximumDepth: 64, takesHalves: true)
        var words: [String] = []
        var isNamed = false
        do throws(JSONFault) {
            while true {
                let token = try reader.next()
                let wasNamed = isNamed
                isNamed = false
                switch token {
                case .beginObject: if watched == nil { words.append("{") }
                case .endObject: if watched == nil { words.append("}") }
                case .beginArray: if watched == nil { words.append("[") }
                case .endArray: if watched == nil { words.append("]") }
                case .key(let name):
                    guard watched == nil || reader.string(name) == watched else { continue }
                    words.append(reader.string(name) + ":")
                    isNamed = true
                case .string(let text): if wasNamed { words.append("'\(reader.string(text))'") }
                case .number, .bool: if wasNamed { words.append("-") }
                case .null: if wasNamed { words.append("null") }
                case .end: return words.joined(separator: " ")
                }
            }
        } catch {
            return nil
        }
    }

    @Test(arguments: [
        "null", " true\n", "0", "-0.5e+10", #""""#, "[]", "{}", "[1,2]", #"{"a":1}"#, #"{ "a" : [ ] , "b" : { } }"#, #"{"a":1,"a":"x"}"#,
        #"{"a":"\"\\\/\b\f\n\r\tz"}"#, #"{"\u0041\u00e9\u6F22":"\ud83d\ude42"}"#, #"{"漢🙂é":"x\uD83D\uDE42\u0000y"}"#,
        #"{"a":12,"b":"x","c":7}"#,
        #"{"a longer name than a word":"and a longer text than one or two words, so that blocks are read","b":1,"c":null}"#,
        "[                                  1 ,\n\t\r 2 ]",
        "", " ", "nul", "nulL", "[1,]", "[,1]", "[1 2]", "[1", "]", "{", "[}", #"{"a"}"#, #"{"a":}"#, #"{"a":1,}"#, #"{a:1}"#, #"{"a" 1}"#,
        "1 2", "[] []", "truex", "\u{FEFF}1", "\u{c}1", "1\u{0}", "01", "-", "+1", ".5", "1.", "1e", "1e+", "0x10", #"""#, #""\x""#,
        #""\u12g4""#,
        "\"a\nb\"", "\"\u{1f}\"", #""\ud83d""#, #""\ude42""#, #""\ud83dx""#, #""\ud83d\u0041""#, #"{"a":01}"#, #"{"a":1x}"#, #"{"a":"b"x}"#,
        #"{"a":1"b":2}"#,
        #"{"a":1,,"b":2}"#, #"{"a":"b":1}"#,
        #"{"a":"x\ud83d","b":["\ude42\ud83d\ud83d\ude42"]}"#, #"{"a":"\ud83d\n","b":"\ud83d\u0041","c":"\ud83d漢"}"#, #"{"\ud83d":1}"#,
        #"{"b":{"a\ude42":1}}"#,
        #"{"a":"\ud83d\x"}"#, #"{"a":"\ud83d\u00g"}"#, #"{"a":"\ud83d\u004"}"#, #"{"a":"\ud83d\\","b":"\ud83d\""}"#,
    ])
    func aTextInPiecesReadsLikeAWholeOne(_ text: String) {
        let bytes = text.utf8Bytes
        let expected = read(bytes)
        #expect(walk(bytes) == expected)
        #expect(walk(bytes, cuts: Array(0..<bytes.count)) == expected, "byte by byte")
        for cut in 0..<bytes.count { #expect(walk(bytes, cuts: [cut]) == expected, "cut at \(cut)") }
    }

    @Test(
        arguments: [
            [0x80], [0xFF], [0xC0, 0x80], [0xC1, 0xBF], [0xC3], [0xC3, 0x28], [0xE0, 0x80, 0x80], [0xE2, 0x82], [0xE2, 0x28, 0xA1],
            [0xED, 0xA0, 0x80], [0xF0, 0x80, 0x80, 0x80], [0xF0, 0x9F, 0x99], [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80],
        ] as [[UInt8]])
    func textThatIsNoUTF8IsRefusedWhereverItIsCut(_ bytes: [UInt8]) {
        for padding in [0, 1, 7, 15, 16, 40] {
            let text = [UInt8(ascii: "\"")] + [UInt8](repeating: 0x61, count: padding) + bytes + [UInt8(ascii: "\"")]
            for cut in 0..<text.count { #expect(walk(text, cuts: [cut]) == nil) }
            #expect(walk(text, cuts: Array(0..<text.count)) == nil)
        }
    }

    /// At every place in words and blocks, behind bytes that are nearly special.
    @Test(arguments: [0x22, 0x5C, 0x00, 0x1F, 0x80, 0xFF] as [UInt8]) func plainTextEndsAtTheFirstSpecialByte(_ special: UInt8) {
        let plain = (0..<200).map { [0x20, 0x21, 0x23, 0x5B, 0x5D, 0x7F][$0 % 6] as UInt8 }
        for count in 0..<140 {
            for rest in [0, 1, 7, 40] {
                let text = plain[..<count] + [special] + plain[..<rest]
                for start in [0, 1, 9] where start <= count {
                    #expect(Array(text).rawBytes.endOfPlainText(from: start) == count, "\(rest) bytes behind it, from \(start)")
                }
            }
        }
    }

    @Test func randomBytesScanAlikeWholeAndInPieces() {
        var random = SplitMix64(seed: 21)
        let pieces =
            [
                "{", "}", "[", "]", ":", ",", "\"", "\\", "\\u", "d83d", "\\udE42", "true", "null", "1", "-", ".", "e", " ", "é", "\"a\":",
                "\"b\":1,",
                "\"some longer text\"",
            ].map(\.utf8Bytes) + [[0xFF], [0xF0, 0x9F], [0x00]]
        for _ in 0..<20_000 {
            let text = (0..<Int.random(in: 0...14, using: &random)).flatMap { _ in pieces.randomElement(using: &random)! }
            let expected = read(text)
            #expect(walk(text) == expected)
            let cuts = (0..<3).map { _ in Int.random(in: 0...text.count, using: &random) }.sorted()
            #expect(walk(text, cuts: cuts) == expected)
        }
    }

    private static let values = [
        "1", "0", "-1", "-0", "907", "1.5", "-0.25e+10", "1E5", "0e-1", "01", "-01", "1.", ".5", "-", "1e", "1e+", "+1", "0x1", "1-2",
        "1.2.3", "--1",
        "true", "false", "null", "tru", "nulL", "falsf", "truex", "True", "",
        #""x""#, #""""#, #""12345678""#, #""a longer text than one or two words, so that blocks are read, and it goes on""#, #""漢🙂""#,
        #""\n\u00e9""#,
        "\"x\u{1}\"", #""\x""#, #""x"#, #""x"y"#, #""x"" "#,
        "[]", "[ ]", "[1]", "[1,2]", "[1, 2]", "[ 1]", "[1 ]", #"["x","y", "a long enough text in an array"]"#, "[true,null,-1.5e3]",
        "[1,]", "[,1]", "[1 2]", "[1",
        #"["x"1]"#, "[[1],[]]", "[{}]", "[01]", #"["a":1]"#, "[1}", "[1,2]]", #"["é"]"#, "]", "{}", #"{"a":1}"#, #"{"b":[]}"#, "{1}", ",",
        ":",
    ]

    @Test(arguments: values) func skippedValuesAreValidated(_ value: String) {
        for text in [
            #"{"b":\#(value),"a":"x","a name that is long":\#(value),"c":"and so much text that nothing ends here"}"#,
            #"{"a": \#(value), "b": \#(value), "a" : 2 , "c": \#(value), "a":  "and so much text that nothing ends here"}"#,
            #"[{"b":1,"c":\#(value)},{"a":[],"b":{"c":\#(value)}},{"\u0061":1,"a":3,"b":\#(value)},"and so much text that nothing ends"]"#,
            #"{"x":{"b":"","c":\#(value)},"y":["b","c",\#(value)],"b":\#(value) ,"a":1,"b":1"#,
        ] {
            let bytes = text.utf8Bytes
            let expected = read(bytes, watched: "a")
            #expect(walk(bytes, watched: "a") == expected)
            #expect(walk(bytes, cuts: Array(0..<bytes.count), watched: "a") == expected, "byte by byte")
            for cut in 0..<bytes.count { #expect(walk(bytes, cuts: [cut], watched: "a") == expected, "cut at \(cut)") }
        }
    }

    @Test func randomMembersScanAlikeWholeAndInPieces() {
        var random = SplitMix64(seed: 22)
        let names = [#""a""#, #""b""#, #""""#, #""a name that is long""#, #""12345678""#, #""\u0061""#, #""aé""#, "\"a"].map(\.utf8Bytes)
        let marks = [":", ":", ":", ": ", " :", "::", ""].map(\.utf8Bytes)
        let commas = [",", ",", ",", ", ", " ,", "}", "]"].map(\.utf8Bytes)
        for _ in 0..<4_000 {
            var text = [UInt8(ascii: "{")]
            for number in 0..<Int.random(in: 1...6, using: &random) {
                if number > 0 { text += commas.randomElement(using: &random)! }
                let value = Self.values.prefix(Bool.random(using: &random) ? 9 : .max).randomElement(using: &random)!
                text += names.randomElement(using: &random)! + marks.randomElement(using: &random)! + value.utf8Bytes
            }
            text += #"}                                "#.utf8Bytes
            let expected = read(text, watched: "a")
            #expect(walk(text, watched: "a") == expected)
            let cuts = (0..<3).map { _ in Int.random(in: 0...text.count, using: &random) }.sorted()
            #expect(walk(text, cuts: cuts, watched: "a") == expected)
        }
    }

    @Test func unwatchedNamesAreSkipped() throws {
        let bytes = #"{"id":1,"tier":"free","title":"x","tags":[],"t\u0065st":1}"#.utf8Bytes
        var scanner = JSONScanner()
        scanner.watch("tier".utf8Bytes.rawBytes)
        scanner.beginPiece()
        var names: [String] = []
        while true {
            let step = try scanner.next(bytes.rawBytes)
            if step == .starved { break }
            if step == .key { names.append(scanner.text(bytes.rawBytes).text) }
        }
        #expect(names == ["tier", "test"])
    }

    @Test func aNameLongerThanTheBufferMatchesNothing() throws {
        let long = String(repeating: "é", count: 200)
        let bytes = #"{"\#(long)":1}"#.utf8Bytes
        var scanner = JSONScanner()
        scanner.watchedNames = .max
        scanner.beginPiece()
        var steps: [JSONStep] = []
        while true {
            let step = try scanner.next(bytes.rawBytes)
            if step == .starved { break }
            steps.append(step)
        }
        #expect(steps == [.beginObject, .endObject])
    }
}
