internal import Wire

/// A `key=` of route, upstream, trust, provider and internal lines.
package struct LineOption: Hashable, Sendable {
    package let key: String
    /// The values, the default first, or an example.
    package let values: String
    /// Its meaning, in Markdown, without a full stop.
    package let doc: String
    package let stage: SettingStage
    /// How often it may occur in a line.
    package let maximumCount: Int

    init(_ key: String, _ values: String, _ doc: String, stage: SettingStage = .built, maximumCount: Int = 1) {
        self.key = key
        self.values = values
        self.doc = doc
        self.stage = stage
        self.maximumCount = maximumCount
    }
}

/// A line split into words and `key=value` options, with the findings so far.
///
/// The typed readers return nil for a missing option and for an invalid one, and report the invalid one.
struct OptionLine {
    let entry: EnvEntry
    /// The words that are no options, in order.
    private(set) var words: [String] = []
    /// The values of each option, in order.
    private var options: [String: [String]] = [:]
    private(set) var findings = Findings()

    init(_ entry: EnvEntry, knows: [LineOption]) {
        self.entry = entry
        for word in entry.value.split(whereSeparator: { $0 == " " || $0 == "\t" }) { add(word, knows) }
    }

    private mutating func add(_ word: Substring, _ knows: [LineOption]) {
        guard let equals = word.firstIndex(of: "="), let first = word.first, first.isLetter, isKey(word[..<equals]) else {
            return words.append(String(word))
        }
        let key = String(word[..<equals]), value = String(word[word.index(after: equals)...])
        guard let option = knows.first(where: { $0.key == key }) else {
            let names = knows.map(\.key)
            let nearest = names.first { $0.hasPrefix(key + "-") } ?? nearestName(to: key, in: names) ?? ""
            return fault("\(quoted(key)) is no option here, the nearest is \(nearest)")
        }
        guard options[key, default: []].count < option.maximumCount else {
            let most = option.maximumCount
            let times = most == 1 ? "twice, keep one of them" : "more than \(most) times, keep \(most) at most"
            return fault("\(key)= is given \(times)")
        }
        guard !value.isEmpty else { return fault("\(key)= has no value, write \(option.values) or leave it out") }
        switch option.stage {
        case .built: options[key, default: []].append(value)
        case .ignored: warn("\(key)= is not built yet in this version, it has no effect")
        case .refused: fault("\(key)= is not built yet in this version and must not be ignored, remove it")
        }
    }

    private func isKey(_ text: Substring) -> Bool {
        text.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == 45 || $0 == 95 }
    }

    mutating func fault(_ message: String) { findings.fault(Finding(entry.origin, entry.name, message)) }
    mutating func warn(_ message: String) { findings.warn(Finding(entry.origin, entry.name, message)) }

    /// Whether the option is present, valid or not.
    func has(_ key: String) -> Bool { options[key] != nil }

    func text(_ key: String) -> String? { options[key]?.first }

    /// The option's value, parsed by `read`.
    mutating func value<Value>(_ key: String, _ read: (String) throws(ParseError) -> Value) -> Value? {
        values(key, read).first
    }

    /// The valid values of an option that may be repeated, each parsed by `read`.
    mutating func values<Value>(_ key: String, _ read: (String) throws(ParseError) -> Value) -> [Value] {
        options[key, default: []].compactMap { parse("\(key)=\($0)", $0, read) }
    }

    /// The valid parts of a comma-separated value, each parsed by `read`; nil if the option is missing.
    mutating func list<Value>(_ key: String, _ read: (String) throws(ParseError) -> Value) -> [Value]? {
        guard let text = text(key) else { return nil }
        return text.split(separator: ",", omittingEmptySubsequences: false).compactMap { part in
            parse("\(key)=\(text)", String(part), read)
        }
    }

    /// Parses `text` with `read`; on an error reports a fault that quotes `shown` and returns nil.
    mutating func parse<Value>(_ shown: String, _ text: String, _ read: (String) throws(ParseError) -> Value) -> Value? {
        do {
            return try read(text)
        } catch {
            fault("\(quoted(shown)) \(error.text)")
            return nil
        }
    }

    /// A duration in milliseconds.
    mutating func duration(_ key: String, _ range: ClosedRange<UInt64>) -> UInt64? {
        value(key) { text throws(ParseError) in try TypedText.duration(text, range) }
    }

    mutating func count(_ key: String, _ range: ClosedRange<Int>) -> Int? {
        value(key) { text throws(ParseError) in try TypedText.count(text, range) }
    }

    mutating func choice(_ key: String, _ choices: [String]) -> String? {
        value(key) { text throws(ParseError) in try TypedText.choice(text, choices) }
    }
}
