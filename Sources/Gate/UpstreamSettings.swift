/// Configuration of one upstream, the same on every worker: timeouts, retries, balancing, health checks, bounds. The initial values are
/// the defaults of an upstream line's options.
package struct UpstreamSettings: Hashable, Sendable {
    package enum Balance: Hashable, Sendable { case leastOutstanding, roundRobin }
    /// A path that is fetched, or the standard health service of gRPC.
    package enum HealthCheck: Hashable, Sendable { case path(String), grpc }

    /// The configured name, lower case: the metrics' label.
    package var name: String
    package var balance = Balance.leastOutstanding
    /// Milliseconds to establish a connection, with TLS where it is spoken.
    package var connectTimeout: UInt64 = 2_000
    /// Milliseconds to the first byte of an answer, and between two.
    package var timeout: UInt64 = 30_000
    /// Retries of a request that may be sent again.
    package var retries = 1
    /// Connections of all workers to all addresses, without health checks; above it a request is refused with 503.
    package var maxConnections = Int.max
    /// The kind of active health checks; nil for none.
    package var health: HealthCheck?
    package var healthInterval: UInt64 = 5_000
    /// Requests of all workers under way; above it a request is refused with 503.
    package var maxRequests = Int.max
    /// Requests of all workers that wait for a connection, likewise.
    package var maxPending = Int.max
    /// Retries for a hundred requests.
    package var retryPercent = 20
    /// Retries under way in all workers below which another may always be made.
    package var minRetries = 3
    /// When addresses are ejected, and how they come back.
    package var outliers = OutlierRules()
    /// Whether `Host` is the address's own and not the client's.
    package var sendsOwnHost = false

    package init(name: String) { self.name = name }
}

/// When an address of an upstream is ejected, for how long, how many may be out at a time, and how they come back.
package struct OutlierRules: Hashable, Sendable {
    /// How long an address may take to the heads of its answers (`eject-latency=`).
    package enum LatencyRule: Hashable, Sendable {
        /// Its median may be so many times that of the others.
        case factor(UInt64)
        /// Its median may be so many milliseconds while that of the others is below.
        case bound(milliseconds: UInt64)
    }

    /// Failures in a row that eject an address; nil for any number.
    package var failures: Int? = 5
    /// Milliseconds of a first ejection, of a window, and until a step of the back-off is forgotten.
    package var interval: UInt64 = 10_000
    /// Percentage of the addresses that may be ejected at a time; above 0 it is at least one address.
    package var maxEjected = 10
    /// Percentage of the addresses below which absences are ignored.
    package var panic = 50
    /// Milliseconds in which the load of an address that is new or has come back rises.
    package var slowStart: UInt64 = 0
    /// Percentage of successes below which an address is ejected; nil for any.
    package var minSuccess: Int? = 85
    package var latency: LatencyRule?

    package init() {}
}
