/// A person's name, as a provider or an app reports it. At least one part is present.
package struct PersonName: Sendable, Equatable {
    package let given: String?
    package let family: String?

    /// nil if both are missing or empty. Throws if one has control characters or more than 256 bytes.
    package init?(given: String?, family: String?) throws(MalformedText) {
        self.given = try Self.part(given)
        self.family = try Self.part(family)
        if self.given == nil && self.family == nil { return nil }
    }

    /// A name from the store; not checked again.
    package init?(storedGiven given: String?, family: String?) {
        if given == nil && family == nil { return nil }
        self.given = given
        self.family = family
    }

    /// Both parts, as they are written in one line.
    package var full: String { [given, family].compactMap(\.self).joined(separator: " ") }

    private static func part(_ raw: String?) throws(MalformedText) -> String? {
        guard let raw else { return nil }
        return try PlainText.clean(raw, limit: 256)
    }
}

/// The display name of an account. Not unique.
package struct Username: Sendable, Hashable {
    package let text: String
    /// The text in lower case, by which names are compared.
    package let key: String

    /// nil if it is empty. Throws if it has control characters or more than 256 bytes.
    package init?(_ raw: String) throws(MalformedText) {
        guard let clean = try PlainText.clean(raw, limit: 256) else { return nil }
        self.init(stored: clean)
    }

    /// A name from the store; not checked again.
    package init(stored text: String) {
        self.text = text
        key = PlainText.folded(text)
    }
}
