import Wire

extension JSONMembers {
    /// Refuses a token that says it is for another use, in `token_type` (own and many others), `token_use` (Cognito) or
    /// `typ` (Keycloak, whose `Offline` is a refresh token too). A refresh token must say that it is one.
    func check(_ use: TokenUse) throws(TokenFault) {
        let saysRefresh = names(Self.isRefresh)
        switch use {
        case .access: if saysRefresh || names(Self.isIdentity) { throw .notAnAccessToken }
        case .refresh: if !saysRefresh { throw .badClaim }
        case .identity: if saysRefresh { throw .badClaim }
        }
    }

    /// Whether one of the three claims names a use that `isMeant` knows.
    private func names(_ isMeant: (RawSpan) -> Bool) -> Bool {
        names("token_type", isMeant) || names("token_use", isMeant) || names("typ", isMeant)
    }

    private func names(_ claim: StaticString, _ isMeant: (RawSpan) -> Bool) -> Bool {
        guard case .string(let use)? = self[claim] else { return false }
        guard use.hasEscapes else { return isMeant(source(use.slice)) }
        var plain = ByteBuffer()
        append(use, to: &plain)
        return isMeant(plain.readable)
    }

    private static func isRefresh(_ use: RawSpan) -> Bool {
        use.equalsIgnoringCase("refresh") || use.equalsIgnoringCase("refresh_token") || use.equalsIgnoringCase("offline")
    }

    private static func isIdentity(_ use: RawSpan) -> Bool {
        use.equalsIgnoringCase("id") || use.equalsIgnoringCase("id_token")
    }

    /// One of the token's audiences must be one of `accepted`, unless any will do.
    func checkAudience(_ accepted: [[UInt8]]) throws(TokenFault) {
        guard !accepted.isEmpty else { return }
        guard let audience = self["aud"] else { throw .wrongAudience }
        for expected in accepted where value(audience, says: expected.rawBytes, strings: true) { return }
        throw .wrongAudience
    }

    /// `email_verified` (OpenID Connect Core §5.1) as a boolean, or as the text that Apple and Cognito write; a token that does
    /// not say means `silence`. Anything else vouches for nothing.
    func vouchesForEmail(bySilence silence: Bool) -> Bool {
        switch self["email_verified"] {
        case .bool(let isVerified)?: isVerified
        case .string(let text)?: self.text(text, equals: ("true" as StaticString).rawBytes)
        case nil, .null?: silence
        case .number?, .array?, .object?: false
        }
    }

    /// Whether `value` is of this text, or an array with such an element. Numbers count as they are spelled, booleans
    /// as `true` and `false`, unless only `strings` may match.
    func value(_ value: Value, says expected: RawSpan, strings: Bool) -> Bool {
        switch value {
        case .string(let text): self.text(text, equals: expected)
        case .number(let slice): !strings && source(slice).equals(expected)
        case .bool(let value): !strings && expected.equals(value ? "true" : "false")
        case .array(let slice): array(slice, contains: expected, strings: strings)
        case .null, .object: false
        }
    }

    private func array(_ slice: Slice, contains expected: RawSpan, strings: Bool) -> Bool {
        var reader = JSONReader(source(slice))
        do throws(JSONFault) {
            while true {
                switch try reader.next() {
                case .string(let text) where reader.depth == 1:
                    if reader.text(text, equals: expected) { return true }
                case .number(let slice) where reader.depth == 1 && !strings:
                    if reader.source(slice).equals(expected) { return true }
                case .bool(let value) where reader.depth == 1 && !strings:
                    if expected.equals(value ? "true" : "false") { return true }
                case .end: return false
                case .string, .number, .bool, .null, .key, .beginArray, .endArray, .beginObject, .endObject: continue
                }
            }
        } catch {
            return false  // It was read once already; whatever this is, it does not contain it.
        }
    }
}

extension Trust {
    /// Bit n: the claims satisfy requirement n.
    func requirementMask(_ claims: borrowing JSONMembers) -> UInt64 {
        var mask: UInt64 = 0
        for index in required.indices {
            let requirement = required[index]
            guard let value = claims[requirement.name.rawBytes] else { continue }
            if claims.value(value, says: requirement.value.rawBytes, strings: false) { mask |= 1 << UInt64(index) }
        }
        return mask
    }
}
