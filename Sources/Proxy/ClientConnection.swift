import Gate
import HTTP
import Transport
import Wire

/// One connection of a client; at rest no more than its socket and a few words, for its buffers own memory only while
/// bytes wait in them.
struct ClientConnection: ~Copyable {
    private let inPlace = InPlace()
    enum Phase: Equatable {
        /// Nothing is connected here: the place is free.
        case free
        /// The PROXY protocol header has to come first.
        case announcing
        case handshaking
        case open
        /// Closes as soon as `output` has gone out.
        case flushing(lingering: Bool)
        /// The answer has gone out and our side is shut; what the client still sends is read and dropped.
        case lingering
    }

    /// What a request waits for before it is decided about.
    enum Parking: Equatable {
        case none
        /// What the accounts say of the caller.
        case standing
        /// The refresh of this number.
        case refresh(UInt64)
    }

    /// What the next bytes received are for.
    enum Reading: Equatable { case head, body, discard, nothing }

    var channel = Channel(socket: Socket(descriptor: -1))
    var phase = Phase.free
    var reading = Reading.head
    /// Whether a head has begun to arrive and not ended.
    var headBegun = false
    /// Empty lines that came since the last request.
    var emptyLines: UInt8 = 0
    /// Whether the client has sent its end of stream.
    var inputEnded = false
    /// What its request, whose head is at the start of `input`, waits for.
    var parking = Parking.none
    /// Since when it has waited for that.
    var parkedAt: MonotonicTime?
    /// What came of the refresh that its request asked for, until the request goes on.
    var refresh: RefreshAnswer?
    /// Whether a request has come on it.
    var wasUsed = false
    /// When an idle connection is closed, while it has yet to come to rest.
    var idlesUntil: MonotonicTime?
    var interest = Interest()
    var listener = 0
    var peer = Peer(address: IPAddress(v4: 0), port: 0, isTLS: false, isUnix: false)
    var messages = ServerMessageState()
    var scan = HeadScan()
    var body = BodyDecoder(.none)
    /// The request under way, or none.
    var exchange = Handle.none
    /// Received and not yet consumed: an incomplete head, or what was pipelined behind the request under way.
    var input = ByteBuffer()
    /// To be sent as soon as the socket takes it.
    var output = ByteBuffer()
    /// Whether bytes for it wait in its exchange's pipe, in front of `output`.
    var awaitsPipe = false
    var room = ReceiveRoom()
    /// How the body under way comes; while lingering, what is dropped.
    var arrival = Pace()
    /// How `output` is taken, from when something first waited in it.
    var taking = Pace()

    /// Whether the socket has not taken all that there is for it.
    var hasUnsent: Bool { awaitsPipe || !output.isEmpty }

    /// Sends once of what waits.
    mutating func sendWaiting(_ workspace: inout TLSWorkspace) -> IOOutcome {
        let outcome = channel.send(output, &workspace)
        if case .done(let count) = outcome { output.discard(count) }
        return outcome
    }
}
