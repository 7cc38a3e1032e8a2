package import HTTP
package import Telemetry
import Wire

/// Limits and timeouts of all connections, in milliseconds and bytes.
package struct WorkerSettings: Sendable {
    package var headLimits = HeadLimits()
    /// Bounds on each HTTP/2 connection; a change is for new ones.
    package var http2 = HTTP2Bounds()
    /// From the first byte of a head (or from the connection, for TLS and PROXY protocol) to its last.
    package var headTimeout: UInt64 = 10_000
    /// Between two requests on a kept connection.
    package var idleTimeout: UInt64 = 75_000
    /// For a request body; after it, the body must have arrived at 1 KiB a second on average.
    package var bodyTimeout: UInt64 = 30_000
    /// Bytes of a request body that must have arrived in each second on average, after `bodyGrace`; 0 for any.
    package var bodyRate: UInt64 = 0
    /// Whether a client that ends its side before its answer begins has given up its request (`TOLLGATE_HALF_CLOSE`).
    package var cancelsOnHalfClose = false
    /// For the client to take some of what waits for it; on average it must take 1 KiB a second.
    package var sendTimeout: UInt64 = 60_000
    /// Without a byte either way, until a WebSocket is closed; a longer timeout of its route takes precedence.
    package var webSocketIdleTimeout: UInt64 = 300_000
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
    /// Client connections of this worker; at so many, accepting pauses.
    package var maxClients = 100_000
    /// Requests under way of all workers, streams and the admin listeners' excepted; beyond it new ones are refused.
    package var maxRequests = 1_000_000
    /// Slots for them that a worker takes at once: `WorkerSlots.chunk`.
    package private(set) var requestChunk = 16
    /// Requests of one `LocalKind` of all workers whose handlers are at work.
    package var maxLocalRequests = 1_000_000
    /// How much of these bounds and of those of upstreams one client may hold.
    package var clientShare = ShareRule.all
    /// Pipes for splicing, of two descriptors each; above it, bodies are copied.
    package var maxPipes = 256
    /// Requests of this worker that wait for a refresh.
    package var maxRefreshes = 4_096
    /// Bytes of heads and bodies that wait in all workers.
    package var maxBuffers = Int.max
    /// Bytes of the answers that this worker keeps.
    package var cacheBytes = 64 << 20
    /// The line of `Strict-Transport-Security`; empty: answers have none.
    package var strictTransport: [UInt8] = []
    /// Which requests are recorded as spans; nil: none.
    package var sampler: TraceSampler?

    /// Milliseconds without a least rate of a request body.
    private static let bodyGrace: UInt64 = 10_000

    /// When the next byte of a request body must have arrived.
    func bodyDeadline(_ arrival: MinimumRate) -> MonotonicTime {
        let late = arrival.deadline(allowance: bodyTimeout)
        return bodyRate > 0 ? min(late, arrival.deadline(allowance: Self.bodyGrace, rate: bodyRate)) : late
    }

    package init() {}

    /// Bounds the requests of so many workers.
    package mutating func limitRequests(_ limit: Int, workers: Int) {
        maxRequests = limit
        requestChunk = WorkerSlots.chunk(of: limit, workers: workers)
    }
}
