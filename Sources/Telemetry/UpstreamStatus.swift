package import Wire

/// The condition of one upstream, for the operator: the answer of the admin API.
package struct UpstreamStatus: Sendable, Equatable {
    /// One address.
    package struct Address: Sendable, Equatable {
        package enum State: String, Sendable, CaseIterable {
            /// Takes its share of the requests.
            case `in`
            /// Its share still rises.
            case starting
            case ejected
            /// Fails its health checks.
            case unhealthy
        }

        package var text: String
        package var state = State.in
        /// Why it is not in, as the metrics' label has it, and in words.
        package var reason: String?
        package var detail: String?
        package var since: WallTime?
        package var until: WallTime?
        /// Percentage of a full share of the requests.
        package var share = 100
        /// Ejections since the gateway has started.
        package var ejections = 0
        /// Requests under way, and connections.
        package var requests = 0
        package var connections = 0

        package init(text: String) { self.text = text }
    }

    package var name: String
    /// Whether so few addresses are available that all are used.
    package var isPanicking = false
    package var addresses: [Address]
    /// The counts for `max-requests`, `max-pending` and `retry-min`; the first two are 0 without a bound.
    package var requests = 0
    package var pending = 0
    package var retries = 0

    package init(name: String, addresses: [Address]) {
        self.name = name
        self.addresses = addresses
    }

    /// The judging worker's view, with the requests and connections of another worker added.
    package mutating func add(_ other: UpstreamStatus) {
        for index in addresses.indices {
            guard let same = other.addresses.first(where: { $0.text == addresses[index].text }) else { continue }
            addresses[index].requests += same.requests
            addresses[index].connections += same.connections
        }
    }
}
