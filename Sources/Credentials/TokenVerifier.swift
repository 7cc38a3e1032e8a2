package import Wire

/// Verifies JSON Web Tokens (RFC 7519) under the rules of RFC 8725. One per worker: it owns contexts and scratch memory
/// that are used again for every token.
///
/// The order is fixed: shape and size, the header, who claims to have issued it, whether that issuer's key signed it;
/// and only then anything that the claims say. So a fault about a claim is told only to who holds a real token.
package struct TokenVerifier: ~Copyable {
    /// The algorithm that the last token named, where it named a known one; for metrics and logs.
    package private(set) var lastAlgorithm: SigningAlgorithm?

    private var header = TokenHeader()
    private var claims = JSONMembers()
    private var signature = ByteBuffer()
    private var texts = ByteBuffer()
    private var contexts = SignatureContexts()
    /// The snapshot whose keys the contexts were last reduced to.
    private var latestTrust: Trust?

    package init() {}

    /// Any bytes may be passed as the token. With `takesExpired`, one with which nothing but its age is wrong is no fault,
    /// and says that it `isExpired`.
    package mutating func verify(
        _ token: RawSpan, trust: Trust, now: WallTime, takesExpired: Bool = false
    ) -> Result<VerifiedToken, TokenFault> {
        if latestTrust !== trust {
            latestTrust = trust
            contexts.keep(only: trust.liveKeySerials)
        }
        do throws(TokenFault) {
            let parts = try load(token)
            return .success(try verifyByIssuers(token[parts.signed], trust, now, takesExpired))
        } catch {
            return .failure(error)
        }
    }

    /// Takes the token apart into the header, claims and signature here.
    private mutating func load(_ token: RawSpan) throws(TokenFault) -> TokenParts {
        lastAlgorithm = nil
        let parts = try TokenParts(token)
        try header.load(token[parts.header])
        lastAlgorithm = header.algorithm
        signature.removeAll()
        guard Base64URL.decode(token[parts.signature], into: &signature) else { throw .malformed }
        do throws(JSONMembers.Fault) {
            try claims.load(base64URL: token[parts.payload])
        } catch {
            throw TokenFault(error)
        }
        return parts
    }

    /// Asks every issuer of the token's `iss` in turn; of several faults the one that got furthest is told.
    private mutating func verifyByIssuers(
        _ signed: RawSpan, _ trust: Trust, _ now: WallTime, _ takesExpired: Bool
    ) throws(TokenFault) -> VerifiedToken {
        var fault = TokenFault.wrongIssuer
        for index in trust.rules.indices where trust.rules[index].isNamed(by: claims) {
            do throws(TokenFault) {
                return try verify(signed, by: index, trust, now, takesExpired)
            } catch {
                if error.progress > fault.progress { fault = error }
            }
        }
        throw fault
    }

    private mutating func verify(
        _ signed: RawSpan, by index: Int, _ trust: Trust, _ now: WallTime, _ takesExpired: Bool
    ) throws(TokenFault) -> VerifiedToken {
        let rules = trust.rules[index]
        guard rules.algorithms.contains(header.algorithm) else { throw .algorithmNotAllowed }
        guard let keys = rules.keys else { throw .keysUnavailable(issuer: index) }
        let proof = try prove(signed, keys, issuer: index)
        return try VerifiedToken(proof, claims, issuer: index, trust, now, takesExpired: takesExpired, scratch: &texts)
    }

    /// Tries every key that the token may mean: those of its `kid` and those that have none; without a `kid`, all.
    private mutating func prove(
        _ signed: RawSpan, _ keys: [VerificationKey], issuer: Int
    ) throws(TokenFault) -> ProvenSignature {
        var wasNamed = false
        var wasTried = false
        var hasNames = false
        for key in keys {
            if let kid = key.kidBytes, header.hasKeyID {
                hasNames = true
                guard kid.rawBytes.equals(header.keyID) else { continue }
                wasNamed = true
            }
            guard key.algorithms.contains(header.algorithm) else { continue }
            wasTried = true
            if let proof = contexts.prove(signature, over: signed, header.algorithm, by: key) { return proof }
        }
        if wasNamed { throw wasTried ? .badSignature : .algorithmNotAllowed }
        throw wasTried && !hasNames ? .badSignature : .unknownKey(issuer: issuer)
    }
}

extension TokenFault {
    /// How far a token got before it failed. A missing key set counts for more than a signature that no other key made:
    /// the missing key might have.
    fileprivate var progress: Int {
        switch self {
        case .tooLarge, .malformed, .duplicateMember, .unsupportedAlgorithm, .criticalExtension, .wrongIssuer: 0
        case .algorithmNotAllowed: 1
        case .badSignature: 2
        case .unknownKey: 3
        case .keysUnavailable: 4
        case .wrongAudience: 5
        case .notAnAccessToken, .noSubject, .unsafeClaim, .badClaim, .noExpiry, .lifetimeTooLong, .notYetValid: 6
        case .expired: 7
        }
    }
}
