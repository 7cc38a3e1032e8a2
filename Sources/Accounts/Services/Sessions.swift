package import Credentials
package import Wire

/// Why a refresh token gets no new tokens.
package enum RefreshTokenRefusal: Sendable, Equatable {
    /// Forged, of another contract, spent, or of a session that has ended.
    case invalid
    /// The session can no longer be refreshed.
    case expired
    /// It lacks a proof of the key of the session's device; the session stays as it is.
    case unproven(DeviceProofFault)
}

/// Why a call is refused that the caller's session makes.
package enum SessionRefusal: Sendable, Equatable {
    /// The session behind the access token has ended, or its account is gone.
    case sessionEnded
}

/// Why no actor token is issued.
package enum ActorTokenRefusal: Sendable, Equatable {
    case sessionEnded
    /// The account has no grant for this actor.
    case notGranted
}

/// Open sessions: refresh, list and end.
package struct Sessions: Sendable {
    /// A signed-in account, with the session and tokens it was given.
    package struct Granted: Sendable, Equatable {
        package let account: Account
        package let grant: SessionGrant
    }

    /// How long a refresh waits for a store that is away, in milliseconds: clients sign their user out when refused.
    static let patience: UInt64 = 2_000
    private static let actorTokenSeconds: Int64 = 900

    let context: AccountContext
    let mint: TokenMint
    let rule: RefreshRule
    /// nil: no tokens of outside issuers reach accounts.
    let outside: OutsideRefresh?

    /// `rule` holds the grace for spent refresh tokens (`TOLLGATE_REFRESH_GRACE`).
    package init(
        context: AccountContext, mint: TokenMint, rule: RefreshRule = RefreshRule(), outside: OutsideRefresh? = nil
    ) {
        self.context = context
        self.mint = mint
        self.rule = rule
        self.outside = outside
    }

    /// The new pair for a refresh token that came in at `contract`'s endpoint. Refreshes are not limited: never fails with
    /// `tooManyAttempts`.
    package func refresh(
        _ token: String, contract: ContractID, caller: Caller
    ) async throws(AccountError<RefreshTokenRefusal>) -> Granted {
        let now = context.storeTime
        let request: RefreshRequest
        do throws(AccountError<RefreshTokenRefusal>) {
            request = try mint.request(token, contract, rule: rule, now: now)
        } catch {
            guard let outside, !mint.hasIssued(token, now: now) else { throw error }
            if caller.deviceKey == nil, context.policies[contract].deviceKey == .required { throw .refused(.unproven(.missing)) }
            return try await adopt(token, contract: contract, caller: caller, by: outside)
        }
        return try await refresh(request, caller)
    }

    func refresh(_ request: RefreshRequest, _ caller: Caller) async throws(AccountError<RefreshTokenRefusal>) -> Granted {
        let audit = context.audit(caller)
        var named = request
        named.deviceName = caller.deviceName.flatMap(PlainText.deviceName)
        (named.deviceKey, named.hasUnjudgedProof) = (caller.deviceKey, caller.hasUnjudgedProof)
        named.keyUse = context.policies[request.contract].deviceKey
        let request = named
        let outcome: RefreshOutcome
        do throws(AccountFailure) {
            outcome = try await context.ask(
                retryingFor: Self.patience, await context.store.refresh(request, audit))
            if case .issued(let signIn, let verdict) = outcome {
                if verdict == .storm { context.notice(.refreshStorm(session: request.session, contract: request.contract)) }
                return try await context.granted(signIn, mint)
            }
        } catch {
            throw .failed(error)
        }
        switch outcome {
        case .refused(.expired): throw .refused(.expired)
        case .refused(.unproven(let fault)): throw .refused(.unproven(fault))
        case .refused(.ahead): context.notice(.refreshAhead(session: request.session))
        case .reused(let ended):
            context.notice(.refreshReuse(session: ended.id, user: ended.user))
        case .refused(.noSession), .refused(.wrongContract), .issued: break
        }
        throw .refused(.invalid)
    }

    /// Whether a holder of this key may act for a session: it is bound to no other, or has ended.
    package func accepts(_ key: KeyThumbprint?, for session: UUID) async throws(AccountFailure) -> Bool {
        guard let bound = try await context.ask(await context.store.session(session))?.session?.deviceKey else { return true }
        return bound == key
    }

    package func deviceKeyUse(of contract: ContractID) -> DeviceKeyUse { context.policies[contract].deviceKey }

    /// That of the contract of a refresh token.
    package func deviceKeyUse(ofRefreshToken token: String) -> DeviceKeyUse {
        do throws(AccountError<RefreshTokenRefusal>) {
            return deviceKeyUse(of: try mint.origin(of: token, now: context.storeTime).contract)
        } catch {
            return .offered
        }
    }

    /// The new pair for a refresh token of one of `contracts`, as at the endpoint of its own.
    package func refresh(
        _ token: String, ofOneOf contracts: Set<ContractID>, caller: Caller
    ) async throws(AccountError<RefreshTokenRefusal>) -> Granted {
        let origin = try mint.origin(of: token, now: context.storeTime)
        guard contracts.contains(origin.contract) else { throw .refused(.invalid) }
        return try await refresh(token, contract: origin.contract, caller: caller)
    }

    /// The new pair for a refresh token of any contract, if it belongs to `session`. A token of another session is refused
    /// without touching that session.
    package func refresh(
        _ token: String, of session: CallerSession, caller: Caller
    ) async throws(AccountError<RefreshTokenRefusal>) -> Granted {
        let origin = try mint.origin(of: token, now: context.storeTime)
        guard origin.session == session.session else { throw .refused(.invalid) }
        let granted = try await refresh(token, contract: origin.contract, caller: caller)
        guard granted.account.id == session.user else { throw .refused(.invalid) }
        return granted
    }

    /// The account and the current pair of the caller's session; its counter stays.
    package func current(_ caller: CallerSession) async throws(AccountError<SessionRefusal>) -> Granted {
        return try await live(caller) { signIn throws(AccountFailure) in try await context.granted(signIn, mint) }
    }

    /// An access token of 15 minutes with which the caller acts as `actor`. Every account may act as (`user`, its own id);
    /// any other actor takes a grant.
    package func actorToken(
        _ actor: ActorName, caller: CallerSession
    ) async throws(AccountError<ActorTokenRefusal>) -> String {
        let signIn: SignIn?
        do throws(AccountFailure) {
            signIn = try await open(caller)
            if let signIn, let session = signIn.session, let actor = try await granted(actor, to: caller) {
                let now = context.clock.now().wall
                return try await context.signing(
                    by: mint,
                    try mint.actorToken(
                        actor, session, signIn.account, seconds: Self.actorTokenSeconds, now: now, storeSkew: context.storeSkew))
            }
        } catch {
            throw .failed(error)
        }
        throw .refused(signIn == nil ? .sessionEnded : .notGranted)
    }

    /// The actor as the token names it; nil if the caller may not act as it. Apple's systems write UUIDs in upper case (RFC 9562
    /// §4: case does not matter), so the caller's own id may come like that.
    private func granted(_ actor: ActorName, to caller: CallerSession) async throws(AccountFailure) -> ActorName? {
        if actor.type == "user", UUID(parsing: actor.id) == caller.user {
            return ActorName(storedType: actor.type, id: caller.user.text)
        }
        return try await context.ask(await context.store.holdsGrant(actor, user: caller.user)) ? actor : nil
    }

    /// The caller's session and account; nil if the session has ended.
    package func open(_ caller: CallerSession) async throws(AccountFailure) -> SignIn? {
        let signIn = try await context.ask(await context.store.session(caller.session))
        return signIn?.account.id == caller.user && signIn?.session != nil ? signIn : nil
    }

    /// Throws unless the caller's user has signed in within `Session.recentSeconds`, and proven the second factor, if the account has
    /// one. Accounts without a way to sign in, such as guests, are exempt.
    package func requireRecentSignIn(_ caller: CallerSession) async throws(AccountError<RecencyRefusal>) {
        try await requireFactor(caller)
        let isAllowed = try await context.value(orRefuse: RecencyRefusal.sessionEnded) { () throws(AccountFailure) -> Bool? in
            guard let signIn = try await open(caller), let session = signIn.session else { return nil }
            if session.isRecent(at: context.storeTime) { return true }
            return !signIn.account.hasSignIn(try await context.ask(await context.store.identities(of: caller.user)), context.ways)
        }
        guard isAllowed else { throw .refused(.notRecent(maxAge: Session.recentSeconds)) }
    }

    /// Throws unless the session has proven the second factor within `KeptFactor.recentSeconds`, if the account has one.
    package func requireFactor(_ caller: CallerSession) async throws(AccountError<RecencyRefusal>) {
        try await requireFactor(caller.session, of: caller.user)
    }

    /// The same for a session of a guest; those of others pass.
    package func requireFactor(ofGuest session: UUID) async throws(AccountError<RecencyRefusal>) {
        try await requireFactor(session, of: nil)
    }

    /// Without `user` only guests are checked.
    private func requireFactor(_ id: UUID, of user: UUID?) async throws(AccountError<RecencyRefusal>) {
        let isProven = try await context.value(orRefuse: RecencyRefusal.sessionEnded) { () throws(AccountFailure) -> Bool? in
            guard let signIn = try await context.ask(await context.store.session(id)), let session = signIn.session,
                user == nil || signIn.account.id == user
            else { return nil }
            guard context.offersFactor, !session.hasFactor(at: context.storeTime),
                try await context.ask(await context.store.factor(of: session.user))?.confirmedAt != nil
            else { return true }
            guard user == nil else { return false }
            let identities = try await context.ask(await context.store.identities(of: session.user))
            return !GuestRule.isGuest(signIn.account, hasIdentities: !identities.isEmpty)
        }
        guard isProven else { throw .refused(.noFactor(maxAge: KeptFactor.recentSeconds)) }
    }

    /// Runs `body` if the caller's session is open.
    private func live<Value: Sendable>(
        _ caller: CallerSession, _ body: (SignIn) async throws(AccountFailure) -> Value
    ) async throws(AccountError<SessionRefusal>) -> Value {
        try await context.value(orRefuse: SessionRefusal.sessionEnded) { () throws(AccountFailure) -> Value? in
            guard let signIn = try await open(caller) else { return nil }
            return try await body(signIn)
        }
    }

    /// Ends the caller's session. Idempotent: a session that has ended already is no error.
    package func signOut(_ session: CallerSession, caller: Caller) async throws(AccountFailure) {
        let audit = context.audit(caller)
        _ = try await context.ask(await context.store.end(session.session, .signOut, audit))
    }

    /// All sessions of the caller's account that can still be refreshed, newest first.
    package func all(_ caller: CallerSession) async throws(AccountError<SessionRefusal>) -> [Session] {
        let now = context.storeTime
        return try await live(caller) { _ throws(AccountFailure) in
            try await context.ask(await context.store.sessions(of: caller.user, now: now))
        }
    }

    /// Ends a session of the caller's account, the caller's own or another; false if the account has no such session.
    package func end(
        _ id: UUID, _ session: CallerSession, caller: Caller
    ) async throws(AccountError<SessionRefusal>) -> Bool {
        try await live(session) { _ throws(AccountFailure) in
            let other = CallerSession(user: session.user, session: id)
            // The account of a session never changes, so `signOut` cannot end one of another account.
            guard try await open(other) != nil else { return false }
            try await signOut(other, caller: caller)
            return true
        }
    }

    /// Ends all sessions of the caller's account.
    package func signOutEverywhere(
        _ session: CallerSession, caller: Caller
    ) async throws(AccountError<SessionRefusal>) {
        try await live(session) { _ throws(AccountFailure) in
            let audit = context.audit(caller)
            _ = try await context.ask(await context.store.endSessions(of: session.user, .signOut, audit))
        }
    }

    /// `exp` of the newest access token that sign-in or a refresh gave out for the session, in seconds since 1970 by the gateway's
    /// clock; nil if it has ended. A pair that was handed out again, to a client that lost it, does not count.
    package func newestExpiry(of session: UUID) async throws(AccountFailure) -> Int64? {
        guard let open = try await context.ask(retryingFor: Self.patience, await context.store.session(session))?.session else {
            return nil
        }
        return mint.accessExpiry(of: open, storeSkew: context.storeSkew)
    }

    /// The time of a use of a session, for `note`.
    package var now: WallTime { context.storeTime }

    /// Notes when sessions were used. May be called late and in batches.
    package func note(_ uses: [SessionUse]) async throws(AccountFailure) { try await context.ask(await context.store.saw(uses)) }

    /// Marks pairs as delivered: their access tokens were seen on requests. Idempotent; may be called late and in batches.
    package func confirm(_ pairs: [ConfirmedPair]) async throws(AccountFailure) {
        try await context.ask(await context.store.confirm(pairs))
    }
}
