package import Wire

/// A value that an operator, or a guard, has set at run time for all gateways of a store, such as the share of a split.
package struct LiveSwitch: Sendable, Equatable {
    /// Its kind and its subject, such as `split/NAME` of a route.
    package let name: String
    /// Its kind defines the text.
    package let value: String
    /// Grows with each change of any switch.
    package let version: Int64
    /// When it ends by itself; nil for never.
    package let expiresAt: WallTime?
    /// Since when it has been set, to any value; nil if that is not known.
    package let since: WallTime?

    package init(name: String, value: String, version: Int64, expiresAt: WallTime? = nil, since: WallTime? = nil) {
        self.name = name
        self.value = value
        self.version = version
        self.expiresAt = expiresAt
        self.since = since
    }
}
