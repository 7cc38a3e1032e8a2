internal import Credentials
package import Wire

/// The purpose of a code. Stored: the texts never change. A new code replaces the older one of its purpose and recipient.
package enum CodePurpose: String, CaseIterable, Sendable {
    /// To complete a sign-up by mail.
    case signUp = "signup"
    /// To prove an email, or sign in with it.
    case email
    case emailChange = "email-change"
    /// To sign in without a forgotten password.
    case recovery
    /// To sign in by SMS.
    case sms
    case phoneChange = "phone-change"
    /// To add an email to an account that was created without one.
    case link

    /// Whether the code is sent by SMS.
    package var isForPhones: Bool {
        switch self {
        case .sms, .phoneChange: true
        case .signUp, .email, .emailChange, .recovery, .link: false
        }
    }

    /// The purposes whose codes are accepted as one of this purpose, its own first. A sign-up code is accepted for every purpose
    /// that proves an email in the same way, so the sign-up is confirmed whatever the app calls it.
    package var accepted: [CodePurpose] {
        switch self {
        case .email, .recovery: [self, .signUp]
        case .signUp, .emailChange, .sms, .phoneChange, .link: [self]
        }
    }
}

/// A code that was sent and is not spent.
package struct PendingCode: Sendable, Equatable {
    /// Lifetime of a code in seconds, and the number of guesses that it survives.
    package static let lifetimeSeconds: Int64 = 600
    package static let tries: Int64 = 5

    package let purpose: CodePurpose
    /// `Recipient.key`.
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

    /// The code with one try fewer; nil if none is left.
    package var afterWrongTry: PendingCode? {
        guard triesLeft > 1 else { return nil }
        var code = self
        code.triesLeft -= 1
        return code
    }
}

/// A code that a client sent, digested as a code of each purpose that it may have.
package struct CodeGuess: Sendable, Equatable {
    package struct Reading: Sendable, Equatable {
        package let purpose: CodePurpose
        package let digest: [UInt8]
    }

    package let readings: [Reading]

    /// `digest` digests the code as one of a purpose.
    package init(triedAs purpose: CodePurpose, digest: (CodePurpose) -> [UInt8]) {
        readings = purpose.accepted.map { Reading(purpose: $0, digest: digest($0)) }
    }
}

/// The effect of a guess on the pending codes of a recipient.
package enum CodeVerdict: Equatable, Sendable {
    /// The guess matches the code of this purpose, which is spent.
    case right(CodePurpose)
    /// The guess matches none. These codes remain, each with one try fewer whatever its purpose: five wrong guesses revoke all
    /// codes of a recipient.
    case wrong(left: [PendingCode])
}

/// Decides whether a code is right. Pure; stores apply it inside a transaction.
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
