internal import Credentials
internal import Wire

/// One message on its way to one person.
struct Dispatch: Sendable, Equatable {
    enum Body: Sendable, Equatable {
        case mail(Letter)
        case sms(String)
    }

    /// What tells it from every other, in visible ASCII: it stays the same however often it is tried.
    let id: String
    /// What it is, for the log: `sign-up code`.
    let kind: String
    /// An email address or a telephone number.
    let recipient: String
    let body: Body
    /// What it brings, for those who read the development outbox by program.
    let secret: DispatchSecret
    /// How long it makes sense to go on trying, in seconds.
    let usefulSeconds: Int64

    /// What the log says in place of the recipient: the first 16 digits of the SHA-256 of the address or number, so that
    /// whoever knows it finds it: `printf %s ada@example.org | sha256sum`.
    var recipientDigest: String {
        let digest = Digest.sha256(Array(recipient.utf8).rawBytes)
        var out = ByteBuffer(capacity: 16)
        for byte in digest.prefix(8) { out.append(hex: UInt64(byte), digits: 2) }
        return out.readable.text
    }
}

/// The part of a message that must reach nobody else.
enum DispatchSecret: Sendable, Equatable {
    case code(String)
    case link(String)
    case none
}
