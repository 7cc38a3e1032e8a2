package import Wire

/// An account as its user sees and changes it.
package protocol OwnAccountRecords: Sendable {
    /// Links the identity of a verified ID token to the account of an open session, and adds what the token proves and the account lacks.
    func link(
        _ proof: IdentityProof, by session: CallerSession, _ audit: AuditContext
    ) async throws(StoreFault) -> Result<Account, LinkRefusal>
    /// Unlinks the identities of a source from the account of an open session.
    func unlink(
        _ source: IdentitySource, by session: CallerSession, _ ways: SignInWays, _ audit: AuditContext
    ) async throws(StoreFault) -> Result<Void, UnlinkRefusal>
    /// Ends all sessions of an account but one, also those at outside issuers.
    func endSessions(
        of user: UUID, keeping session: UUID, _ reason: EndReason, _ audit: AuditContext
    ) async throws(StoreFault) -> [EndedSession]
    /// Notes when sessions were used, unless they were used since.
    func saw(_ uses: [SessionUse]) async throws(StoreFault)
    /// The devices of an account, those that were seen last first.
    func devices(of user: UUID) async throws(StoreFault) -> [KnownDevice]
    /// One name for an account, whatever it is called: its email, else its phone; `target` for no account, or for more than one.
    func guessTarget(_ target: GuessTarget) async throws(StoreFault) -> GuessTarget
}

/// The use of a session's access token.
package struct SessionUse: Sendable, Hashable {
    package let session: UUID
    package let at: WallTime

    package init(session: UUID, at: WallTime) {
        self.session = session
        self.at = at
    }
}
