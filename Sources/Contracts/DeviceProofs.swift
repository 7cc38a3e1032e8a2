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

/// The result of a proof in a request.
struct ProvenKey: Sendable {
    var key: KeyThumbprint?
    /// Where keys are off: why the proof does not count. Only a session that is bound is refused for it.
    var refusal: DeviceProofs.Refusal?
    /// The nonce for the next proof, if it is another than that of this one.
    var nonce: String?

    /// Gives a caller the key, or says that its proof could not be judged.
    func identify(_ caller: inout Caller) {
        caller.deviceKey = key
        caller.hasUnjudgedProof =
            switch refusal {
            case .fault(.nonce), .tooMany, .unavailable: true
            case .fault, nil: false
            }
    }
}

/// Verifies proofs of device keys at the endpoints that open sessions or take their tokens. Any thread.
package struct DeviceProofs: Sendable {
    /// Counts the use of a proof, at all gateways and for as long as it counts. nil if that cannot be known now.
    package typealias Spend = @Sendable (_ use: [AttemptBucket]) async -> AttemptVerdict?

    /// Why a request counts as one without a key.
    enum Refusal: Error, Equatable {
        case fault(DeviceProofFault)
        /// Too many proofs from its address did not hold, or there were too many at all.
        case tooMany(retryAfterSeconds: Int)
        /// Whether the proof was used before cannot be known now.
        case unavailable
    }

    /// `TOLLGATE_PUBLIC_URL` without a slash at its end.
    private let base: String
    private let skewSeconds: Int64
    private let clock: AccountClock
    private let nonceSecret: [UInt8]?
    private let limiter: any AttemptLimiter
    private let spend: Spend

    /// `nonceSecret`: that of the policy, nil where proofs need no nonce.
    package init(
        publicURL: String, skewSeconds: Int64, clock: AccountClock, nonceSecret: [UInt8]?, limiter: any AttemptLimiter,
        spend: @escaping Spend
    ) {
        base = publicURL.hasSuffix("/") ? String(publicURL.dropLast()) : publicURL
        self.skewSeconds = skewSeconds
        self.clock = clock
        self.nonceSecret = nonceSecret
        self.limiter = limiter
        self.spend = spend
    }

    /// The key of which the request has a valid proof, if any. Where keys are off, a proof that is none counts as left out. `holder`: the session
    /// or user of the request's token, if that is of this gateway; asked once there were too many proofs from its address.
    func key(of request: LocalRequest, _ use: DeviceKeyUse, holder: () -> String?) async throws(Refusal) -> ProvenKey {
        let sent = request.values(of: "dpop")
        guard !sent.isEmpty else { return ProvenKey() }
        do throws(Refusal) { return try await judged(sent, request, holder) } catch {
            guard use == .off else { throw error }
            return ProvenKey(refusal: error)
        }
    }

    /// The address is charged before the signature is looked at, and gets it back for a proof that holds. It does not refuse a token of this
    /// gateway: others behind it could keep sessions from their owners.
    private func judged(_ sent: [String], _ request: LocalRequest, _ holder: () -> String?) async throws(Refusal) -> ProvenKey {
        let charges: [AttemptCharge]
        switch await limiter.charge([AttemptBucket(.addressProofs, request.client)]) {
        case .admitted(let found): charges = found
        case .refused where holder() != nil: charges = []
        case .refused(let refusals): throw .tooMany(retryAfterSeconds: refusals.longest)
        }
        guard sent.count == 1 else { throw .fault(.repeated) }
        let proof = try verified(sent[0], request)
        var proven = ProvenKey(key: proof.thumbprint)
        if let nonceSecret {
            var nonces = ProofNonces(secret: nonceSecret)
            let now = clock.now().wall
            guard nonces.accepts(proof.nonce, at: now) else {
                limiter.refund(charges)
                throw .fault(.nonce)
            }
            if proof.nonce != nonces.current(at: now) { proven.nonce = nonces.current(at: now).text }
        }
        let use = AttemptBucket(.deviceProofs, String(proof.tokenIDDigest, radix: 36))
        var verdict = await spend([use, AttemptBucket(.addressUsedProofs, request.client)])
        if case .refused(let full) = verdict, !full.contains(use.kind), let holder = holder() {
            verdict = await spend([use, AttemptBucket(.holderUsedProofs, holder)])
        }
        if case .refused(let full) = verdict, full.contains(use.kind) { throw .fault(.replayed) }
        limiter.refund(charges)
        switch verdict {
        case .admitted: return proven
        case .refused(let full): throw .tooMany(retryAfterSeconds: full.longest)
        case nil: throw .unavailable
        }
    }

    /// The refusal of a request, with the nonce that the next proof needs.
    func failure(_ refusal: Refusal, at use: ProofUse, in dialect: Dialect) -> Failure {
        switch refusal {
        case .tooMany(let seconds): return Failure(AccountFailure.tooManyAttempts(retryAfterSeconds: seconds), in: dialect)
        case .unavailable: return Failure(AccountFailure.unavailable(retryAfterSeconds: 1), in: dialect)
        case .fault(let fault):
            var failure = Failure(fault, at: use)
            if let nonceSecret {
                var nonces = ProofNonces(secret: nonceSecret)
                failure.nonce = nonces.current(at: clock.now().wall).text
            }
            return failure
        }
    }

    private func verified(_ field: String, _ request: LocalRequest) throws(Refusal) -> DeviceProof {
        let named = request.isFromProxy ? request.values(of: "x-forwarded-host") : []
        let authority = (named.count == 1 ? named[0] : request.value(of: "host")) ?? ""
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
    /// `holder` is as in `DeviceProofs.key`.
    func deviceKey(
        of request: LocalRequest, _ use: ProofUse, _ contract: ContractID?, in dialect: Dialect, holder: () -> String? = { nil }
    ) async throws(Failure) -> ProvenKey {
        let policy = contract.map { sessions.deviceKeyUse(of: $0) } ?? .offered
        do throws(DeviceProofs.Refusal) {
            let proven = try await proofs.key(of: request, policy, holder: holder)
            if proven.key == nil, policy == .required, case .signIn = use { throw .fault(.missing) }
            return proven
        } catch {
            throw proofs.failure(error, at: use, in: dialect)
        }
    }

    /// The refusal of a request without a valid proof of the device key that its session is bound to.
    func unproven(_ fault: DeviceProofFault, _ request: ContractRequest, at use: ProofUse) -> Failure {
        let swallowed = fault == .missing ? request.proof.refusal : nil
        return proofs.failure(swallowed ?? .fault(fault), at: use, in: request.dialect)
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
