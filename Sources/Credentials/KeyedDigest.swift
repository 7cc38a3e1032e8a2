import Wire

/// SHA-256 under a key (RFC 2104) for what is short or guessable and must be found again without being stored: codes,
/// reset tokens. Whoever reads the stored digests cannot try out what they stand for.
package struct KeyedDigest: Sendable {
    private let key: [UInt8]

    /// `label` keeps digests for one purpose apart from those for another under the same secret.
    package init(secret: [UInt8], label: StaticString) {
        key = Digest.hmacSHA256(label.rawBytes, key: secret.rawBytes)
    }

    /// 32 bytes. Each part counts with its length, so that no two lists of parts meet.
    package func digest(_ parts: [UInt8]...) -> [UInt8] {
        var message = ByteBuffer()
        for part in parts {
            message.append(highBytes: UInt64(part.count), count: 8)
            message.append(part)
        }
        return Digest.hmacSHA256(message.readable, key: key.rawBytes)
    }
}
