package import Wire

/// The gateway's own keys: one signs, the next is already public, earlier ones verify until their last token has ended.
package struct SigningKeyRing: Sendable {
    package enum State: Equatable, Sendable {
        case active
        /// Published, so that others know it before it signs.
        case next
        /// Verifies until then (seconds since 1970).
        case retired(until: Int64)
    }

    package struct Entry: Sendable {
        package let key: SigningKey
        package var state: State
        /// Seconds since 1970.
        package let createdAt: Int64
    }

    /// The active key, the next one, then the retired, newest first.
    package private(set) var entries: [Entry]

    /// A ring with a new active and a new next key.
    package static func generate(_ algorithm: SigningAlgorithm, now: WallTime) throws(KeyFault) -> Self { throw KeyFault("not built yet") }

    /// What `serialised()` wrote.
    package init(parsing bytes: RawSpan) throws(KeyFault) { throw KeyFault("not built yet") }

    /// PEM blocks, each under a line that tells its algorithm, state and times. Secret: for a file of mode 0600.
    package func serialised() throws(KeyFault) -> [UInt8] { throw KeyFault("not built yet") }

    /// The key that signs.
    package var active: SigningKey { entries[0].key }

    /// The next key signs from now on, a new next one is made, and the old one verifies for another `lifetimeSeconds`,
    /// which must be that of the longest token. Retired keys whose time is over leave.
    package mutating func rotate(to algorithm: SigningAlgorithm, lifetimeSeconds: Int64, now: WallTime) throws(KeyFault) {}

    /// The keys that verify at `now`.
    package func keySet(now: WallTime) -> KeySet { KeySet([]) }

    /// The public halves as a JWK Set (RFC 7517 §5); secrets have none and are left out.
    package func jwks(now: WallTime) throws(KeyFault) -> [UInt8] { [] }
}
