import Gate
import HTTP
import Transport
import Wire

/// One connection of a client. At rest it is no more than its socket and a few words: its buffers own memory only while
/// bytes wait in them.
struct Client: ~Copyable {
    private let pin = AddressPin()
    enum Phase: Equatable {
        /// Not connected: the index is free.
        case free
        /// The PROXY protocol header comes first.
        case announcing
        case handshaking
        case open
        /// Closes as soon as `output` has gone out.
        case flushing(lingering: Bool)
        /// The answer has gone out and our side is shut; what the client still sends is read and dropped.
        case lingering
    }

    var connection = Connection()
    var http = ServerConnection()
    var phase = Phase.free
    /// Whether the client has sent its end of stream.
    var inputEnded = false
    /// Whether a request has come on it.
    var wasUsed = false
    /// When an idle connection is closed, while it has yet to give memory back.
    var idlesUntil: MonotonicTime?
    var listener = 0
    var peer = Peer(address: IPAddress(v4: 0), port: 0, isTLS: false, isUnix: false)
    /// The request under way, or none.
    var exchange = Handle<Exchange>.none
    /// Received and not yet consumed: an incomplete head, or what was pipelined behind the request under way.
    var input = ByteBuffer()
    /// To be sent as soon as the socket takes it.
    var output = ByteBuffer()
    /// Whether bytes for it wait in its exchange's pipe, in front of `output`.
    var awaitsPipe = false
    var readSize = AdaptiveReadSize()
    /// How the body under way arrives; while lingering, how much was dropped.
    var arrival = MinimumRate()
    /// How `output` is taken, from when something first waited in it.
    var taking = MinimumRate()

    /// Whether the socket has not taken all that there is for it.
    var hasUnsent: Bool { awaitsPipe || !output.isEmpty }

    /// Whether nothing can be done for it until its exchange moves.
    var isBusy: Bool {
        guard case .nothing = http.reading else { return false }
        return phase == .open && !hasUnsent
    }

    /// Whether the next bytes are a head, or a body that has a reader.
    var readsHead: Bool { if case .head = http.reading { true } else { false } }
    var readsBody: Bool { if case .body = http.reading { true } else { false } }

    /// Sends once of what waits.
    mutating func sendWaiting() -> IOOutcome {
        let outcome = connection.send(output)
        if case .done(let count) = outcome { output.discard(count) }
        return outcome
    }

    /// Ends the connection and forgets all about it.
    mutating func close(resets: Bool) {
        if resets { connection.abort() } else { connection.close() }
        http = ServerConnection()
        phase = .free
        inputEnded = false
        wasUsed = false
        idlesUntil = nil
        exchange = .none
        input = ByteBuffer()
        output = ByteBuffer()
        awaitsPipe = false
        readSize = AdaptiveReadSize()
    }
}
