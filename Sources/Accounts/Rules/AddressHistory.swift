package import Wire

/// The addresses from which an account was signed in, read from its audit events.
package enum AddressHistory {
    /// The events that count as a sign-in, and `accountTaken`, which ends the history: earlier events were not caused by the
    /// present owner.
    package static let kinds: [AuditEvent.Kind] = [.accountOpened, .signedIn, .passwordReset, .accountTaken]
    /// Number of events read: enough for a user whose address changes with every sign-in.
    package static let depth = 64

    /// Whether `address` (IPv6: its /64) is one of them. `events` are of `kinds`, newest first.
    package static func knows(_ address: IPAddress, _ events: [AuditEvent]) -> Bool {
        events.prefix { $0.kind != .accountTaken }.contains { kinds.contains($0.kind) && $0.address?.limitPrefix == address.limitPrefix }
    }
}
