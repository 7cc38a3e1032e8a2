internal import Accounts
internal import Gate
internal import Synchronization
internal import Transport
internal import Wire

/// Tells the store which tokens have been seen on requests, a tenth of a second's worth at a time, and each but once: by
/// that it knows that a refreshed pair has arrived. What a store that is away was not told, it is told when it is back.
final class TokenSightings: Sendable {
    /// What is beyond it is seen again on another worker, or not at all, which costs a grace.
    private static let capacity = 8_192
    /// Pairs that need not be told again.
    private static let mostTold = 65_536
    private static let patience: UInt64 = 1_000

    private struct State {
        var waiting: Set<ConfirmedPair> = []
        var told: Set<ConfirmedPair> = []
        var isTelling = false
    }

    private let sessions: Sessions
    private let state = Mutex(State())

    init(sessions: Sessions) { self.sessions = sessions }

    /// Any thread; returns at once.
    func saw(_ sighting: TokenDelivery) {
        guard let session = UUID(parsing: sighting.session),
            let token = sighting.token.withRawBytes({ AccessTokenID(parsing: $0) }), token.counter > 0
        else { return }
        let pair = ConfirmedPair(session: session, counter: token.counter)
        let isFirst = state.withLock { state in
            guard state.waiting.count < Self.capacity, !state.told.contains(pair) else { return false }
            state.waiting.insert(pair)
            defer { state.isTelling = true }
            return !state.isTelling
        }
        guard isFirst else { return }
        // Unstructured, because its parent is a loop: it ends when the store has been told of all.
        Task {
            var wait: UInt64 = 100
            repeat {
                await pause(milliseconds: wait)
                wait = await tell() ? 100 : Self.patience
            } while goesOn()
        }
    }

    /// False if the store could not be told.
    private func tell() async -> Bool {
        let pairs = state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        do throws(AccountFailure) {
            if !pairs.isEmpty { try await sessions.confirm(Array(pairs)) }
            state.withLock { state in
                if state.told.count >= Self.mostTold { state.told = [] }
                state.told.formUnion(pairs)
            }
            return true
        } catch {
            // A store that is away has been told of.
            state.withLock { state in
                if state.waiting.count < Self.capacity { state.waiting.formUnion(pairs) }
            }
            return false
        }
    }

    private func goesOn() -> Bool {
        state.withLock { state in
            state.isTelling = !state.waiting.isEmpty
            return state.isTelling
        }
    }
}
