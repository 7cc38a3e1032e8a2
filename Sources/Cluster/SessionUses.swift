package import Accounts
package import Gate
internal import Synchronization
internal import Threads
internal import Wire

/// Notes when sessions are used: the workers tell of each at most every half minute, and every 20 seconds the store is told of all that were
/// used since. The last use of a session is therefore true within a minute, on every gateway.
package final class SessionUses: Sendable {
    /// Sessions that may wait. One beyond is noted in the next half minute.
    private static let capacity = 65_536
    /// Other writes come in between.
    private static let perTransaction = 200

    private struct State {
        var waiting: [UUID: WallTime] = [:]
        var isWriting = false
    }

    private let sessions: Sessions
    private let batchMilliseconds: UInt64
    private let state = Mutex(State())

    package init(sessions: Sessions, batchMilliseconds: UInt64 = 20_000) {
        self.sessions = sessions
        self.batchMilliseconds = batchMilliseconds
    }

    /// A request came with a token of an own session. Any thread; returns at once.
    package func saw(_ token: TokenDelivery) {
        guard let session = UUID(parsing: token.session) else { return }
        let now = sessions.now
        let isFirst = state.withLock { state in
            guard state.waiting.count < Self.capacity || state.waiting[session] != nil else { return false }
            state.waiting[session] = now
            defer { state.isWriting = true }
            return !state.isWriting
        }
        guard isFirst else { return }
        // Unstructured, because the caller is an event loop: it ends when no session waits.
        Task {
            repeat {
                await pause(milliseconds: batchMilliseconds)
                await write()
            } while hasMore()
        }
    }

    /// Uses that cannot be written wait on.
    private func write() async {
        let waiting = state.withLock { state in
            defer { state.waiting = [:] }
            return state.waiting
        }
        // In one order on all gateways, so that none waits for another in a circle.
        var uses = waiting.map { SessionUse(session: $0.key, at: $0.value) }.sorted { $0.session < $1.session }[...]
        do throws(AccountFailure) {
            while !uses.isEmpty {
                try await sessions.note(Array(uses.prefix(Self.perTransaction)))
                uses = uses.dropFirst(Self.perTransaction)
            }
        } catch {
            // The service has logged it.
            state.withLock { state in
                for use in uses where state.waiting.count < Self.capacity {
                    state.waiting.merge([use.session: use.at], uniquingKeysWith: max)
                }
            }
        }
    }

    private func hasMore() -> Bool {
        state.withLock { state in
            state.isWriting = !state.waiting.isEmpty
            return state.isWriting
        }
    }
}
