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
    private let underWay = Mutex<Set<String>>([])

    init(directory: AccountDirectory, control: ControlState) {
        self.directory = directory
        self.control = control
    }

    /// Any thread; returns at once.
    func lookUp(_ user: String) {
        guard underWay.withLock({ $0.insert(user).inserted }) else { return }
        // Unstructured, because its parent is a loop: it ends with the store's answer.
        Task {
            let standing = await standing(of: user)
            underWay.withLock { _ = $0.remove(user) }
            control.learn([standing])
        }
    }

    private func standing(of user: String) async -> UserStanding {
        let nobody = UserStanding(user: user, standing: .noAccount, version: -1)
        guard let id = UUID(parsing: user) else { return nobody }
        do throws(AccountError) {
            guard let entitlement = try await directory.tier(of: id) else { return nobody }
            var standing = UserStanding(id, entitlement, tiers: control.configuration.tiers)
            standing.user = user
            return standing
        } catch {
            let until = EventLoop.now().wall.seconds + 1
            return UserStanding(user: user, standing: .unavailable(until: until), version: -1)
        }
    }
}
