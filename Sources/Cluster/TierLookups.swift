internal import Accounts
package import Gate
internal import Synchronization
internal import Wire

/// Tells workers the tiers of users: those they ask for, from the store or from a tier server, with one question about a user
/// at a time, and those that change.
package final class TierLookups: Sendable {
    private struct State {
        var scale: TierScale
        var sources: [String: IssuerTiers]
        /// Users who are asked about, and whether what is answered may be out of date, so that it must be asked again.
        var flights: [TokenUser: Bool] = [:]
        var known = KnownTiers(capacity: TierLookups.maxKnown)
        /// Counts the orders to forget: an answer to a question from before the latest one is not kept.
        var forgettings: UInt64 = 0

        /// The source of a user's tier; nil if there is none, because the configuration has changed.
        func source(of user: TokenUser) -> Source? {
            guard let issuer = user.issuer else { return .ownAccount }
            switch sources[issuer] {
            case .account?: return .account(IdentitySource(stored: issuer))
            case .lookup(let server)?: return .server(server)
            case nil: return nil
            }
        }
    }

    private enum Source {
        case ownAccount
        case account(IdentitySource)
        case server(TierServer)
    }

    private enum Answer {
        case standing(Result<AccountStanding?, AccountFailure>)
        case entitlement(Result<Entitlement?, AccountFailure>)
        case server(TierAnswer, TierServer)
        case nowhere
    }

    /// Answers of tier servers that are kept, of all issuers.
    private static let maxKnown = 131_072
    /// A longer name is none of the gateway's tiers, and is not kept.
    private static let maxName = 128

    private let directory: AccountDirectory
    private let now: @Sendable () -> Moment
    private let events: ClusterEvents
    private let askTier: TierQuestion
    /// Held while tiers are broadcast: none that was asked for before a change follows the order to forget.
    private let state: Mutex<State>

    init(_ plan: ClusterPlan, directory: AccountDirectory, now: @escaping @Sendable () -> Moment, _ events: ClusterEvents) {
        self.now = now
        self.directory = directory
        self.events = events
        askTier = plan.askTier
        state = Mutex(State(scale: plan.scale, sources: plan.tierSources))
    }

    /// Broadcasts the tier of this user. Any thread; returns at once.
    package func lookUp(_ user: TokenUser) {
        let now = self.now().wall
        let isAsked = state.withLock { state in
            if case .server? = state.source(of: user), let known = state.known.fresh(user, at: now) {
                events.broadcast(.tiers([state.scale.status(of: user, known)]))
                return false
            }
            guard state.flights[user] == nil else { return false }
            state.flights[user] = false
            return true
        }
        guard isAsked else { return }
        // Unstructured, because the caller is an event loop: it ends with the answer, which comes in bounded time.
        Task {
            while true {
                // An answer is as old as its question.
                let askedAt = self.now().wall
                let answer = await answer(to: user, state.withLock { $0.source(of: user) })
                let isCurrent = state.withLock { state in
                    guard state.flights[user] == false else {
                        state.flights[user] = false
                        return false
                    }
                    state.flights[user] = nil
                    events.broadcast(.tiers([status(of: user, answer, &state, askedAt)]))
                    return true
                }
                if isCurrent { return }
            }
        }
    }

    /// The tier of this user, as workers learn it. The answer of a tier server is kept unless something newer may be known by then.
    package func tier(of user: TokenUser) async -> UserTier {
        let now = self.now().wall
        let (fresh, known, forgettings, source) = state.withLock { state -> (UserTier?, KnownTier?, UInt64, Source?) in
            let source = state.source(of: user)
            guard case .server? = source else { return (nil, nil, state.forgettings, source) }
            let fresh = state.known.fresh(user, at: now).map { state.scale.status(of: user, $0) }
            return (fresh, state.known.known(user), state.forgettings, source)
        }
        if let fresh { return fresh }
        let answer = await answer(to: user, source)
        return state.withLock { state in
            let isNewest = state.forgettings == forgettings && state.flights[user] == nil && state.known.known(user) == known
            return status(of: user, answer, &state, now, isKept: isNewest)
        }
    }

    /// The configuration changed: workers look up every tier again. Any thread.
    package func adopt(_ scale: TierScale, _ sources: [String: IssuerTiers]) {
        state.withLock { state in
            // The answers of servers are names, and outlive the list of tiers.
            if state.sources != sources {
                state.known.removeAll()
                state.forgettings += 1
            }
            state.scale = scale
            state.sources = sources
            forgetWorkers(&state)
        }
    }

    /// Changes may have been missed: every tier is looked up again. Any thread.
    func forgetAll() {
        state.withLock { state in
            state.known.removeAll()
            state.forgettings += 1
            forgetWorkers(&state)
        }
    }

    private func forgetWorkers(_ state: inout State) {
        for user in state.flights.keys { state.flights[user] = true }
        events.broadcast(.forgetTiers(nil))
    }

    /// The tiers of these users may have changed: each is looked up again, and what was known does not count until then. Any
    /// thread.
    func forget(_ users: [TokenUser]) {
        guard !users.isEmpty else { return }
        state.withLock { state in
            state.forgettings += 1
            for user in users {
                state.known.forget(user)
                if state.flights[user] != nil { state.flights[user] = true }
            }
            events.broadcast(.forgetTiers(users))
        }
    }

    /// Accounts were changed, or deleted (nil). Any thread.
    func changed(_ accounts: [(user: UUID, standing: AccountStanding?)], at now: WallTime) {
        guard !accounts.isEmpty else { return }
        state.withLock { state in
            let scale = state.scale
            events.broadcast(.tiers(accounts.map { scale.status(of: TokenUser($0.user.text), standing: $0.standing, .pushed, at: now) }))
        }
    }

    private func answer(to user: TokenUser, _ source: Source?) async -> Answer {
        switch source {
        case .ownAccount?:
            guard let id = UUID(parsing: user.id) else { return .standing(.success(nil)) }
            do throws(AccountFailure) { return .standing(.success(try await directory.standing(of: id))) } catch {
                return .standing(.failure(error))
            }
        case .account(let issuer)?:
            // A subject that no identity can have has no account.
            guard let key = IdentityKey(issuer, subject: user.id) else { return .entitlement(.success(nil)) }
            do throws(AccountFailure) { return .entitlement(.success(try await directory.tier(of: key))) } catch {
                return .entitlement(.failure(error))
            }
        case .server(let server)?:
            let answer = await askTier(server, user.id)
            events.report(.tierAsked(issuer: user.issuer ?? "", problem: answer.problem))
            return .server(answer, server)
        case nil: return .nowhere
        }
    }

    private func status(
        of user: TokenUser, _ answer: Answer, _ state: inout State, _ askedAt: WallTime, isKept: Bool = true
    ) -> UserTier {
        let now = self.now().wall
        switch answer {
        case .standing(.success(nil)), .entitlement(.success(nil)):
            // It may be opened later.
            return UserTier(user: user, status: .noAccount, version: -1, learnedAt: askedAt.seconds)
        case .standing(.success(let standing)): return state.scale.status(of: user, standing: standing, .lookedUp, at: askedAt)
        case .entitlement(.success(let entitlement)): return state.scale.status(of: user, entitlement, .lookedUp, at: askedAt)
        case .server(.tier(let name), let server):
            let known = KnownTier(
                name: name.flatMap { $0.utf8.count > Self.maxName ? nil : $0 }, askedAt: askedAt,
                freshUntil: now.advanced(by: server.maxAgeSeconds))
            if isKept { state.known.learn(known, of: user) }
            return state.scale.status(of: user, known)
        case .server(.failed(_, let isAway), _):
            if let known = state.known.failed(user, at: now, isAway: isAway) { return state.scale.status(of: user, known) }
        case .standing(.failure), .entitlement(.failure), .nowhere: break
        }
        return UserTier(user: user, status: .unavailable(until: now.seconds + 1), version: -1, learnedAt: askedAt.seconds)
    }
}

extension TierAnswer {
    fileprivate var problem: String? {
        switch self {
        case .tier: nil
        case .failed(let why, _): why
        }
    }
}
