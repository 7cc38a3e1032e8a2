package import Wire

/// Why a call that takes a recent sign-in is refused.
package enum RecencyRefusal: Sendable, Equatable {
    /// The sign-in is too old: it may have so many seconds.
    case notRecent(maxAge: Int64)
    /// The second factor was not proven in that time.
    case noFactor(maxAge: Int64)
    case sessionEnded
}

extension Session {
    /// How old the sign-in of a session may be that changes what signs in to its account, in seconds.
    package static let recentSeconds: Int64 = 600

    /// Whether its user signed in within the last `seconds`. False for a session whose sign-in time is unknown, as after a
    /// refresh at an outside issuer.
    package func isRecent(_ seconds: Int64 = recentSeconds, at now: WallTime) -> Bool {
        signedInAt.map { now < $0.advanced(seconds: seconds) } ?? false
    }
}

extension Account {
    /// Whether the account has a way to sign in. Tokens of outside issuers do not count: they continue a session.
    func hasSignIn(_ identities: [LinkedIdentity], _ ways: SignInWays) -> Bool {
        ways.lead(to: self, identities: identities.map(\.key).filter { !$0.source.isIssuer })
    }
}
