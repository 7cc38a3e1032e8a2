import Wire

extension JSONMembers {
    /// Refuses a token that says it is no bearer: `token_type` (own and many others), `token_use` (Cognito) or `typ`
    /// (Keycloak, whose `Offline` is a refresh token too).
    func refuseOtherUses() throws(TokenFault) {
        guard !isOtherUse("token_type"), !isOtherUse("token_use"), !isOtherUse("typ") else { throw .notAnAccessToken }
    }

    private func isOtherUse(_ name: StaticString) -> Bool {
        guard case .string(let use)? = self[name] else { return false }
        return isOtherUse(use)
    }

    private func isOtherUse(_ use: JSONText) -> Bool {
        if use.hasEscapes {
            var plain = ByteBuffer()
            append(use, to: &plain)
            return Self.isOtherUse(plain.readable)
        }
        return Self.isOtherUse(source(use.slice))
    }

    private static func isOtherUse(_ use: RawSpan) -> Bool {
        use.equalsIgnoringCase("refresh") || use.equalsIgnoringCase("refresh_token") || use.equalsIgnoringCase("id")
            || use.equalsIgnoringCase("id_token") || use.equalsIgnoringCase("offline")
    }

    /// One of the token's audiences must be one of `accepted`, unless any will do.
    func checkAudience(_ accepted: [[UInt8]]) throws(TokenFault) {
        guard !accepted.isEmpty else { return }
        guard let audience = self["aud"] else { throw .wrongAudience }
        for expected in accepted where value(audience, says: expected.rawBytes, strings: true) { return }
        throw .wrongAudience
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
