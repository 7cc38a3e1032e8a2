internal import Accounts
internal import Gate
internal import Synchronization
internal import Transport
internal import Wire

/// Tells workers the tiers of users: those they ask for, with one store query for a user at a time, and those that change.
package final class TierLookups: Sendable {
    private struct State {
        var scale: TierScale
        var inFlight: Set<String> = []
        /// Counts calls of `forgetAll`: an answer to a query from before one is discarded, and the store asked again.
        var generation: UInt64 = 0
    }

    private let directory: AccountDirectory
    private let broadcast: @Sendable (WorkerUpdate) -> Void
    /// Held while tiers are broadcast, so that none of an earlier scale follows `forgetTiers`.
    private let state: Mutex<State>

    init(directory: AccountDirectory, scale: TierScale, broadcast: @escaping @Sendable (WorkerUpdate) -> Void) {
        self.directory = directory
        self.broadcast = broadcast
        state = Mutex(State(scale: scale))
    }

    /// Broadcasts the tier of the user whose tokens have this `sub`. Any thread; returns at once.
    package func lookUp(_ user: String) {
        guard state.withLock({ $0.inFlight.insert(user).inserted }) else { return }
        // Unstructured, because the caller is an event loop: it ends with the store's answer.
        Task {
            while true {
                let generation = state.withLock { $0.generation }
                // An answer is as old as its question.
                let askedAt = EventLoop.now().wall
                let answer = await answer(to: user)
                let isCurrent = state.withLock { state in
                    guard state.generation == generation else { return false }
                    state.inFlight.remove(user)
                    broadcast(.tiers([Self.status(of: user, answer, state.scale, askedAt)]))
                    return true
                }
                if isCurrent { return }
            }
        }
    }

    /// The configuration changed: workers look up every tier again. Any thread.
    package func adopt(_ scale: TierScale) {
        state.withLock { $0.scale = scale }
        forgetAll()
    }

    /// Has workers look up every tier again. Any thread.
    func forgetAll() {
        state.withLock { state in
            state.generation += 1
            broadcast(.forgetTiers)
        }
    }

    /// Accounts were changed to these entitlements, or deleted (nil). Any thread.
    func changed(_ accounts: [(user: UUID, entitlement: Entitlement?)], at now: WallTime) {
        guard !accounts.isEmpty else { return }
        state.withLock { state in
            let scale = state.scale
            broadcast(.tiers(accounts.map { scale.status(of: $0.user.text, $0.entitlement, .pushed, at: now) }))
        }
    }

    /// nil if the user has no account here.
    private func answer(to user: String) async -> Result<Entitlement?, AccountFailure> {
        guard let id = UUID(parsing: user) else { return .success(nil) }
        do throws(AccountFailure) { return .success(try await directory.tier(of: id)) } catch { return .failure(error) }
    }

    private static func status(
        of user: String, _ answer: Result<Entitlement?, AccountFailure>, _ scale: TierScale, _ askedAt: WallTime
    ) -> UserTier {
        switch answer {
        case .success(let entitlement?): return scale.status(of: user, entitlement, .lookedUp, at: askedAt)
        // It may be opened later.
        case .success(nil): return UserTier(user: user, status: .noAccount, version: -1, learnedAt: askedAt.seconds)
        case .failure:
            let until = EventLoop.now().wall.seconds + 1
            return UserTier(user: user, status: .unavailable(until: until), version: -1, learnedAt: askedAt.seconds)
        }
    }
}
