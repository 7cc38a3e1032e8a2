import Accounts
import Credentials
import Gate
import HTTP

/// A client contract as a value: the paths, names, refusals and answers that its document shows. `ContractCall` carries it out.
struct Contract: Sendable {
    /// The work of an endpoint.
    enum Operation: Sendable, Equatable {
        /// Opens an account by `email`, `password` and `username`, or signs in to it by the first two.
        case register, login
        /// Signs in by an ID token, and creates the account if there is none.
        case identify(Identification)
        /// Opens an account without a known user.
        case open
        case refresh
        /// Ends the session; of an outside issuer also the refresh token, if the request has it.
        case signOut
        case account
        /// Sends a code to `email`, and verifies the `code` that comes back.
        case sendCode, verifyCode
        /// A token to act as `actorType` and `actorId`.
        case actorToken
    }

    /// The members of a sign-in by ID token, beside `idToken` and `nonce`.
    struct Identification: Sendable, Equatable {
        /// nil: the member `provider` names it.
        var provider: Provider?
        var givenName: String?
        var familyName: String?
        /// The object with the names.
        var nameParent: String?
        var nameRule = NameRule.first
    }

    /// Why a request is refused in the words of the document.
    enum Reason: Sendable, Hashable, CaseIterable {
        case malformedEmail, malformedUsername, malformedName, malformedActor
        case emailTaken, invalidCredentials, invalidRefreshToken
        case unknownProvider, identityRefused, keysUnavailable
        case invalidCode, unknownEmail, emailOfOther
    }

    /// A value in an answer.
    indirect enum Value: Sendable {
        case id, username, createdAt, isPremium, hasActiveSubscription
        /// `null` for an account without one.
        case email
        case emailOrEmpty
        /// The access token, or the actor's.
        case access
        /// A session that has none is a server error: the document's clients cannot go on without.
        case refresh
        /// Left out for a session that has none: clients then keep the token they hold.
        case refreshIfAny
        case expiresIn, expiresAt, expiresAtMilliseconds
        case session
        case yes
        case text(StaticString)
        case number(Int)
        case object([Member])
    }

    typealias Member = (name: StaticString, value: Value)

    struct Endpoint: Sendable {
        /// Its name within the contract.
        let name: String
        let operation: Operation
        var method = HTTP.Method.post
        let path: String
        var auth = AuthMode.none
        var isRefresh = false
        var status = 200
        let answer: [Member]
        /// The document's only answer to an account call that failed; nil: those of the dialect.
        var failed: Failure?
    }

    let id: ContractID
    let dialect: Dialect
    /// The base path of its document, as `TOLLGATE_CONTRACTS` spells it.
    let base: String
    /// The name of refresh tokens in requests and answers; empty for a contract without.
    var refreshMember = ""
    /// Refusals of a request without a member that must be there; others say `NAME is required`.
    var missing: [String: Failure] = [:]
    /// Whether a member of the wrong type counts as missing.
    var takesWrongTypeAsMissing = false
    /// A member that apps sent in place of `idToken`, and what they are told.
    var retired: (member: String, failure: Failure)?
    var refusals: [Reason: Failure] = [:]
    var endpoints: [Endpoint] = []
    /// The endpoints of a contract that is code.
    var code: [CatalogueEndpoint] = []
    /// Whether code sends mail, and the names of the access token in its answer to a refresh; others show both by their endpoints.
    var codeSendsMail = false
    var codeAccessNames: [String] = []

    var rows: [CatalogueEndpoint] {
        code
            + endpoints.map { endpoint in
                CatalogueEndpoint(
                    owner: .contract(id), name: endpoint.name, dialect: dialect, method: endpoint.method, path: endpoint.path,
                    auth: endpoint.auth,
                    isRefresh: endpoint.isRefresh, proof: proof(at: endpoint)
                ) { services, request throws(Failure) in
                    try await ContractCall(contract: self, endpoint: endpoint, services: services, request: request).answer()
                }
            }
    }
}

extension Contract {
    /// A refusal is 401 where the document knows one at the endpoint, else 400.
    func proof(at endpoint: Endpoint) -> ProofUse {
        let status: UInt16 = endpoint.operation.reasons.contains { refusals[$0]?.status == 401 } ? 401 : 400
        return switch endpoint.operation {
        case .register, .login, .identify, .open, .verifyCode: .signIn(status)
        case .refresh: .refresh(status)
        case .signOut, .account, .sendCode, .actorToken: .none
        }
    }

    /// The documented providers whose ID tokens its sign-in takes.
    var providers: [Provider] {
        Provider.documented.filter(takes)
    }

    /// Whether its sign-in takes ID tokens of the provider.
    func takes(_ provider: Provider) -> Bool {
        endpoints.contains { endpoint in
            guard case .identify(let form) = endpoint.operation else { return false }
            return form.provider == nil || form.provider == provider
        }
    }

    /// The endpoint whose answer a sign-up, or a sign-in, by a passkey gets; nil for a contract that is code.
    func endpoint(signsUp: Bool) -> Endpoint? {
        endpoints.first { endpoint in
            switch endpoint.operation {
            case .identify: true
            case .register, .open: signsUp
            case .login, .verifyCode: !signsUp
            case .refresh, .signOut, .account, .sendCode, .actorToken: false
            }
        }
    }

    /// Whether it sends codes or links by mail.
    var sendsMail: Bool { codeSendsMail || endpoints.contains { $0.operation == .sendCode } }

    /// The names of the access token in the answer to a refresh; the first that is there counts.
    var accessNames: [String] {
        codeAccessNames
            + endpoints.filter { $0.operation == .refresh }.flatMap(\.answer).compactMap { name, value in
                if case .access = value { name.description } else { nil }
            }
    }
}

extension Contract.Value {
    /// Whether it is, or has as a member, a refresh token that must be there.
    var demandsRefreshToken: Bool {
        switch self {
        case .refresh: true
        case .object(let members): members.contains { $0.value.demandsRefreshToken }
        default: false
        }
    }
}

extension Contract.Operation {
    /// The reasons that a contract with this operation has words for.
    var reasons: Set<Contract.Reason> {
        switch self {
        case .register: [.malformedEmail, .malformedUsername, .emailTaken]
        case .login: [.malformedEmail, .invalidCredentials]
        case .identify(let form):
            Set([.identityRefused, .keysUnavailable])
                .union(form.provider == nil ? [.unknownProvider] : []).union(form.givenName == nil ? [] : [.malformedName])
        case .refresh: [.invalidRefreshToken]
        case .open, .signOut, .account: []
        case .sendCode: [.malformedEmail]
        case .verifyCode: [.malformedEmail, .invalidCode, .unknownEmail, .emailOfOther]
        case .actorToken: [.malformedActor]
        }
    }
}
