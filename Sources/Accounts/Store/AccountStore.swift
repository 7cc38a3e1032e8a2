package import Credentials
package import Wire

/// The database of accounts. Each method is one transaction: atomic, and durable once it has returned. Conflicts are part of
/// the results; `StoreFault` means that the store itself failed.
///
/// A store applies the verdicts of `RefreshRule`, `SignUpRule`, `CodeRule`, `ContactProofRule`, `IdentityRule` and `SubjectRule` inside its
/// transactions and has no rules of its own. May be called from any task.
package protocol AccountStore: AccountRecords, SessionRecords, OutsideRecords, ContactRecords, OperatorRecords, PurchaseRecords,
    GatewayRecords, OwnAccountRecords, MergeRecords, LeavingRecords, EventRecords, NoticeRecords,
    SwitchRecords, APIKeyRecords, AppRecords, PasskeyRecords, FactorRecords
{
    /// Connects and migrates the schema. The other methods do so too, at first use.
    func prepare() async throws(StoreFault)
    /// Finishes the calls in progress. No method may be called afterwards.
    func close() async
}

/// Accounts, and sign-in to them.
package protocol AccountRecords: Sendable {
    /// nil if there is no such account.
    func account(_ id: UUID) async throws(StoreFault) -> Account?
    func account(email: EmailAddress) async throws(StoreFault) -> Account?
    /// The stored hash for a name; nil if no account, or more than one, has that name and a password.
    func credential(for name: SignInName) async throws(StoreFault) -> Credential?
    /// Audit events of `AddressHistory.kinds` of the account with this name, newest first; none without such an account.
    func signIns(of target: GuessTarget, limit: Int) async throws(StoreFault) -> [AuditEvent]
    /// The account that an identity is linked to; nil if there is none.
    func account(of identity: IdentityKey) async throws(StoreFault) -> Account?
    /// Adds imported accounts by `ImportRule`, with the id from `newIDs` where a line has none; returns what became of each.
    func add(
        _ lines: [ImportedAccount], newIDs: [UUID], _ audit: AuditContext
    ) async throws(StoreFault) -> [ImportVerdict]
    /// Creates an account, and a session of it if one is given; `SignUpRule` decides over an email that is taken. Codes and
    /// reset tokens sent to the email before are dropped.
    func open(
        _ account: NewAccount, session: NewSession?, _ audit: AuditContext
    ) async throws(StoreFault) -> Opening
    /// Opens a session after the password matched, and stores the replacement hash of `proof`, if any; nil if the password has
    /// changed since, or the account is gone.
    func signIn(
        _ user: UUID, proof: PasswordProof, session: NewSession?, _ audit: AuditContext
    ) async throws(StoreFault) -> SignIn?
    /// Signs in the user of an ID token by `IdentityRule`. `newUser` is the id of the account if one is created.
    func signIn(
        _ proof: IdentityProof, newUser: UUID, session: NewSession, _ audit: AuditContext
    ) async throws(StoreFault) -> SignIn
    /// Replaces the password, ends all other sessions, and drops the codes and reset tokens sent to the account; nil if
    /// `session` has ended.
    func setPassword(
        _ hash: String, of user: UUID, keeping session: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> SignIn?
}

/// Sessions. Ended ones are kept until their access tokens have expired.
package protocol SessionRecords: Sendable {
    func refresh(_ request: RefreshRequest, _ audit: AuditContext) async throws(StoreFault) -> RefreshOutcome
    /// Marks pairs as delivered. Skips sessions that were refreshed again or ended since.
    func confirm(_ pairs: [ConfirmedPair]) async throws(StoreFault)
    /// Opens a session without a sign-in, for the operator; nil if there is no such account.
    func openSession(_ new: NewSession, of user: UUID, _ audit: AuditContext) async throws(StoreFault) -> SignIn?
    /// An open session and its account; nil if it has ended.
    func session(_ id: UUID) async throws(StoreFault) -> SignIn?
    /// The sessions of an account that can still be refreshed, newest first.
    func sessions(of user: UUID, now: WallTime) async throws(StoreFault) -> [Session]
    /// Ends one session; nil if there is none.
    func end(_ session: UUID, _ reason: EndReason, _ audit: AuditContext) async throws(StoreFault) -> EndedSession?
    /// Ends the session of a token that is revoked; false if it is open still, because it is bound to another key.
    func signOut(_ session: UUID, provenBy key: KeyThumbprint?, _ audit: AuditContext) async throws(StoreFault) -> Bool
    /// Ends all sessions of an account, also those at outside issuers.
    func endSessions(
        of user: UUID, _ reason: EndReason, _ audit: AuditContext
    ) async throws(StoreFault) -> [EndedSession]
    /// Those that have ended until they are swept, oldest first.
    func endedSessions() async throws(StoreFault) -> [EndedSession]
}

/// Codes and reset tokens, which prove an address.
package protocol ContactRecords: Sendable {
    /// Stores a code, replacing the older one; returns the account that has the recipient's address.
    func putCode(_ code: PendingCode) async throws(StoreFault) -> Account?
    /// Tries a code; if it is right, applies the verdict of `ContactProofRule`.
    func redeem(_ redemption: CodeRedemption, _ audit: AuditContext) async throws(StoreFault) -> Redemption
    /// Stores a reset token; returns the account that has the email. Does the same work without one, so timing shows nothing.
    func putResetToken(_ token: PendingReset) async throws(StoreFault) -> Account?
    /// Whether a reset token can still be used.
    func holdsResetToken(digest: [UInt8], now: WallTime) async throws(StoreFault) -> Bool
    /// Spends a reset token: replaces the password, ends every session and opens a new one, drops the codes and other reset
    /// tokens of the account, and counts as proof of the email (`ContactProofRule`). nil if the token is spent, or no account
    /// has that email.
    func resetPassword(
        digest: [UInt8], hash: String, session: NewSession, _ audit: AuditContext
    ) async throws(StoreFault) -> SignIn?
}

/// The operator's changes, and the change log.
package protocol OperatorRecords: Sendable {
    /// At most `limit` accounts with ids above `after`, in the order of their ids.
    func accounts(after: UUID?, limit: Int) async throws(StoreFault) -> [Account]
    /// The accounts that `search` names in full, then those that have its text in part.
    func accounts(matching search: AccountSearch) async throws(StoreFault) -> AccountMatches
    /// Deletes an account, ends its sessions and erases the addresses in its audit events, and what stores sent of its purchases; these
    /// stay without an account, and another one may claim them. nil if there is none.
    func delete(_ user: UUID, _ audit: AuditContext) async throws(StoreFault) -> [EndedSession]?
    /// nil if there is no such account.
    func standing(of user: UUID) async throws(StoreFault) -> AccountStanding?
    func setTier(
        _ tier: String?, until: WallTime?, of user: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> Entitlement?
    /// Changes the attributes of an account. A failure if the result is malformed or too large; nil without such an account.
    func change(
        _ attributes: AttributeChange, of user: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> Result<Attributes, Metadata.Fault>?
    /// The entitlement of the account that an identity is linked to; nil if there is none.
    func entitlement(of identity: IdentityKey) async throws(StoreFault) -> Entitlement?
    /// Sets the tier of the account that an identity is linked to. Without one, an account without sign-in is made, with the id
    /// `newUser`, and the identity linked to it.
    func setTier(
        _ tier: String?, until: WallTime?, of identity: IdentityKey, newUser: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> Account
    /// Logs that what gateways cache of an identity is out of date, whether or not it is linked.
    func forget(_ identity: IdentityKey) async throws(StoreFault)
    /// The changes from `mark` on; without a mark, only where the log ends. Every change acknowledged after one reading is in
    /// the next, whatever the commit order and the clocks. A change may be in two consecutive readings, under the same id.
    /// The log keeps a day.
    func changes(since mark: ChangeMark?) async throws(StoreFault) -> ChangeReading
    /// Lets an account act as an actor; false if there is no such account.
    func grant(_ actor: ActorName, to user: UUID, _ audit: AuditContext) async throws(StoreFault) -> Bool
    /// False if the account had no such grant.
    func revoke(_ actor: ActorName, from user: UUID, _ audit: AuditContext) async throws(StoreFault) -> Bool
    func holdsGrant(_ actor: ActorName, user: UUID) async throws(StoreFault) -> Bool
    func grants(of user: UUID) async throws(StoreFault) -> [ActorName]
    /// Sorted by provider and subject.
    func identities(of user: UUID) async throws(StoreFault) -> [LinkedIdentity]
    /// The events of one account, or of all with nil, that are older than the event `before`; newest first.
    func auditEvents(of user: UUID?, before: UUID?, limit: Int) async throws(StoreFault) -> [AuditEvent]
    /// Removes expired sessions, codes, reset tokens and spent proofs, ended sessions whose access tokens have all expired, old entries of the
    /// change log, the addresses of audit events that are older than `AuditEvent.addressSeconds`, store events that are older than
    /// `KeptStoreEvent.keptSeconds`, and events that were parked before `Subscription.parkedSeconds`, by `now` or the database's clock if that is earlier. Where gateways and database share a machine and
    /// its clock, no sweep goes further than `stride` seconds beyond the last one.
    ///
    /// Ends the announcements of merges that are over, and the ids of merged accounts; returns the merges that no service has taken.
    @discardableResult
    func sweep(now: WallTime, stride: Int64) async throws(StoreFault) -> [UntakenMerge]
}
