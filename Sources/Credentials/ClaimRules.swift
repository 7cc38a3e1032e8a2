import Wire

extension JSONMembers {
    /// Refuses a token that declares another use, in `token_type` (own tokens and many others), `token_use` (Cognito) or `typ`
    /// (Keycloak, whose `Offline` is a refresh token, too). A refresh token must declare itself. Against token confusion:
    /// RFC 8725 §2.8, §3.12.
    func check(_ use: TokenUse) throws(TokenFault) {
        let isRefreshToken = declaresUse(Self.isRefresh)
        switch use {
        case .access, .attestation: if isRefreshToken || declaresUse(Self.isIdentity) { throw .notAnAccessToken }
        case .refresh: if !isRefreshToken { throw .badClaim }
        case .identity: if isRefreshToken { throw .badClaim }
        }
    }

    /// Whether one of the three claims has a value that satisfies `matches`.
    private func declaresUse(_ matches: (RawSpan) -> Bool) -> Bool {
        declaresUse("token_type", matches) || declaresUse("token_use", matches) || declaresUse("typ", matches)
    }

    private func declaresUse(_ claim: StaticString, _ matches: (RawSpan) -> Bool) -> Bool {
        guard case .string(let use)? = self[claim] else { return false }
        guard use.hasEscapes else { return matches(source(use.slice)) }
        var plain = ByteBuffer()
        append(use, to: &plain)
        return matches(plain.readable)
    }

    private static func isRefresh(_ use: RawSpan) -> Bool {
        use.equalsIgnoringCase("refresh") || use.equalsIgnoringCase("refresh_token") || use.equalsIgnoringCase("offline")
    }

    private static func isIdentity(_ use: RawSpan) -> Bool {
        use.equalsIgnoringCase("id") || use.equalsIgnoringCase("id_token")
    }

    /// Requires that one of the token's audiences is in `accepted` (RFC 7519 §4.1.3); an empty list accepts any.
    func checkAudience(_ accepted: [[UInt8]]) throws(TokenFault) {
        guard !accepted.isEmpty else { return }
        guard let audience = self["aud"] else { throw .wrongAudience }
        for expected in accepted where value(audience, equals: expected.rawBytes, stringsOnly: true) { return }
        throw .wrongAudience
    }

    /// `email_verified` (OpenID Connect Core §5.1): a boolean, or a string as Apple and Cognito send it. Without the claim the
    /// answer is `fallback`. If `fallback` is true, strings and numbers count as true unless they mean false; otherwise only
    /// `true` and `"true"` do.
    func isEmailVerified(ifAbsent fallback: Bool) -> Bool {
        switch self["email_verified"] {
        case .bool(let isVerified)?: isVerified
        case .string(let text)? where fallback: !meansFalse(text)
        case .string(let text)?: self.text(text, equals: ("true" as StaticString).rawBytes)
        case .number(let slice)? where fallback: !source(slice).equals("0")
        case nil, .null?: fallback
        case .halved?, .number?, .array?, .object?: false
        }
    }

    /// Whether a string means false, in one of the spellings of common libraries. One with escapes counts as false.
    private func meansFalse(_ text: JSONText) -> Bool {
        guard !text.hasEscapes else { return true }
        let word = source(text.slice)
        return word.equalsIgnoringCase("false") || word.equalsIgnoringCase("no") || word.equals("0") || word.byteCount == 0
    }

    /// Whether `value` equals `expected`, or is an array with such an element. Numbers are compared by their source text,
    /// booleans as `true` and `false`; with `stringsOnly` neither matches.
    func value(_ value: Value, equals expected: RawSpan, stringsOnly: Bool) -> Bool {
        switch value {
        case .string(let text): self.text(text, equals: expected)
        case .number(let slice): !stringsOnly && source(slice).equals(expected)
        case .bool(let value): !stringsOnly && expected.equals(value ? "true" : "false")
        case .array(let slice): array(slice, contains: expected, stringsOnly: stringsOnly)
        case .halved, .null, .object: false
        }
    }

    private func array(_ slice: Slice, contains expected: RawSpan, stringsOnly: Bool) -> Bool {
        var reader = JSONReader(source(slice), takesHalves: true)
        do throws(JSONFault) {
            while true {
                switch try reader.next() {
                case .string(let text) where reader.depth == 1:
                    if reader.text(text, equals: expected) { return true }
                case .number(let slice) where reader.depth == 1 && !stringsOnly:
                    if reader.source(slice).equals(expected) { return true }
                case .bool(let value) where reader.depth == 1 && !stringsOnly:
                    if expected.equals(value ? "true" : "false") { return true }
                case .end: return false
                case .string, .number, .bool, .null, .key, .beginArray, .endArray, .beginObject, .endObject: continue
                }
            }
        } catch {
            return false  // Cannot happen: the array was validated when it was loaded. Fail closed.
        }
    }
}

extension Trust {
    /// A bit mask: bit n is set if the claims satisfy requirement n.
    func requirementMask(_ claims: borrowing JSONMembers) -> UInt64 {
        var mask: UInt64 = 0
        for index in required.indices {
            let requirement = required[index]
            guard let value = claims[requirement.name.rawBytes] else { continue }
            if claims.value(value, equals: requirement.value.rawBytes, stringsOnly: false) { mask |= 1 << UInt64(index) }
        }
        return mask
    }
}
