internal import Credentials
package import Wire

/// The purpose that a code was sent for. Stored: the texts never change. A new code kills the older one of its purpose and recipient.
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

    /// The purposes of the codes that may be tried as one of this purpose, its own first. A code of a sign-up may be tried
    /// as any other that proves an email in the same way, so that the sign-up is confirmed whatever the app calls it.
    package var accepted: [CodePurpose] {
        switch self {
        case .email, .recovery: [self, .signUp]
        case .signUp, .emailChange, .sms, .phoneChange, .link: [self]
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

    /// The code with one try fewer; nil if it has none left then.
    package var afterWrongTry: PendingCode? {
        guard triesLeft > 1 else { return nil }
        var code = self
        code.triesLeft -= 1
        return code
    }
}

/// A code as it was sent back: its digest as a code of each purpose that it may have.
package struct CodeGuess: Sendable, Equatable {
    package struct Reading: Sendable, Equatable {
        package let purpose: CodePurpose
        package let digest: [UInt8]
    }

    package let readings: [Reading]

    /// `digest` is that of the code as one of a purpose.
    package init(triedAs purpose: CodePurpose, digest: (CodePurpose) -> [UInt8]) {
        readings = purpose.accepted.map { Reading(purpose: $0, digest: digest($0)) }
    }
}

/// The outcome of a guess for the codes that are pending for a recipient.
package enum CodeVerdict: Equatable, Sendable {
    /// It is the code of this purpose, which is used up.
    case right(CodePurpose)
    /// It is none of them. These are left, each with one try fewer, whatever its purpose: five wrong guesses kill all codes
    /// of a recipient, whichever types they were tried as.
    case wrong(left: [PendingCode])
}

/// Decides over codes by what is pending for their recipient. Pure; each store asks it inside its transaction.
package enum CodeRule {
    package static func verdict(_ guess: CodeGuess, pending: [PendingCode], now: WallTime) -> CodeVerdict {
        let live = pending.filter { now < $0.expiresAt && $0.triesLeft > 0 }
        var match: CodePurpose?
        for reading in guess.readings {
            for code in live where code.purpose == reading.purpose {
                let isRight = Digest.constantTimeEquals(code.digest.rawBytes, reading.digest.rawBytes)
                if isRight, match == nil { match = code.purpose }
            }
        }
        return match.map { .right($0) } ?? .wrong(left: live.compactMap(\.afterWrongTry))
    }
}
