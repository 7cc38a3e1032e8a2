import Accounts
import Credentials
import Gate
import HTTP
import Wire

/// The endpoints of passkeys, in the JSON form of WebAuthn. Those of a sign-up or sign-in answer as the contract that the request names does.
struct PasskeyEndpoints: AccountCalls {
    static let rows = [
        row("list", .get, path, auth: .required, list), row("rename", .patch, path, isPrefix: true, auth: .required, rename),
        row("remove", .delete, path, isPrefix: true, auth: .required, remove),
        row("registration-options", .post, "\(path)/registration/options", auth: .optional, registrationOptions),
        row("registration-verify", .post, "\(path)/registration/verify", auth: .optional, opensSession: true, register),
        row("authentication-options", .post, "\(path)/authentication/options", isSignIn: true, authenticationOptions),
        row("authentication-verify", .post, "\(path)/authentication/verify", isSignIn: true, opensSession: true, signIn),
    ]

    private static let path = "/passkeys"
    /// How long a client should wait for its user, in milliseconds.
    private static let timeout = Int(PasskeyChallenges.lifetimeSeconds * 1_000)
    /// COSE's numbers of ES256, EdDSA and RS256 (RFC 9053, RFC 8812), the preferred first.
    private static let algorithms = [-7, -8, -257]

    /// With `isSignIn` the only contract need not be named. With `opensSession` its setting decides whether the session belongs to the key of
    /// the device.
    private static func row(
        _ name: String, _ method: HTTP.Method, _ path: String, isPrefix: Bool = false, auth: AuthMode = .none,
        isSignIn: Bool = false, opensSession: Bool = false,
        _ answer: @escaping @Sendable (Self) -> () async throws(Failure) -> LocalResponse
    ) -> CatalogueEndpoint {
        CatalogueEndpoint(
            owner: .passkeys, name: name, dialect: .problem, method: method, path: path, isPrefix: isPrefix, auth: auth
        ) { services, request throws(Failure) in
            // A reload has just removed them: the next request finds no endpoint.
            guard let life = services.life, let passkeys = life.passkeys else {
                throw Failure(AccountFailure.unavailable(retryAfterSeconds: 1), in: request.dialect)
            }
            let only = isSignIn && passkeys.contracts.count == 1 ? passkeys.contracts.first : nil
            let contract = try passkeys.contract(of: request) ?? only
            var call = Self(services: services, life: life, passkeys: passkeys, request: request, contract: contract)
            if let contract = call.contract { call.request = try ContractRequest(request.sent, in: Dialect(contract)) }
            do throws(Failure) {
                if opensSession, let contract {
                    call.request.proof = try await services.deviceKey(of: request.sent, .signIn(401), contract, in: call.dialect)
                }
                return try await answer(call)().giving(call.request.proof.nonce)
            } catch {
                return error.giving(call.request.proof.nonce).response(in: call.dialect, requestID: request.sent.requestID)
            }
        }
    }

    fileprivate let services: ContractServices
    fileprivate let life: AccountLife
    fileprivate let passkeys: Passkeys
    fileprivate var request: ContractRequest
    /// The one that the request names.
    fileprivate let contract: ContractID?

    var dialect: Dialect { request.dialect }

    // MARK: new passkeys

    private func registrationOptions() async throws(Failure) -> LocalResponse {
        let name = try name()
        let invitation: PasskeyInvitation
        if let contract {
            let caller = try request.session()
            if caller != nil { _ = try await requireFactor(request, services) }
            invitation = try await call(await passkeys.invite(contract, caller, name: name), refused: refusal)
        } else {
            let session = try await requireRecentSignIn(request, services)
            invitation = try await call(await passkeys.invite(session, name: name), refused: refusal)
        }
        return .json { json in write(invitation, &json) }
    }

    /// The challenge was issued after a recent sign-in and proof of the same session, so those are not demanded again.
    private func register() async throws(Failure) -> LocalResponse {
        let (credential, name) = (try credential(), try name())
        if let contract {
            let guest = try request.session()
            let signedIn = try await call(
                await passkeys.signUp(credential, name: name, contract: contract, guest: guest, caller: request.caller), refused: refusal)
            return try services.answer(signedIn, of: contract, to: request)
        }
        let session = try request.requiredSession()
        try await call(await life.own.charge(session.user))
        let added = try await call(
            await passkeys.add(credential, name: name, session: session, caller: request.caller), refused: refusal)
        return .json(201) { json in added.write(&json) }
    }

    // MARK: sign-in

    /// A user's name in the request changes nothing: the authenticator knows its accounts, so no answer tells whether there is one.
    private func authenticationOptions() throws(Failure) -> LocalResponse {
        let challenge = passkeys.challenge(try requiredContract())
        return .json { json in
            json.beginObject()
            json.field("challenge", Base64URL.encode(challenge.rawBytes))
            json.field("timeout", Self.timeout)
            json.field("rpId", passkeys.party.id)
            json.array("allowCredentials", [Passkey]()) { _, _ in }
            json.field("userVerification", "required" as StaticString)
            json.endObject()
        }
    }

    /// A bearer that does not count, such as an expired one, is ignored.
    private func signIn() async throws(Failure) -> LocalResponse {
        let (contract, credential) = (try requiredContract(), try credential())
        let present = services.bearer(of: request)
        let signedIn = try await call(
            await passkeys.signIn(credential, contract: contract, present: present, caller: request.caller), refused: refusal)
        return try services.answer(signedIn, of: contract, to: request)
    }

    private func requiredContract() throws(Failure) -> ContractID {
        guard let contract else { throw passkeys.unknownContract(in: dialect) }
        return contract
    }

    // MARK: the caller's passkeys

