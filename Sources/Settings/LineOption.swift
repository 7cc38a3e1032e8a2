package import Gate
internal import Wire

/// The declaration that a line with options makes: a route, an upstream, an outside issuer and so on.
package protocol OptionTarget: Sendable {
    /// The family of its lines.
    static var family: Setting { get }
    /// Whether no message may quote the line, because a secret may have slipped into it.
    static var isSecret: Bool { get }
    /// The form of a line.
    static var grammar: String { get }
    /// As a line without options leaves it.
    static var bare: Self { get }
    /// The table of its options. Parsing, `check` in text and JSON, the admin API, help and `docs/settings.md` are loops over it.
    static var options: [LineOption<Self>] { get }
    /// The name behind that of the family, in lower case.
    var lineName: String { get }
    var origin: Origin { get }

    /// The declaration of a line, whose faults are reported in it; nil for none.
    init?(_ line: inout OptionLine, name: String)
}

extension OptionTarget {
    package static var isSecret: Bool { false }
    package static var grammar: String { "key=value …" }

    /// Its variable.
    package var variable: String { Self.family.isFamily ? Self.family.name + lineName.uppercased() : Self.family.name }
}

extension Findings {
    package mutating func fault(_ declaration: some OptionTarget, _ message: String) {
        fault(Finding(declaration.origin, declaration.variable, message))
    }

    package mutating func warn(_ declaration: some OptionTarget, _ message: String) {
        warn(Finding(declaration.origin, declaration.variable, message))
    }
}

/// A row of a table of options: a `key=` of a kind of line. Its default stands in `Target.bare`.
package struct LineOption<Target: OptionTarget>: Sendable {
    typealias Path<Value> = any WritableKeyPath<Target, Value> & Sendable
    typealias Read = @Sendable (inout OptionLine, inout Target) -> Void

    package let key: String
    /// The values, the default first, or an example.
    package let values: String
    /// Its meaning, in Markdown, without a full stop.
    package let doc: String
    /// How often it may occur in a line.
    let maximumCount: Int
    /// The member in JSON; with a dot, that of an object.
    package var jsonName: String
    /// The kind of its value in JSON, and whether that may be null, for off.
    package let kind: OptionValue.Kind
    package var isNullable = false
    /// Whether a column of its own shows it in the text of `check`.
    package var hasColumn: @Sendable (Target) -> Bool = { _ in false }
    let read: Read
    /// The printed value; nil for one that is not set.
    package let value: @Sendable (Target, TierList) -> OptionValue?
    /// Whether it means anything beside the others.
    package var applies: @Sendable (Target) -> Bool = { _ in true }
    /// Whether JSON always shows it.
    package var isAlwaysShown: Bool { isUnconditional && value(Target.bare, .standard)?.json != nil }
    private var isUnconditional = true

    init(
        _ key: String, _ values: String, _ doc: String, most maximumCount: Int = 1, kind: OptionValue.Kind = .text, read: @escaping Read,
        value: @escaping @Sendable (Target, TierList) -> OptionValue?
    ) {
        self.key = key
        self.values = values
        self.doc = doc
        self.maximumCount = maximumCount
        self.kind = kind
        self.read = read
        self.value = value
        jsonName = key.replacing("-", with: "_")
    }
}

// MARK: - Rows by what they set

extension LineOption {
    init<Value>(_ key: String, _ path: Path<Value>, _ form: OptionForm<Value>, values: String? = nil, _ doc: String) {
        let shown = form.show(Target.bare[keyPath: path], .standard)?.words.first ?? ""
        let words = form.choices.isEmpty ? shown : alternatives([shown] + form.choices.filter { $0 != shown })
        self.init(key, values ?? words, doc, kind: form.kind, read: Self.read(key, form) { $0[keyPath: path] = $1 }) {
            form.show($0[keyPath: path], $1)
        }
    }

    /// An option without which nothing is set.
    init<Value>(_ key: String, ifSet path: Path<Value?>, _ form: OptionForm<Value>, _ values: String, _ doc: String) {
        self.init(key, values, doc, kind: form.kind, read: Self.read(key, form) { $0[keyPath: path] = $1 }) { target, tiers in
            target[keyPath: path].flatMap { form.show($0, tiers) }
        }
    }

