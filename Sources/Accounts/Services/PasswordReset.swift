package import Credentials
internal import Wire

/// Why a password is not reset.
package enum PasswordResetRefusal: Sendable, Equatable {
    case unfitPassword([PasswordFault])
    /// Wrong, spent or expired.
    case invalidToken
}

/// Forgotten passwords: a token by mail lets its receiver choose a new one.
package struct PasswordReset: Sendable {
    private let context: AccountContext
    private let mint: TokenMint
    private let work: PasswordWork
    private let courier: any Courier
    private let limiter: any AttemptLimiter
    private let digests: KeyedDigest

    /// `secret` is the refresh token secret, from which the key of the digests is derived.
    package init(
        context: AccountContext, mint: TokenMint, work: PasswordWork, courier: any Courier, limiter: any AttemptLimiter,
        secret: [UInt8]
    ) {
        self.context = context
        self.mint = mint
        self.work = work
        self.courier = courier
        self.limiter = limiter
        digests = KeyedDigest(secret: secret, label: "tollgate reset token")
    }

    /// Sends a token to the account that has `email`. Neither the answer nor its timing shows whether there is one.
    package func forgot(_ email: EmailAddress, caller: Caller) async throws(AccountFailure) {
        let buckets = [AttemptBucket(.recipientMessages, Recipient.email(email).key)]
        let attempts = try await Attempts(limiter, buckets + caller.address.bucket(.addressMessages))
        let token = Base64URL.encode(context.random(32).rawBytes)
        let expiry = context.storeTime.advanced(seconds: PendingReset.lifetimeSeconds)
        let pending = PendingReset(digest: digests.digest(Array(token.utf8)), email: email, expiresAt: expiry)
        // The charge stays without an account too: giving it back would show which emails have none.
        let account = try await attempts.make { () throws(AccountFailure) in
            try await context.ask(await context.store.putResetToken(pending))
        }
        guard let account, let address = account.email, account.mailStoppedAt == nil else { return }
        let content = Message.Content.passwordReset(token: token, lifetimeSeconds: PendingReset.lifetimeSeconds)
        courier.send(Message(to: .email(address), content, languages: caller.languages ?? account.language), for: caller.address)
    }

    /// Sets a new password by a token that was sent, ends all sessions, and opens one.
    package func reset(
        token: String, to password: Password, rules: PasswordRules, contract: ContractID, caller: Caller
    ) async throws(AccountError<PasswordResetRefusal>) -> Sessions.Granted {
        let faults = rules.faults(of: password, email: nil)
        guard faults.isEmpty else { throw .refused(.unfitPassword(faults)) }
        let digest = digests.digest(Array(token.utf8))
        let audit = context.audit(caller)
        return try await context.value(orRefuse: PasswordResetRefusal.invalidToken) { () throws(AccountFailure) -> Sessions.Granted? in
            let right = try await Guesses(context: context, limiter: limiter).judge(at: nil, from: caller.address) {
                () throws(AccountFailure) -> SignIn? in
                // Before the hash: made-up tokens must not cost the gateway the work of hashing.
                let isKnown = try await context.ask(await context.store.holdsResetToken(digest: digest, now: audit.now))
                guard isKnown else { return nil }
                let hash = try await work.hash(password, for: caller.address)
                let session = context.newSession(contract, caller, audit.now)
                return try await context.ask(
                    await context.store.resetPassword(digest: digest, hash: hash, session: session, audit))
            }
            guard let right else { return nil }
            return try await context.granted(right, mint)
        }
    }
}
