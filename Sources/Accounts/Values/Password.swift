internal import Wire

/// A password that somebody sent. It is in no log or error: it has no description, and is never stored.
package struct Password: Sendable {
    package static let longest = 1_024
    package static let shortest = 8

    /// Its UTF-8 in Unicode's composed form (NFC), which is what is hashed: keyboards differ in how they send an accent.
    let bytes: [UInt8]
    /// Its UTF-8 as it was sent, where that is another: what older hashes and those that others made are of.
    let typed: [UInt8]?

    /// A fault above 1,024 bytes: such a one is not worth hashing.
    package init(_ text: String) throws(AccountError) {
        // Composing shortens no text to less than a fourth, so that what is longer need not be composed at all.
        guard text.utf8.count <= 4 * Self.longest else { throw .unfitPassword(.tooLong) }
        let composed = Array(PlainText.composed(text).utf8)
        guard composed.count <= Self.longest else { throw .unfitPassword(.tooLong) }
        let sent = Array(text.utf8)
        bytes = composed
        typed = sent == composed || sent.count > Self.longest ? nil : sent
    }

    /// Whether `isRight` holds for it, and for which of its forms: the composed one is tried first.
    func match<Fault: Error>(_ isRight: (RawSpan) throws(Fault) -> Bool) throws(Fault) -> Match {
        if try isRight(bytes.rawBytes) { return .composed }
        if let typed, try isRight(typed.rawBytes) { return .typed }
        return .none
    }

    /// Which form of a password is right.
    enum Match { case composed, typed, none }
}

/// Why a password may not be chosen.
package enum PasswordFault: Sendable, Equatable, CaseIterable {
    /// Below 8 code points, composed (NFC).
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
        let text = String(decoding: password.bytes, as: UTF8.self)
        if text.unicodeScalars.count < Password.shortest { throw .unfitPassword(.tooShort) }
        switch self {
        case .length: return
        case .strict: try checkStrictly(text, email)
        }
    }

    private func checkStrictly(_ text: String, _ email: EmailAddress?) throws(AccountError) {
        let folded = PlainText.folded(text)
        if folded == email?.key { throw .unfitPassword(.sameAsEmail) }
        if CommonPasswords.contain(folded) { throw .unfitPassword(.tooCommon) }
        if text.allSatisfy(\.isWholeNumber) { throw .unfitPassword(.entirelyNumeric) }
    }
}
