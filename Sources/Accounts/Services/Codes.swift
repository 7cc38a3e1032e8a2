internal import Credentials
internal import Wire

/// Six digits by mail or SMS, and what they prove.
package struct Codes: Sendable {
    /// For whom a code is sent.
    package enum Audience: Sendable {
        /// For the account that has the recipient, if there is one. Whether there is shows neither in the answer nor in
        /// its time.
        case holders
        /// For anybody: the recipient is to join an account.
        case anyone
    }

    private let base: AccountBase
    private let mint: TokenMint
    private let courier: any Courier
    private let limiter: any AttemptLimiter
    private let digests: KeyedDigest

    /// `secret` is the one that refresh tokens rest on; what is used here is derived from it.
    package init(
        base: AccountBase, mint: TokenMint, courier: any Courier, limiter: any AttemptLimiter, secret: [UInt8]
    ) {
        self.base = base
        self.mint = mint
        self.courier = courier
        self.limiter = limiter
        digests = KeyedDigest(secret: secret, label: "tollgate code")
    }

    /// Sends a code; the older one of this purpose and recipient is dead from now on.
    package func send(
        _ purpose: CodePurpose, to recipient: Recipient, _ audience: Audience, caller: Caller
    ) async throws(AccountError) {
        let attempts = try await Attempts(limiter, buckets(recipient, caller))
        let code = newCode()
        let expiry = base.clock.now().wall.advanced(seconds: PendingCode.lifetimeSeconds)
        let pending = PendingCode(
            purpose: purpose, recipient: recipient.key, digest: digest(code, purpose, recipient), expiresAt: expiry)
        let holder = try await attempts.make { () throws(AccountError) in
            try await base.asking { () throws(StoreFault) in try await base.store.putCode(pending) }
        }
        // The recipient's and the address's count stay charged: they must not tell who has an account.
        guard let target = target(recipient, holder, audience) else { return attempts.refund(.smsBudget) }
        courier.send(Message(to: target, .code(code, purpose, lifetimeSeconds: PendingCode.lifetimeSeconds)))
    }

    private func buckets(_ recipient: Recipient, _ caller: Caller) -> [AttemptBucket] {
        let all = [AttemptBucket(.recipientMessages, recipient.key)] + caller.address.bucket(.addressMessages)
        return switch recipient {
        case .email: all
        case .phone: all + [.smsBudget]
        }
    }

    /// Where the code goes. To a holder only as the account spells it: what differs in case alone counts as the same email
    /// here, and may be somebody else's mailbox there.
    private func target(_ typed: Recipient, _ holder: Account?, _ audience: Audience) -> Recipient? {
        switch (audience, typed) {
        case (.holders, _) where holder == nil: nil
        case (.holders, .email), (.anyone, .email): holder?.email.map { .email($0) } ?? typed
        case (.holders, .phone), (.anyone, .phone): typed
        }
    }

    /// Tries a code as one of `purpose`, and does what it proves: see `ContactProof`. `session` is the caller's, if there is
    /// one; it stays where the proof leads to the caller's own account, and else one is opened under `contract`.
    package func verify(
        _ code: String, _ purpose: CodePurpose, of recipient: Recipient, for proof: ContactProof, contract: ContractID,
        session: CallerSession?, caller: Caller
    ) async throws(AccountError) -> Sessions.Granted {
        let occasion = base.occasion(caller)
        let redemption = CodeRedemption(
            recipient: recipient, guess: CodeGuess(triedAs: purpose) { digest(code, $0, recipient) }, proof: proof,
            callerSession: session?.session, session: base.newSession(contract, caller, occasion.now))
        let guesses = Guesses(base: base, limiter: limiter)
        let outcome = try await guesses.judge(at: GuessTarget(recipient), from: caller.address) {
            () throws(AccountError) -> Guesses.Judgement<Redemption> in
            let outcome = try await base.asking { () throws(StoreFault) in
                try await base.store.redeem(redemption, occasion)
            }
            return outcome == .wrongCode ? .wrong(.invalidCode) : .right(outcome)
        }
        switch outcome {
        case .proven(let signIn):
            await base.tell(signIn.ended)
            return try base.granted(signIn, mint, now: occasion.now)
        case .wrongCode: throw .invalidCode
        case .refused(let refusal): throw told(refusal, recipient)
        }
    }

    private func told(_ refusal: ContactRefusal, _ recipient: Recipient) -> AccountError {
        switch (refusal, recipient) {
        case (.noAccount, _): .noSuchAccount
        case (.callerGone, _): .sessionEnded
        case (.taken, .email): .emailTaken
        case (.taken, .phone): .phoneTaken
        }
    }

    /// Six digits. That 2^64 is no multiple of a million favours none of them by more than one part in 10^13.
    private func newCode() -> String {
        let number = base.random(8).rawBytes.load64(0) % 1_000_000
        let digits = String(number)
        return String(repeating: "0", count: 6 - digits.count) + digits
    }

    private func digest(_ code: String, _ purpose: CodePurpose, _ recipient: Recipient) -> [UInt8] {
        digests.digest(Array(code.utf8), Array(purpose.rawValue.utf8), Array(recipient.key.utf8))
    }
}
