package import Accounts
package import Wire

/// Reads the account of a caller for endpoints that only show it: from the store, or from a gateway's cache.
package protocol AccountLookUp: Sendable {
    /// nil if there is no such account.
    func account(_ id: UUID) async throws(AccountFailure) -> Account?
}

extension AccountDirectory: AccountLookUp {}
