package import Wire

/// Accounts that are closed, erased or banned, and the tokens of Apple that are revoked then.
package protocol LeavingRecords: Sendable {
    /// Bans an account and ends its sessions; nil if there is none. A ban before it is replaced.
    func ban(_ ban: Ban, _ user: UUID, _ audit: AuditContext) async throws(StoreFault) -> BannedAccount?
    /// Lifts the ban of an account. An account without a ban stays as it is; nil without such an account.
    func unban(_ user: UUID, _ audit: AuditContext) async throws(StoreFault) -> Account?
    /// Closes the account of a session; without a grace in `rule`, erases it.
    func leave(_ caller: CallerSession, _ rule: DeletionRule, _ audit: AuditContext) async throws(StoreFault) -> Leave
    /// The closed accounts whose time has come, the oldest first, at most `limit` of them.
    func erasable(at now: WallTime, limit: Int) async throws(StoreFault) -> [UUID]
    /// Erases a closed account; false if it is gone, or its time has not come, because a sign-in has opened it again.
    func erase(_ user: UUID, _ audit: AuditContext) async throws(StoreFault) -> Bool
    /// Claims at most `limit` codes that are to be exchanged and tokens that are to be revoked now. Each is due again by
    /// `OutgoingSchedule.appleTokens`, here or at another gateway, unless it is replaced or dropped before.
    func claimAppleTokens(at now: WallTime, limit: Int) async throws(StoreFault) -> [AppleToken]
    /// Keeps the refresh token that a code was exchanged for, in place of the code and of older ones of the identity and the app.
    func replaceCode(_ token: AppleToken, by sealed: [UInt8], at now: WallTime) async throws(StoreFault)
    func drop(_ token: AppleToken) async throws(StoreFault)
    /// Drops codes that Apple takes no more, and tokens and notices that have failed until the end of their schedules; returns how many.
    func giveUp(at now: WallTime) async throws(StoreFault) -> [OutgoingQueue: Int]
    func outgoing() async throws(StoreFault) -> [OutgoingState]
    /// Carries out what Apple says of one of its users.
    func apply(
        _ notice: AppleNotice, _ ways: SignInWays, _ rule: DeletionRule, _ audit: AuditContext
    ) async throws(StoreFault) -> Bool
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

/// When users may delete their accounts, and when these are erased (`TOLLGATE_DELETION`).
package struct DeletionRule: Sendable, Equatable {
    /// How long a closed account is kept, in seconds; 0: it is erased at once.
    package var graceSeconds: Int64
    /// How old the sign-in may be, in seconds.
    package var recentSeconds: Int64

    package init(graceSeconds: Int64 = 0, recentSeconds: Int64 = 600) {
        self.graceSeconds = graceSeconds
        self.recentSeconds = recentSeconds
    }
}

/// The outcome of leaving.
package enum Leave: Sendable, Equatable {
    case erased
    /// All sessions have ended; a sign-in before this time opens it again.
    case closed(until: WallTime)
    /// The sign-in is too old.
    case notRecent
    case sessionEnded
}
