package import Accounts
package import Gate
internal import Synchronization
internal import Threads
internal import Wire

/// Batches, every 100 ms, the access tokens seen on requests: the use of one confirms to the store that its refreshed pair
/// has reached the client. Each pair is written once, and again later while the store is away.
package final class TokenConfirmations: Sendable {
    /// Pairs that may wait. One beyond is seen again on another worker, or costs no more than a refresh's grace.
    private static let capacity = 8_192
    /// Written pairs that are remembered, so that they are not written again.
    private static let rememberedPairs = 65_536
    private static let batchMilliseconds: UInt64 = 100
    private static let retryMilliseconds: UInt64 = 1_000

    private struct State {
        var waiting: Set<ConfirmedPair> = []
        var written: Set<ConfirmedPair> = []
        var isWriting = false
    }

    private let sessions: Sessions
    private let state = Mutex(State())

    package init(sessions: Sessions) { self.sessions = sessions }

    /// A request came with this token of an own session. Any thread; returns at once.
    package func saw(_ sighting: TokenDelivery) {
        guard let session = UUID(parsing: sighting.session),
            let token = sighting.token.withRawBytes({ AccessTokenID(parsing: $0) }), token.counter > 0
        else { return }
        let pair = ConfirmedPair(session: session, counter: token.counter)
        let isFirst = state.withLock { state in
            guard state.waiting.count < Self.capacity, !state.written.contains(pair) else { return false }
            state.waiting.insert(pair)
            defer { state.isWriting = true }
            return !state.isWriting
        }
        guard isFirst else { return }
        // Unstructured, because the caller is an event loop: it ends when no pair waits.
        Task {
            var wait = Self.batchMilliseconds
            repeat {
                await pause(milliseconds: wait)
                wait = await write() ? Self.batchMilliseconds : Self.retryMilliseconds
            } while hasMore()
        }
    }

    /// False if the store is away; the pairs then wait on.
    private func write() async -> Bool {
        let pairs = state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        do throws(AccountFailure) {
            if !pairs.isEmpty { try await sessions.confirm(Array(pairs)) }
            state.withLock { state in
                if state.written.count >= Self.rememberedPairs { state.written = [] }
                state.written.formUnion(pairs)
            }
            return true
        } catch {
            // The service has logged it.
            state.withLock { state in
                if state.waiting.count < Self.capacity { state.waiting.formUnion(pairs) }
            }
            return false
        }
    }

    private func hasMore() -> Bool {
        state.withLock { state in
            state.isWriting = !state.waiting.isEmpty
            return state.isWriting
        }
    }
}