    /// An option that may be `off`, which is nil.
    init<Value>(_ key: String, orOff path: Path<Value?>, _ form: OptionForm<Value>, values: String? = nil, _ doc: String) {
        let shown = Target.bare[keyPath: path].flatMap { form.show($0, .standard)?.words.first }
        let read = Self.read(key, form) { $0[keyPath: path] = $1 }
        self.init(key, values ?? "\(shown ?? "") or off", doc, kind: form.kind) { line, target in
            if line.text(key) == "off" { target[keyPath: path] = nil } else { read(&line, &target) }
        } value: { target, tiers in
            target[keyPath: path].map { form.show($0, tiers) } ?? .off
        }
        isNullable = true
    }

    /// An option that may be repeated; in JSON a list, or a text if that is asked for.
    init<Value>(
        _ key: String, each path: Path<[Value]>, _ form: OptionForm<Value>, _ values: String, most: Int, isText: Bool = false, _ doc: String
    ) {
        self.init(key, values, doc, most: most, kind: isText ? .text : .list) { line, target in
            let context = line.context
            target[keyPath: path] = line.values(key) { text throws(ParseError) in try form.parse(text, context) }
        } value: { target, tiers in
            let words = target[keyPath: path].flatMap { form.show($0, tiers)?.words ?? [] }
            if isText { return words.isEmpty ? nil : OptionValue(each: words, .text(words.joined(separator: " "))) }
            return OptionValue(each: words)
        }
    }

    /// An option with parts that commas separate, each with its own fault.
    init<Value, Part>(
        _ key: String, list path: Path<Value>, _ values: String, _ doc: String,
        part: @escaping @Sendable (String) throws(ParseError) -> Part,
        join: @escaping @Sendable ([Part]) -> Value, show: @escaping @Sendable (Value) -> [String]
    ) {
        self.init(key, values, doc, kind: .list) { line, target in
            if let parts = line.list(key, part) { target[keyPath: path] = join(parts) }
        } value: { target, _ in
            OptionValue(list: show(target[keyPath: path]))
        }
    }

    init(
        _ key: String, list path: Path<[String]>, _ values: String, _ doc: String,
        _ part: @escaping @Sendable (String) throws(ParseError) -> String
    ) {
        self.init(key, list: path, values, doc, part: part, join: { $0 }, show: { $0 })
    }

    /// An option that turns on what it names.
    init(_ key: String, flags: [(word: String, path: Path<Bool>)], _ values: String, _ doc: String) {
        let words = flags.map(\.word)
        self.init(key, values, doc, kind: .list) { line, target in
            let named: [String] =
                line.list(key) { text throws(ParseError) -> String in
                    guard words.contains(text) else {
                        throw ParseError("is not known, write \(words.joined(separator: ", ")) or several with commas")
                    }
                    return text
                } ?? []
            for flag in flags where named.contains(flag.word) { target[keyPath: flag.path] = true }
        } value: { target, _ in
            OptionValue(list: flags.filter { target[keyPath: $0.path] }.map(\.word))
        }
    }

    private static func read<Value>(
        _ key: String, _ form: OptionForm<Value>, _ set: @escaping @Sendable (inout Target, Value) -> Void
    ) -> Read {
        { line, target in
            let context = line.context
            if let value = line.value(key, { text throws(ParseError) in try form.parse(text, context) }) { set(&target, value) }
        }
    }
}

// MARK: - Where and when a row is shown

extension LineOption {
    /// Shown in a column of its own.
    var column: Self { column { _ in true } }

    /// Shown in a column of its own, or of another option, where that is so.
    func column(where isShown: @escaping @Sendable (Target) -> Bool) -> Self { changed { $0.hasColumn = isShown } }

    /// Shown under this name in JSON.
    func json(_ name: String) -> Self { changed { $0.jsonName = name } }

    /// Shown only where it means something.
    func when(_ applies: @escaping @Sendable (Target) -> Bool) -> Self { changed { ($0.applies, $0.isUnconditional) = (applies, false) } }

    private func changed(_ change: (inout Self) -> Void) -> Self {
        var row = self
        change(&row)
        return row
    }
}

/// The rows of a table, checked by the compiler one by one.
@resultBuilder enum OptionTable<Target: OptionTarget> {
    static func buildExpression(_ row: LineOption<Target>) -> [LineOption<Target>] { [row] }
    static func buildExpression(_ rows: [LineOption<Target>]) -> [LineOption<Target>] { rows }
    static func buildBlock(_ rows: [LineOption<Target>]...) -> [LineOption<Target>] { rows.flatMap(\.self) }
}

extension OptionTarget {
    static func table(@OptionTable<Self> _ rows: () -> [LineOption<Self>]) -> [LineOption<Self>] { rows() }
}
