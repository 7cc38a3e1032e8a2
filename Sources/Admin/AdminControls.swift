package import Credentials
package import Gate
package import Wire

/// The gateway's keys, limits, outbox and configuration, as the admin API reads and changes them.
package struct AdminControls: Sendable {
    /// The gateway's signing keys; nil before there are any.
    package var ring: @Sendable () -> SigningKeyRing? = { nil }
    package var outsideKeys: @Sendable () -> [OutsideKeys] = { [] }
    /// Rotates the signing keys; returns them as they are then.
    package var rotate: @Sendable () async throws(RotationRefusal) -> SigningKeyRing = { () throws(RotationRefusal) -> SigningKeyRing in throw .secret }
    package var limits: @Sendable () -> [LimitLine] = { [] }
    /// The keys that limits refused most often, the most refused first, at most so many.
    package var hottest: @Sendable (Int) async -> [HotKey] = { _ in [] }
    /// nil where this process counts limits alone.
    package var redis: @Sendable () -> RedisState? = { nil }
    package var outbox: @Sendable () async -> Result<ShownOutbox, ShownOutbox.Fault> = { .success(ShownOutbox(channels: [], messages: [])) }
    package var configuration: @Sendable () -> ShownConfiguration = {
        ShownConfiguration(loadedAt: WallTime(seconds: 0), version: 0, settings: [], lastReload: nil)
    }

    package init() {}
}

/// The keys of an outside issuer or provider.
package struct OutsideKeys: Sendable {
    /// The name of its line.
    package let name: String
    /// `iss` of its tokens.
    package let issuer: String?
    /// The number of usable keys.
    package let keys: Int
    /// Of its key set, without user and password; nil for a file or a secret.
    package var url: String?
    package var file: String?
    /// nil for files and secrets.
    package var fetchedAt: WallTime?
    /// nil for files and secrets, and during a fetch.
    package var nextFetchAt: WallTime?
    package var fetches: UInt64 = 0
    package var failures: UInt64 = 0
    /// The error of the last fetch or read; nil if it succeeded.
    package var lastFault: String?

    package init(name: String, issuer: String?, keys: Int) {
        self.name = name
        self.issuer = issuer
        self.keys = keys
    }
}

/// Why keys are not rotated.
package enum RotationRefusal: Error, Equatable {
    /// Own tokens are signed with a configured secret.
    case secret
    /// Another rotation of this gateway has not ended.
    case underWay
    /// A sentence for the operator.
    case failed(String)
}

/// A limit of a route.
package struct LimitLine: Sendable {
    let route: String
    let policy: String
    let limit: String
    let by: String
    let failure: String
    let isShadowed: Bool

    package init(route: String, policy: String, limit: String, by: String, failure: String, isShadowed: Bool) {
        self.route = route
        self.policy = policy
        self.limit = limit
        self.by = by
        self.failure = failure
        self.isShadowed = isShadowed
    }
}

/// The Redis that shares limits.
package struct RedisState: Sendable {
    let topology: String
    /// As in `/readyz`.
    let state: String
    let reason: String?

    package init(topology: String, state: String, reason: String?) {
        self.topology = topology
        self.state = state
        self.reason = reason
    }
}

/// The configuration in force, without secrets.
package struct ShownConfiguration: Sendable {
    package struct Setting: Sendable {
        let name: String
        /// nil for a secret.
        let value: String?
        /// `FILE:LINE`, `environment` or `default`.
        let source: String
        let isSecret: Bool
        let needsRestart: Bool

        package init(name: String, value: String?, source: String, isSecret: Bool, needsRestart: Bool) {
            self.name = name
            self.value = value
            self.source = source
            self.isSecret = isSecret
            self.needsRestart = needsRestart
        }
    }

    package struct Reload: Sendable {
        let at: WallTime
        let faults: [String]
        let warnings: [String]

        package init(at: WallTime, faults: [String], warnings: [String]) {
            self.at = at
            self.faults = faults
            self.warnings = warnings
        }
    }

    let loadedAt: WallTime
    let version: Int
    let settings: [Setting]
    let lastReload: Reload?

    package init(loadedAt: WallTime, version: Int, settings: [Setting], lastReload: Reload?) {
        self.loadedAt = loadedAt
        self.version = version
        self.settings = settings
        self.lastReload = lastReload
    }
}
