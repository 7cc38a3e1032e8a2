package import Accounts
package import Credentials
package import Gate

/// Callbacks into the rest of the process. They are called on any thread and must not block.
package struct ClusterEvents: Sendable {
    /// Posts an update to every worker; updates arrive in the order of the calls.
    package var broadcast: @Sendable (WorkerUpdate) -> Void
    /// Suspends until every worker has taken what was broadcast before.
    package var confirmed: @Sendable () async -> Void
    /// The signing keys that gateways share may have changed in the store.
    package var secretsChanged: @Sendable () -> Void
    /// The live switches as the store has them, at the start and after each change. `isAnew`: changes may have been missed.
    package var switched: @Sendable (_ switches: [LiveSwitch], _ isAnew: Bool) -> Void
    package var report: @Sendable (ClusterReport) -> Void

    package init(
        broadcast: @escaping @Sendable (WorkerUpdate) -> Void, confirmed: @escaping @Sendable () async -> Void = {},
        secretsChanged: @escaping @Sendable () -> Void = {},
        switched: @escaping @Sendable (_ switches: [LiveSwitch], _ isAnew: Bool) -> Void = { _, _ in },
        report: @escaping @Sendable (ClusterReport) -> Void = { _ in }
    ) {
        self.broadcast = broadcast
        self.confirmed = confirmed
        self.secretsChanged = secretsChanged
        self.switched = switched
        self.report = report
    }
}

/// A change to what each worker holds of sessions and tiers. Applying one twice, or after a newer one, does no harm.
package enum WorkerUpdate: Sendable, Equatable {
    /// Access tokens of these sessions are refused from now on.
    case ended([RevokedSession])
    case tiers([UserTier])
    /// The known tiers of these users may be out of date, or with nil those of every user and every subject: look each up again.
    case forgetTiers([TokenUser]?)
    case subjects([KnownSubject])
    /// These sessions have proven the second factor, or with nil as the time do so no more; `isWhole`: no others have.
    case factors([ProvenSession], isWhole: Bool)
    /// The API keys in force.
    case keys(APIKeyTable)
}

/// Something to log, count or show on `/readyz`.
package enum ClusterReport: Sendable {
    /// A bus is configured; it counts as lost until it connects.
    case busExpected(carrier: String)
    case busConnected(carrier: String)
    case busLost(carrier: String, problem: String)
    /// Another gateway announced a change.
    case hintReceived
    /// A message came that no gateway with the same secret has sent.
    case messageRefused
    /// Changes were applied, each so many microseconds after its commit.
    case changesApplied(lags: [Int64])
    /// The change log was read, so the store answers. This gateway's clock is so many microseconds ahead of the store's, if that has one.
    case storeAnswered(clockSkew: Int64?)
    /// The tier server of the trust line was asked; `problem` tells why it gave no tier, nil if it did.
    case tierAsked(issuer: String, problem: String?)
    /// These gateways have not said in time that a change counts there.
    case gatewaysLate([String])
}
