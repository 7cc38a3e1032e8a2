internal import Credentials
package import Wire

/// Sessions once they are open: refreshed, seen, ended.
package struct Sessions: Sendable {
    /// What a caller got who is signed in.
    package struct Granted: Sendable, Equatable {
        package let account: Account
        package let grant: SessionGrant
    }

    /// How long a store that is away is waited for, in milliseconds: a client that is refused signs its user out.
    private static let patience: UInt64 = 2_000
    private static let actorTokenSeconds: Int64 = 900

    private let base: AccountBase
    private let mint: TokenMint
    private let rule: RefreshRule

    /// `rule` holds the grace for spent refresh tokens (`TOLLGATE_REFRESH_GRACE`).
    package init(base: AccountBase, mint: TokenMint, rule: RefreshRule = RefreshRule()) {
        self.base = base
        self.mint = mint
        self.rule = rule
    }

    /// The new pair for a refresh token that came in at `contract`'s endpoint. Never `tooManyAttempts`: a token that
    /// holds always gets its due.
    package func refresh(
        _ token: String, contract: ContractID, caller: Caller
    ) async throws(AccountError) -> Granted {
        let occasion = base.occasion(caller)
        let request = try mint.request(token, contract, rule: rule, now: occasion.now)
        let outcome = try await base.asking(patiently: Self.patience) { () throws(StoreFault) in
            try await base.store.refresh(request, occasion)
        }
        switch outcome {
        case .issued(let signIn, let verdict):
            if verdict == .storm { base.notice(.refreshStorm(session: request.session, contract: contract)) }
            return try base.granted(signIn, mint, now: occasion.now)
        case .refused(let refusal): throw told(refusal, request.session)
        case .reused(let ended):
            base.notice(.refreshReuse(session: ended.id, user: ended.user))
            await base.tell([ended])
            throw .invalidRefreshToken
        }
    }

    /// The new pair for a refresh token of whatever contract, if it is of `session`: that of another is refused, and its
    /// session unharmed.
    package func refresh(
        _ token: String, of session: CallerSession, caller: Caller
    ) async throws(AccountError) -> Granted {
        let said = try mint.place(of: token, now: base.clock.now().wall)
        guard said.session == session.session else { throw .invalidRefreshToken }
        let granted = try await refresh(token, contract: said.contract, caller: caller)
        guard granted.account.id == session.user else { throw .invalidRefreshToken }
        return granted
    }

    private func told(_ refusal: RefreshRefusal, _ session: UUID) -> AccountError {
        switch refusal {
        case .expired: return .refreshTokenExpired
        case .noSession, .wrongContract: return .invalidRefreshToken
        case .ahead:
            base.notice(.refreshAhead(session: session))
            return .invalidRefreshToken
        }
    }

    /// The account and the current pair of the caller's session, without a step of its counter.
    package func current(_ caller: CallerSession) async throws(AccountError) -> Granted {
        let now = base.clock.now().wall
        return try base.granted(try await open(caller), mint, now: now)
    }

    /// A token, good for 15 minutes, with which the caller acts as `actor`: everyone may as (`user`, own id), for any
    /// other it takes a grant.
    package func actorToken(_ actor: ActorName, caller: CallerSession) async throws(AccountError) -> String {
        let signIn = try await open(caller)
        if actor != ActorName(storedType: "user", id: caller.user.text) {
            let isGranted = try await base.asking { () throws(StoreFault) in
                try await base.store.holdsGrant(actor, user: caller.user)
            }
            guard isGranted else { throw .actorNotGranted }
        }
        guard let session = signIn.session else { throw .sessionEnded }
        let now = base.clock.now().wall
        return try base.signing { () throws(KeyFault) in
            try mint.actorToken(actor, session, signIn.account, seconds: Self.actorTokenSeconds, now: now)
        }
    }

    private func open(_ caller: CallerSession) async throws(AccountError) -> SignIn {
        let signIn = try await base.asking { () throws(StoreFault) in try await base.store.session(caller.session) }
        guard let signIn, signIn.account.id == caller.user else { throw .sessionEnded }
        return signIn
    }

    /// Ends the caller's session. One that has ended already is no error: what was asked for is so.
    package func signOut(_ session: CallerSession, caller: Caller) async throws(AccountError) {
        let occasion = base.occasion(caller)
        let ended = try await base.asking { () throws(StoreFault) in
            try await base.store.end(session.session, .signOut, occasion)
        }
        if let ended { await base.tell([ended]) }
    }

    /// All sessions of the caller's account that are in use, the newest first.
    package func all(_ caller: CallerSession) async throws(AccountError) -> [Session] {
        _ = try await open(caller)
        let now = base.clock.now().wall
        return try await base.asking { () throws(StoreFault) in try await base.store.sessions(of: caller.user, now: now) }
    }

    /// Ends a session of the caller's account, this one or another; false if the account has no such session.
    package func end(_ id: UUID, _ session: CallerSession, caller: Caller) async throws(AccountError) -> Bool {
        _ = try await open(session)
        let other = CallerSession(user: session.user, session: id)
        do throws(AccountError) {
            // Whose a session is never changes, so that it is still this account's when it ends.
            _ = try await open(other)
        } catch .sessionEnded {
            return false
        }
        try await signOut(other, caller: caller)
        return true
    }

    /// Ends all sessions of the caller's account.
    package func signOutEverywhere(_ session: CallerSession, caller: Caller) async throws(AccountError) {
        _ = try await open(session)
        let occasion = base.occasion(caller)
        let ended = try await base.asking { () throws(StoreFault) in
            try await base.store.endSessions(of: session.user, .signOut, occasion)
        }
        await base.tell(ended)
    }

    /// Tells that access tokens of these pairs were seen on requests. May be called late, more than once, and for many
    /// at a time.
    package func confirm(_ pairs: [ConfirmedPair]) async throws(AccountError) {
        try await base.asking { () throws(StoreFault) in try await base.store.confirm(pairs) }
    }
}

extension AccountBase {
    /// The tokens of a session that was opened or found.
    func granted(_ signIn: SignIn, _ mint: TokenMint, now: WallTime) throws(AccountError) -> Sessions.Granted {
        guard let session = signIn.session else {
            notice(.storeFailed("a session that was asked for is missing"))
            throw .broken
        }
        let tokens = try signing { () throws(KeyFault) in try mint.pair(session, signIn.account, now: now) }
        return .init(account: signIn.account, grant: SessionGrant(session: session, tokens: tokens))
    }

    func signing<Value>(_ body: () throws(KeyFault) -> Value) throws(AccountError) -> Value {
        do throws(KeyFault) {
            return try body()
        } catch {
            notice(.cannotSign(error.message))
            throw .broken
        }
    }
}
