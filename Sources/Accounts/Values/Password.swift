/// A password that somebody sent. It is in no log or error: it has no description, and is never stored.
package struct Password: Sendable {
    package static let longest = 1_024
    package static let shortest = 8

    /// Its UTF-8, exactly as sent.
    let bytes: [UInt8]

    /// A fault above 1,024 bytes: such a one is not worth hashing.
    package init(_ text: String) throws(AccountError) {
        guard text.utf8.count <= Self.longest else { throw .unfitPassword(.tooLong) }
        bytes = Array(text.utf8)
    }
}

/// Why a password may not be chosen.
package enum PasswordFault: Sendable, Equatable, CaseIterable {
    /// Below 8 bytes.
    case tooShort
    /// Above 1,024 bytes.
    case tooLong
    /// The email that it is to guard.
    case sameAsEmail
    /// Among the 10,000 most common.
    case tooCommon
    /// Digits alone.
    case entirelyNumeric
}

/// What a new password must satisfy.
package enum PasswordRules: Sendable {
    /// Only the length counts.
    case length
    /// What Django's validators ask for, too.
    case strict

    /// Throws the first rule that `password` breaks.
    package func check(_ password: Password, email: EmailAddress?) throws(AccountError) {
        if password.bytes.count < Password.shortest { throw .unfitPassword(.tooShort) }
        switch self {
        case .length: return
        case .strict: try checkStrictly(password, email)
        }
    }

    private func checkStrictly(_ password: Password, _ email: EmailAddress?) throws(AccountError) {
        let text = String(decoding: password.bytes, as: UTF8.self)
        let folded = PlainText.folded(text)
        if folded == email?.key { throw .unfitPassword(.sameAsEmail) }
        if CommonPasswords.contain(folded) { throw .unfitPassword(.tooCommon) }
        if text.allSatisfy(\.isWholeNumber) { throw .unfitPassword(.entirelyNumeric) }
    }
}
