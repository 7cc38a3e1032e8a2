/// Accounts of which nothing is known but that somebody uses the app.
package struct AnonymousAccounts: Sendable {
    private let base: AccountBase
    private let mint: TokenMint
    private let limiter: any AttemptLimiter

    package init(base: AccountBase, mint: TokenMint, limiter: any AttemptLimiter) {
        self.base = base
        self.mint = mint
        self.limiter = limiter
    }

    /// Opens an account and a session of it.
    package func open(contract: ContractID, caller: Caller) async throws(AccountError) -> Sessions.Granted {
        let attempts = try await Attempts(limiter, caller.address.bucket(.addressOpenings))
        let occasion = base.occasion(caller)
        let account = NewAccount(id: base.newID(occasion.now), openedBy: contract)
        let session = base.newSession(contract, caller, occasion.now)
        let opening = try await attempts.make { () throws(AccountError) in
            try await base.asking { () throws(StoreFault) in try await base.store.open(account, session: session, occasion) }
        }
        switch opening {
        case .opened(let account, let session):
            return try base.granted(SignIn(account: account, session: session), mint, now: occasion.now)
        case .emailTaken:
            attempts.refund()
            base.notice(.storeFailed("an account without an email was refused for its email"))
            throw .broken
        }
    }
}
