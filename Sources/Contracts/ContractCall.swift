import Accounts
import Credentials
import Gate
import HTTP
import Wire

/// A request at an endpoint of a contract that is a value.
struct ContractCall: AccountCalls {
    let contract: Contract
    let endpoint: Contract.Endpoint
    let services: ContractServices
    let request: ContractRequest

    var dialect: Dialect { contract.dialect }

    /// The values for an answer.
    struct Outcome {
        var account: Account?
        var grant: SessionGrant?
        var actorToken: String?
    }

    func answer() async throws(Failure) -> LocalResponse {
        try answer(try await outcome())
    }

    /// The answer of the endpoint with these values.
    func answer(_ outcome: Outcome) throws(Failure) -> LocalResponse {
        guard outcome.grant?.tokens.refresh != nil || !endpoint.answer.contains(where: { $0.value.demandsRefreshToken }) else {
            throw failure(.broken)
        }
        return .json(endpoint.status) { json in write(endpoint.answer, outcome, &json) }
    }

    private func outcome() async throws(Failure) -> Outcome {
        switch endpoint.operation {
        case .register: return try await register()
        case .login: return try await login()
        case .identify(let form): return try await identify(form)
        case .open: return Outcome(try await call(await services.anonymous.open(contract: contract.id, caller: request.caller)))
        case .refresh: return try await refresh(try required(contract.refreshMember))
        case .account: return try await account()
        case .verifyCode: return try await verifyCode()
        case .actorToken: return try await actorToken()
        case .sendCode:
            // Open to any caller: the code belongs to the email, not to its requester.
            _ = try request.session()
            let email = try email()
            try await call(await services.codes.send(.link, to: .email(email), .anyone, caller: request.caller))
        case .signOut: try await signOut(request, refreshToken: contract.refreshMember, services)
        }
        return Outcome()
    }

    // MARK: operations

    private func register() async throws(Failure) -> Outcome {
        let (email, password) = try credentials()
        var registration = Registration(email: email, password: password)
        if let name = try request.text("username") {
            registration.username = try parse(try Username(name), or: refusal(.malformedUsername))
        }
        registration.guest = try await services.guest(of: request, at: contract.proof(at: endpoint))
        return try signedIn(
            await call(
                await services.passwords.signUp(registration, rules: .strict, contract: contract.id, caller: request.caller)
            ) { (refused: SignUpRefusal) in
                switch refused {
                case .unfitPassword(let faults): .malformed(faults.djangoSentence, in: dialect)
                case .emailTaken: refusal(.emailTaken)
                }
            })
    }

    private func login() async throws(Failure) -> Outcome {
        let (email, password) = try credentials()
        return try signedIn(
            await call(
                await services.passwords.signIn(.email(email), password, contract: contract.id, caller: request.caller)
            ) { (refused: SignInRefusal) in
                switch refused {
                case .invalidCredentials: refusal(.invalidCredentials)
                }
            })
    }

    /// Checks the provider before the token, and both before the rest of the body.
    private func identify(_ form: Contract.Identification) async throws(Failure) -> Outcome {
        let provider: Provider
        if let only = form.provider { provider = only } else { provider = try namedProvider() }
        var sent = ProviderSignIn.Request(provider: provider, idToken: try required("idToken"))
        sent.nonce = try request.text("nonce")
        if provider == .apple { sent.authorizationCode = try request.text("authorizationCode") }
        sent.nameRule = form.nameRule
        sent.guest = try await services.guest(of: request, at: contract.proof(at: endpoint))
        if let givenName = form.givenName, let familyName = form.familyName {
            let (given, family) = (try request.text(givenName, in: form.nameParent), try request.text(familyName, in: form.nameParent))
            sent.name = try parse(try PersonName(given: given, family: family), or: refusal(.malformedName))
        }
        return try signedIn(
            await call(await services.providers.signIn(sent, contract: contract.id, caller: request.caller)) { (refused: ProviderRefusal) in
                switch refused {
                case .providerOff: .isOff(provider)
                case .identityRefused: refusal(.identityRefused)
                case .keysUnavailable: refusal(.keysUnavailable)
                }
            })
    }

    private func namedProvider() throws(Failure) -> Provider {
        let provider = Provider(rawValue: try required("provider"))
        if let provider, services.providers.offers(provider) { return provider }
        if let provider, Provider.documented.contains(provider) { throw .isOff(provider) }
        var refused = refusal(.unknownProvider)
        let names = services.providers.names.map { "\"\($0)\"" }
        refused.message = "Provider must be \(names.dropLast().joined(separator: ", ")) or \(names.last ?? "")"
        throw refused
    }

    private func refresh(_ token: String) async throws(Failure) -> Outcome {
        Outcome(
            try await call(await services.sessions.refresh(token, contract: contract.id, caller: request.caller)) {
                (refused: RefreshTokenRefusal) in
                switch refused {
                case .invalid, .expired: refusal(.invalidRefreshToken)
                case .unproven(let fault): services.unproven(fault, request, at: contract.proof(at: endpoint))
                }
            })
    }

    private func account() async throws(Failure) -> Outcome {
        let user = try request.person().user
        guard let account = try await call(await services.accounts.account(user)) else {
            throw Failure(.unauthorized(.revoked), in: dialect)
        }
        return Outcome(account: account)
    }

    /// The code gives the caller's account another email. The contract's document has no answer for an old sign-in, so its own sessions only
    /// need the second factor, if the account has one; those of other contracts need what they need there.
    private func requireStepUp() async throws(Failure) {
        if request.sent.caller?.contract == contract.id.rawValue {
            try await requireFactor(request, services)
        } else {
            try await requireRecentSignIn(request, services)
        }
    }

