internal import Gate
internal import Wire

/// The surroundings of a value that is parsed.
struct OptionContext: Sendable {
    /// The place of the value.
    var origin: Origin
    var tiers = TierList.standard
    var sources: SettingSources
}

/// How a value is written: its parser, which throws what is wrong and what would be right, and its printer.
struct OptionForm<Value: Sendable>: Sendable {
    typealias Parse = @Sendable (String, OptionContext) throws(ParseError) -> Value

    let parse: Parse
    let show: @Sendable (Value, TierList) -> OptionValue?
    /// The words of a choice; none for any other form.
    var choices: [String] = []
    /// The kind of its JSON.
    var kind = OptionValue.Kind.text

    init(_ parse: @escaping Parse, show: @escaping @Sendable (Value, TierList) -> OptionValue?) {
        self.parse = parse
        self.show = show
    }

    /// The same form with JSON of this kind.
    func of(_ kind: OptionValue.Kind) -> Self {
        var form = self
        form.kind = kind
        return form
    }

    /// A form that depends on nothing else.
    init(plain parse: @escaping @Sendable (String) throws(ParseError) -> Value, show: @escaping @Sendable (Value) -> OptionValue?) {
        self.init({ text, _ throws(ParseError) in try parse(text) }, show: { value, _ in show(value) })
    }
}

extension OptionForm where Value: FixedWidthInteger {
    static func count(_ range: ClosedRange<Int>) -> Self {
        Self(plain: { text throws(ParseError) in Value(clamping: try TypedText.count(text, range)) }) {
            OptionValue("\($0)", .number(Int(clamping: $0)))
        }.of(.number)
    }

    /// A count whose largest value stands for none.
    static func bound(_ range: ClosedRange<Int>) -> Self {
        let count = count(range)
        return Self(count.parse) { $0 == .max ? nil : count.show($0, $1) }.of(.number)
    }

    static func percentage(_ range: ClosedRange<Int> = 0...100) -> Self {
        Self(plain: { text throws(ParseError) in Value(clamping: try TypedText.percentage(text, range)) }) { OptionValue("\($0)%") }
    }

    /// A size in bytes.
    static func size(_ range: ClosedRange<Int>? = nil) -> Self {
        Self(plain: { text throws(ParseError) in
            guard let range else { return Value(clamping: try TypedText.size(text)) }
            return Value(clamping: try TypedText.size(text, range))
        }) { OptionValue(SizeText.text(UInt64(clamping: $0)), .number(Int(clamping: $0))) }.of(.number)
    }

    /// A duration in `milliseconds` from the range, as so many of the unit; a number in JSON if that is asked for.
    static func duration(_ milliseconds: ClosedRange<UInt64>, unit: UInt64 = 1, isNumber: Bool = false) -> Self {
        Self(plain: { text throws(ParseError) in Value(clamping: try TypedText.duration(text, milliseconds) / unit) }) {
            let text = $0 == 0 ? "0s" : DurationText.text(UInt64(clamping: $0) * unit)
            return OptionValue(text, isNumber ? .number(Int(clamping: $0)) : nil)
        }.of(isNumber ? .number : .text)
    }
}

extension OptionForm where Value: Equatable {
    /// One of these words, the default first. A flag in JSON if that is asked for, which only the last is.
    static func choice(_ cases: [(word: String, value: Value)], isFlag: Bool = false) -> Self {
        let words = cases.map(\.word)
        var form = Self { text, _ throws(ParseError) in
            let word = try TypedText.choice(text, words)
            return cases.first { $0.word == word }!.value
        } show: { value, _ in
            cases.firstIndex { $0.value == value }.map {
                OptionValue(cases[$0].word, isFlag ? .flag(cases[$0].value as? Bool == true) : nil)
            }
        }
        form.choices = words
        return form.of(isFlag ? .flag : .text)
    }

    static func choice(_ values: [Value], _ word: (Value) -> String) -> Self { choice(values.map { (word($0), $0) }) }
}

extension OptionForm where Value == Bool {
    static func flag(_ cases: [(word: String, value: Bool)] = [("off", false), ("on", true)]) -> Self { choice(cases, isFlag: true) }
}

extension OptionForm where Value == LimitRate {
    static var rate: Self { Self(plain: TypedText.rate) { OptionValue($0.text) } }
}

extension OptionForm where Value == String {
    static var text: Self { plain { text throws(ParseError) in text } }
    /// Printed without user, password and query.
    static var url: Self { plain(TypedText.webURL) }
    /// The path of a file.
    static var path: Self { Self({ text, context throws(ParseError) in context.origin.path(text) }) { text, _ in OptionValue(text) } }

    /// A text that all clients are told, so that no secret can be in it.
    static func published(_ parse: @escaping @Sendable (String) throws(ParseError) -> String) -> Self {
        Self(plain: parse) { OptionValue($0) }
    }

    static func plain(_ parse: @escaping @Sendable (String) throws(ParseError) -> String) -> Self {
        Self(plain: parse) { OptionValue(maskingURLSecrets($0)) }
    }
}
