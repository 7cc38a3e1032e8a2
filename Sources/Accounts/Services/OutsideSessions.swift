internal import Credentials
internal import Wire

/// Sessions that began at an outside issuer: its refresh token is exchanged once for a session of ours, and from then on names that
/// session, because apps of contracts that do not rotate send the token they hold again and again. In a rotating contract it counts
/// as the predecessor of the session's first refresh token.
extension Sessions {
    /// Pauses before the record is read again after a refusal, in milliseconds: another gateway without a common Redis may just
    /// have redeemed the token.
    private static let secondLooks: [UInt64] = [100, 400, 1_500]
    /// The largest leeway on `exp` that the gateway can be set to, in seconds.
    private static let maxSkew: Int64 = 86_400

    /// The first or the current pair for an outside issuer's refresh token that came in at `contract`'s endpoint.
    func adopt(
        _ token: String, contract: ContractID, caller: Caller, by outside: OutsideRefresh
    ) async throws(AccountError<RefreshTokenRefusal>) -> Granted {
        let digest = outside.digest(token)
        // Asked first: an issuer that rotates must not spend the token while there is no store to open the session in.
        if let known = try await adopted(digest) { return try await proceed(known, contract, caller) }
        switch try await redeem(token, contract, caller, by: outside) {
        case .subject(let key): return try await open(key, digest, contract, caller)
        case .unavailable(let seconds), .paused(let seconds): throw .failed(.unavailable(retryAfterSeconds: seconds))
        case .refused, nil:
            for pause in Self.secondLooks {
                await context.clock.pause(pause)
                if let known = try await adopted(digest) { return try await proceed(known, contract, caller) }
            }
            throw .refused(.invalid)
        }
    }

    /// nil if the issuer refuses. What it does not judge stays counted, or made-up tokens would reach it without bound as soon as it is
    /// overloaded. Too many refusals of one address are no 429, on which apps sign their user out.
    private func redeem(
        _ token: String, _ contract: ContractID, _ caller: Caller, by outside: OutsideRefresh
    ) async throws(AccountError<RefreshTokenRefusal>) -> OutsideRefresh.Outcome? {
        do throws(AccountFailure) {
            let attempts = try await Attempts(outside.limiter, caller.address.bucket(.addressUnjudged))
            return try await attempts.make { () async throws(AccountFailure) -> OutsideRefresh.Outcome? in
                try await Guesses(context: context, limiter: outside.limiter).judge(at: nil, from: caller.address) {
                    () async throws(AccountFailure) -> OutsideRefresh.Outcome? in
                    let outcome = await outside.redeem(token, contract, caller.address)
                    if case .unavailable = outcome { return outcome }
                    attempts.refund()
                    return outcome == .refused ? nil : outcome
                }
            }
        } catch {
            if case .tooManyAttempts(let seconds) = error { throw .failed(.overloaded(retryAfterSeconds: seconds)) }
            throw .failed(error)
        }
    }

    private func open(
        _ key: IdentityKey, _ digest: [UInt8], _ contract: ContractID, _ caller: Caller
    ) async throws(AccountError<RefreshTokenRefusal>) -> Granted {
        let audit = context.audit(caller)
        var session = context.newSession(contract, caller, audit.now)
        session.signIn = .unknown
        let adoption = Adoption(digest: digest, key: key, session: session)
        let outcome: AdoptionOutcome
        do throws(AccountFailure) {
            outcome = try await context.ask(retryingFor: Self.patience, await context.store.adopt(adoption, audit))
            if case .adopted(let signIn) = outcome { return try await context.granted(signIn, mint) }
        } catch {
            throw .failed(error)
        }
        switch outcome {
        case .known(let known): return try await proceed(known, contract, caller)
        case .adopted, .refused: throw .refused(.invalid)
        }
    }

    private func adopted(_ digest: [UInt8]) async throws(AccountError<RefreshTokenRefusal>) -> AdoptedToken? {
        try await AccountError<RefreshTokenRefusal>.failing(
            try await context.ask(retryingFor: Self.patience, await context.store.adopted(digest)))
    }

    /// The session's pair, as for its own refresh token.
    private func proceed(
        _ known: AdoptedToken, _ contract: ContractID, _ caller: Caller
    ) async throws(AccountError<RefreshTokenRefusal>) -> Granted {
        guard let session = known.session else { throw .refused(.invalid) }
        let counter: UInt64? = contract.sessionPolicy.refresh == .rotating ? 0 : nil
        return try await refresh(RefreshRequest(session: session, contract: contract, counter: counter, rule: rule), caller)
    }

    /// Refuses an outside access token from now on, and its issuer's refresh token if the app sent it. Idempotent.
    package func signOut(_ token: OutsideToken, refreshToken: String?, caller: Caller) async throws(AccountFailure) {
        let audit = context.audit(caller)
        let ended = EndedSession(
            id: token.id, user: token.user, endedAt: audit.now, reason: .signOut,
            expiresAt: WallTime(seconds: token.expiresAt + Self.maxSkew))
        let digest = outside.flatMap { outside in refreshToken.map { outside.digest($0) } }
        try await context.ask(await context.store.end(ended, refreshToken: digest, audit))
    }
}
