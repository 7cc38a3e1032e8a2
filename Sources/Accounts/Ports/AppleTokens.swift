/// Apple's server of tokens. Any task.
package protocol AppleTokens: Sendable {
    /// Exchanges an authorization code of an app for its refresh token.
    func redeem(code: String, client: String) async throws(AppleTokenFault) -> String
    func revoke(token: String, client: String) async throws(AppleTokenFault)
}

/// Why Apple does not do as it is asked.
package enum AppleTokenFault: Error, Equatable, Sendable {
    /// The code or the token is spent, has expired, or is none of Apple's.
    case refused
    /// Apple does not answer, or does not take our key: it is asked again.
    case unavailable(String)
}

/// Apple, and the vault of its tokens: the part of the accounts in force that `TOLLGATE_APPLE_KEY` sets up.
package struct AppleDesk: Sendable {
    package let tokens: any AppleTokens
    package let vault: AppleVault

    package init(tokens: any AppleTokens, vault: AppleVault) {
        self.tokens = tokens
        self.vault = vault
    }
}
