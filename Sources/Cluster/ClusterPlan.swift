package import Storage

/// Starts a carrier of hints. Throws if the system gives no thread or descriptor.
package typealias StartHints = @Sendable (_ report: @escaping @Sendable (HintEvent) -> Void) throws -> any HintCarrier

/// The configuration of a gateway's part in the cluster. Only the scale and the sources of tiers change on a reload.
package struct ClusterPlan: Sendable {
    /// Names this gateway to the operator of another one.
    let name: String
    let scale: TierScale
    /// By the name of the trust line; issuers whose tokens carry the tier are not there.
    let tierSources: [String: IssuerTiers]
    /// Asks a tier server; answers in bounded time.
    let askTier: TierQuestion
    /// The database with the accounts and their change log.
    let location: StoreLocation
    /// Where the database's notifications come from, past a pooler that does not pass them on; nil: from `location`.
    let notifications: StoreLocation?
    /// Shared with the store, so that notifications come from the server that it reads.
    package var primary = DatabasePrimary()
    /// Starts the carrier of hints over Redis, which calls `report` on its own thread; nil: the database's own notifications carry them,
    /// where it has them.
    let redis: StartHints?

    package init(
        name: String = "gateway", scale: TierScale, tierSources: [String: IssuerTiers] = [:],
        askTier: @escaping TierQuestion = { _, _ in .failed("none is configured", isAway: true) },
        location: StoreLocation, notifications: StoreLocation? = nil, redis: StartHints? = nil
    ) {
        self.name = name
        self.scale = scale
        self.tierSources = tierSources
        self.askTier = askTier
        self.location = location
        self.notifications = notifications
        self.redis = redis
    }
}
