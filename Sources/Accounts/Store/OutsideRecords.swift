package import Wire

/// Accounts as tokens of outside issuers reach them (`accounts=on`), and the sessions that were taken over from such an issuer.
package protocol OutsideRecords: Sendable {
    /// The verdict of `SubjectRule` on a subject.
    func subject(_ key: IdentityKey) async throws(StoreFault) -> SubjectVerdict
    /// The record of an outside refresh token, by its keyed digest; nil if it was neither adopted nor signed out here.
    func adopted(_ digest: [UInt8]) async throws(StoreFault) -> AdoptedToken?
    /// Opens the session that continues an outside one. A refresh token is adopted once, however many calls there are.
    func adopt(_ adoption: Adoption, _ audit: AuditContext) async throws(StoreFault) -> AdoptionOutcome
    /// Refuses an outside access token from now on. With the digest of a refresh token, that one is never adopted any more, and a
    /// session of the same account that was adopted from it ends.
    func end(_ ended: EndedSession, refreshToken digest: [UInt8]?, _ audit: AuditContext) async throws(StoreFault)
}

/// An outside refresh token that was redeemed at its issuer.
package struct Adoption: Sendable {
    /// The token's keyed digest.
    package let digest: [UInt8]
    /// The subject of the access token that the issuer answered with.
    package let key: IdentityKey
    package let session: NewSession

    package init(digest: [UInt8], key: IdentityKey, session: NewSession) {
        self.digest = digest
        self.key = key
        self.session = session
    }
}

/// The record of an outside refresh token. It is kept for good: the issuer may honour the token for longer than the session lasts.
package struct AdoptedToken: Sendable, Equatable {
    /// The session that was opened for it, which may have ended; nil if the token was signed out before.
    package let session: UUID?

    package init(session: UUID?) { self.session = session }
}

/// The outcome of an adoption.
package enum AdoptionOutcome: Sendable, Equatable {
    case adopted(SignIn)
    /// It was adopted or signed out before.
    case known(AdoptedToken)
    /// `SubjectRule` gives no account.
    case refused
}
