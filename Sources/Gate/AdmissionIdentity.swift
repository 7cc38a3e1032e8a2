package import Credentials
import HTTP
import Wire

/// How the gateway signs identities for upstreams (`identity=signed`).
package struct IdentitySigner: Sendable {
    /// The active signing key; not a shared secret.
    let key: SigningKey
    /// `iss`.
    let issuer: String
    /// `aud` is this, `#` and the route's name: never an audience of access tokens.
    let publicURL: String

    /// nil for a shared secret, with which an upstream that can verify could also sign.
    package init?(key: SigningKey, issuer: String, publicURL: String) {
        guard !key.algorithm.isSymmetric else { return nil }
        self.key = key
        self.issuer = issuer
        self.publicURL = publicURL
    }

    /// The token for the upstream of `route` that says what the fields of `edits` say; nil if OpenSSL fails. `attributes`: those of the
    /// route as a JSON object. `now` is in seconds since 1970.
    func token(
        _ edits: borrowing FieldEdits, signedInAt: Int64?, attributes: [UInt8]? = nil, route: String, at now: Int64
    ) -> [UInt8]? {
        var texts: [IdentityHeader: [UInt8]] = [:]
        edits.forEach { name, value in
            for header in IdentityHeader.allCases where name.equals(header.name.rawBytes) { texts[header] = value.array }
        }
        var json = JSONWriter()
        json.beginObject()
        json.field("iss", issuer)
        json.field("aud", "\(publicURL)#\(route)")
        json.field("iat", Int(now))
        json.field("exp", Int(now + SignedIdentities.lifetimeSeconds))
        if let signedInAt { json.field("auth_time", Int(signedInAt)) }
        for header in IdentityHeader.allCases {
            if let text = texts[header] { Self.write(header, text, texts, &json) }
        }
        if let attributes {
            json.key("attributes" as StaticString)
            json.verbatim(attributes.rawBytes)
        }
        json.endObject()
        return key.identityToken(json.finish().readable)
    }

    /// Writes the claim of a field.
    private static func write(
        _ header: IdentityHeader, _ text: [UInt8], _ texts: [IdentityHeader: [UInt8]], _ json: inout JSONWriter
    ) {
        switch header {
        case .userName: PercentEncoding.decode(text).map { json.field("name", $0.rawBytes) }
        case .userID: json.field("sub", text.rawBytes)
        case .userEmail:
            json.field("email", text.rawBytes)
            // Only routes with `forward=email` get emails that are not verified, and then the field that says so.
            json.field("email_verified", texts[.userEmailVerified].map(isTrue) ?? true)
        case .userEmailVerified: break
        case .userTier: json.field("tier", text.rawBytes)
        case .userPremium: json.field("premium", isTrue(text))
        case .sessionID: json.field("sid", text.rawBytes)
        case .tokenIssuer: json.field("token_issuer", text.rawBytes)
        case .actorType: writeActor(texts, &json)
        case .actorID: if texts[.actorType] == nil { writeActor(texts, &json) }
        case .mergedFrom:
            let ids = text.split { $0 == UInt8(ascii: ",") || $0 == UInt8(ascii: " ") }
            json.array("merged_from", ids) { $0.string(String(decoding: $1, as: UTF8.self)) }
        case .signedIdentity: break
        }
    }

    /// `act` (RFC 8693 §4.1).
    private static func writeActor(_ texts: [IdentityHeader: [UInt8]], _ json: inout JSONWriter) {
        json.key("act" as StaticString)
        json.beginObject()
        if let id = texts[.actorID] { json.field("sub", id.rawBytes) }
        if let type = texts[.actorType] { json.field("actor_type", type.rawBytes) }
        json.endObject()
    }

    private static func isTrue(_ text: [UInt8]) -> Bool { text.rawBytes.equals("true") }
}

extension Admission {
    /// Whether the sign-in is at most `maxAge` seconds old (RFC 9470); true for 0. Looked at after claims and tier: a caller that lacks those
    /// is not asked to sign in first. A token that does not say when its user signed in, or names a time in the future, is refused.
    func hasSignedInLately(_ maxAge: UInt32, _ now: Int64, _ decision: inout Decision) -> Bool {
        guard maxAge != 0 else { return true }
        guard let identity = decision.identity else { return refuseAnonymous(&decision) }
        if let signedInAt = identity.signedInAt {
            let (age, overflows) = now.subtractingReportingOverflow(signedInAt)
            if !overflows, age <= Int64(maxAge), age >= -policy.trust.clockSkewSeconds { return true }
        }
        decision.refuse(.unauthorized(.signInTooOld(maxAge: maxAge)), .refused, .signInTooOld)
        return false
    }

    /// Adds `X-Tollgate-Identity` where the caller is known: an anonymous caller has no identity to sign. Called once all other
    /// identity fields are there. False if the request is refused, because there is no key or it fails.
    mutating func signIdentity(_ route: Int, _ gate: RouteGate, _ now: WallTime, _ decision: inout Decision) -> Bool {
        guard let identity = decision.identity else { return true }
        let key = SignedIdentities.Key(
            token: decision.tokenSerial, route: Int32(truncatingIfNeeded: route), tier: decision.tier, account: decision.account,
            hidesEmail: decision.hidesEmail, detail: decision.detailSerial, merges: decision.announcedMerges)
        if key.token != 0, signedIdentities.append(key, at: now.seconds, to: &decision.requestEdits) { return true }
        guard let signer = policy.identitySigner else {
            decision.refuse(.unavailable(.identityKey, retryAfterSeconds: Self.keysRetrySeconds), .unavailable, .keysUnavailable)
            return false
        }
        let attributes = gate.forwardedAttributes == 0 ? nil : detail(decision)?.json(gate.forwardedAttributes, policy.attributes)
        let token = signer.token(
            decision.requestEdits, signedInAt: identity.signedInAt, attributes: attributes, route: policy.rules[route].name, at: now.seconds
        )
        guard let token else {
            decision.refuse(.internalError)
            return false
        }
        let start = decision.requestEdits.http1.byteCount
        decision.requestEdits.add(IdentityHeader.signedIdentity.name, token.rawBytes)
        if key.token != 0 {
            signedIdentities.insert(key, decision.requestEdits.http1.dropping(start), at: now.seconds)
        }
        return true
    }
}
