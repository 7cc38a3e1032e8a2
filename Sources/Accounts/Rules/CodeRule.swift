internal import Credentials
package import Wire

/// What a code is for. Stored: the texts never change. A new code kills the older one of its purpose and recipient.
package enum CodePurpose: String, CaseIterable, Sendable {
    /// To complete a sign-up by mail.
    case signUp = "signup"
    /// To prove an email, or sign in with it.
    case email
    case emailChange = "email-change"
    /// To sign in without the password that was forgotten.
    case recovery
    /// To sign in by SMS.
    case sms
    case phoneChange = "phone-change"
    /// To join an email to an account that began without one.
    case link

    /// Whether it goes by SMS.
    package var isForPhones: Bool {
        switch self {
        case .sms, .phoneChange: true
        case .signUp, .email, .emailChange, .recovery, .link: false
        }
    }
}

/// A code that was sent and not yet used.
package struct PendingCode: Sendable, Equatable {
    /// How long a code is good for, and how often it may be guessed at.
    package static let lifetimeSeconds: Int64 = 600
    package static let tries: Int64 = 5

    package let purpose: CodePurpose
    /// The key of the recipient.
    package let recipient: String
    /// The code's keyed digest.
    package let digest: [UInt8]
    package let expiresAt: WallTime
    package var triesLeft: Int64

    package init(
        purpose: CodePurpose, recipient: String, digest: [UInt8], expiresAt: WallTime, triesLeft: Int64 = tries
    ) {
        self.purpose = purpose
        self.recipient = recipient
        self.digest = digest
        self.expiresAt = expiresAt
        self.triesLeft = triesLeft
    }

    /// What a try with a code of this digest does.
    package func verdict(digest other: [UInt8], now: WallTime) -> CodeVerdict {
        guard now < expiresAt, triesLeft > 0 else { return .dead }
        if Digest.constantTimeEquals(digest.rawBytes, other.rawBytes) { return .right }
        return triesLeft > 1 ? .wrong : .dead
    }
}

/// What a try at a code does.
package enum CodeVerdict: Equatable, Sendable {
    /// It is the code, and it is used up.
    case right
    /// It is not; one try fewer is left.
    case wrong
    /// It is over, or this was the last try: the code is dropped.
    case dead
}
