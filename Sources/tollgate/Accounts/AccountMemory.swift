internal import Accounts
internal import Contracts
internal import Synchronization
internal import Transport
internal import Wire

/// Accounts that were looked at lately, so that to show one costs no question to the store: fresh for two seconds, and
/// for ten minutes where the store is away. What changes on this gateway is seen here at once.
final class AccountMemory: AccountLookUp {
    private struct Entry {
        var account: Account
        var readAt: MonotonicTime
    }

    private static let freshNanoseconds: UInt64 = 2_000_000_000
    private static let usefulNanoseconds: UInt64 = 600_000_000_000
    private static let capacity = 16_384

    private let store: any AccountStore
    private let entries = Mutex<[UUID: Entry]>([:])

    init(store: any AccountStore) { self.store = store }

    func account(_ id: UUID) async throws(AccountError) -> Account? {
        let now = EventLoop.now().monotonic
        let known = entries.withLock { $0[id] }
        if let known, now.nanoseconds(since: known.readAt) < Self.freshNanoseconds { return known.account }
        do throws(StoreFault) {
            let account = try await store.account(id)
            if let account { note(account) } else { forget(id) }
            return account
        } catch {
            if let known, now.nanoseconds(since: known.readAt) < Self.usefulNanoseconds { return known.account }
            switch error {
            case .unavailable: throw .unavailable(retryAfterSeconds: 1)
            case .failed: throw .broken
            }
        }
    }

    /// What the store has just said of an account.
    func note(_ account: Account) {
        let entry = Entry(account: account, readAt: EventLoop.now().monotonic)
        entries.withLock { entries in
            if let known = entries[account.id], known.account.isNewer(than: account) { return }
            // Rather a few questions more than a list of who was here when.
            if entries.count >= Self.capacity { entries.removeAll(keepingCapacity: true) }
            entries[account.id] = entry
        }
    }

    func update(_ entitlement: Entitlement, of user: UUID) {
        entries.withLock { entries in
            guard let known = entries[user], known.account.entitlement.version < entitlement.version else { return }
            entries[user]?.account.entitlement = entitlement
        }
    }

    func forget(_ user: UUID) {
        entries.withLock { _ = $0.removeValue(forKey: user) }
    }
}

extension Account {
    fileprivate func isNewer(than other: Account) -> Bool {
        updatedAt > other.updatedAt || entitlement.version > other.entitlement.version
    }
}
