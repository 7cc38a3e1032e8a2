import HTTP
import Testing
import Wire

/// Every case of the documents in `Cases/FieldSections`, in each representation that HPACK has for a field.
@Suite struct FieldSectionCaseTests {
    private enum Form: CaseIterable {
        case plain, coded, inserted, referenced
    }

    @Test("Every document's cases come out as it says", arguments: try CaseDocument.all(in: "FieldSections"))
    func document(_ document: CaseDocument) {
        #expect(document.cases.count > 5, "\(document.name) holds cases")
        for each in document.cases {
            for form in Form.allCases { expect(outcome(each, form), each, "\(document.name), \(each.title), \(form)") }
        }
    }

    private func expect(_ got: String, _ each: ProtocolCase, _ comment: String) {
        switch each.outcome {
        case .exactly(let wanted): #expect(got == wanted, "\(comment)")
        case .words(let wanted):
            let words = got.prefix { $0 != "\n" }.split(separator: " ").map(String.init)
            #expect(wanted.allSatisfy(words.contains), "\(comment): \(got)")
        }
    }

    private func outcome(_ each: ProtocolCase, _ form: Form) -> String {
        let words = each.kind.split(separator: " ")
        let hasContent = words.last == "content"
        let kind: FieldSectionKind =
            switch words[0] {
            case "request": .request(hasContent: hasContent)
            case "response": .response(hasContent: hasContent)
            default: .trailers
            }
        let fields = Self.fields(each.bytes)
        var reader = BlockReader()
        var block = FieldBlock()
        for field in fields { block.literal(field, form == .plain || form == .coded ? .never : .incremental, isCoded: form != .plain) }
        var outcome = reader.read(block.bytes, as: kind)
        if form == .referenced {
            block = FieldBlock()
            for place in fields.indices { block.indexed(61 + fields.count - place) }
            outcome = reader.read(block.bytes, as: kind)
        }
        // The lines of a head, as the documents write bytes, without its line breaks.
        let lines = outcome.split(separator: "\r\n", omittingEmptySubsequences: false).filter { !$0.isEmpty }
        return lines.map { ByteNotation.text($0.unicodeScalars.map { UInt8($0.value) }) }.joined(separator: "\n")
    }

    /// The fields that `bytes` hold, one to a line; the first `: ` that does not begin a line ends the name.
    private static func fields(_ bytes: [UInt8]) -> [FieldPair] {
        let text = bytes.map { String(UnicodeScalar($0)) }.joined()
        return text.split(separator: "\r\n").map { line in
            let bytes = line.unicodeScalars.map { UInt8($0.value) }
            let colon = bytes.indices.first { $0 + 1 < bytes.count && bytes[$0] == 58 && bytes[$0 + 1] == 32 } ?? bytes.count
            return FieldPair(Array(bytes[..<colon]), Array(bytes[min(colon + 2, bytes.count)...]))
        }
    }
}