    private func verifyCode() async throws(Failure) -> Outcome {
        let session = try request.session()
        if session != nil { try await requireStepUp() }
        let (email, code) = (try email(), try required("code"))
        if let session, let account = try await call(await services.sessions.open(session))?.account, account.email?.key != email.key {
            _ = try await requireFactor(request, services)
        }
        return Outcome(
            try await call(
                await services.codes.verify(
                    code, .link, of: .email(email), for: session.map { .link(caller: $0.user) } ?? .signIn(caller: nil),
                    contract: contract.id, session: session, caller: request.caller)
            ) { (refused: CodeRefusal) in
                switch refused {
                case .invalidCode: refusal(.invalidCode)
                case .contact(.noAccount): refusal(.unknownEmail)
                case .contact(.taken): refusal(.emailOfOther)
                case .contact(.callerGone): Failure(.unauthorized(.revoked), in: dialect)
                }
            })
    }

    private func actorToken() async throws(Failure) -> Outcome {
        let session = try request.requiredSession()
        let (type, id) = (try required("actorType"), try required("actorId"))
        let actor = try parse(try ActorName(type: type, id: id), or: refusal(.malformedActor))
        let token = try await call(await services.sessions.actorToken(actor, caller: session)) { (refused: ActorTokenRefusal) in
            switch refused {
            case .sessionEnded: Failure(.unauthorized(.revoked), in: dialect)
            case .notGranted: Failure(.forbidden(.claims), in: dialect)
            }
        }
        return Outcome(actorToken: token)
    }

    // MARK: members

    private func credentials() throws(Failure) -> (EmailAddress, Password) {
        let (_, password) = (try required("email"), try required("password"))
        let address = try email()
        do throws(PasswordFault) { return (address, try Password(password)) } catch { throw .malformed(error.djangoSentence, in: dialect) }
    }

    private func email() throws(Failure) -> EmailAddress {
        let text = try required("email")
        return try parse(try EmailAddress(text), or: refusal(.malformedEmail))
    }

    private func required(_ name: String) throws(Failure) -> String {
        do throws(Failure) {
            if let text = try request.text(name), !text.isEmpty { return text }
        } catch {
            if !contract.takesWrongTypeAsMissing { throw error }
        }
        if name == "idToken", let retired = contract.retired, request.has(retired.member) { throw retired.failure }
        throw contract.missing[name] ?? .malformed("\(name) is required", in: dialect)
    }

    // MARK: refusals

    private func refusal(_ reason: Contract.Reason) -> Failure { contract.refusals[reason] ?? Failure(.internalError, in: dialect) }

    /// That of the endpoint's document, with `Retry-After` if a retry may help; 429 in any case.
    func failure(_ failure: AccountFailure) -> Failure {
        guard var failed = endpoint.failed else { return Failure(failure, in: dialect) }
        switch failure {
        case .tooManyAttempts, .banned, .rejected: return Failure(failure, in: dialect)
        case .overloaded(let seconds), .unavailable(let seconds): failed.retryAfterSeconds = seconds
        case .broken: break
        }
        return failed
    }

    // MARK: answers

    private func signedIn(_ signedIn: SignedIn) throws(Failure) -> Outcome {
        guard let grant = signedIn.grant else { throw failure(.broken) }
        return Outcome(account: signedIn.account, grant: grant)
    }

    private func write(_ members: [Contract.Member], _ outcome: Outcome, _ json: inout JSONWriter) {
        json.beginObject()
        for (name, value) in members { write(name, value, outcome, &json) }
        json.endObject()
    }

    private func write(_ name: StaticString, _ value: Contract.Value, _ outcome: Outcome, _ json: inout JSONWriter) {
        let (account, tokens) = (outcome.account, outcome.grant?.tokens)
        switch value {
        case .id: json.optional(name, account?.id.text)
        case .username: json.field(name, account?.username?.text ?? account?.email?.localPart ?? "")
        case .createdAt: json.optional(name, account.map { ISO8601.text($0.createdAt) })
        case .isPremium: json.field(name, account.map { services.tiers.isPremium(services.tier(of: $0)) } ?? false)
        case .hasActiveSubscription:
            json.field(name, account?.entitlement.hasActiveSubscription(at: services.clock.now().wall) ?? false)
        case .email:
            json.key(name)
            if let email = account?.email { json.string(email.text) } else { json.null() }
        case .emailOrEmpty: json.field(name, account?.email?.text ?? "")
        case .access: json.optional(name, tokens?.access ?? outcome.actorToken)
        case .refresh, .refreshIfAny: json.optional(name, tokens?.refresh)
        case .expiresIn: json.field(name, Int(tokens?.accessSeconds ?? 0))
        case .expiresAt: json.field(name, Int(tokens?.accessExpiresAt ?? 0))
        case .expiresAtMilliseconds: json.field(name, Int(tokens?.accessExpiresAt ?? 0) * 1_000)
        case .session: json.optional(name, outcome.grant?.session.id.text)
        case .yes: json.field(name, true)
        case .text(let text): json.field(name, text)
        case .number(let number): json.field(name, number)
        case .object(let members):
            json.key(name)
            write(members, outcome, &json)
        }
    }
}

extension ContractCall.Outcome {
    fileprivate init(_ granted: Sessions.Granted) { self.init(account: granted.account, grant: granted.grant) }
}
