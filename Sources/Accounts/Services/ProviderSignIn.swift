package import Credentials
internal import Wire

/// Why an ID token does not sign its sender in.
package enum ProviderRefusal: Sendable, Equatable {
    /// The operator has not set this provider up.
    case providerOff
    /// The ID token does not verify.
    case identityRefused
    /// The provider's keys cannot be fetched.
    case keysUnavailable
}

/// Why an identity is not linked to the caller's account.
package enum LinkRefusal: Error, Equatable {
    case provider(ProviderRefusal)
    case ofOtherAccount
    case sessionEnded
}

/// Sign-in by an ID token of a provider.
package struct ProviderSignIn: Sendable {
    /// The sign-in that an app sends.
    package struct Request: Sendable {
        package var provider: Provider
        package var idToken: String
        /// The nonce that the app says it sent to the provider.
        package var nonce: String?
        package var name: PersonName?
        package var nameRule = NameRule.first
        /// The session that the caller has, which may be a guest's.
        package var guest: CallerSession?
        /// Apple's, which the gateway exchanges for a token that it can revoke.
        package var authorizationCode: String?

        package init(provider: Provider, idToken: String) {
            self.provider = provider
            self.idToken = idToken
        }
    }

    private let context: AccountContext
    private let mint: TokenMint
    private let keys: any ProviderKeys
    private let limiter: any AttemptLimiter
    private let vault: AppleVault?

    /// Without a vault authorization codes are ignored.
    package init(
        context: AccountContext, mint: TokenMint, keys: any ProviderKeys, limiter: any AttemptLimiter, vault: AppleVault? = nil
    ) {
        self.context = context
        self.mint = mint
        self.keys = keys
        self.limiter = limiter
        self.vault = vault
    }

    /// Whether the operator has set the provider up.
    package func offers(_ provider: Provider) -> Bool { keys.rules(for: provider) != nil }

    /// The names that a request may have: the documented ones, and the others that are set up.
    package var names: [String] { (Provider.documented + keys.offered.filter { !Provider.documented.contains($0) }).map(\.rawValue) }

    /// Signs in the user whom the token names, and creates the account if there is none.
    package func signIn(
        _ request: Request, contract: ContractID, caller: Caller
    ) async throws(AccountError<ProviderRefusal>) -> SignedIn {
        let token = try await token(of: request, caller)
        do throws(AccountFailure) {
            return try await attempt(by: token, request) { () throws(AccountFailure) in
                try await signIn(token, request, contract, caller)
            }
        } catch {
            throw .failed(error)
        }
    }

    /// Links the identity that the token names to the account of the caller's session.
    package func link(
        _ request: Request, to session: CallerSession, caller: Caller
    ) async throws(AccountError<LinkRefusal>) -> Account {
        let token: IDToken
        do throws(AccountError<ProviderRefusal>) {
            token = try await self.token(of: request, caller)
        } catch {
            switch error {
            case .refused(let refusal): throw .refused(.provider(refusal))
            case .failed(let failure): throw .failed(failure)
            }
        }
        let audit = context.audit(caller)
        let outcome: Result<Account, LinkRefusal>
        do throws(AccountFailure) {
            let proof = proof(token, request, audit)
            let signUp = SignUp(.anonymous, email: proof.verifiedEmail, address: caller.address)
            let attributes = try await context.admitGuest(session, signUp)
            outcome = try await attempt(by: token, request) { () throws(AccountFailure) in
                try await context.ask(await context.store.link(proof, by: session, audit))
            }
            if case .success = outcome { try await context.give(attributes, to: session.user, audit) }
        } catch {
            throw .failed(error)
        }
        return try outcome.mapError { AccountError.refused($0) }.get()
    }

    /// The verified token of a request.
    private func token(of request: Request, _ caller: Caller) async throws(AccountError<ProviderRefusal>) -> IDToken {
        guard let rules = keys.rules(for: request.provider) else { throw .refused(.providerOff) }
        let verified = try await AccountError<ProviderRefusal>.failing(
            try await Guesses(context: context, limiter: limiter).judge(at: nil, from: caller.address) { await verify(request, rules) })
        guard case .success(let token)? = verified else { throw .refused(verified == nil ? .identityRefused : .keysUnavailable) }
        return token
    }

    /// Makes a call for the identity of a token, of which there may be so many.
    private func attempt<Value: Sendable>(
        by token: IDToken, _ request: Request, _ body: () async throws(AccountFailure) -> Value
    ) async throws(AccountFailure) -> Value {
        let name = "\(request.provider.rawValue) \(token.subject)"
        return try await Attempts(limiter, [AttemptBucket(.identitySignIns, name)]).make(body)
    }

    private func proof(_ token: IDToken, _ request: Request, _ audit: AuditContext) -> IdentityProof {
        var proof = IdentityProof(
            provider: request.provider, subject: token.subject, verifiedEmail: verifiedEmail(token), name: request.name,
            nameRule: request.nameRule)
        if request.provider == .apple, let code = request.authorizationCode {
            proof.appleCode = vault?.token(code, client: token.client, id: context.newID(audit.now))
        }
        return proof
    }

    /// nil if the token does not verify; a failure if the keys to judge it are missing. A token that names an unknown key is
    /// verified again after the keys have been fetched again.
    private func verify(_ request: Request, _ rules: IDTokenRules) async -> Result<IDToken, IDTokenFault>? {
        var outcome = verify(request, by: rules)
        if case .failure(let fault) = outcome, fault.isForUnknownKey || fault.isForWantOfKeys {
            await keys.refetch(request.provider)
            outcome = verify(request, by: keys.rules(for: request.provider) ?? rules)
        }
        if case .failure(let fault) = outcome, !fault.isForWantOfKeys { return nil }
        return outcome
    }

    private func verify(_ request: Request, by rules: IDTokenRules) -> Result<IDToken, IDTokenFault> {
        let now = context.clock.now().wall
        return request.idToken.withRawBytes { rules.verify($0, nonce: request.nonce, now: now) }
    }

    private func signIn(
        _ token: IDToken, _ request: Request, _ contract: ContractID, _ caller: Caller
    ) async throws(AccountFailure) -> SignedIn {
        let audit = context.audit(caller)
        var proof = proof(token, request, audit)
        proof.guest = request.guest
        let newUser = context.newID(audit.now)
        var opened = context.newSession(contract, caller, audit.now)
        // A token that is sent again is no newer sign-in.
        opened.signIn = token.authenticatedAt.map { .at(WallTime(seconds: $0)) } ?? .unknown
        let session = opened
        if context.signUpHook != nil { proof.opening = nil }
        let (attempts, known) = (try await openingCharge(for: proof, caller), proof)
        var signIn = try await attempts.make { () throws(AccountFailure) in
            try await context.ask(await context.store.signIn(known, newUser: newUser, session: session, audit))
        }
        if signIn.session == nil {
            proof.opening = try await context.admit(SignUp(contract, email: proof.verifiedEmail, address: caller.address))
            let admitted = proof
            signIn = try await attempts.make { () throws(AccountFailure) in
                try await context.ask(await context.store.signIn(admitted, newUser: newUser, session: session, audit))
            }
        }
        if !signIn.isNew { attempts.refund() }
        let granted = try await context.granted(signIn, mint)
        return SignedIn(account: granted.account, grant: granted.grant, isNew: signIn.isNew)
    }

    /// The charge for an account that may have to be created. The owner of an existing account gets in even from an address
    /// that may create no more.
    private func openingCharge(for proof: IdentityProof, _ caller: Caller) async throws(AccountFailure) -> Attempts {
        do throws(AccountFailure) {
            return try await Attempts(limiter, caller.address.bucket(.addressOpenings))
        } catch {
            let isLinked = try await context.ask(await context.store.account(of: proof.key)) != nil
            guard isLinked else { throw error }
            return Attempts(uncharged: limiter)
        }
    }

    /// The token's email, if the provider vouches for it and it is well-formed.
    private func verifiedEmail(_ token: IDToken) -> EmailAddress? {
        guard token.isEmailVerified, let email = token.email else { return nil }
        do throws(MalformedText) { return try EmailAddress(email) } catch { return nil }
    }
}
