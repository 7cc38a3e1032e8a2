package import Credentials
internal import Wire

/// Why a code that came back does not sign its sender in.
package enum CodeRefusal: Sendable, Equatable {
    /// Wrong, spent, expired, or tried too often.
    case invalidCode
    /// The code was right; its proof leads to no account.
    case contact(ContactRefusal)
}

/// Codes of six digits, sent by mail or SMS, and the proof of an address that comes back with one.
package struct Codes: Sendable {
    /// The recipients to whom a code may be sent.
    package enum Audience: Sendable {
        /// Only an account that has the recipient's address. Neither the answer nor its timing shows whether there is one.
        case holders
        /// Any recipient: the address is to join an account.
        case anyone
    }

    private let context: AccountContext
    private let mint: TokenMint
    private let courier: any Courier
    private let limiter: any AttemptLimiter
    private let digests: KeyedDigest

    /// `secret` is the refresh token secret, from which the key of the digests is derived.
    package init(
        context: AccountContext, mint: TokenMint, courier: any Courier, limiter: any AttemptLimiter, secret: [UInt8]
    ) {
        self.context = context
        self.mint = mint
        self.courier = courier
        self.limiter = limiter
        digests = KeyedDigest(secret: secret, label: "tollgate code")
    }

    /// Sends a code, which replaces the older one of this purpose and recipient.
    package func send(
        _ purpose: CodePurpose, to recipient: Recipient, _ audience: Audience, caller: Caller
    ) async throws(AccountFailure) {
        let attempts = try await Attempts(limiter, buckets(recipient, caller))
        let code = newCode()
        let expiry = context.storeTime.advanced(seconds: PendingCode.lifetimeSeconds)
        let pending = PendingCode(
            purpose: purpose, recipient: recipient.key, digest: digest(code, purpose, recipient), expiresAt: expiry)
        let holder = try await attempts.make { () throws(AccountFailure) in
            try await context.ask(await context.store.putCode(pending))
        }
        // The counts of recipient and address stay charged: giving them back would show which addresses have no account.
        guard let target = target(recipient, holder, audience) else { return attempts.refund(.smsBudget) }
        let content = Message.Content.code(code, purpose, lifetimeSeconds: PendingCode.lifetimeSeconds)
        courier.send(Message(to: target, content, languages: caller.languages ?? holder?.language), for: caller.address)
    }

    /// Sends the code of a sign-up that was just made. A code that is not sent, for a limit or because the store or mail is
    /// away, does not undo the sign-up: the client asks for it again.
    package func sendForSignUp(to email: EmailAddress, caller: Caller) async {
        do throws(AccountFailure) {
            try await send(.signUp, to: .email(email), .holders, caller: caller)
        } catch {
            // A fault of the store has been logged, and a limit counted, where it arose.
        }
    }

    private func buckets(_ recipient: Recipient, _ caller: Caller) -> [AttemptBucket] {
        let all = [AttemptBucket(.recipientMessages, recipient.key)] + caller.address.bucket(.addressMessages)
        return switch recipient {
        case .email: all
        case .phone: all + [.smsBudget]
        }
    }

    /// The address that the code is sent to; nil for none, also where the holder's relay address forwards no mail. An email is written as
    /// the account spells it: addresses that differ in case are equal here, but may be different mailboxes at their host.
    private func target(_ typed: Recipient, _ holder: Account?, _ audience: Audience) -> Recipient? {
        if case .email = typed, holder?.mailStoppedAt != nil { return nil }
        return switch (audience, typed) {
        case (.holders, _) where holder == nil: nil
        case (.holders, .email), (.anyone, .email): holder?.email.map { .email($0) } ?? typed
        case (.holders, .phone), (.anyone, .phone): typed
        }
    }

    /// Tries a code as one of `purpose`, and signs in by what it proves (see `ContactProof`). `session` is the caller's, if
    /// any; it is kept if the proof leads to the caller's own account, and otherwise a new one is opened under `contract`.
    package func verify(
        _ code: String, _ purpose: CodePurpose, of recipient: Recipient, for proof: ContactProof, contract: ContractID,
        session: CallerSession?, caller: Caller
    ) async throws(AccountError<CodeRefusal>) -> Sessions.Granted {
        let audit = context.audit(caller)
        let redemption = CodeRedemption(
            recipient: recipient, guess: CodeGuess(triedAs: purpose) { digest(code, $0, recipient) }, proof: proof,
            callerSession: session?.session, session: context.newSession(contract, caller, audit.now))
        let redeemed: Redemption?
        do throws(AccountFailure) {
            var signUp = SignUp(contract, address: caller.address)
            if case .email(let email) = recipient { signUp.email = email }
            let attributes = try await context.admitGuest(session, signUp)
            redeemed = try await Guesses(context: context, limiter: limiter).judge(
                at: GuessTarget(recipient), from: caller.address
            ) { () throws(AccountFailure) -> Redemption? in
                let outcome = try await context.ask(await context.store.redeem(redemption, audit))
                return outcome == .wrongCode ? nil : outcome
            }
            if case .proven(let signIn)? = redeemed {
                if signIn.account.id == session?.user { try await context.give(attributes, to: signIn.account.id, audit) }
                return try await context.granted(signIn, mint)
            }
        } catch {
            throw .failed(error)
        }
        guard case .refused(let refusal)? = redeemed else { throw .refused(.invalidCode) }
        throw .refused(.contact(refusal))
    }

    /// Six random digits. The bias of taking 2^64 modulo a million is below one part in 10^13.
    private func newCode() -> String {
        let number = context.random(8).rawBytes.load64(0) % 1_000_000
        let digits = String(number)
        return String(repeating: "0", count: 6 - digits.count) + digits
    }

    private func digest(_ code: String, _ purpose: CodePurpose, _ recipient: Recipient) -> [UInt8] {
        digests.digest(Array(code.utf8), Array(purpose.rawValue.utf8), Array(recipient.key.utf8))
    }
}
