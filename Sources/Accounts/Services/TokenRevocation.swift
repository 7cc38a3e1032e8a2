internal import Wire

/// The access token that a client sends to be revoked.
package enum RevokedAccessToken: Sendable, Equatable {
    case ofSession(CallerSession)
    /// A valid token that names no session which its holder may end: of another issuer, without a session, or of an actor.
    case withoutSession
    /// None, or no longer valid: it may be a refresh token.
    case none
}

/// The outcome of a revocation.
package enum Revocation: Sendable, Equatable {
    /// The token counts no longer: its session has ended, now or before.
    case ended
    /// Nothing that this gateway issued, or no longer valid.
    case unknown
    /// The token is valid, and cannot be revoked here.
    case unsupported
}

/// Sign-out by a token (RFC 7009): the holder of a token may end its session.
package struct TokenRevocation: Sendable {
    private let sessions: Sessions
    private let limiter: any AttemptLimiter

    package init(sessions: Sessions, limiter: any AttemptLimiter) {
        self.sessions = sessions
        self.limiter = limiter
    }

    /// Ends the session of `token`. `read` verifies access tokens. A refresh token counts whatever its counter: the client of a lost
    /// answer has none but the one before. Texts that are no tokens are limited by address.
    package func revoke(
        _ token: String, caller: Caller, read: (String) -> RevokedAccessToken
    ) async throws(AccountFailure) -> Revocation {
        let attempt = try await Attempts(limiter, caller.address.bucket(.addressRevocations))
        let accessToken = read(token)
        let outcome = try await attempt.make { () async throws(AccountFailure) -> Revocation in
            try await revoke(token, accessToken, caller)
        }
        if outcome != .unknown { attempt.refund() }
        return outcome
    }

    private func revoke(
        _ token: String, _ accessToken: RevokedAccessToken, _ caller: Caller
    ) async throws(AccountFailure) -> Revocation {
        switch accessToken {
        case .withoutSession: return .unsupported
        case .ofSession(let session):
            try await sessions.signOut(session, caller: caller)
            return .ended
        case .none: return try await sessions.end(ofRefreshToken: token, caller: caller) ? .ended : .unknown
        }
    }
}

extension Sessions {
    /// Ends the session of a refresh token of any contract, also one of an outside issuer that was exchanged for a session here.
    /// False if there never was one, or the token has expired.
    fileprivate func end(ofRefreshToken token: String, caller: Caller) async throws(AccountFailure) -> Bool {
        guard let session = try await session(ofRefreshToken: token) else { return false }
        let audit = context.audit(caller)
        _ = try await context.ask(await context.store.end(session, .signOut, audit))
        return true
    }

    private func session(ofRefreshToken token: String) async throws(AccountFailure) -> UUID? {
        let now = context.clock.now().wall
        do throws(AccountError<RefreshTokenRefusal>) {
            return try mint.origin(of: token, now: now).session
        } catch {
            guard let outside, !mint.hasIssued(token, now: now) else { return nil }
            return try await context.ask(await context.store.adopted(outside.digest(token)))?.session
        }
    }
}
