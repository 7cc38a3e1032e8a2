package import Wire

/// A gateway that serves requests from the store, as its row there says.
package struct LiveGateway: Sendable, Equatable {
    /// A row counts for so many seconds after it was renewed, by the store's clock.
    package static let lifeSeconds: Int64 = 6

    /// Another one for each run of a gateway.
    package let id: UUID
    /// For the operator.
    package let name: String
    /// The highest fence that it has passed, and so all lower ones; 0 for none.
    package let passed: Int64

    package init(id: UUID, name: String, passed: Int64) {
        self.id = id
        self.name = name
        self.passed = passed
    }
}

/// The gateways that share a store, and the fences by which one learns that its change counts at all of them.
///
/// A fence is an entry of the change log. Ids of entries grow, and a fence gets its id after the commits that it stands behind: a gateway
/// that has applied an entry has passed every fence whose id is not higher.
package protocol GatewayRecords: Sendable {
    /// Renews the row of a gateway. One that `joins` has its row made or written anew; otherwise `passed` never falls, and the answer is
    /// false if there is no row.
    func renew(_ gateway: LiveGateway, joins: Bool) async throws(StoreFault) -> Bool
    /// Removes the row of a gateway that has ended.
    func remove(_ gateway: UUID) async throws(StoreFault)
    /// The gateways that live, but for this one.
    func gateways(besides gateway: UUID) async throws(StoreFault) -> [LiveGateway]
    /// Adds a fence of this gateway to the change log, and hints to the others where the store can; returns its id. A former one goes: a
    /// gateway that has not read that one passes it with the new one, and however many claims come, the log has one fence of a gateway.
    func raiseFence(by gateway: UUID, inPlaceOf former: Int64?) async throws(StoreFault) -> Int64
}
