package import Wire

/// The passkeys of accounts. A proof is spent in the transaction that uses it.
package protocol PasskeyRecords: Sendable {
    /// nil if no account has a passkey of this credential.
    func passkey(_ credentialID: [UInt8]) async throws(StoreFault) -> Passkey?
    /// Oldest first.
    func passkeys(of user: UUID) async throws(StoreFault) -> [Passkey]
    /// Adds a passkey to the account of an open session.
    func add(
        _ passkey: Passkey, by session: CallerSession, spending proof: SpentProof, _ audit: AuditContext
    ) async throws(StoreFault) -> Result<Passkey, PasskeyRefusal>
    /// Opens an account with a passkey, or adds it to the account of the guest who signs up.
    func open(
        _ account: NewAccount, with passkey: Passkey, spending proof: SpentProof, session: NewSession, _ audit: AuditContext
    ) async throws(StoreFault) -> Result<SignIn, PasskeyRefusal>
    /// Signs in by a passkey whose signature was verified. `used` has the counter and the backup state of that sign-in. `present`, an open
    /// session of the same account, contract and device key, is renewed in place of opening another.
    func signIn(
        _ used: Passkey, spending proof: SpentProof, session: NewSession, present: CallerSession?, _ audit: AuditContext
    ) async throws(StoreFault) -> Result<SignIn, PasskeyRefusal>
    /// nil if the account has no such passkey.
    func rename(_ credentialID: [UInt8], of user: UUID, to name: String) async throws(StoreFault) -> Passkey?
    /// Removes a passkey and ends all sessions of its account but `session`. With `ways` it is refused if nothing is left to sign in with.
    func remove(
        _ credentialID: [UInt8], of user: UUID, keeping session: UUID?, _ ways: SignInWays?, _ audit: AuditContext
    ) async throws(StoreFault) -> Result<Account, PasskeyRefusal>
}

/// A proof that counts once over all gateways, such as a challenge.
package struct SpentProof: Sendable, Equatable {
    package let digest: [UInt8]
    /// From then on its age refuses it.
    package let endsAt: WallTime

    package init(digest: [UInt8], endsAt: WallTime) {
        self.digest = digest
        self.endsAt = endsAt
    }
}

/// Why a passkey is not added, removed, or does not sign in.
package enum PasskeyRefusal: Error, Sendable, Equatable {
    /// The credential does not hold, for this reason.
    case invalid(String)
    /// The challenge was answered before, is too old, or was issued for something else.
    case challenge
    /// The credential is registered already.
    case registered
    /// The account has `Passkey.most`.
    case full
    /// No account has this passkey.
    case unknown
    /// The user could not sign in any more.
    case last
    /// A sign-up by the session of an account that has something to sign in with.
    case notGuest
    case sessionEnded
}
