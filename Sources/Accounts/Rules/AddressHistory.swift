package import Wire

/// The addresses from which an account was signed in, by its audit events.
package enum AddressHistory {
    /// The kinds of events that tell of it, and the one that ends it: what was done before an account changed hands was not
    /// done by its owner.
    package static let kinds: [AuditEvent.Kind] = [.accountOpened, .signedIn, .passwordReset, .accountTaken]
    /// Events that are looked at: enough for somebody whose address changes with every sign-in.
    package static let depth = 64

    /// Whether `address` is one of them, an IPv6 address with its /64. `events` are of `kinds`, the newest first.
    package static func knows(_ address: IPAddress, _ events: [AuditEvent]) -> Bool {
        for event in events {
            switch event.kind {
            case .accountTaken: return false
            case .accountOpened, .signedIn, .passwordReset:
                if event.address?.limitPrefix == address.limitPrefix { return true }
            case .accountDeleted, .identityLinked, .emailConfirmed, .emailChanged, .emailReleased, .phoneChanged,
                .passwordChanged, .sessionEnded, .refreshReuse, .refreshAhead, .tierChanged, .actorGranted, .actorRevoked:
                continue
            }
        }
        return false
    }
}
