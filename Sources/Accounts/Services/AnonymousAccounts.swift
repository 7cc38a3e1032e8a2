package import Credentials

/// Accounts without an email, phone, password or identity: one for each installation of an app.
package struct AnonymousAccounts: Sendable {
    private let context: AccountContext
    private let mint: TokenMint
    private let limiter: any AttemptLimiter

    package init(context: AccountContext, mint: TokenMint, limiter: any AttemptLimiter) {
        self.context = context
        self.mint = mint
        self.limiter = limiter
    }

    /// Creates an account and a session of it.
    package func open(contract: ContractID, caller: Caller) async throws(AccountFailure) -> Sessions.Granted {
        let attempts = try await Attempts(limiter, caller.address.bucket(.addressOpenings))
        let audit = context.audit(caller)
        var account = NewAccount(id: context.newID(audit.now), openedBy: contract)
        account.attributes = try await context.admit(SignUp(contract, address: caller.address))
        let new = account
        let session = context.newSession(contract, caller, audit.now)
        let opening = try await attempts.make { () throws(AccountFailure) in
            try await context.ask(await context.store.open(new, session: session, audit))
        }
        switch opening {
        case .opened(let account, let session):
            return try await context.granted(SignIn(account: account, session: session), mint)
        case .emailTaken:
            attempts.refund()
            context.notice(.storeFailed("an account without an email was refused for its email"))
            throw .broken
        }
    }
}
