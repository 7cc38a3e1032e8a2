internal import Synchronization
package import Wire

/// The content of an opaque refresh token: a session and its rotation counter.
package struct RefreshToken: Sendable, Hashable {
    /// The number of the contract that issued it.
    package let contract: UInt8
    package let session: UUID
    /// 1 for a session's first token; each rotation adds 1 (RFC 9700 §4.14.2).
    package let counter: UInt64

    package init(contract: UInt8, session: UUID, counter: UInt64) {
        self.contract = contract
        self.session = session
        self.counter = counter
    }
}

/// Issuer and verifier of opaque refresh tokens. The newest secret issues; earlier ones still verify. Any thread.
///
/// A token is `v1.` and, in base64url: version (1 byte), contract (1), session (16), counter (8), the first 128 bits of an
/// HMAC-SHA-256 over those and the key id (16), key id (4). Numbers are big-endian. Issuing is deterministic: the same session
/// and counter always give the same token. Forgeries are refused without a database lookup.
package struct RefreshTokenKeys: Sendable {
    private static let version: UInt8 = 1
    private static let contentBytes = 26
    private static let macBytes = 16
    private static let keyIDBytes = 4
    private static let letters = Base64URL.encodedCount(contentBytes + macBytes + keyIDBytes)

    private final class Key: Sendable {
        let id: [UInt8]
        private let context: Mutex<MACContext>

        init(_ secret: [UInt8]) {
            let label: StaticString = "tollgate opaque refresh token"
            let own = Digest.hmacSHA256(label.rawBytes, key: secret.rawBytes)
            context = Mutex(MACContext(key: own.rawBytes, hash: .sha256))
            let idLabel: StaticString = "tollgate refresh key id"
            let id = Digest.hmacSHA256(idLabel.rawBytes, key: secret.rawBytes)
            self.id = Array(id.prefix(RefreshTokenKeys.keyIDBytes))
        }

        func mac(_ content: RawSpan) -> [UInt8] {
            var message = ByteBuffer(capacity: 32)
            message.append(content)
            message.append(id)
            return Array(context.withLock { $0.authenticate(message.readable) }.prefix(RefreshTokenKeys.macBytes))
        }
    }

    private let active: Key
    private let all: [Key]

    /// `secret` issues and verifies; `earlier` secrets only verify. Each has at least 32 random bytes. Keys are derived from it
    /// under labels of their own, so the secret may have other uses.
    package init(secret: [UInt8], earlier: [[UInt8]] = []) {
        active = Key(secret)
        all = [active] + earlier.map(Key.init)
    }

    /// The token for this content under the newest secret.
    package func issue(_ token: RefreshToken) -> String {
        var bytes = ByteBuffer(capacity: 64)
        bytes.append(Self.version)
        bytes.append(token.contract)
        bytes.append(token.session.bytes)
        bytes.append(highBytes: token.counter, count: 8)
        let mac = active.mac(bytes.readable)
        bytes.append(mac)
        bytes.append(active.id)
        var text = ByteBuffer(capacity: 3 + Self.letters)
        text.append("v1." as StaticString)
        Base64URL.encode(bytes.readable, into: &text)
        return text.readable.text
    }

    /// The content of a token, which may be any bytes; nil unless one of the secrets issued it.
    package func verify(_ text: RawSpan) -> RefreshToken? {
        guard text.byteCount == 3 + Self.letters, text.hasPrefix("v1."),
            let bytes = Base64URL.decode(text.dropping(3)), bytes[0] == Self.version
        else { return nil }
        let content = bytes.rawBytes.extracting(0..<Self.contentBytes)
        let mac = bytes.rawBytes.extracting(Self.contentBytes..<Self.contentBytes + Self.macBytes)
        let keyID = bytes.rawBytes.dropping(Self.contentBytes + Self.macBytes)
        for key in all {
            let id = key.id
            guard id.rawBytes.equals(keyID), Digest.constantTimeEquals(key.mac(content).rawBytes, mac) else { continue }
            guard let session = UUID(bytes: content.extracting(2..<18)) else { return nil }
            return RefreshToken(contract: content[1], session: session, counter: content.load64(18).byteSwapped)
        }
        return nil
    }
}
