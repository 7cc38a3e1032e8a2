import Foundation
import Synchronization

/// Apple and Google: keys of the tests' own that sign their ID tokens, and a server that publishes them.
final class Providers: Sendable {
    static let shared = Result { try Providers() }
    /// The app that the tokens are for.
    static let app = "com.example.app"

    private let key: IssuerKey
    /// Has the name of the real one, and is another.
    private let forger: IssuerKey
    private let server: Upstream
    /// A key signs one token at a time.
    private let signing = Mutex(())

    init() throws {
        key = try IssuerKey(.rs256, kid: "k1")
        forger = try IssuerKey(.rs256, kid: "k1")
        let keys = try keySet(key)
        server = try Upstream { _, connection in
            try connection.send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(keys.utf8.count)\r\n\r\n\(keys)")
        }
    }

    /// Settings that trust both; with their keys at `url` in place of where they are.
    func settings(keysAt url: String? = nil) -> String {
        let url = url ?? server.url + "/keys"
        return """
            TOLLGATE_PROVIDER_APPLE="client-ids=\(Self.app) issuer=https://appleid.apple.com jwks=\(url)"
            TOLLGATE_PROVIDER_GOOGLE="client-ids=\(Self.app) jwks=\(url)"
            """
    }

    /// The setting of another provider.
    func line(_ name: String) -> String {
        "TOLLGATE_PROVIDER_\(name.uppercased())=\"client-ids=\(Self.app) issuer=https://\(name).test jwks=\(server.url)/keys\""
    }

    /// A token with these claims beside the usual ones, or in their place; `forger` signs with another's key. Times may
    /// be written from now on: `+600`.
    func token(_ provider: String, _ claims: String) throws -> String {
        guard var members = try JSONSerialization.jsonObject(with: Data(claims.utf8)) as? [String: Any] else {
            throw Fault("\(claims) are no claims")
        }
        for (name, usual) in [("iat", "+0"), ("exp", "+600")] {
            guard let offset = Int(members[name] as? String ?? usual) else { throw Fault("\(name) is no time") }
            members[name] = unixNow + offset
        }
        members["aud"] = members["aud"] ?? Self.app
        let issuers = [
            "apple": "https://appleid.apple.com", "google": "https://accounts.google.com", "forger": "https://accounts.google.com",
        ]
        members["iss"] = members["iss"] ?? issuers[provider] ?? "https://\(provider).test"
        let text = String(decoding: try JSONSerialization.data(withJSONObject: members), as: UTF8.self)
        let signer = provider == "forger" ? forger : key
        return try signing.withLock { _ in try signer.token(text) }
    }
}
