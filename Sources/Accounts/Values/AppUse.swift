package import Wire

/// Requests of an app's version on one day, and a sketch of its users.
package struct AppUse: Equatable, Sendable {
    /// The version's place in the census, as `tollgate apps` shows it.
    package struct Key: Hashable, Comparable, Sendable {
        /// Days since 1970, in UTC.
        package var day: Int64
        /// The gate's name; `-` for requests that no gate is for.
        package var gate: String
        /// Its numbers; or a word of `AppUse`.
        package var version: String

        package init(day: Int64, gate: String, version: String) { (self.day, self.gate, self.version) = (day, gate, version) }

        package static func < (left: Self, right: Self) -> Bool {
            (left.day, left.gate, left.version) < (right.day, right.gate, right.version)
        }
    }

    /// The words in the place of a version: for requests without one, and for versions beyond the bound of the census.
    package static let none = "none"
    package static let other = "other"

    package var key: Key
    package var requests: UInt64
    package var users: UserSketch

    package init(_ key: Key, requests: UInt64, users: UserSketch) { (self.key, self.requests, self.users) = (key, requests, users) }

    /// Each key once.
    package static func joined(_ uses: some Sequence<AppUse>) -> [Key: AppUse] {
        uses.reduce(into: [:]) { all, use in all[use.key, default: AppUse(use.key, requests: 0, users: UserSketch())].join(use) }
    }

    package mutating func join(_ other: Self) {
        requests = requests.addingReportingOverflow(other.requests).overflow ? .max : requests + other.requests
        users.join(other.users)
    }
}
