internal import Wire

/// A password as a client sent it. Never stored or logged: it has no description.
package struct Password: Sendable {
    package static let longest = 1_024
    package static let shortest = 8

    /// Its UTF-8 in NFC, which is hashed: keyboards differ in how they encode an accent.
    let bytes: [UInt8]
    /// Its UTF-8 as it was sent, if that differs: older and imported hashes were made from it.
    let typed: [UInt8]?

    /// Throws `tooLong` above 1,024 bytes.
    package init(_ text: String) throws(PasswordFault) {
        // NFC shortens no text to less than a fourth, so a longer one need not be composed.
        guard text.utf8.count <= 4 * Self.longest else { throw .tooLong }
        let composed = Array(PlainText.composed(text).utf8)
        guard composed.count <= Self.longest else { throw .tooLong }
        let sent = Array(text.utf8)
        bytes = composed
        typed = sent == composed || sent.count > Self.longest ? nil : sent
    }

    /// The form for which `isRight` holds. The composed one is tried first.
    func match<Fault: Error>(_ isRight: (RawSpan) throws(Fault) -> Bool) throws(Fault) -> Match {
        if try isRight(bytes.rawBytes) { return .composed }
        if let typed, try isRight(typed.rawBytes) { return .typed }
        return .none
    }

    /// A form of a password.
    enum Match { case composed, typed, none }
}

/// Why a password may not be chosen.
package enum PasswordFault: Error, Sendable, Equatable, CaseIterable {
    /// Fewer than 8 code points in NFC.
    case tooShort
    /// More than 1,024 bytes.
    case tooLong
    /// Equal to the account's email.
    case sameAsEmail
    /// Among the 10,000 most common.
    case tooCommon
    /// Only digits.
    case entirelyNumeric
}

/// The rules for a new password.
package enum PasswordRules: Sendable {
    /// The length alone.
    case length
    /// The length, and the rules of Django's validators.
    case strict

    /// The rules that `password` breaks, in the order of Django's validators.
    package func faults(of password: Password, email: EmailAddress?) -> [PasswordFault] {
        let text = String(decoding: password.bytes, as: UTF8.self)
        let isShort = text.unicodeScalars.count < Password.shortest
        if self == .length { return isShort ? [.tooShort] : [] }
        let folded = PlainText.folded(text)
        return [
            folded == email?.key ? .sameAsEmail : nil, isShort ? .tooShort : nil,
            CommonPasswords.contain(folded) ? .tooCommon : nil, !text.isEmpty && text.allSatisfy(\.isWholeNumber) ? .entirelyNumeric : nil,
        ].compactMap(\.self)
    }
}
