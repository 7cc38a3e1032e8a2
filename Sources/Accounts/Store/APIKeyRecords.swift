package import Wire

/// API keys. Each that is added or revoked is an entry of the change log, so that every gateway reads them again within a second.
package protocol APIKeyRecords: Sendable {
    /// All, in the order of their creation; `live`: those that are neither revoked nor over.
    func apiKeys(live: Bool) async throws(StoreFault) -> [APIKey]
    /// Adds a key; false if there are `most` live ones already.
    func add(_ key: APIKey, atMost most: Int, _ audit: AuditContext) async throws(StoreFault) -> Bool
    /// Revokes a key for good, and returns it; nil if there is none. One that was revoked before stays as it is.
    func revokeAPIKey(_ id: UUID, _ audit: AuditContext) async throws(StoreFault) -> APIKey?
    /// Notes when keys were used last.
    func saw(_ keys: [UUID: WallTime]) async throws(StoreFault)
}
