import Wire

/// A protected resource (RFC 9728): its URL is the audience of the tokens that its issuers give out for it.
package struct ResourceAudience: Sendable, Hashable {
    package let url: String
    /// The names of its issuers.
    package let issuers: [String]

    package init(url: String, issuers: [String]) {
        self.url = url
        self.issuers = issuers
    }
}

extension Trust {
    /// Bits for so many resources, and the last one for the audiences of the issuer itself.
    package static let maximumResources = 63
    package static let ownAudience: UInt64 = 1 << 63

    /// The audiences of a token of the issuer of this number: bit n for resource n, and `ownAudience`. Throws for none of these.
    func audienceMask(_ claims: borrowing JSONMembers, issuer index: Int) throws(TokenFault) -> UInt64 {
        var mask: UInt64 = 0
        for number in resources.indices where resources[number].issuers.contains(issuers[index].name) {
            let url = resourceURLs[number]
            if let audience = claims["aud"], claims.value(audience, equals: url.rawBytes, stringsOnly: true) { mask |= 1 << UInt64(number) }
        }
        do throws(TokenFault) {
            try claims.checkAudience(rules[index].audiences)
            return mask | Self.ownAudience
        } catch {
            // A token for a resource alone is good there.
            guard mask != 0 else { throw error }
            return mask
        }
    }
}
