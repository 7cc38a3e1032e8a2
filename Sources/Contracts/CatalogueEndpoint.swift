package import Accounts
package import Credentials
package import Gate
package import HTTP
internal import Wire

/// A part of the program that endpoints belong to.
package enum EndpointOwner: Hashable, Sendable {
    case contract(ContractID)
    /// The account page.
    case page
    /// Those of one store are there if it is set up.
    case purchases(PurchaseSource?)
    /// Accounts of all contracts, for their users.
    case account
    /// Those of the second factor, below the same path.
    case factors
    /// Those of passkeys, below it, too.
    case passkeys

    /// Whether it answers in the dialect of the bearer's contract.
    var isForAllContracts: Bool {
        switch self {
        case .contract, .page: false
        case .purchases, .account, .factors, .passkeys: true
        }
    }

    /// nil for endpoints of all contracts.
    fileprivate var contract: ContractID? {
        guard case .contract(let contract) = self else { return nil }
        return contract
    }

    fileprivate var name: String {
        switch self {
        case .contract(let contract): contract.name
        case .page: "web"
        case .purchases: "purchases"
        case .account, .factors: "account"
        case .passkeys: "passkeys"
        }
    }
}

/// An endpoint of a contract, of the account page, or of purchases.
package struct CatalogueEndpoint: Sendable {
    /// The response to a request that succeeds.
    typealias Handler = @Sendable (ContractServices, ContractRequest) async throws(Failure) -> LocalResponse

    package let owner: EndpointOwner
    /// Its name within its owner.
    package let shortName: String
    /// Endpoints for all contracts answer in the dialect of the bearer's contract, and in this one without.
    package let dialect: Dialect
    /// A GET endpoint answers HEAD as well.
    package let method: HTTP.Method
    /// Relative to the mount's base; from the root for the account page. Begins with a slash and does not end in one, or is empty.
    package let path: String
    /// Whether it also answers paths below its own.
    package let isPrefix: Bool
    /// Whether the operator may set another path.
    package let hasSettablePath: Bool
    /// Use of a bearer: `required`, `optional`, or `none`, where one that is sent is ignored, because clients send expired
    /// tokens along. The gate refuses valid actor tokens at every endpoint.
    package let auth: AuthMode
    /// Whether it renews an app's tokens: such requests must not wait for sign-ins.
    package let isRefresh: Bool
    /// Whether servers send to it, which sign the body as it stands, and no page of a browser.
    package let isForServers: Bool
    /// How it uses the proof of a device key that a request may have.
    let proof: ProofUse
    private let handler: Handler
    /// The target of its route in the policy. The same in every configuration, so requests in flight survive a reload.
    package var number: UInt16 = 0

    init(
        owner: EndpointOwner, name: String, dialect: Dialect, method: HTTP.Method = .post, path: String, isPrefix: Bool = false,
        hasSettablePath: Bool = false, auth: AuthMode = .none, isRefresh: Bool = false, isForServers: Bool = false,
        proof: ProofUse = .none, handler: @escaping Handler
    ) {
        self.owner = owner
        shortName = name
        self.dialect = dialect
        self.method = method
        self.path = path
        self.isPrefix = isPrefix
        self.hasSettablePath = hasSettablePath
        self.auth = auth
        self.isRefresh = isRefresh
        self.isForServers = isForServers
        self.proof = proof
        self.handler = handler
    }

    /// Its name in logs and metrics. It has a hyphen, as no configured route has.
    package var name: String { "\(owner.name)-\(shortName)" }

    package var methods: [String] { method == .get ? ["GET", "HEAD"] : [method.text.description] }

    /// Whether it signs in or up, or sends or takes a code: for these an attestation of the app may be asked for. No endpoint of accounts does:
    /// the ones without a token are for the browser of a user who has followed a link.
    package var signsIn: Bool {
        switch owner {
        case .contract, .passkeys: method == .post && auth != .required && !isRefresh
        case _: false
        }
    }

    /// Answers a request that the gate let through. Any thread.
    package func answer(_ request: LocalRequest, _ services: ContractServices) async -> LocalResponse {
        let contract = owner.isForAllContracts ? request.contract : nil
        let dialect = contract.map(Dialect.init) ?? dialect
        var nonce: String?
        do throws(Failure) {
            let sent = try ContractRequest(request, in: dialect, readsBody: !isForServers)
            var called = sent
            if proof != .none {
                called.proof = try await services.deviceKey(of: request, proof, owner.contract, in: dialect) { holder(sent, services) }
            }
            nonce = called.proof.nonce
            return try await handler(services, called).giving(nonce)
        } catch {
            return error.giving(nonce).response(in: dialect, requestID: request.requestID)
        }
    }

    /// The holder of this gateway's token in a request that takes the tokens of sessions: one in its body, or one that the gate has verified.
    private func holder(_ request: ContractRequest, _ services: ContractServices) -> String? {
        guard case .refresh = proof else { return nil }
        guard let contract = owner.contract else { return request.sent.caller?.userID }
        do throws(Failure) {
            let token = try request.text(Catalogue.contract(contract).refreshMember)
            return token.flatMap(services.sessions.session(ofOwnRefreshToken:))?.text
        } catch {
            return nil
        }
    }
}

extension LocalResponse {
    /// With a newer nonce for proofs (RFC 9449 §8.2).
    func giving(_ nonce: String?) -> LocalResponse {
        var response = self
        if let nonce { response.fields.append((name: "DPoP-Nonce", value: nonce)) }
        return response
    }
}

extension Failure {
    /// With a newer nonce for proofs, unless it brings one itself.
    func giving(_ nonce: String?) -> Failure {
        var failure = self
        failure.nonce = failure.nonce ?? nonce
        return failure
    }
}

extension LocalRequest {
    /// The contract of the bearer, else the one that the query names.
    fileprivate var contract: ContractID? {
        if let caller { return ContractID(rawValue: caller.contract) }
        let name = FormText.pairs(Array(query.utf8.dropFirst()))?.first { $0.name == "contract" }?.value
        return ContractID.allCases.first { $0.name == name }
    }
}
