/// Everything that accounts refuse, and why: a closed list that each contract puts into its own words and statuses.
package enum AccountError: Error, Equatable, Sendable {
    // What was sent cannot be what it should be.
    case malformedEmail
    case malformedPhone
    case malformedUsername
    case malformedName
    case malformedMetadata
    case metadataTooLarge
    case malformedActor
    /// The password may not be chosen.
    case unfitPassword(PasswordFault)

    // It clashes with what is there.
    case emailTaken
    case phoneTaken
    /// There is no such account. Told only to callers who may know.
    case noSuchAccount

    // It does not prove what it should.
    /// No such account, no password on it, or another one.
    case invalidCredentials
    /// Wrong, spent, expired, or tried too often.
    case invalidCode
    case invalidResetToken
    /// Forged, of another contract, spent, or of a session that has ended.
    case invalidRefreshToken
    /// The session's time is over.
    case refreshTokenExpired
    /// The session behind the caller's access token has ended, or its account is gone.
    case sessionEnded
    /// The operator has not set this provider up.
    case providerOff
    /// The provider's ID token does not hold.
    case identityRefused
    /// The caller may not act as that actor.
    case actorNotGranted

    // It cannot be done now. Seconds after which to try again, 1 or more.
    case tooManyAttempts(retryAfterSeconds: Int)
    /// More passwords wait to be hashed than may.
    case overloaded(retryAfterSeconds: Int)
    /// The store is away, or does not answer in time.
    case unavailable(retryAfterSeconds: Int)
    /// The provider's keys cannot be had.
    case providerUnavailable

    /// The store or the signing key does what it never should: our fault, for the log to tell.
    case broken
}
