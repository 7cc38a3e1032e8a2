package import Wire

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
    /// The session is bound to a key that the request does not prove. Otherwise a thief could sign the owner out.
    case unproven
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
    /// answer has none but the one before. All other texts are limited by address: tokens of this gateway prove themselves, so they
    /// count also from an address that has sent too many others.
    package func revoke(
        _ token: String, caller: Caller, read: (String) -> RevokedAccessToken
    ) async throws(AccountFailure) -> Revocation {
        switch read(token) {
        case .withoutSession: return .unsupported
        case .ofSession(let session): return try await sessions.end(session.session, caller)
        case .none: break
        }
        if let session = sessions.session(ofOwnRefreshToken: token) { return try await sessions.end(session, caller) }
        let attempt = try await Attempts(limiter, caller.address.bucket(.addressRevocations))
        return try await attempt.make { () async throws(AccountFailure) -> Revocation in
            guard let session = try await sessions.session(ofOutsideRefreshToken: token) else { return .unknown }
            let outcome = try await sessions.end(session, caller)
            attempt.refund()
            return outcome
        }
    }
}

extension Sessions {
    /// The session of a refresh token of any contract; nil if the token is not of this gateway, or has expired.
    package func session(ofOwnRefreshToken token: String) -> UUID? {
        do throws(AccountError<RefreshTokenRefusal>) {
            return try mint.origin(of: token, now: context.storeTime).session
        } catch {
            return nil
        }
    }

    /// The session for which a refresh token of an outside issuer was exchanged; nil if there never was one.
    fileprivate func session(ofOutsideRefreshToken token: String) async throws(AccountFailure) -> UUID? {
        guard let outside, !mint.hasIssued(token, now: context.storeTime) else { return nil }
        return try await context.ask(await context.store.adopted(outside.digest(token)))?.session
    }

    fileprivate func end(_ session: UUID, _ caller: Caller) async throws(AccountFailure) -> Revocation {
        let audit = context.audit(caller)
        return try await context.ask(await context.store.signOut(session, provenBy: caller.deviceKey, audit)) ? .ended : .unproven
    }
}
