internal import Accounts
internal import Contracts
internal import Synchronization
internal import Transport
internal import Wire

/// Accounts that were looked at lately, so that to show one costs no question to the store.
///
/// What changes is dropped from here, by whoever changes it on this gateway before the change is answered, and by
/// `ChangeWatch` for all others. So an account is good for as long as the watch keeps up; when it does not, the store is
/// asked as long as it answers, and for ten minutes more what it said last is shown.
final class AccountMemory: AccountLookUp {
    private struct Entry {
        var account: Account
        var readAt: MonotonicTime
    }

    private struct State {
        var entries: [UUID: Entry] = [:]
        var trustedUntil = MonotonicTime(nanoseconds: 0)
        /// Counts what was dropped: an account that was read before may be the old one.
        var drops: UInt64 = 0
    }

    private static let usefulNanoseconds: UInt64 = 600_000_000_000
    private static let capacity = 16_384

    private let store: any AccountStore
    private let state = Mutex(State())

    init(store: any AccountStore) { self.store = store }

    func account(_ id: UUID) async throws(AccountFailure) -> Account? {
        let now = EventLoop.now().monotonic
        let (known, isGood, drops) = state.withLock { ($0.entries[id], now < $0.trustedUntil, $0.drops) }
        if let known, isGood { return known.account }
        do throws(StoreFault) {
            let account = try await store.account(id)
            if let account { keep(account, drops) } else { forget(id) }
            return account
        } catch {
            if let known, now.nanoseconds(since: known.readAt) < Self.usefulNanoseconds { return known.account }
            switch error {
            case .unavailable: throw .unavailable(retryAfterSeconds: 1)
            case .failed: throw .broken
            }
        }
    }

    private func keep(_ account: Account, _ drops: UInt64) {
        let entry = Entry(account: account, readAt: EventLoop.now().monotonic)
        state.withLock { state in
            guard state.drops == drops else { return }
            // Rather a few questions more than a list of who was here when.
            if state.entries.count >= Self.capacity { state.entries.removeAll(keepingCapacity: true) }
            state.entries[account.id] = entry
        }
    }

    /// All that had changed in the store by a moment ago has been dropped: what is here is good for a while.
    func trust(until: MonotonicTime) { state.withLock { $0.trustedUntil = max($0.trustedUntil, until) } }

    func forget(_ user: UUID) {
        state.withLock { state in
            state.drops += 1
            state.entries[user] = nil
        }
    }

    func forgetAll() {
        state.withLock { state in
            state.drops += 1
            state.entries = [:]
        }
    }
}
