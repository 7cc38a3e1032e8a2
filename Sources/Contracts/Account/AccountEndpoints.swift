import Accounts
import Credentials
import Gate
import HTTP
import Wire

/// The endpoints by which users of all contracts see and change their accounts. Failures are in the dialect of the bearer's contract.
struct AccountEndpoints: AccountCalls {
    static let rows =
        [
            row("show", .get, "", show), row("change", .patch, "", change), row("export", .get, "/export", export),
            row("sessions", .get, sessionsPath, sessions), row("end-others", .delete, sessionsPath, endOthers),
            row("end-session", .delete, sessionsPath, isPrefix: true, endSession), row("link", .post, identitiesPath, link),
            row("unlink", .delete, identitiesPath, isPrefix: true, unlink), row("merge", .post, "/merge", proof: .refresh(401), merge),
        ] + leavingRows + factorRows

    private static let sessionsPath = "/sessions"
    private static let identitiesPath = "/identities"

    typealias Answer = @Sendable (Self) -> () async throws(Failure) -> LocalResponse

    static func row(
        _ name: String, _ method: HTTP.Method, _ path: String, isPrefix: Bool = false, owner: EndpointOwner = .account,
        proof: ProofUse = .none, _ answer: @escaping Answer
    ) -> CatalogueEndpoint {
        CatalogueEndpoint(
            owner: owner, name: name, dialect: .problem, method: method, path: path, isPrefix: isPrefix, auth: .required,
            proof: proof
        ) { services, request throws(Failure) in
            try await answer(try Self(services, request))()
        }
    }

    let services: ContractServices
    let life: AccountLife
    let request: ContractRequest
    let dialect: Dialect

    init(_ services: ContractServices, _ request: ContractRequest) throws(Failure) {
        // A reload has just removed them: the next request finds no endpoint.
        guard let life = services.life else { throw Failure(AccountFailure.unavailable(retryAfterSeconds: 1), in: .problem) }
        self.services = services
        self.life = life
        self.request = request
        dialect = request.dialect
    }

    /// The session or account of the bearer is gone.
    var gone: Failure { Failure(.unauthorized(.revoked), in: dialect) }

    // MARK: the account

    private func show() async throws(Failure) -> LocalResponse {
        let user = try request.person().user
        guard let account = try await call(await services.accounts.account(user)) else { throw gone }
        return try await answer(account)
    }

    private func answer(_ account: Account) async throws(Failure) -> LocalResponse {
        let identities = try await call(await life.own.identities(of: account.id))
        return .json { json in services.write(account, identities, &json) }
    }

    private func change() async throws(Failure) -> LocalResponse {
        let user = try request.person().user
        try await call(await life.own.charge(user))
        guard let change = try request.json("attributes") else { throw .malformed("attributes is required", in: dialect) }
        let account = try await call(
            await life.own.change(change, of: user, writable: life.writable, caller: request.caller)
        ) { (refused: AttributesRefusal) in
            switch refused {
            case .notWritable(let names):
                .malformed("Apps may not write these attributes: \(names.sorted().joined(separator: ", "))", in: dialect)
            case .unfit(.malformed): .malformed("attributes must be a JSON object without NUL in its strings", in: dialect)
            case .unfit(.tooLarge): .malformed("The attributes of an account may have \(Attributes.largest) bytes of JSON", in: dialect)
            case .noAccount: gone
            }
        }
        return try await answer(account)
    }

    private func export() async throws(Failure) -> LocalResponse {
        let user = try request.person().user
        try await call(await life.own.charge(user))
        guard let kept = try await call(await life.own.export(user)) else { throw gone }
        var response = LocalResponse.json { json in services.write(kept, &json) }
        response.fields.append((name: "Content-Disposition", value: "attachment; filename=\"account.json\""))
        return response
    }

    // MARK: sessions

    private func sessions() async throws(Failure) -> LocalResponse {
        let session = try request.requiredSession()
        let sessions = try await call(await services.sessions.all(session), refused: refusal)
        return .json { json in
            json.beginObject()
            json.array("sessions", sessions) { json, shown in shown.write(isCurrent: shown.id == session.session, &json) }
            json.endObject()
        }
    }

    private func endSession() async throws(Failure) -> LocalResponse {
        let session = try request.requiredSession()
        guard let id = request.id(below: Self.sessionsPath),
            try await call(await services.sessions.end(id, session, caller: request.caller), refused: refusal)
        else { throw Failure(404, "NOT_FOUND", "There is no such session.") }
        return .done
    }

    private func endOthers() async throws(Failure) -> LocalResponse {
        let session = try request.requiredSession()
        try await call(await life.own.signOutOthers(session, caller: request.caller))
        return .done
    }

    private func refusal(_ refusal: SessionRefusal) -> Failure {
        switch refusal {
        case .sessionEnded: gone
        }
    }

    // MARK: identities

    private func link() async throws(Failure) -> LocalResponse {
        let session = try await requireFactor(request, services)
        try await call(await life.own.charge(session.user))
        let (name, token) = (try request.required("provider"), try request.required("id_token"))
        guard let provider = Provider(rawValue: name) else {
            throw Failure(400, "INVALID_PROVIDER", "There is no provider of this name.")
        }
        var sent = ProviderSignIn.Request(provider: provider, idToken: token)
        sent.nonce = try request.text("nonce")
        sent.authorizationCode = try request.text("authorization_code")
        let account = try await call(await services.providers.link(sent, to: session, caller: request.caller)) { (refused: LinkRefusal) in
            switch refused {
            case .provider(.providerOff): .isOff(provider)
            case .provider(.identityRefused): Failure(400, "INVALID_ID_TOKEN", "The ID token is invalid or expired.")
            case .provider(.keysUnavailable): failure(.unavailable(retryAfterSeconds: 1))
            case .ofOtherAccount: Failure(409, "IDENTITY_OF_OTHER_ACCOUNT", "Another account has this identity.")
            case .sessionEnded: gone
            }
        }
        return try await answer(account)
    }

    private func unlink() async throws(Failure) -> LocalResponse {
        let session = try await requireFactor(request, services)
        try await call(await life.own.charge(session.user))
        let missing = Failure(404, "NOT_FOUND", "The account has no identity of this provider.")
        guard let provider = request.segment(below: Self.identitiesPath).flatMap(Provider.init(rawValue:)) else { throw missing }
        try await call(
            await life.own.unlink(IdentitySource(provider), from: session, caller: request.caller)
        ) { (refused: UnlinkRefusal) in
            switch refused {
            case .notLinked: missing
            case .last: .lastIdentity
            case .sessionEnded: gone
            }
        }
        return .done
    }
}
