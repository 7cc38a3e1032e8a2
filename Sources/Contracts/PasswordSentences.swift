package import Accounts

extension [PasswordFault] {
    /// A sentence for each fault.
    package var djangoSentence: String { map(\.djangoSentence).joined(separator: " ") }
}

extension PasswordFault {
    /// The message of Django's validators, which the `password` contract uses.
    package var djangoSentence: String {
        switch self {
        case .tooShort: "This password is too short. It must contain at least \(Password.shortest) characters."
        case .tooLong: "This password is too long. It must contain at most \(Password.longest) bytes."
        case .sameAsEmail: "The password is too similar to the email."
        case .tooCommon: "This password is too common."
        case .entirelyNumeric: "This password is entirely numeric."
        }
    }
}
