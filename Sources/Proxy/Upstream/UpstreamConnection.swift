import HTTP
import Transport
import Wire

/// One connection to an upstream's address, kept for the next request when an answer has ended well.
struct UpstreamConnection: ~Copyable {
    private let pin = AddressPin()
    enum Phase: Equatable {
        /// Not connected: the index is free.
        case free
        case connecting
        case handshaking
        /// Carries `exchange`.
        case busy
        /// In the pool.
        case idle
        /// Carries a health check, from the request to the verdict.
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
    /// Whether it is counted in its upstream's budget, and there as idle.
    var holdsRoom = false
    var isCountedIdle = false
    /// Whether an earlier request used it: then the server may have closed it, and the gateway not know yet.
    var wasUsed = false
    /// Since when it is idle. Meaningful while it is.
    var idleSince = MonotonicTime(nanoseconds: 0)
    /// The next idle connection to the same address. Meaningful while idle.
    var nextIdle: UpstreamIndex?
    /// Received and not yet consumed: an incomplete head, or what the filter has no room for.
    var input = ByteBuffer()

    /// Ends the connection and forgets all about it.
    mutating func close() {
        connection.close()
        http = ClientConnection()
        phase = .free
        exchange = .none
        isProbe = false
        holdsRoom = false
        wasUsed = false
        input = ByteBuffer()
    }
}
