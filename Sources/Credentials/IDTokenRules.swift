package import Wire

/// Who an ID token says has signed in. Only `IDTokenRules` makes one.
package struct IDToken: Sendable, Equatable {
    /// `sub`: 1 to 256 bytes.
    package let subject: String
    /// `email`, as the provider spells it.
    package let email: String?
    /// Whether the provider vouches for the email.
    package let isEmailVerified: Bool

    fileprivate init(subject: String, email: String?, isEmailVerified: Bool) {
        self.subject = subject
        self.email = email
        self.isEmailVerified = isEmailVerified
    }
}

/// Why an ID token is not accepted.
package enum IDTokenFault: Error, Equatable, Sendable {
    case token(TokenFault)
    /// `iat` is no date, or lies further ahead than the leeway.
    case issuedInTheFuture
    /// The caller named a nonce and the token holds another one, or none.
    case wrongNonce

    /// Whether the provider's keys could never be had: our inability, not the caller's.
    package var isForWantOfKeys: Bool {
        switch self {
        case .token(let fault): fault.issuerWithoutKeys != nil
        case .issuedInTheFuture, .wrongNonce: false
        }
    }

    /// Whether the token names a key that the provider's set does not hold: a refetch may help.
    package var isForUnknownKey: Bool {
        switch self {
        case .token(let fault): fault.issuerOfUnknownKey != nil
        case .issuedInTheFuture, .wrongNonce: false
        }
    }
}

/// What an ID token of one provider must satisfy (OpenID Connect Core §3.1.3.7). Any thread.
package struct IDTokenRules: Sendable {
    private let trust: Trust

    /// `issuers` are the spellings of `iss` that the provider uses, `clientIDs` the audiences of the operator's apps, of
    /// which there must be one; `keys` is nil while none were ever had.
    package init(
        provider: String, issuers: [String], clientIDs: [String], keys: KeySet?, clockSkewSeconds: Int64 = 60
    ) {
        precondition(!clientIDs.isEmpty, "without a client id every app's tokens would do")
        let trusted = issuers.map {
            TrustedIssuer(
                name: provider, issuer: $0, audiences: clientIDs, algorithms: AlgorithmSet([.RS256, .ES256]),
                keys: keys, use: .identity)
        }
        trust = Trust(issuers: trusted, clockSkewSeconds: clockSkewSeconds)
    }

    /// Any bytes may be passed as the token. `nonce` is what the caller says it asked the provider with; nil if the
    /// caller says nothing, and then the token's is not looked at.
    package func verify(_ token: RawSpan, nonce: String?, now: WallTime) -> Result<IDToken, IDTokenFault> {
        var verifier = TokenVerifier()
        do throws(TokenFault) {
            let verified = try verifier.verify(token, trust: trust, now: now).get()
            return try accept(verified, Self.claims(of: token), nonce, now)
        } catch {
            return .failure(.token(error))
        }
    }

    /// The claims of a token whose signature holds.
    private static func claims(of token: RawSpan) throws(TokenFault) -> JSONMembers {
        var claims = JSONMembers()
        let parts = try TokenParts(token)
        do throws(JSONMembers.Fault) {
            try claims.load(base64URL: token[parts.payload])
        } catch {
            throw TokenFault(error)
        }
        return claims
    }

    private func accept(
        _ verified: VerifiedToken, _ claims: borrowing JSONMembers, _ nonce: String?, _ now: WallTime
    ) -> Result<IDToken, IDTokenFault> {
        if claims["iat"] != nil {
            guard let issuedAt = verified.issuedAt, issuedAt <= now.seconds + trust.clockSkewSeconds else {
                return .failure(.issuedInTheFuture)
            }
        }
        if let nonce, !claims.holdNonce(nonce) { return .failure(.wrongNonce) }
        let email = verified.email.byteCount > 0 ? verified.email.text : nil
        return .success(
            IDToken(subject: verified.userID.text, email: email, isEmailVerified: claims.vouchesForEmail(bySilence: false)))
    }
}

extension JSONMembers {
    /// Whether `nonce` is the caller's. Apple's native sign-in is given the SHA-256 of the app's nonce in hexadecimal
    /// digits, and repeats that.
    fileprivate func holdNonce(_ nonce: String) -> Bool {
        guard case .string(let text)? = self["nonce"] else { return false }
        return nonce.withRawBytes { raw in
            var hex = ByteBuffer(capacity: 64)
            for byte in Digest.sha256(raw) { hex.append(hex: UInt64(byte), digits: 2) }
            return self.text(text, equals: raw) || self.text(text, equals: hex.readable)
        }
    }
}
