package import Accounts
internal import Credentials
internal import Gate
internal import HTTP
internal import Wire

/// How an endpoint uses the proof of a device key that a request may have in its field `DPoP` (RFC 9449 §5).
enum ProofUse: Sendable, Equatable {
    /// It opens no session: the gate checks the proof of a bound bearer.
    case none
    /// It opens sessions. A refusal has this status.
    case signIn(UInt16)
    /// It takes the tokens of sessions. A session without its key gets this status; a proof that can be made anew 400, as apps sign their
    /// user out on 401.
    case refresh(UInt16)
}

/// Verifies proofs of device keys at the endpoints that open sessions or take their tokens. Any thread.
package struct DeviceProofs: Sendable {
    /// Counts a proof by its id, at all gateways and for as long as it counts: whether it is new, or nil if that cannot be known now.
    package typealias Spend = @Sendable (_ id: UInt128) async -> Bool?

    /// Why a request counts as one without a key.
    enum Refusal: Error, Equatable {
        case fault(DeviceProofFault)
        /// Whether the proof was used before cannot be known now.
        case unavailable
    }

    /// `TOLLGATE_PUBLIC_URL` without a slash at its end.
    private let base: String
    private let skewSeconds: Int64
    private let clock: AccountClock
    private let nonceSecret: [UInt8]?
    private let spend: Spend

    /// `nonceSecret`: that of the policy, nil where proofs need no nonce.
    package init(publicURL: String, skewSeconds: Int64, clock: AccountClock, nonceSecret: [UInt8]?, spend: @escaping Spend) {
        base = publicURL.hasSuffix("/") ? String(publicURL.dropLast()) : publicURL
        self.skewSeconds = skewSeconds
        self.clock = clock
        self.nonceSecret = nonceSecret
        self.spend = spend
    }

    /// The key of which the request has a valid proof; nil without one. Where keys are off, a proof that is none counts as left out.
    func key(of request: LocalRequest, _ use: DeviceKeyUse) async throws(Refusal) -> KeyThumbprint? {
        let sent = request.fields.filter { $0.name.lowercased() == "dpop" }
        guard let field = sent.first?.value else { return nil }
        do throws(Refusal) {
            guard sent.count == 1 else { throw .fault(.repeated) }
            let proof = try verified(field, request)
            if let nonceSecret {
                var nonces = ProofNonces(secret: nonceSecret)
                guard nonces.accepts(proof.nonce, at: clock.now().wall) else { throw .fault(.nonce) }
            }
            guard let isFirst = await spend(proof.tokenIDDigest) else { throw .unavailable }
            guard isFirst else { throw .fault(.replayed) }
            return proof.thumbprint
        } catch {
            if use == .off, case .fault = error { return nil }
            throw error
        }
    }

    /// The refusal of a request, with the nonce that the next proof needs.
    func failure(_ fault: DeviceProofFault, at use: ProofUse) -> Failure {
        var failure = Failure(fault, at: use)
        if let nonceSecret {
            var nonces = ProofNonces(secret: nonceSecret)
            failure.nonce = nonces.current(at: clock.now().wall).text
        }
        return failure
    }

    private func verified(_ field: String, _ request: LocalRequest) throws(Refusal) -> DeviceProof {
        let named = request.isFromProxy ? request.fields.filter { $0.name.lowercased() == "x-forwarded-host" } : []
        let authority = (named.count == 1 ? named[0].value : request.value(of: "host")) ?? ""
        let result = field.withRawBytes { proof in
            request.method.withRawBytes { method in
                authority.withRawBytes { authority in
                    request.path.withRawBytes { path in
                        base.withRawBytes { base in
                            var verifier = DeviceProofVerifier()
                            let url = ProofURL(
                                scheme: request.isSecure ? .https : .either, authority: authority, path: path, alternative: base)
                            return verifier.verify(
                                proof, method: method, url: url, accessToken: nil, now: clock.now().wall, skewSeconds: skewSeconds)
                        }
                    }
                }
            }
        }
        switch result {
        case .success(let proof): return proof
        case .failure(let fault): throw .fault(fault)
        }
    }
}

extension ContractServices {
    /// The key of which a request has a proof. Throws for a proof that does not count, and for none where sign-ins of the contract need one.
    func deviceKey(
        of request: LocalRequest, _ use: ProofUse, _ contract: ContractID?, in dialect: Dialect
    ) async throws(Failure) -> KeyThumbprint? {
        let policy = contract.map { sessions.deviceKeyUse(of: $0) } ?? .offered
        do throws(DeviceProofs.Refusal) {
            let key = try await proofs.key(of: request, policy)
            if key == nil, policy == .required, case .signIn = use { throw .fault(.missing) }
            return key
        } catch {
            switch error {
            case .fault(let fault): throw proofs.failure(fault, at: use)
            case .unavailable: throw Failure(AccountFailure.unavailable(retryAfterSeconds: 1), in: dialect)
            }
        }
    }
}

extension Failure {
    /// A request without a proof that it needs, or with one that does not count.
    init(_ fault: DeviceProofFault, at use: ProofUse) {
        let isMissing = fault == .missing
        let status: UInt16 =
            switch use {
            case .none: 401
            case .signIn(let status): status
            case .refresh(let status): isMissing || fault == .otherKey ? status : 400
            }
        let sentence = isMissing ? "A proof of the device's key is required in the field DPoP" : fault.errorDescription.description
        self.init(status, isMissing ? "DEVICE_PROOF_REQUIRED" : "DEVICE_PROOF_INVALID", sentence)
        challenge = Challenge(error: fault.errorCode.description, description: sentence, isOfProof: true)
    }
}
