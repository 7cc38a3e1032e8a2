package import Credentials
package import Telemetry
package import Wire

/// A snapshot of all verification keys, from which a policy is built.
package struct IssuerKeys: Sendable {
    /// The number of the configuration that it belongs to. A snapshot must not be combined with a later configuration.
    package var generation: UInt64 = 0
    /// The gateway's signing keys; nil only in commands, before the gateway has first started.
    package var own: SigningKeyRing?
    /// By name of the trust line; an issuer is missing until its keys have been fetched once.
    package var outside: [String: KeySet] = [:]
    /// The source of each outside key set. A reload keeps a key set only if its source is unchanged.
    package var origins: [String: KeySource] = [:]

    package init(own: SigningKeyRing?) { self.own = own }
}

/// The state of one issuer's keys, for `/readyz`, metrics and logs.
package struct KeyStatus: Sendable, Equatable {
    package var name: String
    /// The number of usable keys.
    package var keyCount = 0
    /// When the keys were last fetched; nil for files and secrets.
    package var confirmedAt: WallTime?
    /// nil for files and secrets, and during a fetch.
    package var nextFetchAt: WallTime?
    package var fetches: UInt64 = 0
    package var failures: UInt64 = 0
    package var unknownKeys: UInt64 = 0
    /// The error of the last fetch or read; nil if it succeeded.
    package var problem: String?

    package init(name: String) { self.name = name }
}

/// A log event about keys.
package struct KeyEvent: Sendable, Equatable {
    package var level: LogLevel
    /// The name of the trust line; nil for the gateway's own keys.
    package var issuer: String?
    package var message: String

    package init(_ level: LogLevel, _ issuer: String?, _ message: String) {
        self.level = level
        self.issuer = issuer
        self.message = message
    }
}

extension IssuerKeys {
    /// The gateway's signing keys. Traps without any; a running gateway always has them.
    package var ownRing: SigningKeyRing {
        guard let own else { preconditionFailure("no signing keys") }
        return own
    }
}
