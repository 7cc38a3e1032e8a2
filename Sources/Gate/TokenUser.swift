import Wire

/// A user as tokens name it: the issuer and the subject.
///
/// Subjects are compared byte by byte, as issuers do: Swift's strings are equal if they only look alike (Unicode's canonical
/// equivalence), and one person would get the other's tier.
package struct TokenUser: Hashable, Sendable {
    /// Name of the issuer's trust line; nil for the gateway's own tokens.
    package let issuer: String?
    private let subject: [UInt8]

    package init(_ subject: some StringProtocol, of issuer: String? = nil) {
        self.issuer = issuer
        self.subject = Array(subject.utf8)
    }

    init(_ subject: RawSpan, of issuer: String?) {
        self.issuer = issuer
        self.subject = subject.array
    }

    var bytes: RawSpan { @_lifetime(borrow self) get { subject.rawBytes } }

    /// The subject: `sub`, or the trust line's `user-claim`.
    package var id: String { subject.rawBytes.text }

    /// `NAME:SUBJECT` for a user of an outside issuer, as commands and the admin API name it; else the subject.
    package var text: String { issuer.map { "\($0):\(id)" } ?? id }
}

/// Where the tier of an issuer's users comes from (`tier-from=`).
package enum TierSource: UInt8, Sendable {
    /// The token's claim.
    case claim
    /// The gateway's own tokens: the account that the token names; without one the claim.
    case ownAccount
    /// The tier that the operator set for the subject here; claims are ignored.
    case account
    /// The answer of a tier server; claims are ignored.
    case lookup
}
