/// What a person is called, as a provider or an app says it. One of the two is there.
package struct PersonName: Sendable, Equatable {
    package let given: String?
    package let family: String?

    /// nil if both are missing or empty; a fault with control characters in one, or above 256 bytes.
    package init?(given: String?, family: String?) throws(AccountError) {
        self.given = try Self.part(given)
        self.family = try Self.part(family)
        if self.given == nil && self.family == nil { return nil }
    }

    /// A name that was one when it was stored.
    package init?(storedGiven given: String?, family: String?) {
        if given == nil && family == nil { return nil }
        self.given = given
        self.family = family
    }

    private static func part(_ raw: String?) throws(AccountError) -> String? {
        guard let raw else { return nil }
        guard case .success(let part) = PlainText.clean(raw, limit: 256) else { throw .malformedName }
        return part
    }
}

/// The name that an account shows. Several accounts may have the same.
package struct Username: Sendable, Hashable {
    package let text: String
    /// What names are compared by: the text in lower case.
    package let key: String

    /// nil if it is empty; a fault with control characters in it, or above 256 bytes.
    package init?(_ raw: String) throws(AccountError) {
        guard case .success(let clean) = PlainText.clean(raw, limit: 256) else { throw .malformedUsername }
        guard let clean else { return nil }
        self.init(stored: clean)
    }

    /// A name that was one when it was stored.
    package init(stored text: String) {
        self.text = text
        key = PlainText.folded(text)
    }
}
