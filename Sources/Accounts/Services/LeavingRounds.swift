internal import Synchronization
internal import Wire

/// Erases closed accounts once their time has come, and exchanges and revokes Apple's tokens. Every gateway looks for them: a transaction
/// erases an account or finds it gone, and takes a token for a while or finds it taken, so that a gateway which stops holds up nothing.
package final class LeavingRounds: Sendable {
    private static let periodMilliseconds: UInt64 = 5_000
    /// Accounts that are read at once.
    private static let mostRead = 100

    /// Tokens of Apple that are taken in one round.
    private static let mostTokens = 50

    private let context: AccountContext
    private let apple: @Sendable () -> AppleDesk?
    private let task = Mutex<Task<Void, Never>?>(nil)

    /// `apple`: the desk in force; nil without a key.
    package init(context: AccountContext, apple: @escaping @Sendable () -> AppleDesk? = { nil }) {
        self.context = context
        self.apple = apple
    }

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
            if let desk = apple() { try await settle(at: desk) }
        } catch {
            // The context has logged it; the next round tries again.
        }
    }

    private func erase() async throws(AccountFailure) {
        var (found, isStuck): ([UUID], Bool) = ([], false)
        repeat {
            let now = context.storeTime
            found = try await context.ask(await context.store.erasable(at: now, limit: Self.mostRead))
            for user in found where !Task.isCancelled {
                // As its user wanted it.
                let audit = context.audit(by: .user)
                do throws(AccountFailure) {
                    _ = try await context.ask(await context.store.erase(user, audit))
                } catch {
                    // One that cannot be erased holds up no other one.
                    guard error == .broken else { throw error }
                    isStuck = true
                }
            }
        } while found.count == Self.mostRead && !isStuck && !Task.isCancelled
    }

    // MARK: Apple

    private func settle(at desk: AppleDesk) async throws(AccountFailure) {
        let now = context.storeTime
        let lost = try await context.ask(await context.store.giveUpAppleTokens(at: now))
        if lost > 0 { context.notice(.appleTokensLost(lost)) }
        for token in try await context.ask(await context.store.dueAppleTokens(at: now, limit: Self.mostTokens)) {
            guard !Task.isCancelled, try await context.ask(await context.store.take(token, at: context.storeTime)) else { continue }
            guard try await settle(token, at: desk) else { return }
        }
    }

    /// False if Apple does not answer: it is asked for no other one in this round.
    private func settle(_ token: AppleToken, at desk: AppleDesk) async throws(AccountFailure) -> Bool {
        guard let text = desk.vault.open(token) else {
            context.notice(.appleAway("a token was sealed with another secret"))
            return true
        }
        var refresh: String?
        do throws(AppleTokenFault) {
            if token.isCode {
                refresh = try await desk.tokens.redeem(code: text, client: token.client)
            } else {
                try await desk.tokens.revoke(token: text, client: token.client)
            }
        } catch {
            if case .unavailable(let reason) = error {
                context.notice(.appleAway(reason))
                return false
            }
        }
        // Without one it was revoked, or Apple does not know it.
        guard let sealed = refresh.map({ desk.vault.seal($0, token.id) }) else {
            try await context.ask(await context.store.drop(token))
            return true
        }
        try await context.ask(await context.store.replaceCode(token, by: sealed, at: context.storeTime))
        return true
    }
}
