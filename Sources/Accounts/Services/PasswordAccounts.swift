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
        let attempts = Attempts(limiter, guessesAt: nil, from: caller.address)
        try await attempts.admit()
        try rules.check(registration.password, email: registration.email)
        let hash = try await work.hash(registration.password)
        let occasion = base.occasion(caller)
        var account = NewAccount(
            id: base.newID(occasion.now), openedBy: contract, email: registration.email,
            username: registration.username, passwordHash: hash, metadata: registration.metadata)
        account.mayStartAnew = mustConfirmEmail
        let session = mustConfirmEmail ? nil : base.newSession(contract, caller, occasion.now)
        let opening = try await base.asking { () throws(StoreFault) in
            try await base.store.open(account, session: session, occasion)
        }
        switch opening {
        case .opened(let account, let session):
            return try signedIn(SignIn(account: account, session: session, isNew: true), now: occasion.now)
        case .emailTaken:
            // Who tries out which emails have accounts is slowed down like one who tries out passwords.
            await attempts.count()
            throw .emailTaken
        }
    }

    /// Signs in by email or username. Whether there is such an account shows neither in the answer nor in its time.
    package func signIn(
        _ name: SignInName, _ password: Password, contract: ContractID, mustConfirmEmail: Bool = false, caller: Caller
    ) async throws(AccountError) -> SignedIn {
        let attempts = Attempts(limiter, guessesAt: name.key, from: caller.address)
        try await attempts.admit()
        let credential = try await base.asking { () throws(StoreFault) in try await base.store.credential(for: name) }
        let check = try await work.check(password, against: credential?.hash)
        guard let credential, check.isRight else {
            await attempts.count()
            throw .invalidCredentials
        }
        let occasion = base.occasion(caller)
        let isWithheld = mustConfirmEmail && !credential.isEmailConfirmed
        let session = isWithheld ? nil : base.newSession(contract, caller, occasion.now)
        let proof = PasswordProof(hash: credential.hash, replacement: check.replacement)
        let signIn = try await base.asking { () throws(StoreFault) in
            try await base.store.signIn(credential.user, proof: proof, session: session, occasion)
        }
        guard let signIn else { throw .invalidCredentials }
        return try signedIn(signIn, now: occasion.now)
    }

    /// Another password for the caller, whose session stays; all others of the account end.
    package func changePassword(
        to password: Password, rules: PasswordRules, session: CallerSession, caller: Caller
    ) async throws(AccountError) -> Sessions.Granted {
        try rules.check(password, email: nil)
        let hash = try await work.hash(password)
        let occasion = base.occasion(caller)
        let signIn = try await base.asking { () throws(StoreFault) in
            try await base.store.setPassword(hash, of: session.user, keeping: session.session, occasion)
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
