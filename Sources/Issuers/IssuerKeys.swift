package import Credentials
package import Telemetry
package import Wire

/// All keys that tokens are verified with, at one moment: an immutable snapshot from which a policy is made.
package struct IssuerKeys: Sendable {
    /// Counts the configurations that were adopted. A snapshot of an earlier one has no place in a policy of a later.
    package var generation: UInt64 = 0
    /// nil only where a command looks on and there are none yet.
    package var own: SigningKeyRing?
    /// By the trust line's name; missing while no key was ever had.
    package var outside: [String: KeySet] = [:]
    /// Where each of those came from: a line that names another place has other keys.
    package var origins: [String: KeySource] = [:]

    package init(own: SigningKeyRing?) { self.own = own }
}

/// What is known of one issuer's keys, for `/readyz`, metrics and logs.
package struct KeyStatus: Sendable, Equatable {
    package var name: String
    /// 0 while there are none.
    package var keyCount = 0
    /// When they were last confirmed; nil for files and secrets, which are at hand.
    package var confirmedAt: WallTime?
    package var fetches: UInt64 = 0
    package var failures: UInt64 = 0
    package var unknownKeys: UInt64 = 0
    /// Why the last attempt failed; nil after one that did not.
    package var problem: String?

    package init(name: String) { self.name = name }
}

/// Something about keys that the log should tell.
package struct KeyEvent: Sendable, Equatable {
    package var level: LogLevel
    /// `trust=NAME`'s name, or nil for the gateway's own keys.
    package var issuer: String?
    package var message: String

    package init(_ level: LogLevel, _ issuer: String?, _ message: String) {
        self.level = level
        self.issuer = issuer
        self.message = message
    }
}

extension IssuerKeys {
    /// A gateway that runs always has keys of its own: it makes them when it first starts.
    package var ownRing: SigningKeyRing {
        guard let own else { preconditionFailure("no signing keys") }
        return own
    }
}
