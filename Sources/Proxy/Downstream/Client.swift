import Gate
import HTTP
import Transport
import Wire

/// One client connection, or the end of one stream of an HTTP/2 connection. An idle one owns no buffers: they have memory only while
/// bytes wait in them.
struct Client: ~Copyable {
    private let pin = AddressPin()
    enum Phase: Equatable {
        /// Not connected: the index is free.
        case free
        /// The PROXY protocol header must come first.
        case announcing
        case handshaking
        /// The first bytes tell HTTP/1 from HTTP/2 (`;h2c`).
        case greeting
        /// HTTP/1, or one stream.
        case open
        /// A WebSocket: what comes is frames for the upstream of its exchange.
        case tunnel
        /// HTTP/2: the requests are on its streams, each with a `Client` of its own.
        case multiplexed
        /// Closes as soon as `output` has gone out.
        case flushing(lingering: Bool)
        /// All was sent and our side is shut; what the client still sends is read and dropped (RFC 9112 §9.6).
        case lingering
    }

    var connection = Connection()
    var http = ServerConnection()
    var phase = Phase.free
    /// Whether the client has sent its end of stream.
    var inputEnded = false
    /// Whether it has carried a request.
    var wasUsed = false
    /// When an idle connection with TLS or HTTP/2 is closed. Set until it has freed its buffers.
    var idlesUntil: MonotonicTime?
    var listener = 0
    var peer = Peer(address: IPAddress(v4: 0), port: 0, isTLS: false, isUnix: false)
    /// For whom its requests count: nil behind a trusted proxy, which names the client of each request. A stream's end has that of its
    /// connection.
    var share: ShareIndex?
    /// The request under way, or none.
    var exchange = Handle<Exchange>.none
    /// Received and not yet consumed: an incomplete head, or what was pipelined behind the request under way.
    var input = ByteBuffer()
    /// Sent as soon as the socket, or the windows of the stream, take it.
    var output = ByteBuffer()
    /// HTTP/2: the connection's session. Its streams refer to it by `stream`.
    var session: SessionIndex?
    /// Set for the end of a stream, which has no socket.
    var stream: StreamRef?
    /// Whether it stands for those who wait for a fetch, and has no socket.
    var isFetch = false
    /// The trailer fields of a stream's answer, sent behind `output`.
    var trailers = ByteBuffer()
    /// Whether bytes for it wait in its exchange's pipe, ahead of `output`.
    var awaitsPipe = false
    var readSize = AdaptiveReadSize()
    /// The rate at which the request's body arrives; while lingering, how much was dropped.
    var arrival = MinimumRate()
    /// When content of its request last came, or the wait for it began.
    var contentAt = MonotonicTime(nanoseconds: 0)
    /// The rate at which the client takes what waits for it, from when it first had to wait.
    var taking = MinimumRate()

    /// Whether it is the end of a stream.
    var isStream: Bool { stream != nil }

    var hasSocket: Bool { stream == nil && !isFetch }

    /// Whether bytes wait for its socket, or for its stream's windows.
    var hasUnsent: Bool { awaitsPipe || !output.isEmpty }

    /// Whether it can do nothing until its exchange moves on.
    var isBusy: Bool {
        guard case .nothing = http.reading else { return false }
        return phase == .open && !hasUnsent
    }

    /// Whether the next bytes are a head, or a body that has a reader.
    var readsHead: Bool { if case .head = http.reading { true } else { false } }
    var readsBody: Bool { if case .body = http.reading { true } else { false } }

    /// Sends the first `count` bytes of `input` behind what waits, and consumes them.
    mutating func send(_ count: Int, of input: inout ByteBuffer) -> SendOutcome {
        guard !awaitsPipe else {
            output.move(count, from: &input)
            return .queued
        }
        return connection.send(count, of: &input, queueing: &output)
    }

    /// Sends once of what waits in `output`.
    mutating func sendWaiting() -> IOOutcome {
        let outcome = connection.send(output)
        if case .done(let count) = outcome { output.discard(count) }
        return outcome
    }

    /// Ends the connection and resets its state for the next one.
    mutating func close(resets: Bool) {
        if hasSocket {
            if resets { connection.abort() } else { connection.close() }
        }
        self = Client()
    }
}

/// The place of a stream's end: its connection's client and session.
struct StreamRef {
    let connection: ClientIndex
    let session: SessionIndex
    let id: StreamID
    /// Whether the final head of its answer was sent: what follows is content.
    var hasHead = false
    /// Whether its upstream has paused for want of a window, and the send timeout runs.
    var awaitsWindow = false
    /// The machine's `windowOpenings` when the stream began, or was last excused for want of a window.
    var windowOpenings: UInt32
    /// How often it was excused.
    var excuses = 0
}
