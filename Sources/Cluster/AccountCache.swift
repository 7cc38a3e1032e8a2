package import Accounts
internal import Synchronization
package import Wire

/// Accounts read lately, so that showing one takes no store query. Valid while the poller keeps up; otherwise the store is
/// asked first.
///
/// `ChangeLogPoller` evicts what changed, this gateway's own changes included, before the write is answered, and extends
/// `trust` with each reading of the log. While the store is away, an account is shown for up to ten minutes after it was read.
package final class AccountCache: Sendable {
    private struct Entry {
        var account: Account
        var readAt: MonotonicTime
    }

    private struct State {
        var entries: [UUID: Entry] = [:]
        var trustedUntil = MonotonicTime(nanoseconds: 0)
        /// Counts evictions: an account read before the latest one may be out of date, and is not kept.
        var evictions: UInt64 = 0
    }

    private static let usefulNanoseconds: UInt64 = 600_000_000_000
    private static let capacity = 16_384

    private let store: any AccountStore
    private let now: @Sendable () -> Moment
    private let state = Mutex(State())

    init(store: any AccountStore, now: @escaping @Sendable () -> Moment) {
        self.store = store
        self.now = now
    }

    /// nil if there is none. Throws a failure of the store if the account is not here.
    package func account(_ id: UUID) async throws(AccountFailure) -> Account? {
        let now = self.now().monotonic
        let (known, isTrusted, evictions) = state.withLock { ($0.entries[id], now < $0.trustedUntil, $0.evictions) }
        if let known, isTrusted { return known.account }
        do throws(StoreFault) {
            let account = try await store.account(id)
            if let account { keep(account, evictions) } else { evict(id) }
            return account
        } catch {
            if let known, now.nanoseconds(since: known.readAt) < Self.usefulNanoseconds { return known.account }
            switch error {
            case .unavailable, .busy: throw .unavailable(retryAfterSeconds: 1)
            case .failed, .banned: throw .broken
            }
        }
    }

    private func keep(_ account: Account, _ evictions: UInt64) {
        let entry = Entry(account: account, readAt: self.now().monotonic)
        state.withLock { state in
            guard state.evictions == evictions else { return }
            // Starting over is cheaper than a list in order of use.
            if state.entries.count >= Self.capacity { state.entries.removeAll(keepingCapacity: true) }
            state.entries[account.id] = entry
        }
    }

    /// Every change committed by a moment ago has been evicted: entries may be shown until then without asking.
    func trust(until: MonotonicTime) { state.withLock { $0.trustedUntil = max($0.trustedUntil, until) } }

    func evict(_ user: UUID) {
        state.withLock { state in
            state.evictions += 1
            state.entries[user] = nil
        }
    }

    func evictAll() {
        state.withLock { state in
            state.evictions += 1
            state.entries = [:]
        }
    }
}
