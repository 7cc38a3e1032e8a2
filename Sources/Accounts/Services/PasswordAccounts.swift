internal import Wire

/// What came of signing up or in.
package struct SignedIn: Sendable, Equatable {
    package let account: Account
    /// nil while the account must prove its email first.
    package let grant: SessionGrant?
    /// Whether the account was opened by this.
    package let isNew: Bool
}

/// What a person signs up with.
package struct Registration: Sendable {
    package var email: EmailAddress
    package var password: Password
    package var username: Username?
    package var metadata = Metadata.empty

    package init(email: EmailAddress, password: Password) {
        self.email = email
        self.password = password
    }
}

/// Accounts with a password: signing up, signing in, another password.
package struct PasswordAccounts: Sendable {
    private let base: AccountBase
    private let mint: TokenMint
    private let work: PasswordWork
    private let limiter: any AttemptLimiter

    package init(base: AccountBase, mint: TokenMint, work: PasswordWork, limiter: any AttemptLimiter) {
        self.base = base
        self.mint = mint
        self.work = work
        self.limiter = limiter
    }

    /// Opens an account, and a session of it at once unless its email must be proven first; then a sign-up whose email
    /// never was proven gives way to a new one.
    package func signUp(
        _ registration: Registration, rules: PasswordRules, contract: ContractID, mustConfirmEmail: Bool = false,
        caller: Caller
    ) async throws(AccountError) -> SignedIn {
        try rules.check(registration.password, email: registration.email)
        // Who tries out which emails have accounts is slowed down like one who tries out passwords.
        let attempts = try await Attempts(
            limiter, caller.address.bucket(.addressFailures) + caller.address.bucket(.addressOpenings))
        let occasion = base.occasion(caller)
        let opening = try await attempts.make { () throws(AccountError) in
            let hash = try await work.hash(registration.password, for: caller.address)
            var account = NewAccount(
                id: base.newID(occasion.now), openedBy: contract, email: registration.email,
                username: registration.username, passwordHash: hash, metadata: registration.metadata)
            account.mayStartAnew = mustConfirmEmail
            let (new, session) = (account, mustConfirmEmail ? nil : base.newSession(contract, caller, occasion.now))
            return try await base.asking { () throws(StoreFault) in
                try await base.store.open(new, session: session, occasion)
            }
        }
        switch opening {
        case .opened(let account, let session):
            attempts.refund(.addressFailures)
            return try signedIn(SignIn(account: account, session: session, isNew: true), now: occasion.now)
        case .emailTaken:
            attempts.refund(.addressOpenings)
            throw .emailTaken
        }
    }

    /// Signs in by email or username. Whether there is such an account shows neither in the answer nor in its time.
    package func signIn(
        _ name: SignInName, _ password: Password, contract: ContractID, mustConfirmEmail: Bool = false, caller: Caller
    ) async throws(AccountError) -> SignedIn {
        let guesses = Guesses(base: base, limiter: limiter)
        let (signIn, now) = try await guesses.judge(at: GuessTarget(name), from: caller.address) {
            () throws(AccountError) -> Guesses.Judgement<(SignIn, WallTime)> in
            let credential = try await base.asking { () throws(StoreFault) in try await base.store.credential(for: name) }
            let check = try await work.check(password, against: credential?.hash, for: caller.address)
            guard let credential, check.isRight else { return .wrong(.invalidCredentials) }
            let occasion = base.occasion(caller)
            let isWithheld = mustConfirmEmail && !credential.isEmailConfirmed
            let session = isWithheld ? nil : base.newSession(contract, caller, occasion.now)
            let proof = PasswordProof(hash: credential.hash, replacement: check.replacement)
            let signIn = try await base.asking { () throws(StoreFault) in
                try await base.store.signIn(credential.user, proof: proof, session: session, occasion)
            }
            guard let signIn else { return .wrong(.invalidCredentials) }
            return .right((signIn, occasion.now))
        }
        return try signedIn(signIn, now: now)
    }

    /// Another password for the caller, whose session stays; all others of the account end.
    package func changePassword(
        to password: Password, rules: PasswordRules, session: CallerSession, caller: Caller
    ) async throws(AccountError) -> Sessions.Granted {
        try rules.check(password, email: nil)
        let attempts = try await Attempts(limiter, [AttemptBucket(.passwordChanges, session.user.text)])
        let occasion = base.occasion(caller)
        let signIn = try await attempts.make { () throws(AccountError) in
            let hash = try await work.hash(password, for: caller.address)
            return try await base.asking { () throws(StoreFault) in
                try await base.store.setPassword(hash, of: session.user, keeping: session.session, occasion)
            }
        }
        guard let signIn else { throw .sessionEnded }
        await base.tell(signIn.ended)
        return try base.granted(signIn, mint, now: occasion.now)
    }

    private func signedIn(_ signIn: SignIn, now: WallTime) throws(AccountError) -> SignedIn {
        let grant = signIn.session == nil ? nil : try base.granted(signIn, mint, now: now).grant
        return SignedIn(account: signIn.account, grant: grant, isNew: signIn.isNew)
    }
}
