internal import Credentials
internal import Wire

/// One message on its way to one person.
package struct OutgoingMessage: Sendable, Equatable {
    package enum Body: Sendable, Equatable {
        case mail(Letter)
        case sms(String)
    }

    /// What tells it from every other, in visible ASCII: it stays the same however often it is tried.
    package let id: String
    /// What it is, for the log: `sign-up code`.
    package let kind: String
    /// An email address or a telephone number.
    package let recipient: String
    package let body: Body
    /// What it brings, for those who read the development outbox by program.
    package let secret: MessageSecret
    /// How long it makes sense to go on trying, in seconds.
    package let usefulSeconds: Int64

    /// What the log says in place of the recipient: the first 16 digits of the SHA-256 of the address or number, so that
    /// whoever knows it finds it: `printf %s ada@example.org | sha256sum`.
    package var recipientDigest: String {
        let digest = Digest.sha256(Array(recipient.utf8).rawBytes)
        var out = ByteBuffer(capacity: 16)
        for byte in digest.prefix(8) { out.append(hex: UInt64(byte), digits: 2) }
        return out.readable.text
    }
}

/// The part of a message that must reach nobody else.
package enum MessageSecret: Sendable, Equatable {
    case code(String)
    case link(String)
    case none
}
