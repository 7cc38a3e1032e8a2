package import Wire

/// Why no guest is merged.
package enum MergeRefusal: Sendable, Equatable {
    /// Not a token of an open session.
    case invalidToken
    case notGuest
    /// The guest's session is bound to a key that the request does not prove.
    case unproven
    /// The guest has a second factor that its session has not proven lately.
    case noFactor
    /// The caller's session has ended, or its account is gone.
    case sessionEnded
}

/// Merges of guests into accounts that were there before, which their users ask for with tokens of both.
package struct Merges: Sendable {
    private let sessions: Sessions
    private let limiter: any AttemptLimiter
    private let order: TierOrder

    package init(sessions: Sessions, limiter: any AttemptLimiter, order: TierOrder) {
        self.sessions = sessions
        self.limiter = limiter
        self.order = order
    }

    /// Merges the guest of `token`, an access or refresh token, into the caller's account; returns the id of the guest. `session` is the
    /// caller's, nil for one of an outside issuer. `read` verifies access tokens.
    package func merge(
        _ token: String, into account: UUID, session: UUID?, caller: Caller, read: (String) -> RevokedAccessToken
    ) async throws(AccountError<MergeRefusal>) -> UUID {
        let found: UUID
        var refresh: RefreshRequest?
        switch read(token) {
        case .ofSession(let session): found = session.session
        case .withoutSession: throw .refused(.invalidToken)
        case .none:
            // One that is spent proves nothing: a thief may hold it.
            do throws(AccountError<RefreshTokenRefusal>) {
                refresh = try sessions.mint.request(ofOwn: token, rule: sessions.rule, now: sessions.context.storeTime)
            } catch {
                throw .refused(.invalidToken)
            }
            refresh?.deviceKey = caller.deviceKey
            guard let session = refresh?.session else { throw .refused(.invalidToken) }
            found = session
        }
        let (context, audit) = (sessions.context, sessions.context.audit(caller))
        typealias Fault = AccountError<MergeRefusal>
        guard try await Fault.failing(try await sessions.accepts(caller.deviceKey, for: found)) else { throw .refused(.unproven) }
        guard try await hasProvenFactor(found) else { throw .refused(.noFactor) }
        let attempts = try await Fault.failing(try await Attempts(limiter, [AttemptBucket(.accountMerges, account.text)]))
        let merging = Merging(guest: found, refresh: refresh, into: account, by: session, order)
        let outcome = try await attempts.make { () throws(Fault) in
            try await Fault.failing(try await context.ask(await context.store.merge(merging, audit)))
        }
        switch outcome {
        case .merged(let from, let into, let isRepeated):
            if !isRepeated { context.notice(.merged(from: from, into: into)) }
            return from
        case .notGuest: throw .refused(.notGuest)
        case .noGuest: throw .refused(.invalidToken)
        case .noCaller: throw .refused(.sessionEnded)
        case .full(let until): throw .failed(.tooManyAttempts(retryAfterSeconds: Int(max(1, until.seconds - audit.now.seconds))))
        }
    }

    /// Whether a guest's session has proven the second factor of its account lately; also true without a factor, and for any other session.
    private func hasProvenFactor(_ guest: UUID) async throws(AccountError<MergeRefusal>) -> Bool {
        do throws(AccountError<RecencyRefusal>) {
            try await sessions.requireFactor(ofGuest: guest)
            return true
        } catch {
            switch error {
            case .refused(.noFactor): return false
            case .refused(.notRecent), .refused(.sessionEnded): return true
            case .failed(let failure): throw .failed(failure)
            }
        }
    }
}

extension AccountContext {
    /// The services have moved what was the account's `from`: the merge is announced no longer. False if it was not. Idempotent.
    @discardableResult
    package func mergeDone(from: UUID, to account: UUID, by actor: AuditActor = .user) async throws(AccountFailure) -> Bool {
        let isNews = try await ask(await store.mergeDone(from: from, to: account, audit(by: actor)))
        if isNews { notice(.mergeTaken(from: from, into: account)) }
        return isNews
    }
}
