import Foundation

/// Compares JSON with a pattern of a document. Texts like `<jwt access>` match any value of that form, and capture it under
/// that name.
struct JSONPattern {
    var captures: [String: String]
    let now: Int
    let tolerance: Int

    /// Where `value` differs from `pattern`; nil if it does not. Members must be the same, in any order.
    mutating func difference(_ pattern: Any, _ value: Any, at path: String = "") -> String? {
        if let text = pattern as? String, text.hasPrefix("<"), text.hasSuffix(">") {
            return difference(form: String(text.dropFirst().dropLast()), value, path)
        }
        // A name captured by an earlier member of the same response.
        if let text = pattern as? String, text.hasPrefix("{"), let named = captures[String(text.dropFirst().dropLast())] {
            return named == value as? String ? nil : "\(path) is \(value) in place of \(named)"
        }
        switch (pattern, value) {
        case (let pattern as [String: Any], let value as [String: Any]): return difference(pattern, value, path)
        case (let pattern as [Any], let value as [Any]):
            guard pattern.count == value.count else { return "\(path) has \(value.count) elements in place of \(pattern.count)" }
            for index in pattern.indices {
                if let difference = difference(pattern[index], value[index], at: "\(path)[\(index)]") { return difference }
            }
            return nil
        default:
            return (pattern as? NSObject) == (value as? NSObject) ? nil : "\(path) is \(value) in place of \(pattern)"
        }
    }

    private mutating func difference(_ pattern: [String: Any], _ value: [String: Any], _ path: String) -> String? {
        for name in Set(pattern.keys).union(value.keys).sorted() {
            guard let wanted = pattern[name] else { return "\(path).\(name) is there and should not be" }
            guard let found = value[name] else { return "\(path).\(name) is missing" }
            if let difference = difference(wanted, found, at: "\(path).\(name)") { return difference }
        }
        return nil
    }

    /// `form` is `jwt NAME`, `unix +3600` and so on.
    private mutating func difference(form: String, _ value: Any, _ path: String) -> String? {
        let words = form.split(separator: " ").map(String.init)
        switch words[0] {
        case "unix", "ms":
            let scale = words[0] == "ms" ? 1_000 : 1
            guard let number = value as? NSNumber, !(value is String), number.doubleValue == Double(number.int64Value) else {
                return "\(path) is \(value), which is no whole number"
            }
            let offset = number.intValue - (now + seconds(words)) * scale
            return abs(offset) <= tolerance * scale ? nil : "\(path) is \(offset) off \(form)"
        case "second":
            guard let text = value as? String, text.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/) != nil,
                let date = ISO8601DateFormatter().date(from: text)
            else { return "\(path) is \(value), which is no date without a fraction" }
            return abs(Int(date.timeIntervalSince1970) - now - seconds(words)) <= tolerance ? nil : "\(path) is \(text), off \(form)"
        default: return difference(text: words, value, path)
        }
    }

    private func seconds(_ words: [String]) -> Int { words.count > 1 ? Int(words[1]) ?? 0 : 0 }

    private mutating func difference(text words: [String], _ value: Any, _ path: String) -> String? {
        guard let text = value as? String else { return "\(path) is \(value), which is no text" }
        let hasForm =
            switch words[0] {
            case "uuid": text.wholeMatch(of: /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/) != nil
            case "jwt": text.wholeMatch(of: /[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+/) != nil
            case "opaque": text.wholeMatch(of: /v1\.[A-Za-z0-9_-]{62}/) != nil
            case "millisecond": text.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil
            case "text": !text.isEmpty
            default: false
            }
        guard hasForm else { return "\(path) is \(text), which has not the form \(words[0])" }
        if words.count > 1 { captures[words[1]] = text }
        return nil
    }
}
