internal import Credentials
internal import Wire

/// Signing in by an ID token of Apple or Google.
package struct ProviderSignIn: Sendable {
    /// What an app sends.
    package struct Request: Sendable {
        package var provider: Provider
        package var idToken: String
        /// What the app says it asked the provider with.
        package var nonce: String?
        package var name: PersonName?
        package var nameRule = NameRule.first

        package init(provider: Provider, idToken: String) {
            self.provider = provider
            self.idToken = idToken
        }
    }

    private let base: AccountBase
    private let mint: TokenMint
    private let keys: any ProviderKeys
    private let limiter: any AttemptLimiter

    package init(base: AccountBase, mint: TokenMint, keys: any ProviderKeys, limiter: any AttemptLimiter) {
        self.base = base
        self.mint = mint
        self.keys = keys
        self.limiter = limiter
    }

    /// Whether the operator has set the provider up.
    package func offers(_ provider: Provider) -> Bool { keys.rules(for: provider) != nil }

    /// Signs in who the token names, and opens the account if there is none yet.
    package func signIn(
        _ request: Request, contract: ContractID, caller: Caller
    ) async throws(AccountError) -> SignedIn {
        guard offers(request.provider) else { throw .providerOff }
        let token = try await Guesses(base: base, limiter: limiter).judge(at: nil, from: caller.address) {
            () throws(AccountError) -> Guesses.Judgement<IDToken> in
            do throws(AccountError) {
                return .right(try await verified(request))
            } catch {
                if error == .identityRefused { return .wrong(error) }
                throw error
            }
        }
        let occasion = base.occasion(caller)
        let proof = IdentityProof(
            provider: request.provider, subject: token.subject, verifiedEmail: verifiedEmail(token), name: request.name,
            nameRule: request.nameRule)
        let (newUser, session) = (base.newID(occasion.now), base.newSession(contract, caller, occasion.now))
        let attempts = try await room(for: proof, caller)
        let signIn = try await attempts.make { () throws(AccountError) in
            try await base.asking { () throws(StoreFault) in
                try await base.store.signIn(proof, newUser: newUser, session: session, occasion)
            }
        }
        if !signIn.isNew { attempts.refund() }
        await base.tell(signIn.ended)
        let granted = try base.granted(signIn, mint, now: occasion.now)
        return SignedIn(account: granted.account, grant: granted.grant, isNew: signIn.isNew)
    }

    /// Charges the account that may have to be opened. Who has one is let in though the address may open no more.
    private func room(for proof: IdentityProof, _ caller: Caller) async throws(AccountError) -> Attempts {
        do throws(AccountError) {
            return try await Attempts(limiter, caller.address.bucket(.addressOpenings))
        } catch {
            let isLinked = try await base.asking { () throws(StoreFault) in
                try await base.store.holdsIdentity(proof.provider, subject: proof.subject)
            }
            guard isLinked else { throw error }
            return Attempts(uncharged: limiter)
        }
    }

    /// What the token says. One that names an unknown key gets a second look when the keys have been asked for again.
    private func verified(_ request: Request) async throws(AccountError) -> IDToken {
        var outcome = try verify(request)
        if case .failure(let fault) = outcome, fault.isForUnknownKey || fault.isForWantOfKeys {
            await keys.refetch(request.provider)
            outcome = try verify(request)
        }
        switch outcome {
        case .success(let token): return token
        case .failure(let fault): throw fault.isForWantOfKeys ? .providerUnavailable : .identityRefused
        }
    }

    private func verify(_ request: Request) throws(AccountError) -> Result<IDToken, IDTokenFault> {
        guard let rules = keys.rules(for: request.provider) else { throw .providerOff }
        let now = base.clock.now().wall
        return request.idToken.withRawBytes { rules.verify($0, nonce: request.nonce, now: now) }
    }

    /// An email that the provider vouches for and that is one by our rules.
    private func verifiedEmail(_ token: IDToken) -> EmailAddress? {
        guard token.isEmailVerified, let email = token.email else { return nil }
        do throws(AccountError) { return try EmailAddress(email) } catch { return nil }
    }
}
