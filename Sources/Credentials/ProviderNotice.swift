import Wire

/// A statement of a provider about one of its users, from a signed notification. Only `IDTokenRules` creates one, so a value is proof.
package struct ProviderNotice: Sendable, Equatable {
    /// Like `consent-revoked`.
    package let type: String
    /// `sub`.
    package let subject: String
    /// The address that it is about, unchanged.
    package let email: String?
    /// When it happened, in seconds since 1970.
    package let at: Int64

    /// nil for claims without an event that can be read. Apple sends the event as JSON in a string.
    fileprivate init?(_ claims: borrowing JSONMembers) {
        var event = JSONMembers()
        do throws(JSONMembers.Fault) {
            switch claims["events"] {
            case .string(let text)?:
                var json = ByteBuffer()
                claims.append(text, to: &json)
                try event.load(json.readable)
            case .object(let slice)?: try event.load(claims.source(slice))
            default: return nil
            }
        } catch {
            return nil
        }
        guard let type = event.string("type"), let subject = event.string("sub"), case .number(let time)? = event["event_time"],
            let at = event.floor(time)
        else { return nil }
        (self.type, self.subject, email) = (type, subject, event.string("email"))
        // The documents have seconds; milliseconds have been seen.
        self.at = at > 100_000_000_000 ? at / 1_000 : at
    }
}

extension IDTokenRules {
    /// Verifies a notification (JWS), which may be any bytes, by signature, issuer and audience; nil for one that says nothing of a user.
    package func notice(_ token: RawSpan) -> Result<ProviderNotice?, IDTokenFault> {
        var verifier = TokenVerifier()
        do throws(TokenFault) {
            try verifier.verifyStatement(token, trust: trust).get()
            return .success(ProviderNotice(try JSONMembers(claimsOf: token)))
        } catch {
            return .failure(.token(error))
        }
    }
}
