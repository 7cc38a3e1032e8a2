internal import Credentials
package import Wire

/// An authorization code of Apple, or the refresh token that it was exchanged for, as it is kept: sealed. It is revoked at Apple when its
/// account is closed or the identity unlinked.
package struct AppleToken: Sendable, Equatable {
    /// How long Apple takes a code, and how long a revocation is tried, in seconds.
    package static let codeSeconds: Int64 = 300
    package static let revocationSeconds: Int64 = 30 * 86_400

    package let id: UUID
    /// The app that it was issued to.
    package let client: String
    package let sealed: [UInt8]
    package var isCode = true
    package var isRevoked = false
    /// How often a gateway has claimed it to ask Apple, this time included.
    package var tries: Int64 = 0

    package init(id: UUID, client: String, sealed: [UInt8]) {
        self.id = id
        self.client = client
        self.sealed = sealed
    }
}

/// Seals what is kept of Apple's tokens, for the apps of `TOLLGATE_APPLE_KEY`. Any thread.
package struct AppleVault: Sendable {
    /// Apple's codes have some 60 bytes.
    private static let longestCode = 1_024

    private let box: SealedBox
    private let clients: Set<String>

    /// `secret` is the refresh token secret, from which the key is derived.
    package init(secret: [UInt8], clients: Set<String>) {
        box = SealedBox(secret: secret, label: "tollgate apple token")
        self.clients = clients
    }

    /// The code of a sign-in; nil for one that cannot be Apple's, and for an app without a key.
    func token(_ code: String, client: String?, id: UUID) -> AppleToken? {
        guard let client, clients.contains(client), 1...Self.longestCode ~= code.utf8.count else { return nil }
        return AppleToken(id: id, client: client, sealed: seal(code, id))
    }

    func seal(_ text: String, _ id: UUID) -> [UInt8] { box.seal(Array(text.utf8), as: id.text) }

    /// nil if it was sealed with another secret.
    func open(_ token: AppleToken) -> String? {
        box.open(token.sealed, as: token.id.text).flatMap { String(validating: $0, as: UTF8.self) }
    }
}
