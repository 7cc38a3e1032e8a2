import Credentials
import HTTP
import Wire

/// Whether a route demands proofs of possession (RFC 9449) of its callers (`proof=`).
package enum ProofMode: UInt8, Sendable, CaseIterable {
    /// Of none: a token that is bound to a key counts as any other.
    case off
    /// Of the holders of tokens that are bound to a key.
    case bound
    /// Of everyone: other tokens are refused.
    case required
}

/// Proofs of possession of device keys.
extension Admission {
    /// The field for proofs.
    static let proofField: StaticString = "DPoP"

    /// Whether the request proves that its sender has the key that the token is bound to. Fills `decision.proofKey`, by which the proof is
    /// counted once, with the limits: so one that is refused costs no limit.
    mutating func proves(
        _ gate: RouteGate, _ head: borrowing RequestHead, _ bytes: RawSpan, _ peer: Peer, _ now: WallTime, _ decision: inout Decision
    ) -> Bool {
        guard let isBound = decision.identity?.isBound else { return refuseAnonymous(&decision) }
        let fault: DeviceProofFault
        switch Self.soleField(Self.proofField, head.fields, bytes) {
        case _ where !isBound: fault = .unbound
        case .missing: fault = .missing
        case .repeated: fault = .repeated
        case .sole(let value):
            switch verify(bytes[value], head, bytes, peer, now, decision) {
            case .failure(let found): fault = found
            case .success(let proof):
                guard acceptsNonce(of: proof, now, &decision) else {
                    fault = .nonce
                    break
                }
                decision.proofKey = LimitSubject.proof(proof.tokenIDDigest, hash)
                decision.singles.insert(.proof)
                decision.authReason = .proven
                return true
            }
        }
        // Another than its owner may have sent it.
        decision.effects.deliveredToken = nil
        addNonce(now, &decision)
        refuseProof(fault, &decision)
        return false
    }

    private mutating func verify(
        _ proof: RawSpan, _ head: borrowing RequestHead, _ bytes: RawSpan, _ peer: Peer, _ now: WallTime, _ decision: borrowing Decision
    ) -> Result<DeviceProof, DeviceProofFault> {
        guard let owner = decision.owner else { return .failure(.otherKey) }
        let believesProxy = decision.check != nil || decision.client.peerIsTrusted
        let token = decision.handshake?.token ?? bearerToken(head, bytes) ?? Slice()
        let own = policy.publicURL
        let url = ProofURL(
            scheme: head.scheme(bytes, peer, believesProxy: believesProxy), authority: bytes[head.authority(believesProxy: believesProxy)],
            path: bytes[head.path], alternative: own.rawBytes)
        return proofs.verify(
            proof, method: bytes[head.methodText], url: url, accessToken: bytes[token], owner: owner, now: now,
            skewSeconds: policy.trust.clockSkewSeconds)
    }

    /// Whether the proof has a nonce that counts, where one is needed. Adds a newer one to the answer.
    private mutating func acceptsNonce(of proof: DeviceProof, _ now: WallTime, _ decision: inout Decision) -> Bool {
        guard nonces != nil else { return true }
        guard nonces!.accepts(proof.nonce, at: now) else { return false }
        if proof.nonce != nonces!.current(at: now) { addNonce(now, &decision) }
        return true
    }

    private mutating func addNonce(_ now: WallTime, _ decision: inout Decision) {
        guard let nonce = nonces?.current(at: now) else { return }
        decision.answerEdits.add("DPoP-Nonce", Array(nonce.text.utf8).rawBytes)
    }

    func refuseProof(_ fault: DeviceProofFault, _ decision: inout Decision) {
        decision.refuse(.unauthorized(.proof(fault)), .refused, fault.remedy.row.reason)
    }
}

extension DeviceProofFault.Remedy {
    /// Code and sentence of the refusal, and its reason in logs and metrics.
    var row: (code: RefusalCode, sentence: StaticString, reason: AuthReason) {
        switch self {
        case .prove: (.deviceProofRequired, "A proof of the device's key is required.", .proofMissing)
        case .bind: (.deviceProofRequired, "A proof of the device's key is required.", .unbound)
        case .useNonce: (.deviceProofInvalid, "The proof of the device's key is not valid.", .proofNonce)
        case .repeatAnew: (.deviceProofInvalid, "The proof of the device's key was used before.", .proofReplayed)
        case .correct: (.deviceProofInvalid, "The proof of the device's key is not valid.", .proofInvalid)
        }
    }
}

extension RouteGate {
    /// Whether a caller must prove possession of a key.
    @inline(__always)
    func wantsProof(of decision: borrowing Decision) -> Bool {
        guard proof != .required else { return true }
        return decision.identity?.isBound == true && proof == .bound && auth != .none
    }
}

extension RequestHead {
    /// The scheme of the URL that the client used. A proxy that ends TLS and is not declared leaves it unknown.
    fileprivate func scheme(_ bytes: RawSpan, _ peer: Peer, believesProxy: Bool) -> ProofURL.Scheme {
        if peer.isTLS || believesProxy && cameOverTLS(bytes) { return .https }
        return believesProxy && fields.contains(.xForwardedProto) ? .http : .either
    }

    /// The authority of that URL: what a trusted proxy says of it, or the request's own.
    fileprivate func authority(believesProxy: Bool) -> Slice {
        guard believesProxy, let index = fields.first(.xForwardedHost), !fields.isRepeated(.xForwardedHost) else { return host }
        return fields[index].value
    }
}

extension Explanation {
    /// The result of the check of the proof of possession; nil where there was none.
    static func proof(_ note: borrowing DecisionRecord, _ rule: RouteRule) -> String? {
        if case .unauthorized(.proof(let fault)) = note.refusal { return "proof=\(rule.proof): \(fault.errorDescription)" }
        if note.authReason == .proven { return "proof=\(rule.proof): the sender has the key that the token is bound to" }
        return rule.proof == .required ? "proof=required" : nil
    }
}
