internal import Credentials
internal import Wire

/// A new password for who forgot the old one and still receives mail.
package struct PasswordReset: Sendable {
    private let base: AccountBase
    private let mint: TokenMint
    private let work: PasswordWork
    private let courier: any Courier
    private let limiter: any AttemptLimiter
    private let digests: KeyedDigest

    /// `secret` is the one that refresh tokens rest on; what is used here is derived from it.
    package init(
        base: AccountBase, mint: TokenMint, work: PasswordWork, courier: any Courier, limiter: any AttemptLimiter,
        secret: [UInt8]
    ) {
        self.base = base
        self.mint = mint
        self.work = work
        self.courier = courier
        self.limiter = limiter
        digests = KeyedDigest(secret: secret, label: "tollgate reset token")
    }

    /// Sends a token to the account that has `email`. Whether there is one shows neither in the answer nor in its time.
    package func forgot(_ email: EmailAddress, caller: Caller) async throws(AccountError) {
        let buckets = [AttemptBucket(.recipientMessages, Recipient.email(email).key)]
        let attempts = try await Attempts(limiter, buckets + caller.address.bucket(.addressMessages))
        let token = Base64URL.encode(base.random(32).rawBytes)
        let expiry = base.clock.now().wall.advanced(seconds: PendingReset.lifetimeSeconds)
        let pending = PendingReset(digest: digests.digest(Array(token.utf8)), email: email, expiresAt: expiry)
        // Without an account the charge stays all the same: it must not tell who has one.
        let account = try await attempts.make { () throws(AccountError) in
            try await base.asking { () throws(StoreFault) in try await base.store.putResetToken(pending) }
        }
        guard let address = account?.email else { return }
        let content = Message.Content.passwordReset(token: token, lifetimeSeconds: PendingReset.lifetimeSeconds)
        courier.send(Message(to: .email(address), content))
    }

    /// Sets a new password by a token that was sent, ends all sessions, and opens one.
    package func reset(
        token: String, to password: Password, rules: PasswordRules, contract: ContractID, caller: Caller
    ) async throws(AccountError) -> Sessions.Granted {
        try rules.check(password, email: nil)
        let digest = digests.digest(Array(token.utf8))
        let occasion = base.occasion(caller)
        let signIn = try await Guesses(base: base, limiter: limiter).judge(at: nil, from: caller.address) {
            () throws(AccountError) -> Guesses.Judgement<SignIn> in
            // Before the work of hashing: whoever makes tokens up shall not be able to order it.
            let isKnown = try await base.asking { () throws(StoreFault) in
                try await base.store.holdsResetToken(digest: digest, now: occasion.now)
            }
            guard isKnown else { return .wrong(.invalidResetToken) }
            let hash = try await work.hash(password, for: caller.address)
            let session = base.newSession(contract, caller, occasion.now)
            let signIn = try await base.asking { () throws(StoreFault) in
                try await base.store.resetPassword(digest: digest, hash: hash, session: session, occasion)
            }
            return signIn.map { .right($0) } ?? .wrong(.invalidResetToken)
        }
        await base.tell(signIn.ended)
        return try base.granted(signIn, mint, now: occasion.now)
    }
}
