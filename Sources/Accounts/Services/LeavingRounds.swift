internal import Wire

/// Erases closed accounts once their time has come, and exchanges and revokes Apple's tokens. Every gateway looks for them: a transaction
/// erases an account or finds it gone, and takes a token for a while or finds it taken, so that a gateway which stops holds up nothing.
package final class LeavingRounds: Sendable {
    private static let periodMilliseconds: UInt64 = 5_000
    /// Rounds between two readings of the queues.
    private static let reportRounds: UInt64 = 12
    /// Accounts that are read at once.
    private static let mostRead = 100
    /// Tokens of Apple that are claimed in one round.
    private static let mostTokens = 50
    /// Between the attempts to write a token that Apple gave; together less than the time for which the code is taken.
    private static let writePauses: [UInt64] = [1_000, 2_000, 4_000, 8_000]

    private let context: AccountContext
    private let apple: @Sendable () -> AppleDesk?
    private let rounds = Rounds()

    /// `apple`: the desk in force; nil without a key.
    package init(context: AccountContext, apple: @escaping @Sendable () -> AppleDesk? = { nil }) {
        self.context = context
        self.apple = apple
    }

    /// Begins the rounds, one every five seconds.
    package func start() {
        rounds.start(context.clock) { [self] number in
            await round()
            if number % Self.reportRounds == 0 {
                do throws(AccountFailure) { context.notice(.waiting(try await context.ask(await context.store.outgoing()))) } catch {}
            }
            return Self.periodMilliseconds
        }
    }

    /// Ends the round under way before its next account or token.
    package func stop() { rounds.stop() }

    /// Returns once the round under way has ended. Apple takes a code once, so its answer is not to be lost.
    package func ended() async { await rounds.ended() }

    /// One round. Each part runs whatever the part before it threw: the context has logged that, and the next round tries again.
    package func round() async {
        do throws(AccountFailure) { try await erase() } catch {}
        do throws(AccountFailure) { try await giveUp() } catch {}
        guard let desk = apple() else { return }
        do throws(AccountFailure) { try await settle(at: desk) } catch {}
    }

    private func erase() async throws(AccountFailure) {
        // Those that could not be erased in this round: they hold up no other one.
        var stuck: Set<UUID> = []
        var found: [UUID] = []
        repeat {
            let (now, limit) = (context.storeTime, Self.mostRead + stuck.count)
            found = try await context.ask(await context.store.erasable(at: now, limit: limit)).filter { !stuck.contains($0) }
            for user in found where !Task.isCancelled {
                do throws(AccountFailure) {
                    if try await !context.ask(await eraseUnlessBusy(user)) { stuck.insert(user) }
                } catch {
                    guard error == .broken else { throw error }
                    stuck.insert(user)
                }
            }
        } while found.count >= Self.mostRead && !Task.isCancelled
    }

    /// False if another transaction holds the account for too long.
    private func eraseUnlessBusy(_ user: UUID) async throws(StoreFault) -> Bool {
        do throws(StoreFault) {
            // As its user wanted it.
            _ = try await context.store.erase(user, context.audit(by: .user))
            return true
        } catch {
            guard case .busy = error else { throw error }
            return false
        }
    }

    // MARK: Apple

    /// Also without a key, which the operator may have taken away: what is kept is personal data.
    private func giveUp() async throws(AccountFailure) {
        for (queue, count) in try await context.ask(await context.store.giveUp(at: context.storeTime)) {
            context.notice(.outgoing(queue, .givenUp, count))
        }
    }

    private func settle(at desk: AppleDesk) async throws(AccountFailure) {
        for _ in 0..<Self.mostTokens where !Task.isCancelled {
            let claimed = try await context.ask(await context.store.claimAppleTokens(at: context.storeTime, limit: 1))
            guard let token = claimed.first, try await settle(token, at: desk) else { return }
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
            // Apple took it at the first try, and the gateway did not get the token.
            if token.isCode, token.tries > 1 { context.notice(.outgoing(.appleTokens, .givenUp, 1)) }
        }
        // Without one it was revoked, or Apple does not know it.
        guard let sealed = refresh.map({ desk.vault.seal($0, token.id) }) else {
            try await context.ask(await context.store.drop(token))
            if !token.isCode { context.notice(.outgoing(.appleTokens, .revoked, 1)) }
            return true
        }
        try await keep(sealed, inPlaceOf: token)
        context.notice(.outgoing(.appleTokens, .exchanged, 1))
        return true
    }

    /// Apple takes a code once, so a token that the store does not take is written again for some seconds. After that it is lost: Apple
    /// refuses the code at the next try.
    private func keep(_ sealed: [UInt8], inPlaceOf token: AppleToken) async throws(AccountFailure) {
        for milliseconds in Self.writePauses {
            do throws(AccountFailure) {
                return try await context.ask(await context.store.replaceCode(token, by: sealed, at: context.storeTime))
            } catch {
                await context.clock.pause(milliseconds)
            }
        }
        try await context.ask(await context.store.replaceCode(token, by: sealed, at: context.storeTime))
    }
}
