package import Wire

/// Accounts that are closed, erased or banned, and the tokens of Apple that are revoked then.
package protocol LeavingRecords: Sendable {
    /// Bans an account and ends its sessions; nil if there is none. A ban before it is replaced.
    func ban(_ ban: Ban, _ user: UUID, _ audit: AuditContext) async throws(StoreFault) -> BannedAccount?
    /// Lifts the ban of an account, if it has one; nil if there is no such account.
    func unban(_ user: UUID, _ audit: AuditContext) async throws(StoreFault) -> Account?
}

/// An account that was banned, and the sessions that this ended.
package struct BannedAccount: Sendable, Equatable {
    package let account: Account
    package let ended: [EndedSession]

    package init(_ account: Account, ended: [EndedSession]) {
        self.account = account
        self.ended = ended
    }
}
