import HTTP
import Testing
import Wire

/// Every case of every document in `Cases`, whole and in every split.
@Suite struct ProtocolCaseTests {
    @Test("Every document's cases come out as it says", arguments: try CaseDocument.all())
    func document(_ document: CaseDocument) {
        #expect(document.cases.count > 5, "\(document.name) holds cases")
        for each in document.cases {
            let whole = outcome(each.kind, each.bytes, pieces: [])
            expect(whole, each, document.name)
            let starts = splits(each.bytes.count)
            for split in starts {
                let got = outcome(each.kind, each.bytes, pieces: [split])
                #expect(got == whole, "\(document.name), \(each.title): split at \(split)")
                if got != whole { break }
            }
            let bytewise = outcome(each.kind, each.bytes, pieces: starts)
            #expect(bytewise == whole, "\(document.name), \(each.title): byte by byte")
        }
    }

    private func expect(_ got: String, _ each: ProtocolCase, _ document: String) {
        switch each.outcome {
        case .exactly(let wanted):
            #expect(got == wanted, "\(document), \(each.title)")
        case .words(let wanted):
            let line = got.prefix { $0 != "\n" }
            let words = line.split(separator: " ").map(String.init)
            #expect(wanted.allSatisfy(words.contains), "\(document), \(each.title): \(line)")
        }
    }

    /// Every offset of a short message; of a long one those at its ends and some in between.
    private func splits(_ count: Int) -> [Int] {
        (1..<max(count, 1)).filter { count < 600 || $0 < 40 || $0 > count - 40 || $0 % 509 == 0 }
    }

    /// The outcome of `bytes` that arrive cut at `pieces`.
    private func outcome(_ kind: String, _ bytes: [UInt8], pieces: [Int]) -> String {
        let words = kind.split(separator: " ").map(String.init)
        switch words[0] {
        case "request":
            return prefixes(bytes, pieces) { Described.request($0) }
        case "response":
            let method = Method.allCases.first { "\($0)" == words[1].lowercased() } ?? .other
            return prefixes(bytes, pieces) { Described.response($0, method: method) }
        case "proxy":
            return prefixes(bytes, pieces) { Described.proxy($0) }
        case "body":
            return body(words, bytes, pieces)
        default:
            return "\(kind) is no kind of case"
        }
    }

    /// Parses longer and longer prefixes, as a driver does; the first answer that is not `incomplete` must be that of the
    /// whole.
    private func prefixes(_ bytes: [UInt8], _ pieces: [Int], _ parse: (RawSpan) -> String) -> String {
        let whole = parse(bytes.rawBytes)
        for end in pieces {
            let early = parse(bytes.rawBytes.extracting(0..<end))
            if early != "incomplete" { return withoutRest(early) == withoutRest(whole) ? whole : early }
        }
        return whole
    }

    /// The bytes behind a message are not part of it, and fewer of them may have arrived.
    private func withoutRest(_ text: String) -> String {
        text.split(separator: "\n").filter { !$0.hasPrefix("rest ") }.joined(separator: "\n")
    }

    private func body(_ words: [String], _ bytes: [UInt8], _ pieces: [Int]) -> String {
        let framing: BodyFraming =
            switch words[1] {
            case "chunked": .chunked
            case "until-close": .untilClose
            case "none": .none
            default: .length(UInt64(words[1].dropFirst("length=".count))!)
            }
        var run = BodyRun(framing)
        var start = 0
        for end in pieces + [bytes.count] {
            run.feed(bytes[start..<end])
            start = end
        }
        if words.last == "closed" { run.close() }
        return run.described
    }
}
