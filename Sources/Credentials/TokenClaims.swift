package import Wire

/// The claims of a token to be issued (RFC 7519 §4). Nil claims are omitted.
package struct TokenClaims: Sendable {
    /// The value of a private claim.
    package enum Value: Sendable, Equatable {
        case string(String)
        case integer(Int)
        case boolean(Bool)
        case strings([String])
    }

    package var issuer: String?
    package var audience: String?
    package var subject: String
    /// Seconds since 1970.
    package var issuedAt: Int64
    package var expiresAt: Int64
    /// `auth_time`: when the user signed in, in seconds since 1970.
    package var authenticatedAt: Int64?
    package var tokenID: String?
    package var sessionID: String?
    /// `client_id` (RFC 9068, 2.2): the contract that issued it; if nil, a claim of that name may be added with `add`.
    package var contract: ContractID?
    package var email: String?
    /// `email_verified`; if nil, a claim of that name may be added with `add`.
    package var isEmailVerified: Bool?
    /// `name`; if nil, a claim of that name may be added with `add`.
    package var name: String?
    package var tier: String?
    /// `token_type`; a token with `refresh` is refused as a bearer everywhere.
    package var tokenType: String?
    package var actorType: String?
    package var actorID: String?
    /// `cnf` (RFC 9449, 6.1): the key that must prove itself with the token.
    package var deviceKey: KeyThumbprint?
    private var others: [(name: String, value: Value)] = []

    package init(issuer: String?, audience: String?, subject: String, issuedAt: Int64, expiresAt: Int64) {
        self.issuer = issuer
        self.audience = audience
        self.subject = subject
        self.issuedAt = issuedAt
        self.expiresAt = expiresAt
    }

    /// Adds a private claim; false, with nothing added, if a claim of that name exists.
    package mutating func add(_ name: String, _ value: Value) -> Bool {
        guard !Self.ownNames.contains(name), !others.contains(where: { $0.name == name }) else { return false }
        guard name != "email_verified" || isEmailVerified == nil, name != "name" || self.name == nil else { return false }
        guard name != "client_id" || contract == nil else { return false }
        others.append((name, value))
        return true
    }

    private static let ownNames: Set = [
        "iss", "aud", "sub", "iat", "exp", "auth_time", "jti", "sid", "email", "tier", "token_type", "actor_type", "actor_id", "cnf",
    ]

    func json() -> ByteBuffer {
        var json = JSONWriter()
        json.beginObject()
        write("iss", issuer, &json)
        write("aud", audience, &json)
        write("sub", subject, &json)
        json.field("iat", Int(issuedAt))
        json.field("exp", Int(expiresAt))
        if let authenticatedAt { json.field("auth_time", Int(authenticatedAt)) }
        write("jti", tokenID, &json)
        write("sid", sessionID, &json)
        write("client_id", contract?.name, &json)
        write("email", email, &json)
        if let isEmailVerified { json.field("email_verified", isEmailVerified) }
        write("name", name, &json)
        write("tier", tier, &json)
        write("token_type", tokenType, &json)
        write("actor_type", actorType, &json)
        write("actor_id", actorID, &json)
        deviceKey?.writeConfirmation(to: &json)
        for other in others { write(other.name, other.value, &json) }
        json.endObject()
        return json.finish()
    }

    private func write(_ name: StaticString, _ text: String?, _ json: inout JSONWriter) {
        if let text { json.field(name, text) }
    }

    private func write(_ name: String, _ value: Value, _ json: inout JSONWriter) {
        json.key(name)
        switch value {
        case .string(let text): json.string(text)
        case .integer(let number): json.number(number)
        case .boolean(let value): json.bool(value)
        case .strings(let texts):
            json.beginArray()
            for text in texts { json.string(text) }
            json.endArray()
        }
    }
}

extension KeyThumbprint {
    /// Writes the member `cnf` of a token that is bound to the key.
    package func writeConfirmation(to json: inout JSONWriter) {
        json.key("cnf" as StaticString)
        json.beginObject()
        json.field("jkt", text)
        json.endObject()
    }
}
