package import Wire

/// Claims of a token whose signature was not checked: reason to refuse a token, never to accept one.
package struct UnverifiedClaims: Sendable, Equatable {
    /// nil if absent or no string.
    package let issuer: String?
    /// The user claim: a string, or a whole number as it is spelled; nil if absent.
    package let user: String?
    /// `aud`, one string or an array of them.
    package let audiences: [String]

    /// nil if `token` is no JWT.
    package init?(_ token: RawSpan, userClaim: String) {
        do throws(TokenFault) {
            let claims = try JSONMembers(claimsOf: token)
            issuer = claims.string("iss")
            user = Self.user(claims, userClaim)
            audiences = claims.audiences
        } catch {
            return nil
        }
    }

    private static func user(_ claims: borrowing JSONMembers, _ name: String) -> String? {
        let bytes = Array(name.utf8)
        switch claims[bytes.rawBytes] {
        case .string(let text)?:
            var out = ByteBuffer()
            claims.append(text, to: &out)
            return out.readable.text
        case .number(let slice)?: return claims.source(slice).text
        case nil, .halved?, .bool?, .null?, .array?, .object?: return nil
        }
    }
}

extension JSONMembers {
    fileprivate var audiences: [String] {
        switch self["aud"] {
        case .string?: return [string("aud")].compactMap(\.self)
        case .array(let slice)?:
            var reader = JSONReader(source(slice), takesHalves: true)
            var found: [String] = []
            do throws(JSONFault) {
                while true {
                    switch try reader.next() {
                    case .string(let text) where reader.depth == 1 && !text.hasHalves: found.append(reader.string(text))
                    case .end: return found
                    case .string, .number, .bool, .null, .key, .beginArray, .endArray, .beginObject, .endObject: continue
                    }
                }
            } catch {
                return found  // Cannot happen: the array was validated when it was loaded.
            }
        case nil, .halved?, .number?, .bool?, .null?, .object?: return []
        }
    }
}

extension VerifiedToken {
    /// An id of the token by which it can be refused: derived from its signing input (RFC 7515 §5.1), which no other token has, and
    /// which a second form of the same signature does not change.
    package static func id(of token: RawSpan) -> UUID? {
        let dot = UInt8(ascii: ".")
        guard let first = token.firstIndex(of: dot), let end = token.firstIndex(of: dot, from: first + 1) else { return nil }
        let digest = Digest.sha256(token.extracting(0..<end))
        return UUID(random: (digest.rawBytes.load64(0).byteSwapped, digest.rawBytes.load64(8).byteSwapped))
    }
}
