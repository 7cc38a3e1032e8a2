package import Wire

/// A search for accounts by a part of their email, phone, username or name, or by a whole id. Case does not count.
package struct AccountSearch: Sendable, Equatable {
    /// The largest number of accounts that a search returns.
    package static let most = 50
    /// The number of accounts that are looked at for a part: those with the highest ids, which are the newest but for imported ones.
    /// A whole email, phone, username or id is found by an index among all.
    package static let depth = 100_000
    private static let longest = 254

    /// In NFC, without control characters.
    package let text: String

    /// Throws if nothing but white space is left, and for control characters or more than 254 bytes.
    package init(_ raw: String) throws(MalformedText) {
        guard let clean = try PlainText.clean(raw, limit: Self.longest) else { throw MalformedText() }
        text = clean
    }

    /// nil if the text is none.
    package var id: UUID? { UUID(parsing: text) }
    /// The text as the keys of emails and usernames are compared.
    package var key: String { PlainText.folded(text) }

    /// The digits of a phone number without what people write between them; nil if the text is none.
    package var phone: String? {
        let digits = text.filter { !" -.()/".contains($0) }
        guard digits.utf8.drop(while: { $0 == UInt8(ascii: "+") }).allSatisfy(\.isASCIIDigit), digits.utf8.count > 2 else { return nil }
        return digits
    }

    /// The spellings in which a database looks for the text, with their ASCII letters in lower case: some databases fold no other
    /// letters. One, if all letters are ASCII.
    package var spellings: [String] {
        let words = text.split(separator: " ", omittingEmptySubsequences: false).map {
            $0.prefix(1).uppercased() + $0.dropFirst().lowercased()
        }
        let forms = [key, Self.asciiFolded(text.uppercased()), Self.asciiFolded(words.joined(separator: " ")), phone ?? key]
        return forms.reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
    }

    private static func asciiFolded(_ text: String) -> String {
        var out = String.UnicodeScalarView()
        for scalar in PlainText.composed(text).unicodeScalars {
            out.append(contentsOf: scalar.isASCII ? scalar.properties.lowercaseMapping.unicodeScalars : .init([scalar]))
        }
        return String(out)
    }
}

/// The outcome of a search.
package struct AccountMatches: Sendable, Equatable {
    /// At most `AccountSearch.most`.
    package let accounts: [Account]
    /// Whether there are no others: false past `AccountSearch.most`, or with older accounts that were not looked at.
    package let isWhole: Bool

    package init(accounts: [Account], isWhole: Bool) {
        self.accounts = accounts
        self.isWhole = isWhole
    }
}
