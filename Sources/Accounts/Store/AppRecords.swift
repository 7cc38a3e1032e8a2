/// The census of apps, which all gateways of a store fill.
package protocol AppRecords: Sendable {
    /// Adds to the requests and users of each version and day. Days that are over for a week are dropped.
    func add(_ uses: [AppUse]) async throws(StoreFault)
    /// Those of this day, as days since 1970, and later ones.
    func appUses(since day: Int64) async throws(StoreFault) -> [AppUse]
}
