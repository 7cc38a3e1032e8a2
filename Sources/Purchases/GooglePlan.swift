package import Accounts
internal import Credentials
package import Wire

/// What the operator has set for Google Play.
package struct GooglePlan: Sendable, Equatable {
    /// The apps' package names.
    package let packages: [String]
    package let environments: Set<StoreEnvironment>
    package let account: GoogleServiceAccount
    /// The audience and the service account that the push subscription signs with.
    package let audience: String
    package let pushEmail: String
    /// Google's public keys, `https://www.googleapis.com/oauth2/v3/certs`.
    package let keysURL: String
    /// `https://oauth2.googleapis.com/token`
    package let tokenURL: String
    /// `https://androidpublisher.googleapis.com`, without a slash at its end.
    package let apiURL: String

    package init(
        packages: [String], environments: Set<StoreEnvironment>, account: GoogleServiceAccount, audience: String, pushEmail: String,
        keysURL: String, tokenURL: String, apiURL: String
    ) {
        self.packages = packages
        self.environments = environments
        self.account = account
        self.audience = audience
        self.pushEmail = pushEmail
        self.keysURL = keysURL
        self.tokenURL = tokenURL
        self.apiURL = apiURL
    }
}

/// The key of a service account, as the console of Google Cloud writes it into a JSON file.
package struct GoogleServiceAccount: Sendable, Equatable {
    let email: String
    let keyID: String
    let key: SigningKey

    package init(file: RawSpan) throws(ParseError) {
        let account = JSONTree(file) ?? .null
        guard account["type"].text == "service_account", let email = account["client_email"].id,
            let keyID = account["private_key_id"].id, let pem = account["private_key"].text
        else { throw ParseError("is no key of a service account, make one in JSON in the console of Google Cloud") }
        key = try Self.key(Array(pem.utf8))
        self.email = email
        self.keyID = keyID
    }

    /// Google gives each key an id of its own.
    package static func == (one: Self, other: Self) -> Bool { (one.email, one.keyID) == (other.email, other.keyID) }

    private static func key(_ pem: [UInt8]) throws(ParseError) -> SigningKey {
        do throws(KeyFault) {
            return try SigningKey(pem: pem.rawBytes, algorithm: .RS256)
        } catch {
            throw ParseError("has no RSA key as its private_key")
        }
    }

    /// The JWT that is exchanged for an access token (RFC 7523 §2.1).
    func assertion(for tokenURL: String, now: WallTime) throws(KeyFault) -> String {
        try key.assertion(
            by: email, for: tokenURL, keyID: keyID, "scope", "https://www.googleapis.com/auth/androidpublisher", seconds: 3_600, now: now)
    }
}
