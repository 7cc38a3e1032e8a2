package import Wire

/// Notices that are to be sent, and the ways back that they open.
package protocol NoticeRecords: Sendable {
    /// Claims at most `limit` notices that are due, the oldest first. Each is due again by `OutgoingSchedule.notices`, here or at another
    /// gateway, unless it is settled before.
    func claimNotices(at now: WallTime, limit: Int) async throws(StoreFault) -> [Notice]
    /// Marks notices as sent, or as refused for good.
    func settleNotices(_ ids: Set<UUID>) async throws(StoreFault)
    /// The address that a notice of `emailLeft` leads back to; nil if it is too old, was used, or its account is gone.
    func wayBack(by notice: UUID, now: WallTime) async throws(StoreFault) -> EmailAddress?
    /// Takes that way: gives the account that address back, removes its password and what can sign in since the change, and ends all
    /// sessions; nil as above, and if another account has proven the address meanwhile.
    func takeBack(by notice: UUID, _ audit: AuditContext) async throws(StoreFault) -> EmailReturn?
}

/// An account that has its former email again.
package struct EmailReturn: Sendable, Equatable {
    package let account: Account
    /// Whether a password was removed, which must be chosen anew.
    package let hadPassword: Bool

    package init(account: Account, hadPassword: Bool) {
        self.account = account
        self.hadPassword = hadPassword
    }
}
