package import HTTP

/// Limits and timeouts of all connections, in milliseconds and bytes.
package struct WorkerSettings: Sendable {
    package var headLimits = HeadLimits()
    /// From the first byte of a head (or from the connection, for TLS and PROXY protocol) to its last.
    package var headTimeout: UInt64 = 10_000
    /// Between two requests on a kept connection.
    package var idleTimeout: UInt64 = 75_000
    /// For a request body; after it, the body must have arrived at 1 KiB a second on average.
    package var bodyTimeout: UInt64 = 30_000
    /// For the client to take some of what waits for it; on average it must take 1 KiB a second.
    package var sendTimeout: UInt64 = 60_000
    /// For one of the gateway's own handlers to answer.
    package var localTimeout: UInt64 = 30_000
    /// For an expired token to be refreshed.
    package var refreshTimeout: UInt64 = 12_000
    /// For an idle upstream connection, until it is closed.
    package var upstreamIdleTimeout: UInt64 = 60_000
    /// Idle longer than this, an upstream connection is probed before it is reused. A fresher one is not, to save a system call: bytes
    /// that the upstream sends unasked after the loop last polled, in the same turn, could then be read as the next answer.
    package var upstreamTrust: UInt64 = 1_000
    /// An HTTP/2 connection to an upstream that is silent for so long is pinged: at once if requests are under way on it, otherwise
    /// together with the next one.
    package var upstreamPingAfter: UInt64 = 10_000
    /// For the answer to a PING, until the connection is given up.
    package var upstreamPingTimeout: UInt64 = 15_000
    /// Between two PINGs while the silence lasts: gRPC's servers take more for abuse.
    package var upstreamPingInterval: UInt64 = 300_000
    /// Client connections of this worker; above it a new one is closed at once.
    package var maxClients = 100_000

    package init() {}
}
