import Gate
import HTTP
import Transport
import Wire

/// One client connection. An idle one owns no buffers: they have memory only while bytes wait in them.
struct Client: ~Copyable {
    private let pin = AddressPin()
    enum Phase: Equatable {
        /// Not connected: the index is free.
        case free
        /// The PROXY protocol header must come first.
        case announcing
        case handshaking
        case open
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
    /// When an idle TLS connection is closed. Set until it has freed its session's buffers.
    var idlesUntil: MonotonicTime?
    var listener = 0
    var peer = Peer(address: IPAddress(v4: 0), port: 0, isTLS: false, isUnix: false)
    /// The request under way, or none.
    var exchange = Handle<Exchange>.none
    /// Received and not yet consumed: an incomplete head, or what was pipelined behind the request under way.
    var input = ByteBuffer()
    /// Sent as soon as the socket takes it.
    var output = ByteBuffer()
    /// Whether bytes for it wait in its exchange's pipe, ahead of `output`.
    var awaitsPipe = false
    var readSize = AdaptiveReadSize()
    /// The rate at which the request's body arrives; while lingering, how much was dropped.
    var arrival = MinimumRate()
    /// The rate at which the client takes what waits for it, from when it first had to wait.
    var taking = MinimumRate()

    /// Whether bytes wait for its socket.
    var hasUnsent: Bool { awaitsPipe || !output.isEmpty }

    /// Whether it can do nothing until its exchange moves on.
    var isBusy: Bool {
        guard case .nothing = http.reading else { return false }
        return phase == .open && !hasUnsent
    }

    /// Whether the next bytes are a head, or a body that has a reader.
    var readsHead: Bool { if case .head = http.reading { true } else { false } }
    var readsBody: Bool { if case .body = http.reading { true } else { false } }

    /// Backpressure: bytes of content that `stream` takes now; see `ServerConnection.room`.
    func room(on stream: StreamID) -> Int { http.room(stream, hasUnsent: hasUnsent) }

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
        if resets { connection.abort() } else { connection.close() }
        self = Client()
    }
}
