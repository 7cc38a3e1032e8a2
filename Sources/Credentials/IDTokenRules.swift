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
    /// The caller named a nonce and the token holds another one, or none; or the token holds one that the caller should
    /// have named.
    case wrongNonce
    /// The token is for several audiences, and none of the operator's apps asked for it (`azp`).
    case wrongAuthorizedParty

    /// Whether the provider's keys could never be had: our inability, not the caller's.
    package var isForWantOfKeys: Bool {
        switch self {
        case .token(let fault): fault.issuerWithoutKeys != nil
        case .issuedInTheFuture, .wrongNonce, .wrongAuthorizedParty: false
        }
    }

    /// Whether the token names a key that the provider's set does not hold: a refetch may help.
    package var isForUnknownKey: Bool {
        switch self {
        case .token(let fault): fault.issuerOfUnknownKey != nil
        case .issuedInTheFuture, .wrongNonce, .wrongAuthorizedParty: false
        }
    }
}

/// What an ID token of one provider must satisfy (OpenID Connect Core §3.1.3.7). Any thread.
package struct IDTokenRules: Sendable {
    /// A nonce of the token's that the caller does not name.
    package enum UnnamedNonce: Sendable {
        /// The provider only repeats what an app asked with, so that somebody else asked for the token.
        case refused
        /// The provider's SDK adds one by itself.
        case ignored
    }

    private let trust: Trust
    private let clientIDs: [[UInt8]]
    private let unnamedNonce: UnnamedNonce

    /// `issuers` are the spellings of `iss` that the provider uses, `clientIDs` the audiences of the operator's apps, of
    /// which there must be one; `keys` is nil while none were ever had.
    package init(
        provider: String, issuers: [String], clientIDs: [String], keys: KeySet?, unnamedNonce: UnnamedNonce,
        clockSkewSeconds: Int64 = 60
    ) {
        precondition(!clientIDs.isEmpty, "without a client id every app's tokens would do")
        let trusted = issuers.map {
            TrustedIssuer(
                name: provider, issuer: $0, audiences: clientIDs, algorithms: AlgorithmSet([.RS256, .ES256]),
                keys: keys, use: .identity)
        }
        trust = Trust(issuers: trusted, clockSkewSeconds: clockSkewSeconds)
        self.clientIDs = clientIDs.map { Array($0.utf8) }
        self.unnamedNonce = unnamedNonce
    }

    /// Any bytes may be passed as the token. `nonce` is what the caller says it asked the provider with; nil if the
    /// caller says nothing.
    package func verify(_ token: RawSpan, nonce: String?, now: WallTime) -> Result<IDToken, IDTokenFault> {
        var verifier = TokenVerifier()
        do throws(TokenFault) {
            let verified = try verifier.verify(token, trust: trust, now: now).get()
            return try accept(verified, JSONMembers(claimsOf: token), nonce, now)
        } catch {
            return .failure(.token(error))
        }
    }

    private func accept(
        _ verified: VerifiedToken, _ claims: borrowing JSONMembers, _ nonce: String?, _ now: WallTime
    ) -> Result<IDToken, IDTokenFault> {
        if claims["iat"] != nil {
            guard let issuedAt = verified.issuedAt, issuedAt <= now.seconds + trust.clockSkewSeconds else {
                return .failure(.issuedInTheFuture)
            }
        }
        guard holdsNonce(claims, nonce) else { return .failure(.wrongNonce) }
        // One audience is one of the apps: the verifier has seen to that. Google's flow for Android has another in `azp` then.
        guard !claims.haveSeveralAudiences || claims.name(clientIDs, in: "azp") else { return .failure(.wrongAuthorizedParty) }
        let email = verified.email.byteCount > 0 ? verified.email.text : nil
        return .success(
            IDToken(subject: verified.userID.text, email: email, isEmailVerified: claims.vouchesForEmail(bySilence: false)))
    }

    private func holdsNonce(_ claims: borrowing JSONMembers, _ nonce: String?) -> Bool {
        if let nonce { return claims.holdNonce(nonce) }
        switch unnamedNonce {
        case .refused: return claims["nonce"] == nil
        case .ignored: return true
        }
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

    /// Whether `aud` is an array of more than one element, of whatever type.
    fileprivate var haveSeveralAudiences: Bool {
        guard case .array(let slice)? = self["aud"] else { return false }
        var reader = JSONReader(source(slice))
        var count = 0
        do throws(JSONFault) {
            while true {
                switch try reader.next() {
                case .string, .number, .bool, .null: if reader.depth == 1 { count += 1 }
                case .beginArray, .beginObject: if reader.depth == 2 { count += 1 }
                case .endArray, .endObject, .key: continue
                case .end: return count > 1
                }
            }
        } catch {
            return true  // It was read once already; whatever this is, it is no single audience.
        }
    }

    /// Whether the claim is a text, and one of `names`.
    fileprivate func name(_ names: [[UInt8]], in claim: StaticString) -> Bool {
        guard case .string(let text)? = self[claim] else { return false }
        return names.contains { self.text(text, equals: $0.rawBytes) }
    }
}
