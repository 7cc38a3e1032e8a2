import HTTP
import Wire

/// The form of content that is filtered.
enum ContentForm: Equatable {
    case json
    /// A JSON text in each line.
    case lines
    /// Without a type: content that begins like JSON is JSON.
    case unnamed

    /// nil for any other type. Every type with `json` in its name counts, and every one of several fields, because clients differ in
    /// which they use.
    init?(_ fields: borrowing FieldTable, _ bytes: RawSpan) {
        guard fields.contains(.contentType) else {
            self = .unnamed
            return
        }
        var found: Self?
        for index in 0..<fields.count where fields[index].known == .contentType {
            let value = bytes[fields[index].value]
            let type = value.extracting(0..<(value.firstIndex(of: UInt8(ascii: ";")) ?? value.byteCount))
            if type.isEmpty { found = found ?? .unnamed }
            if type.mentions("ndjson") || type.mentions("jsonl") {
                found = found == .json ? .json : .lines
            } else if type.mentions("json") {
                found = .json
            }
        }
        guard let found else { return nil }
        self = found
    }
}

extension RawSpan {
    /// Whether `word`, which must be lower case, occurs in any case.
    fileprivate func mentions(_ word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard byteCount >= count else { return false }
        return (0...byteCount - count).contains { extracting($0..<$0 + count).equalsIgnoringCase(word) }
    }
}
