import Testing

@testable import Wire

@Suite struct JSONScannerTests {
    /// The steps through a text that arrives cut at `cuts`, or `nil` for a fault.
    private func walk(_ text: [UInt8], cuts: [Int] = [], isLines: Bool = false) -> String? {
        var scanner = JSONScanner(isLines: isLines)
        scanner.watchEverything()
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
                    case .beginObject: words.append("{")
                    case .endObject: words.append("}")
                    case .beginArray: words.append("[")
                    case .endArray: words.append("]")
                    case .key:
                        words.append(scanner.text(piece.rawBytes).text + ":")
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

    /// What the reader of whole texts makes of it, in the same words; values are told only behind names.
    private func read(_ text: [UInt8]) -> String? {
        var reader = JSONReader(text.rawBytes, maximumDepth: 64)
        var words: [String] = []
        var isNamed = false
        do throws(JSONFault) {
            while true {
                let token = try reader.next()
                let wasNamed = isNamed
                isNamed = false
                switch token {
                case .beginObject: words.append("{")
                case .endObject: words.append("}")
                case .beginArray: words.append("[")
                case .endArray: words.append("]")
                case .key(let name):
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
        #"{"a":"\"\\\/\b\f\n\r\tz"}"#, #"{"\u0041\u00e9\u6F22":"\ud83d\ude42"}"#, #"{"漢🙂é":"x\uD83D\uDE42\u0000y"}"#, #"{"a":12,"b":"x","c":7}"#,
        #"{"a longer name than a word":"and a longer text than one or two words, so that blocks are read","b":1,"c":null}"#,
        "[                                  1 ,\n\t\r 2 ]",
        "", " ", "nul", "nulL", "[1,]", "[,1]", "[1 2]", "[1", "]", "{", "[}", #"{"a"}"#, #"{"a":}"#, #"{"a":1,}"#, #"{a:1}"#, #"{"a" 1}"#,
        "1 2", "[] []", "truex", "\u{FEFF}1", "\u{c}1", "1\u{0}", "01", "-", "+1", ".5", "1.", "1e", "1e+", "0x10", #"""#, #""\x""#, #""\u12g4""#,
        "\"a\nb\"", "\"\u{1f}\"", #""\ud83d""#, #""\ude42""#, #""\ud83dx""#, #""\ud83d\u0041""#, #"{"a":01}"#, #"{"a":1x}"#, #"{"a":"b"x}"#, #"{"a":1"b":2}"#,
        #"{"a":1,,"b":2}"#, #"{"a":"b":1}"#,
    ])
    func aTextInPiecesReadsLikeAWholeOne(_ text: String) {
        let bytes = text.utf8Bytes
        let expected = read(bytes)
        #expect(walk(bytes) == expected)
        #expect(walk(bytes, cuts: Array(0..<bytes.count)) == expected, "byte by byte")
        for cut in 0..<bytes.count { #expect(walk(bytes, cuts: [cut]) == expected, "cut at \(cut)") }
    }

    @Test(arguments: [
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

    @Test func anyBytesReadAlikeWholeAndInPieces() {
        var random = SplitMix64(seed: 21)
        let pieces = [
            "{", "}", "[", "]", ":", ",", "\"", "\\", "\\u", "d83d", "\\udE42", "true", "null", "1", "-", ".", "e", " ", "é", "\"a\":", "\"b\":1,",
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

    @Test func namesThatNobodyLooksForArePassedOver() throws {
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

    @Test func aNameTooLongToKeepIsNobodys() throws {
        let long = String(repeating: "é", count: 200)
        let bytes = #"{"\#(long)":1}"#.utf8Bytes
        var scanner = JSONScanner()
        scanner.watchEverything()
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
