internal import Credentials
internal import Wire

/// A hint from one gateway to the others over Redis: read the change log. It carries no data.
///
/// The text is `tollgate1 SENDER NUMBER CODE`: 16 hexadecimal digits each for the sender and for a number that it uses
/// once, and with `TOLLGATE_KEY_SECRET` a keyed digest of both. A forged or repeated message costs each gateway one reading
/// of the log, no more.
package struct BusMessage: Equatable, Sendable {
    package static let channel: StaticString = "tollgate:changes"
    private static let word = "tollgate1"
    private static let longest = 128

    package let sender: UInt64
    package let number: UInt64

    package init(sender: UInt64, number: UInt64) {
        self.sender = sender
        self.number = number
    }

    /// nil for anything else, and with a secret for a message that was not made with it.
    package init?(_ bytes: RawSpan, secret: BusSecret?) {
        guard bytes.byteCount <= Self.longest else { return nil }
        let words = bytes.text.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 4, words[0] == Self.word, let sender = Self.number(words[1]), let number = Self.number(words[2])
        else { return nil }
        self.init(sender: sender, number: number)
        guard let secret else { return }
        let (due, presented) = (Array(secret.code(of: self).utf8), Array(words[3].utf8))
        guard Digest.constantTimeEquals(due.rawBytes, presented.rawBytes) else { return nil }
    }

    package func text(secret: BusSecret?) -> String {
        "\(Self.word) \(Self.text(sender)) \(Self.text(number)) \(secret?.code(of: self) ?? "-")"
    }

    private static func text(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    private static func number(_ text: Substring) -> UInt64? {
        guard text.utf8.count == 16, text.utf8.allSatisfy({ $0.isASCIIDigit || (97...102).contains($0) }) else { return nil }
        return UInt64(text, radix: 16)
    }
}

/// Authenticates the messages of gateways that share `TOLLGATE_KEY_SECRET`.
package struct BusSecret: Sendable {
    private let digest: KeyedDigest

    package init(_ secret: [UInt8]) { digest = KeyedDigest(secret: secret, label: "tollgate bus") }

    fileprivate func code(of message: BusMessage) -> String {
        let words = [message.sender, message.number].map { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> (56 - 8 * $0)) } }
        return Base64URL.encode(digest.digest(words[0], words[1]).rawBytes)
    }
}
