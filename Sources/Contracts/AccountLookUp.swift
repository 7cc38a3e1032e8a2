package import Accounts
package import Wire

/// Finds the account of a caller, for endpoints that do no more than show it: the store itself, or what is remembered of
/// it.
package protocol AccountLookUp: Sendable {
    /// nil if there is none.
    func account(_ id: UUID) async throws(AccountError) -> Account?
}

extension AccountDirectory: AccountLookUp {}