    private func list() async throws(Failure) -> LocalResponse {
        let user = try request.person().user
        let found = try await call(await passkeys.all(of: user))
        return .json { json in
            json.beginObject()
            json.array("passkeys", found) { json, passkey in passkey.write(&json) }
            json.endObject()
        }
    }

    private func rename() async throws(Failure) -> LocalResponse {
        let session = try request.requiredSession()
        try await call(await life.own.charge(session.user))
        guard let name = try name() else { throw .malformed("name is required", in: dialect) }
        let id = try credentialID()
        guard let renamed = try await call(await passkeys.rename(id, of: session.user, to: name)) else { throw Self.missing }
        return .json { json in renamed.write(&json) }
    }

    private func remove() async throws(Failure) -> LocalResponse {
        let session = try await requireRecentSignIn(request, services)
        try await call(await life.own.charge(session.user))
        let id = try credentialID()
        try await call(await passkeys.remove(id, from: session, caller: request.caller)) { (refused: PasskeyRefusal) in
            refused == .unknown ? Self.missing : refusal(refused)
        }
        return .done
    }

    // MARK: members

    /// The object `credential`, or the whole body.
    private func credential() throws(Failure) -> [UInt8] { try request.json("credential") ?? request.sent.body }

    private func credentialID() throws(Failure) -> [UInt8] {
        guard let id = request.segment(below: Self.path).flatMap(Passkey.credentialID) else { throw Self.missing }
        return id
    }

    private func name() throws(Failure) -> String? {
        guard let text = try request.text("name") else { return nil }
        return try parse(
            try Passkey.name(text), or: .malformed("name must be a plain text of at most 64 characters", in: dialect))
    }

    private static let missing = Failure(404, "NOT_FOUND", "The account has no such passkey.")

    private func refusal(_ refusal: PasskeyRefusal) -> Failure {
        func invalid(_ sentence: String) -> Failure { Failure(400, "PASSKEY_INVALID", sentence) }
        return switch refusal {
        case .invalid(let why): invalid("The passkey is refused: \(why).")
        case .challenge: invalid("The challenge is spent, too old, or was issued for something else: ask for new options.")
        case .registered: invalid("This passkey is registered already.")
        case .full: invalid("An account may have \(Passkey.most) passkeys: remove one first.")
        case .unknown: Failure(401, "PASSKEY_UNKNOWN", "No account has this passkey.")
        case .last: .lastIdentity
        case .notGuest:
            Failure(409, "NOT_A_GUEST", "The account is no guest: leave out contract to add a passkey to it, or the token to sign up.")
        case .sessionEnded: Failure(.unauthorized(.revoked), in: dialect)
        }
    }

    private func write(_ invitation: PasskeyInvitation, _ json: inout JSONWriter) {
        json.beginObject()
        json.key("rp")
        json.beginObject()
        json.field("id", passkeys.party.id)
        json.field("name", passkeys.party.name)
        json.endObject()
        json.key("user")
        json.beginObject()
        json.field("id", Base64URL.encode(invitation.user.bytes.rawBytes))
        json.field("name", invitation.userName)
        json.field("displayName", invitation.displayName)
        json.endObject()
        json.field("challenge", Base64URL.encode(invitation.challenge.rawBytes))
        json.array("pubKeyCredParams", Self.algorithms) { json, algorithm in
            json.beginObject()
            json.field("type", "public-key" as StaticString)
            json.field("alg", algorithm)
            json.endObject()
        }
        json.field("timeout", Self.timeout)
        json.array("excludeCredentials", invitation.known) { json, passkey in
            json.beginObject()
            json.field("type", "public-key" as StaticString)
            json.field("id", passkey.id)
            json.array("transports", passkey.transports) { json, transport in json.string(transport) }
            json.endObject()
        }
        json.key("authenticatorSelection")
        json.beginObject()
        json.field("residentKey", "required" as StaticString)
        json.field("requireResidentKey", true)
        json.field("userVerification", "required" as StaticString)
        json.endObject()
        json.field("attestation", "none" as StaticString)
        json.endObject()
    }
}

extension Passkeys {
    /// The contract that a request names in its query or its body; nil if it names none. Throws for one that is not mounted.
    fileprivate func contract(of request: ContractRequest) throws(Failure) -> ContractID? {
        var name = request.parameter("contract")
        if name == nil { name = try request.text("contract") }
        guard let name else { return nil }
        guard let contract = contracts.first(where: { $0.name == name }) else { throw unknownContract(in: request.dialect) }
        return contract
    }

    fileprivate func unknownContract(in dialect: Dialect) -> Failure {
        .malformed("contract must be one of \(contracts.map(\.name).joined(separator: ", "))", in: dialect)
    }
}

extension ContractServices {
    /// The answer of a contract to a sign-in or sign-up by other means than its own.
    fileprivate func answer(_ signedIn: SignedIn, of id: ContractID, to request: ContractRequest) throws(Failure) -> LocalResponse {
        let contract = Catalogue.contract(id)
        guard let endpoint = contract.endpoint(signsUp: signedIn.isNew) else {
            return DLAuthAnswer.session(signedIn.account, signedIn.grant)
        }
        return try ContractCall(contract: contract, endpoint: endpoint, services: self, request: request)
            .answer(ContractCall.Outcome(account: signedIn.account, grant: signedIn.grant))
    }
}

extension Passkey {
    /// As lists show it.
    func write(_ json: inout JSONWriter) {
        json.beginObject()
        json.field("id", id)
        json.field("name", name)
        json.write("created_at", createdAt)
        json.write("last_used_at", lastUsedAt)
        json.field("backed_up", isBackedUp)
        json.endObject()
    }
}
