internal import Accounts
internal import Gate
internal import Synchronization
internal import Transport
internal import Wire

/// Answers the workers' questions about users: one question to the store for each user at a time, and the answer to all
/// workers.
final class UserLookUps: Sendable {
    private let directory: AccountDirectory
    private let control: ControlState
    private struct State {
        var underWay: Set<String> = []
        /// Counts how often everything was forgotten: what was asked before is no answer any more.
        var forgets: UInt64 = 0
    }

    private let state = Mutex(State())

    init(directory: AccountDirectory, control: ControlState) {
        self.directory = directory
        self.control = control
    }

    /// Any thread; returns at once.
    func lookUp(_ user: String) {
        guard state.withLock({ $0.underWay.insert(user).inserted }) else { return }
        // Unstructured, because its parent is a loop: it ends with the store's answer.
        Task {
            var isTold = false
            while !isTold {
                let forgets = state.withLock { $0.forgets }
                let status = await status(of: user)
                isTold = state.withLock { state in
                    guard state.forgets == forgets else { return false }
                    state.underWay.remove(user)
                    control.learn([status])
                    return true
                }
            }
        }
    }

    /// What workers know of users is not to be trusted any more. Any thread.
    func forgetAll() {
        state.withLock { state in
            state.forgets += 1
            control.forgetUsers()
        }
    }

    private func status(of user: String) async -> UserTier {
        // The answer is as old as the question.
        let now = EventLoop.now().wall
        let nobody = UserTier(user: user, status: .noAccount, version: -1, learnedAt: now.seconds)
        guard let id = UUID(parsing: user) else { return nobody }
        do throws(AccountFailure) {
            guard let entitlement = try await directory.tier(of: id) else { return nobody }
            var status = UserTier(id, entitlement, control.configuration, .lookedUp, at: now)
            status.user = user
            return status
        } catch {
            let until = EventLoop.now().wall.seconds + 1
            return UserTier(user: user, status: .unavailable(until: until), version: -1, learnedAt: now.seconds)
        }
    }
}
