/// The source of the tiers of an outside issuer's users, where it is not their tokens.
package enum IssuerTiers: Hashable, Sendable {
    /// The tier that the operator set for the subject here.
    case account
    case lookup(TierServer)
}

/// A server that knows the tiers of an outside issuer's users.
package struct TierServer: Hashable, Sendable {
    package let url: String
    /// The value of `issuer` in the question: the issuer's `iss`, or the trust line's name where its tokens have none.
    package let issuer: String
    /// How long an answer counts, in seconds.
    package let maxAgeSeconds: Int64

    package init(url: String, issuer: String, maxAgeSeconds: Int64) {
        self.url = url
        self.issuer = issuer
        self.maxAgeSeconds = maxAgeSeconds
    }
}

/// The answer of a tier server.
package enum TierAnswer: Equatable, Sendable {
    /// The tier's name; nil for the lowest.
    case tier(String?)
    /// Why there is none, for the log; and whether nothing was answered at all.
    case failed(String, isAway: Bool)
}

/// Asks a tier server for the tier of a subject.
package typealias TierQuestion = @Sendable (_ server: TierServer, _ subject: String) async -> TierAnswer
