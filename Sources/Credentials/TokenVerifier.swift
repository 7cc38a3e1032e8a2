package import Wire

/// Verifier of JSON Web Tokens (RFC 7519) by the practices of RFC 8725. One for each worker: it owns OpenSSL contexts and
/// scratch memory that are reused for every token.
///
/// The order is fixed: size and shape, header, `iss`, signature by that issuer's key, then the other claims. So only a holder of
/// a genuine token learns anything about its claims.
package struct TokenVerifier: ~Copyable {
    /// The `alg` of the last token if it was a known one; for metrics and logs.
    package private(set) var lastAlgorithm: SigningAlgorithm?
    /// The maximum number of keys that are tried for a token, over all issuers. With the bounds of a key a forged token costs an event
    /// loop 6 ms at most (eight of P-384), and 0.2 ms for eight usual ones.
    package static let maximumTries = 8
    /// The keys that were tried for the last token.
    private(set) var tries = 0

    private var header = TokenHeader()
    private var claims = JSONMembers()
    private var signature = ByteBuffer()
    private var texts = ByteBuffer()
    private var contexts = SignatureContexts()
    /// The snapshot for which the contexts of other keys were last dropped.
    private var latestTrust: Trust?

    package init() {}

    /// Verifies a token, which may be any bytes. With `takesExpired`, a token that is valid but for `exp` succeeds with
    /// `isExpired` set. An attestation counts only where it is asked for, by its issuer's index.
    package mutating func verify(
        _ token: RawSpan, trust: Trust, now: WallTime, takesExpired: Bool = false, attestationBy attestor: Int? = nil
    ) -> Result<VerifiedToken, TokenFault> {
        if latestTrust !== trust {
            latestTrust = trust
            contexts.keep(only: trust.liveKeySerials)
        }
        do throws(TokenFault) {
            let parts = try load(token)
            return .success(try verifyByIssuers(token[parts.signed], trust, now, takesExpired, attestor))
        } catch {
            return .failure(error)
        }
    }

    /// Verifies the signature, the issuer and the audience of a signed statement, which has neither a subject nor an end.
    mutating func verifyStatement(_ token: RawSpan, trust: Trust) -> Result<Void, TokenFault> {
        do throws(TokenFault) {
            let parts = try load(token)
            var fault = TokenFault.wrongIssuer
            for index in trust.rules.indices where trust.rules[index].matchesIssuer(of: claims) {
                do throws(TokenFault) {
                    _ = try proof(of: token[parts.signed], by: index, trust)
                    try claims.checkAudience(trust.rules[index].audiences)
                    return .success(())
                } catch {
                    if error.progress > fault.progress { fault = error }
                }
            }
            throw fault
        } catch {
            return .failure(error)
        }
    }

    /// Decodes the token into `header`, `claims` and `signature`.
    private mutating func load(_ token: RawSpan) throws(TokenFault) -> TokenParts {
        lastAlgorithm = nil
        tries = 0
        let parts = try TokenParts(token)
        try header.load(token[parts.header])
        lastAlgorithm = header.algorithm
        signature.removeAll()
        guard Base64URL.decode(token[parts.signature], into: &signature) else { throw .malformed }
        do throws(JSONMembers.Fault) {
            try claims.load(base64URL: token[parts.payload], takesHalves: true)
        } catch {
            throw TokenFault(error)
        }
        return parts
    }

    /// Tries every trusted issuer with the token's `iss`; throws the fault of the issuer with which it got furthest.
    private mutating func verifyByIssuers(
        _ signed: RawSpan, _ trust: Trust, _ now: WallTime, _ takesExpired: Bool, _ attestor: Int?
    ) throws(TokenFault) -> VerifiedToken {
        var fault = TokenFault.wrongIssuer
        for index in trust.rules.indices where trust.rules[index].matchesIssuer(of: claims) {
            guard attestor == (trust.rules[index].use == .attestation ? index : nil) else { continue }
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
        let proof = try proof(of: signed, by: index, trust)
        return try VerifiedToken(proof, claims, issuer: index, trust, now, takesExpired: takesExpired, scratch: &texts)
    }

    private mutating func proof(of signed: RawSpan, by index: Int, _ trust: Trust) throws(TokenFault) -> ProvenSignature {
        let rules = trust.rules[index]
        guard rules.algorithms.contains(header.algorithm) else { throw .algorithmNotAllowed }
        guard let keys = rules.keys else { throw .keysUnavailable(issuer: index) }
        return try prove(signed, keys, issuer: index)
    }

    /// Tries the keys with the token's `kid`, then the keys without one; the first keys if the token has no `kid`.
    private mutating func prove(
        _ signed: RawSpan, _ keys: [VerificationKey], issuer: Int
    ) throws(TokenFault) -> ProvenSignature {
        var wasNamed = false
        var wasTried = false
        var hasNames = false
        for triesNamed in [true, false] {
            for key in keys {
                let kid = header.hasKeyID ? key.kidBytes : nil
                guard (kid != nil) == triesNamed else { continue }
                if let kid {
                    hasNames = true
                    guard kid.rawBytes.equals(header.keyID) else { continue }
                    wasNamed = true
                }
                guard key.algorithms.contains(header.algorithm) else { continue }
                wasTried = true
                guard tries < Self.maximumTries else { break }
                tries += 1
                if let proof = contexts.prove(signature, over: signed, header.algorithm, by: key) { return proof }
            }
        }
        if wasNamed { throw wasTried ? .badSignature : .algorithmNotAllowed }
        throw wasTried && !hasNames ? .badSignature : .unknownKey(issuer: issuer)
    }
}

extension TokenFault {
    /// How far verification got before the fault. A missing key or key set ranks above a bad signature, since the missing key
    /// might be the one that signed.
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
