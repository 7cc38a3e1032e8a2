import HTTP
import Transport
import Wire

/// One connection to an upstream's address, reused after an answer that ended well; or the end of one stream of an HTTP/2 connection.
struct UpstreamConnection: ~Copyable {
    private let pin = AddressPin()
    enum Phase: Equatable {
        /// Not connected: the index is free.
        case free
        case connecting
        case handshaking
        /// HTTP/2: the upstream's SETTINGS are awaited.
        case greeting
        /// HTTP/2: the requests are on its streams, each with an `UpstreamConnection` of its own.
        case multiplexed
        /// Carries `exchange`.
        case busy
        /// Carries the WebSocket of `exchange`.
        case tunnel
        /// Its WebSocket is over: `output` is sent, then our side is shut, and what still comes is dropped.
        case ending
        /// In the pool.
        case idle
        /// Carries a health check.
        case probing
    }

    var connection = Connection()
    var http = ClientConnection()
    var phase = Phase.free
    var endpoint = EndpointIndex(pool: 0, number: 0)
    /// The request it carries; none while idle or probing.
    var exchange = Handle<Exchange>.none
    /// Opened for a health check.
    var isProbe = false
    /// A health check of gRPC under way.
    var check: GRPCHealthCheck?
    /// Whether it holds a reservation in its upstream's budget, and is counted there as idle.
    var holdsRoom = false
    var isCountedIdle = false
    /// Whether it has carried a request: then the server may have closed it without our knowing yet.
    var wasUsed = false
    /// When it became idle. Meaningful while it is.
    var idleSince = MonotonicTime(nanoseconds: 0)
    /// The next idle connection to the same address. Meaningful while idle.
    var nextIdle: UpstreamIndex?
    /// Received and not yet consumed: an incomplete head, or what the client of a stream, or of a filtered answer, has no room for.
    var input = ByteBuffer()
    /// HTTP/2: frames that wait for the socket. Of a WebSocket that is ending: its last bytes.
    var output = ByteBuffer()
    /// HTTP/2: the connection's session. Its streams refer to it by `stream`. Set from the start where HTTP/2 may be spoken.
    var session: UpstreamSessionIndex?
    /// Set for the end of a stream, which has no socket.
    var stream: UpstreamStream?

    /// Whether it is the end of a stream.
    var isStream: Bool { stream != nil }

    /// Sends once of what waits in `output`.
    mutating func sendWaiting() -> IOOutcome {
        let outcome = connection.send(output)
        if case .done(let count) = outcome { output.discard(count) }
        return outcome
    }

    /// Ends the connection and resets its state for the next one.
    mutating func close() {
        // An HTTP/2 stream owns no socket: `close(-1)` would waste a system call.
        if !isStream { connection.close() }
        self = UpstreamConnection()
    }
}
