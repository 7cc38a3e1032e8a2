package import Wire

/// The subject and email of a verified ID token (OpenID Connect Core §2). Only `IDTokenRules` creates one, so a value is proof.
package struct IDToken: Sendable, Equatable {
    /// `sub`: 1 to 256 bytes.
    package let subject: String
    /// `email`, unchanged.
    package let email: String?
    /// Whether `email_verified` is true.
    package let isEmailVerified: Bool
    /// `auth_time`, or `iat` if there is none: the provider has known the user then. In seconds since 1970; nil without both.
    package let authenticatedAt: Int64?
    /// The app that it was issued to, if that is its only audience.
    package let client: String?

    fileprivate init(subject: String, email: String?, isEmailVerified: Bool, authenticatedAt: Int64?, client: String?) {
        self.subject = subject
        self.email = email
        self.isEmailVerified = isEmailVerified
        self.authenticatedAt = authenticatedAt
        self.client = client
    }
}

/// The reason why an ID token is refused.
package enum IDTokenFault: Error, Equatable, Sendable {
    case token(TokenFault)
    /// `iat` is no date, or is later than now plus the leeway.
    case issuedInTheFuture
    /// `nonce` is not the caller's, is missing, or is present though the caller named none.
    case wrongNonce
    /// The token has several audiences, and `azp` is not one of the operator's apps.
    case wrongAuthorizedParty

    /// Whether the provider's keys have never been fetched. That is our failure, not the caller's: 503.
    package var isForWantOfKeys: Bool {
        switch self {
        case .token(let fault): fault.issuerWithoutKeys != nil
        case .issuedInTheFuture, .wrongNonce, .wrongAuthorizedParty: false
        }
    }

    /// Whether the provider's key set lacks the token's key; fetching the set again may help.
    package var isForUnknownKey: Bool {
        switch self {
        case .token(let fault): fault.issuerOfUnknownKey != nil
        case .issuedInTheFuture, .wrongNonce, .wrongAuthorizedParty: false
        }
    }
}

/// The validation rules for ID tokens of one provider (OpenID Connect Core §3.1.3.7). Any thread.
package struct IDTokenRules: Sendable {
    /// The policy for a token with a nonce when the caller names none.
    package enum UnnamedNonce: Sendable {
        /// The provider only echoes a nonce from the app's request, so the token was requested by another app.
        case refused
        /// The provider's SDK adds a nonce on its own.
        case ignored
        /// A token without a nonce that the caller names is refused, too.
        case required
    }

    let trust: Trust
    private let clientIDs: [[UInt8]]
    private let unnamedNonce: UnnamedNonce
    private let trustsEmail: Bool

    /// Rules for one provider. `issuers`: every `iss` that the provider uses. `clientIDs`: the audiences of the operator's apps,
    /// at least one. `keys`: nil until they have been fetched once. `trustsEmail`: whether its `email_verified` is believed.
    /// `clockSkewSeconds`: leeway on all dates.
    package init(
        provider: String, issuers: [String], clientIDs: [String], keys: KeySet?, unnamedNonce: UnnamedNonce,
        trustsEmail: Bool = true, clockSkewSeconds: Int64 = 60
    ) {
        precondition(!clientIDs.isEmpty, "without a client id, ID tokens for any app would be accepted")
        let trusted = issuers.map {
            TrustedIssuer(
                name: provider, issuer: $0, audiences: clientIDs, algorithms: AlgorithmSet([.RS256, .ES256]),
                keys: keys, use: .identity)
        }
        trust = Trust(issuers: trusted, clockSkewSeconds: clockSkewSeconds)
        self.clientIDs = clientIDs.map { Array($0.utf8) }
        self.unnamedNonce = unnamedNonce
        self.trustsEmail = trustsEmail
    }

    /// Verifies a token, which may be any bytes. `nonce` is the caller's claim of what it sent to the provider, nil for none.
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
        guard isNonceAccepted(claims, nonce) else { return .failure(.wrongNonce) }
        // `azp` is checked for several audiences only: the verifier has matched a single one to an app already, and in Google's
        // flow for Android `azp` then differs from it.
        guard !claims.haveSeveralAudiences || claims.value(of: "azp", isIn: clientIDs) else { return .failure(.wrongAuthorizedParty) }
        let email = verified.email.byteCount > 0 ? verified.email.text : nil
        return .success(
            IDToken(
                subject: verified.userID.text, email: email, isEmailVerified: trustsEmail && claims.isEmailVerified(ifAbsent: false),
                authenticatedAt: verified.authenticatedAt ?? verified.issuedAt, client: claims.string("aud")))
    }

    private func isNonceAccepted(_ claims: borrowing JSONMembers, _ nonce: String?) -> Bool {
        if let nonce { return claims.matchNonce(nonce) }
        switch unnamedNonce {
        case .refused: return claims["nonce"] == nil
        case .ignored: return true
        case .required: return false
        }
    }
}

extension JSONMembers {
    /// Whether the claim is `nonce` or its SHA-256 in hexadecimal: apps pass that hash to Apple's native sign-in, which echoes it.
    fileprivate func matchNonce(_ nonce: String) -> Bool {
        guard case .string(let text)? = self["nonce"] else { return false }
        return nonce.withRawBytes { raw in
            var hex = ByteBuffer(capacity: 64)
            for byte in Digest.sha256(raw) { hex.append(hex: UInt64(byte), digits: 2) }
            return self.text(text, equals: raw) || self.text(text, equals: hex.readable)
        }
    }

    /// Whether `aud` is an array of more than one element of any type.
    fileprivate var haveSeveralAudiences: Bool {
        guard case .array(let slice)? = self["aud"] else { return false }
        var reader = JSONReader(source(slice), takesHalves: true)
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
            return true  // Cannot happen: the array was validated when it was loaded. Fail closed.
        }
    }

    /// Whether the claim is a string and one of `values`.
    fileprivate func value(of claim: StaticString, isIn values: [[UInt8]]) -> Bool {
        guard case .string(let text)? = self[claim] else { return false }
        return values.contains { self.text(text, equals: $0.rawBytes) }
    }
}
