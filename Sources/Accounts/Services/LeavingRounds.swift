internal import Synchronization
internal import Wire

/// Erases closed accounts once their time has come. Every gateway looks for them: a transaction erases an account or finds it gone, so
/// that one which stops holds up nothing.
package final class LeavingRounds: Sendable {
    private static let periodMilliseconds: UInt64 = 5_000
    /// Accounts that are read at once.
    private static let mostRead = 100

    private let context: AccountContext
    private let task = Mutex<Task<Void, Never>?>(nil)

    package init(context: AccountContext) { self.context = context }

    /// Begins the rounds, one every five seconds.
    package func start() {
        task.withLock { task in
            guard task == nil else { return }
            // Unstructured: `stop` cancels it.
            task = Task {
                while !Task.isCancelled {
                    await round()
                    await context.clock.pause(Self.periodMilliseconds)
                }
            }
        }
    }

    /// Ends the round under way before its next account.
    package func stop() { task.withLock { $0 }?.cancel() }

    /// One round.
    package func round() async {
        do throws(AccountFailure) {
            try await erase()
        } catch {
            // The context has logged it; the next round tries again.
        }
    }

    private func erase() async throws(AccountFailure) {
        var found: [UUID]
        repeat {
            let now = context.storeTime
            found = try await context.ask(await context.store.erasable(at: now, limit: Self.mostRead))
            for user in found where !Task.isCancelled {
                // As its user wanted it.
                let audit = context.audit(by: .user)
                _ = try await context.ask(await context.store.erase(user, audit))
            }
        } while found.count == Self.mostRead && !Task.isCancelled
    }
}
