import Gate
import HTTP
import Transport
import Wire

/// One request on its way: where it came from, where it went, and what of it waits to go on.
///
/// Exchanges are used again with their buffers, so a request in the steady state allocates nothing.
struct Exchange: ~Copyable {
    private let inPlace = InPlace()
    var client = Handle.none
    /// The connection that carries it, or none: not chosen yet, or the answer is made here.
    var upstream = Handle.none
    var pool = 0
    var endpoint = 0
    /// Answered by the control plane, not by an upstream.
    var isLocal = false
    var local: LocalExchange?
    /// When the handler that has the request must have answered.
    var localDeadline: MonotonicTime?
    var dialect = Dialect.problem
    /// What its limits' answer will be told by, while it is awaited: nothing of the request goes on before.
    var awaited: AwaitedLimits?

    /// The head for the upstream and as much of the body as came with it, kept whole until the answer begins so that
    /// it can be sent again. For a local request, its body.
    var opening = ByteBuffer(capacity: 2_048)
    var openingSent = 0
    /// Where in the opening the words stand that belong to the address it goes to.
    var addressed = AddressedWords()
    /// Whether any of it may have reached the upstream.
    var wasSent = false
    /// Body bytes behind the opening that the upstream's socket has not taken yet.
    var pending = ByteBuffer()
    /// Carries the middle of large bodies past this process; kept for the next exchange.
    var pipe: KernelPipe?
    /// Bytes that wait in it for the upstream, or for the client: never both.
    var pipedRequest = 0
    var pipedAnswer = 0
    var requestIsChunked = false
    var passesRequestTrailers = true
    /// Whether all of the request has been received.
    var requestEnded = false
    /// Whether `opening` is all that was sent.
    var isReplayable = true
    /// Whether the upstream has stopped taking the request: the rest is dropped, and the answer, if any, is still read.
    var isCut = false
    /// Waits for another worker to close an idle connection; its address is chosen.
    var awaitsRoom = false
    /// Whether the upstream's connection stands, so that body bytes go straight there.
    var isConnected = false
    var bodyLimit = UInt64.max
    var bodyCount: UInt64 = 0

    var method = Method.other
    var minorVersion: UInt8 = 1
    /// Milliseconds the upstream may take to its first byte, and between two.
    var timeout: UInt64 = 0
    var retriesLeft = 0

    var answerBody = BodyDecoder(.none)
    var delimiting = BodyFraming.none
    var answerRoom = ReceiveRoom()
    var interimCount = 0
    var answerStarted = false
    /// What a long answer is bound to.
    var life: StreamLife?
    var upstreamKeepsAlive = false
    /// What the route's filters make of the answer.
    var filter = AnswerFilter()

    /// Field lines of our own for the answer, and whether limits are among them.
    var lines = ByteBuffer(capacity: 256)
    var saysLimits = false
    var marks = RequestMarks()
    var record = RequestRecord()
    /// How it was decided about, should it be refused in the end.
    var note = DecisionNote()

    /// Makes a used exchange new. Buffers that a large body once filled give their memory back.
    mutating func reset(for client: Handle) {
        self.client = client
        upstream = .none
        if isLocal {
            isLocal = false
            local = nil
            localDeadline = nil
        }
        awaited = nil
        opening.reuse()
        openingSent = 0
        wasSent = false
        pending.reuse()
        requestIsChunked = false
        requestEnded = false
        isReplayable = true
        isCut = false
        awaitsRoom = false
        isConnected = false
        bodyCount = 0
        answerRoom = ReceiveRoom()
        interimCount = 0
        answerStarted = false
        life = nil
        upstreamKeepsAlive = false
        filter.reset()
        lines.reuse()
        saysLimits = false
    }

    /// Moves out the buffer that is to be sent from; it must be put back.
    mutating func takeWaiting(_ isOpening: Bool) -> ByteBuffer {
        var taken = ByteBuffer()
        if isOpening {
            swap(&taken, &opening)
        } else {
            swap(&taken, &pending)
        }
        return taken
    }

    mutating func putBack(_ buffer: consuming ByteBuffer, _ isOpening: Bool) {
        if isOpening {
            opening = buffer
        } else {
            pending = buffer
        }
    }

    /// Whether the client has been given some of the answer.
    var answerIsOut: Bool { answerStarted && !filter.isHeld }

    /// Whether all that there is of the request has been taken by the upstream's socket, or never will be.
    var isFlushed: Bool { isCut || openingSent == opening.count && pending.isEmpty && pipedRequest == 0 }
}

extension ByteBuffer {
    /// Empties a buffer that is kept for later, and lets go of more memory than a kept buffer should hold.
    mutating func reuse() {
        if capacity > 16_384 {
            self = ByteBuffer()
        } else {
            removeAll()
        }
    }
}
