internal import Gate
internal import Wire

/// A line split into words and `key=value` options, with the findings so far.
///
/// The typed readers return nil for a missing option and for an invalid one, and report the invalid one.
package struct OptionLine {
    let entry: EnvEntry
    let context: OptionContext
    /// The words that are no options, in order.
    private(set) var words: [String] = []
    /// The values of each option, in order.
    private var options: [String: [String]] = [:]
    private(set) var findings = Findings()

    init<Target: OptionTarget>(_ entry: EnvEntry, _: Target.Type, _ context: OptionContext) {
        self.entry = entry
        self.context = context
        for word in entry.value.split(whereSeparator: { $0 == " " || $0 == "\t" }) { add(word, Target.options) }
    }

    /// Options of earlier versions, and what to write where they were not `off`.
    private static let removed = ["filter-require": "filter-unlabelled=drop"]

    private mutating func add<Target>(_ word: Substring, _ known: [LineOption<Target>]) {
        guard let equals = word.firstIndex(of: "="), let first = word.first, first.isLetter, isKey(word[..<equals]) else {
            return Target.isSecret ? reportSecret(known) : words.append(String(word))
        }
        let key = String(word[..<equals]), value = String(word[word.index(after: equals)...])
        guard let option = known.first(where: { $0.key == key }) else {
            return Target.isSecret ? reportSecret(known) : reportUnknown(key, value, known.map(\.key))
        }
        guard options[key, default: []].count < option.maximumCount else {
            let most = option.maximumCount
            let times = most == 1 ? "twice, keep one of them" : "more than \(most) times, keep \(most) at most"
            return fault("\(key)= is given \(times)")
        }
        guard !value.isEmpty else { return fault("\(key)= has no value, write \(option.values) or leave it out") }
        options[key, default: []].append(value)
    }

    private mutating func reportSecret<Target>(_ known: [LineOption<Target>]) {
        fault("has a part that is no option, write \(known.map { "\($0.key)=…" }.joined(separator: " "))")
    }

    private mutating func reportUnknown(_ key: String, _ value: String, _ names: [String]) {
        if let now = Self.removed[key], names.contains(where: now.hasPrefix) {
            return fault("\(key)= is no longer an option, \(value == "off" ? "leave it out" : "use \(now)")")
        }
        let nearest = names.first { $0.hasPrefix(key + "-") } ?? nearestName(to: key, in: names) ?? ""
        fault("\(quoted(key)) is no option here, the nearest is \(nearest)")
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
        options[key, default: []].compactMap { parse(key, $0, read) }
    }

    /// The valid parts of a comma-separated value, each parsed by `read`; nil if the option is missing.
    mutating func list<Value>(_ key: String, _ read: (String) throws(ParseError) -> Value) -> [Value]? {
        guard let text = text(key) else { return nil }
        return text.split(separator: ",", omittingEmptySubsequences: false).compactMap { part in
            parse(quoting: "\(key)=\(text)", String(part), read)
        }
    }

    /// Parses the value of an option with `read`; on an error reports a fault that quotes it, unless it may be the secret that belongs into
    /// the file.
    mutating func parse<Value>(_ key: String, _ value: String, _ read: (String) throws(ParseError) -> Value) -> Value? {
        let isSecret =
            key.hasSuffix("-file")
            && (["whsec_", "sk_", "rk_"].contains(where: value.hasPrefix) || value.utf8.count > 15 && !value.contains { "/.".contains($0) })
        return parse(quoting: "\(key)=\(isSecret ? "\(value.prefix(6))…" : value)", value, read)
    }

    /// Parses `text` with `read`; on an error reports a fault that quotes `shown` and returns nil.
    mutating func parse<Value>(quoting shown: String, _ text: String, _ read: (String) throws(ParseError) -> Value) -> Value? {
        do {
            return try read(text)
        } catch {
            fault("\(quoted(shown)) \(error.text)")
            return nil
        }
    }

    /// Sets in `target` what the line says, and reports what it cannot.
    mutating func read<Target: OptionTarget>(into target: inout Target) {
        for option in Target.options where has(option.key) { option.read(&self, &target) }
    }

    /// Reports words that are no options, in a line that has nothing but options; `right` is what to write.
    mutating func refuseWords(_ right: String) {
        for word in words { fault("\(quoted(word)) is no option, write \(right)") }
    }
}
