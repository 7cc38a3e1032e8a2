import Wire

/// HMAC-SHA-256 (RFC 2104) of short or guessable secrets, such as codes and reset tokens, so that the database stores only
/// digests. Without the key a stolen database does not allow guessing offline.
package struct KeyedDigest: Sendable {
    private let key: [UInt8]

    /// Derives the key from `secret`; different labels give independent keys.
    package init(secret: [UInt8], label: StaticString) {
        key = Digest.hmacSHA256(label.rawBytes, key: secret.rawBytes)
    }

    /// The digest of a list of parts, 32 bytes. Each part is prefixed with its length, so different lists never collide.
    package func digest(_ parts: [UInt8]...) -> [UInt8] {
        var message = ByteBuffer()
        for part in parts {
            message.append(highBytes: UInt64(part.count), count: 8)
            message.append(part)
        }
        return Digest.hmacSHA256(message.readable, key: key.rawBytes)
    }
}
