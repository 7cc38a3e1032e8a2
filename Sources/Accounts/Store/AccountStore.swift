package import Wire

/// Where accounts live. Each method is one transaction: all of it happens or nothing, and what it answered survives the
/// end of the process. What may clash is part of its answer; `StoreFault` is for a store that cannot.
///
/// The rules are not here: a store asks `RefreshRule`, `SignUpRule`, `CodeRule`, `ContactProofRule` and `IdentityRule` inside
/// its transaction and does what they say. Any task may call.
package protocol AccountStore: AccountRecords, SessionRecords, ContactRecords, OperatorRecords {
    /// Connects and brings the schema up to date. The other methods do that at first use as well.
    func prepare() async throws(StoreFault)
    /// Finishes what was begun. Nothing may be asked any more.
    func close() async
}

/// Accounts and how one signs in to them.
package protocol AccountRecords: Sendable {
    /// nil if there is none.
    func account(_ id: UUID) async throws(StoreFault) -> Account?
    func account(email: EmailAddress) async throws(StoreFault) -> Account?
    /// What a password is to be compared with; nil if there is no such account, more than one, or none with a password.
    func credential(for name: SignInName) async throws(StoreFault) -> Credential?
    /// Events of `AddressHistory.kinds` of the account that is named so, the newest first; none if there is no such account.
    func signIns(of target: GuessTarget, limit: Int) async throws(StoreFault) -> [AuditEvent]
    /// Whether an account is linked to what this provider calls so.
    func holdsIdentity(_ provider: Provider, subject: String) async throws(StoreFault) -> Bool
    /// Opens an account, and a session of it if one is given; see `SignUpRule` for an email that has one. Codes and reset
    /// tokens that were sent to the email before are dropped.
    func open(
        _ account: NewAccount, session: NewSession?, _ occasion: Occasion
    ) async throws(StoreFault) -> Opening
    /// Opens a session after `proof` held, and replaces the hash if it says so; nil if the password has changed since,
    /// or the account is gone.
    func signIn(
        _ user: UUID, proof: PasswordProof, session: NewSession?, _ occasion: Occasion
    ) async throws(StoreFault) -> SignIn?
    /// Signs in who an ID token names; see `IdentityRule`. `newUser` is the id of the account if one is opened.
    func signIn(
        _ proof: IdentityProof, newUser: UUID, session: NewSession, _ occasion: Occasion
    ) async throws(StoreFault) -> SignIn
    /// Replaces the password, ends all other sessions, and drops the codes and reset tokens that were sent to the account;
    /// nil if `session` has ended.
    func setPassword(
        _ hash: String, of user: UUID, keeping session: UUID, _ occasion: Occasion
    ) async throws(StoreFault) -> SignIn?
}

/// Sessions: each refreshed by its counter, and remembered for a while when it has ended.
package protocol SessionRecords: Sendable {
    func refresh(_ request: RefreshRequest, _ occasion: Occasion) async throws(StoreFault) -> RefreshOutcome
    /// Marks pairs as arrived. Sessions that have gone on or ended since are passed over.
    func confirm(_ pairs: [ConfirmedPair]) async throws(StoreFault)
    /// A session that has not ended, and its account.
    func session(_ id: UUID) async throws(StoreFault) -> SignIn?
    /// All of an account that have not ended and can still be refreshed, the newest first.
    func sessions(of user: UUID, now: WallTime) async throws(StoreFault) -> [Session]
    /// Ends one; nil if there is none.
    func end(_ session: UUID, _ reason: EndReason, _ occasion: Occasion) async throws(StoreFault) -> EndedSession?
    /// Ends all of an account.
    func endSessions(
        of user: UUID, _ reason: EndReason, _ occasion: Occasion
    ) async throws(StoreFault) -> [EndedSession]
    /// Those that ended at `since` or later, the oldest first.
    func endedSessions(since: WallTime) async throws(StoreFault) -> [EndedSession]
}

/// Codes and reset tokens, and what they prove.
package protocol ContactRecords: Sendable {
    /// Stores a code in place of the older one; answers the account that has the recipient.
    func putCode(_ code: PendingCode) async throws(StoreFault) -> Account?
    /// Tries a code, and if it is right does what `ContactProofRule` says.
    func redeem(_ redemption: CodeRedemption, _ occasion: Occasion) async throws(StoreFault) -> Redemption
    /// Stores a reset token; answers the account that has the email. Without one the same work is done.
    func putResetToken(_ token: PendingReset) async throws(StoreFault) -> Account?
    /// Whether a reset token can still be used.
    func holdsResetToken(digest: [UInt8], now: WallTime) async throws(StoreFault) -> Bool
    /// Uses a reset token up: the password is replaced, every session ends, a new one is opened, the codes and other reset
    /// tokens of the account are dropped, and the email that the token went to is proven, as `ContactProofRule` says. nil
    /// if the token is spent, or no account has that email.
    func resetPassword(
        digest: [UInt8], hash: String, session: NewSession, _ occasion: Occasion
    ) async throws(StoreFault) -> SignIn?
}

/// What operators do, and what gateways must hear of.
package protocol OperatorRecords: Sendable {
    /// In the order of their ids, from behind `after` on.
    func accounts(after: UUID?, limit: Int) async throws(StoreFault) -> [Account]
    /// Deletes an account and ends its sessions; nil if there is none.
    func delete(_ user: UUID, _ occasion: Occasion) async throws(StoreFault) -> [EndedSession]?
    /// nil if there is no such account.
    func entitlement(of user: UUID) async throws(StoreFault) -> Entitlement?
    func setTier(
        _ tier: String?, until: WallTime?, of user: UUID, _ occasion: Occasion
    ) async throws(StoreFault) -> Entitlement?
    /// What has changed from `mark` on: no change that was acknowledged after a reading is missing in the next one, in
    /// whatever order transactions came to an end and whatever the clocks say. Without a mark nothing but where the log
    /// ends. What a reading had may be in the next one too, under the same id. It goes back for a day.
    func changes(since mark: ChangeMark?) async throws(StoreFault) -> ChangeReading
    /// Lets an account act as an actor; false if there is no such account.
    func grant(_ actor: ActorName, to user: UUID, _ occasion: Occasion) async throws(StoreFault) -> Bool
    /// False if it had no such grant.
    func revoke(_ actor: ActorName, from user: UUID, _ occasion: Occasion) async throws(StoreFault) -> Bool
    func holdsGrant(_ actor: ActorName, user: UUID) async throws(StoreFault) -> Bool
    func grants(of user: UUID) async throws(StoreFault) -> [ActorName]
    /// By provider and subject.
    func identities(of user: UUID) async throws(StoreFault) -> [LinkedIdentity]
    /// The newest first.
    func auditEvents(of user: UUID, limit: Int) async throws(StoreFault) -> [AuditEvent]
    /// Drops what is long over: expired sessions, codes and reset tokens, and ended sessions that no access token can
    /// name any more.
    func sweep(now: WallTime) async throws(StoreFault)
}
