package import Wire

/// Guests that are merged into accounts.
package protocol MergeRecords: Sendable {
    /// Merges a guest into an account by `GuestRule`. The guest of a session that a merge has ended is answered as by that merge.
    func merge(_ merging: Merging, _ audit: AuditContext) async throws(StoreFault) -> MergeOutcome
    /// The services have moved what was the merged account's, so that the merge is announced no longer; false if it was not announced.
    func mergeDone(from: UUID, to account: UUID, _ audit: AuditContext) async throws(StoreFault) -> Bool
    /// The account for which the id of a merged one stands, for `Merge.aliasSeconds`; nil for none.
    func account(mergedFrom id: UUID) async throws(StoreFault) -> Account?
}

/// A merge that the user of an account asks for.
package struct Merging: Sendable, Equatable {
    /// A session of the guest.
    package let guest: UUID
    /// The refresh token that proves it; nil for an access token.
    package let refresh: RefreshRequest?
    package let account: UUID
    /// The caller's session of the account; nil for a caller with a token of an outside issuer.
    package let session: UUID?
    package let order: TierOrder

    package init(guest: UUID, refresh: RefreshRequest? = nil, into account: UUID, by session: UUID?, _ order: TierOrder) {
        (self.guest, self.refresh, self.account, self.session, self.order) = (guest, refresh, account, session, order)
    }
}

/// The outcome of a merge.
package enum MergeOutcome: Sendable, Equatable {
    /// The account's id is `into`. `isRepeated` if the guest had been merged into it before.
    case merged(from: UUID, into: UUID, isRepeated: Bool)
    /// The token is not of a guest, is of the account itself, or of a guest that was merged into another account.
    case notGuest
    /// The guest's session has ended.
    case noGuest
    /// The account, or the caller's session of it, is gone.
    case noCaller
    /// So many merges are announced of the account that there is no room for another one before this time.
    case full(until: WallTime)
}

/// A merge whose announcement has ended before services had moved what was the merged account's.
package struct UntakenMerge: Sendable, Equatable {
    package let from: UUID
    package let into: UUID

    package init(from: UUID, into: UUID) { (self.from, self.into) = (from, into) }
}
