package import Credentials
internal import Wire

/// The outcome of a sign-up or sign-in.
package struct SignedIn: Sendable, Equatable {
    package let account: Account
    /// nil while the account must prove its email first.
    package let grant: SessionGrant?
    /// Whether the account was created by this call.
    package let isNew: Bool
}

/// The data of a sign-up.
package struct Registration: Sendable {
    package var email: EmailAddress
    package var password: Password
    package var username: Username?
    package var metadata = Metadata.empty
    /// The session that the caller has, which may be a guest's.
    package var guest: CallerSession?

    package init(email: EmailAddress, password: Password) {
        self.email = email
        self.password = password
    }
}

/// Why no account is created.
package enum SignUpRefusal: Sendable, Equatable {
    case unfitPassword([PasswordFault])
    case emailTaken
}

/// Why a name and a password do not sign in.
package enum SignInRefusal: Sendable, Equatable {
    /// No such account, no password on it, or a different one.
    case invalidCredentials
}

/// Why a password is not changed.
package enum PasswordChangeRefusal: Sendable, Equatable {
    case unfitPassword([PasswordFault])
    /// The caller's session has ended, or its account is gone.
    case sessionEnded
}

/// Sign-up, sign-in and password change for accounts with a password.
package struct PasswordAccounts: Sendable {
    private let context: AccountContext
    private let mint: TokenMint
    private let work: PasswordWork
    private let limiter: any AttemptLimiter

    package init(context: AccountContext, mint: TokenMint, work: PasswordWork, limiter: any AttemptLimiter) {
        self.context = context
        self.mint = mint
        self.work = work
        self.limiter = limiter
    }

    /// Creates an account, and a session unless its email must be proven first. In that case a later sign-up replaces an
    /// account whose email was never proven.
    package func signUp(
        _ registration: Registration, rules: PasswordRules, contract: ContractID, mustConfirmEmail: Bool = false,
        caller: Caller
    ) async throws(AccountError<SignUpRefusal>) -> SignedIn {
        let faults = rules.faults(of: registration.password, email: registration.email)
        guard faults.isEmpty else { throw .refused(.unfitPassword(faults)) }
        return try await context.value(orRefuse: SignUpRefusal.emailTaken) { () throws(AccountFailure) -> SignedIn? in
            // A taken email stays charged like a wrong password: enumerating emails is limited as guessing is.
            let attempts = try await Attempts(
                limiter, caller.address.bucket(.addressFailures) + caller.address.bucket(.addressOpenings))
            let audit = context.audit(caller)
            let session = mustConfirmEmail ? nil : context.newSession(contract, caller, audit.now)
            var signUp = SignUp(contract, email: registration.email, address: caller.address)
            (signUp.username, signUp.metadata) = (registration.username, registration.metadata)
            // A rejection stays charged: the hook is asked as often as accounts may be opened.
            let attributes = try await context.admit(signUp)
            let opening = try await attempts.make { () throws(AccountFailure) in
                let hash = try await work.hash(registration.password, for: caller.address)
                var account = NewAccount(
                    id: context.newID(audit.now), openedBy: contract, email: registration.email,
                    username: registration.username, passwordHash: hash, metadata: registration.metadata)
                account.replacesUnfinishedSignUp = mustConfirmEmail
                account.guest = registration.guest
                account.attributes = attributes
                let new = account
                return try await context.ask(await context.store.open(new, session: session, audit))
            }
            switch opening {
            case .opened(let account, let session):
                attempts.refund(.addressFailures)
                return try await signedIn(SignIn(account: account, session: session, isNew: true))
            case .emailTaken:
                attempts.refund(.addressOpenings)
                return nil
            }
        }
    }

    /// Signs in by email or username. Neither the answer nor its timing shows whether there is such an account.
    package func signIn(
        _ name: SignInName, _ password: Password, contract: ContractID, mustConfirmEmail: Bool = false, caller: Caller
    ) async throws(AccountError<SignInRefusal>) -> SignedIn {
        try await context.value(orRefuse: SignInRefusal.invalidCredentials) { () throws(AccountFailure) -> SignedIn? in
            let guesses = Guesses(context: context, limiter: limiter)
            let right = try await guesses.judge(at: GuessTarget(name), from: caller.address) { () throws(AccountFailure) -> SignIn? in
                let credential = try await context.ask(await context.store.credential(for: name))
                let check = try await work.check(password, against: credential?.hash, for: caller.address)
                guard let credential, check.isRight else { return nil }
                let audit = context.audit(caller)
                let isWithheld = mustConfirmEmail && !credential.isEmailConfirmed
                let session = isWithheld ? nil : context.newSession(contract, caller, audit.now)
                let proof = PasswordProof(hash: credential.hash, replacement: check.replacement)
                return try await context.ask(
                    await context.store.signIn(credential.user, proof: proof, session: session, audit))
            }
            guard let right else { return nil }
            return try await signedIn(right)
        }
    }

    /// Sets the caller's password. The caller's session stays; all others of the account end.
    package func changePassword(
        to password: Password, rules: PasswordRules, session: CallerSession, caller: Caller
    ) async throws(AccountError<PasswordChangeRefusal>) -> Sessions.Granted {
        let faults = rules.faults(of: password, email: nil)
        guard faults.isEmpty else { throw .refused(.unfitPassword(faults)) }
        return try await context.value(orRefuse: PasswordChangeRefusal.sessionEnded) { () throws(AccountFailure) -> Sessions.Granted? in
            let attempts = try await Attempts(limiter, [AttemptBucket(.passwordChanges, session.user.text)])
            let audit = context.audit(caller)
            let changed = try await attempts.make { () throws(AccountFailure) in
                let hash = try await work.hash(password, for: caller.address)
                return try await context.ask(
                    await context.store.setPassword(hash, of: session.user, keeping: session.session, audit))
            }
            guard let changed else { return nil }
            return try await context.granted(changed, mint)
        }
    }

    private func signedIn(_ signIn: SignIn) async throws(AccountFailure) -> SignedIn {
        let grant = signIn.session == nil ? nil : try await context.granted(signIn, mint).grant
        return SignedIn(account: signIn.account, grant: grant, isNew: signIn.isNew)
    }
}
