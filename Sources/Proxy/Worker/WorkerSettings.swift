package import HTTP

/// Bounds and time limits of every connection; milliseconds and bytes.
package struct WorkerSettings: Sendable {
    package var headLimits = HeadLimits()
    /// From the first byte of a head (or from the connection, for TLS and PROXY protocol) to its last.
    package var headTimeout: UInt64 = 10_000
    /// Between two requests on a kept connection.
    package var idleTimeout: UInt64 = 75_000
    /// What a request body may take before it must have come at 1 KiB a second on average.
    package var bodyTimeout: UInt64 = 30_000
    /// For the client to take something of what waits for it; in the long run it must take 1 KiB a second.
    package var sendTimeout: UInt64 = 60_000
    /// For a handler of the gateway's own to answer.
    package var localTimeout: UInt64 = 30_000
    /// For an expired token to be refreshed.
    package var refreshTimeout: UInt64 = 12_000
    /// An idle upstream connection is closed after this.
    package var upstreamIdleTimeout: UInt64 = 60_000
    /// An idle upstream connection is closed when the loop tells that something came on it. One that was idle for longer
    /// than this is also looked at just before it is used again; on a fresher one that call is spared, and an answer that
    /// nobody asked for could still be taken for the next one's if it came after the loop last looked, in the same turn.
    package var upstreamTrust: UInt64 = 1_000
    /// Client connections of this worker; past it a new one is closed at once.
    package var maxClients = 100_000

    package init() {}
}
