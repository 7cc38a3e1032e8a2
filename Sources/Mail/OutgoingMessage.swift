internal import Credentials
internal import Wire

/// A rendered message for one recipient.
package struct OutgoingMessage: Sendable, Equatable {
    package enum Body: Sendable, Equatable {
        case mail(Letter)
        case sms(String)
    }

    /// A unique id in visible ASCII, the same for all attempts.
    package let id: String
    /// The kind of message for the log, such as `sign-up code`.
    package let kind: String
    /// An email address or a telephone number.
    package let recipient: String
    package let body: Body
    /// The code or link, for programs that read the development outbox.
    package let secret: MessageSecret
    /// How long the message is retried, in seconds: the lifetime of its code or link.
    package let usefulSeconds: Int64
    /// The notice that it is made of.
    var notice: UUID?

    var channel: OutboxEntry.Channel {
        switch body {
        case .mail: .mail
        case .sms: .sms
        }
    }

    /// The recipient in the log: the first 16 hex digits of the SHA-256 of the address or number. An operator who knows the
    /// recipient can search for it: `printf %s ada@example.org | sha256sum`.
    package var recipientDigest: String {
        let digest = Digest.sha256(Array(recipient.utf8).rawBytes)
        var out = ByteBuffer(capacity: 16)
        for byte in digest.prefix(8) { out.append(hex: UInt64(byte), digits: 2) }
        return out.readable.text
    }
}

/// The secret in a message, which only its recipient may see.
package enum MessageSecret: Sendable, Equatable {
    case code(String)
    case link(String)
    case none
}
