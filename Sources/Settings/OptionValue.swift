package import Gate
package import Wire

/// The value of an option as `tollgate check` shows it.
package struct OptionValue: Equatable, Sendable {
    package enum JSON: Equatable, Sendable {
        case text(String)
        case number(Int)
        case flag(Bool)
        case list([String])
        case null
    }

    /// The kind of its JSON.
    package enum Kind: Sendable { case text, number, flag, list }

    /// As a line writes it; several for an option that is repeated.
    package var words: [String]
    /// nil: none.
    package var json: JSON?

    init(_ word: String, _ json: JSON? = nil) {
        words = [word]
        self.json = json ?? .text(word)
    }

    /// The parts of a comma-separated value; no word for none.
    init(list parts: [String]) {
        words = parts.isEmpty ? [] : [parts.joined(separator: ",")]
        json = .list(parts)
    }

    /// The values of an option that is repeated.
    init(each words: [String], _ json: JSON? = nil) {
        self.words = words
        self.json = json ?? .list(words)
    }

    static let off = Self("off", .null)

    /// Something that JSON shows by leaving it out.
    static func inTextAlone(_ word: String) -> Self {
        var value = Self(word)
        value.json = nil
        return value
    }
}

extension JSONWriter {
    package mutating func value(_ json: OptionValue.JSON) {
        switch json {
        case .text(let text): string(text)
        case .number(let number): self.number(number)
        case .flag(let flag): bool(flag)
        case .null: null()
        case .list(let parts):
            beginArray()
            for part in parts { string(part) }
            endArray()
        }
    }
}

extension OptionTarget {
    /// The options without a column of their own that differ from the default, as a line writes them.
    package func furtherOptions(_ tiers: TierList) -> String {
        let bare = Self.bare
        return Self.options.filter { !$0.hasColumn(self) && $0.applies(self) }.flatMap { option -> [String] in
            guard let value = option.value(self, tiers), value != option.value(bare, tiers) else { return [] }
            return value.words.map { "\(option.key)=\($0)" }
        }.joined(separator: " ")
    }
}
