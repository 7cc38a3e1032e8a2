package import Wire

/// A key of a partner or a script, without the text, which is shown once and not kept.
package struct APIKey: Sendable, Equatable {
    /// Its user id, as upstreams are told.
    package let id: UUID
    package let name: String
    /// The beginning of its text, by which its owner tells it from others.
    package let prefix: String
    /// The SHA-256 of its text.
    package let digest: [UInt8]
    package let tier: String
    /// The names of the routes that it may be used on; empty for all that take keys.
    package let routes: [String]
    /// Its own limit, as `100/m`.
    package let limit: String?
    package let createdAt: WallTime
    package let until: WallTime?
    package var lastUsedAt: WallTime?
    package var revokedAt: WallTime?

    package init(
        id: UUID, name: String, prefix: String, digest: [UInt8], tier: String, routes: [String], limit: String?, createdAt: WallTime,
        until: WallTime?, lastUsedAt: WallTime? = nil, revokedAt: WallTime? = nil
    ) {
        self.id = id
        self.name = name
        self.prefix = prefix
        self.digest = digest
        self.tier = tier
        self.routes = routes
        self.limit = limit
        self.createdAt = createdAt
        self.until = until
        self.lastUsedAt = lastUsedAt
        self.revokedAt = revokedAt
    }
}
