import Gate
import HTTP
import Transport
import Wire

/// One request on its way: where it came from, where it went, and what of it waits.
///
/// Exchanges are used again with their buffers, so a request in the steady state allocates nothing.
package struct Exchange: ~Copyable {
    private let pin = AddressPin()
    var state = ExchangeState()
    var client = Handle<Client>.none
    var stream = StreamID.http1
    /// The connection that carries it; none before one is chosen, and where the answer is made here.
    var upstream = Handle<UpstreamConnection>.none
    var endpoint = EndpointIndex(pool: 0, number: 0)
    var dialect = Dialect.problem
    var method = Method.other
    var minorVersion: UInt8 = 1

    // MARK: waiting

    /// The head, where the request is decided about again after a wait.
    var heldHead = ByteBuffer()
    /// What came of the refresh that the request asked for.
    var refresh: RefreshAnswer?
    /// How the answer of its limits is told, while it is waited for.
    var limits: AwaitedLimits?
    /// The handler that answers it, and the request for it.
    var local: LocalExchange?
    /// When waiting ends without an answer.
    var waitsUntil: MonotonicTime?
    /// Since when it has found no room for a connection; nil while it has not looked for any in vain.
    var wantsRoomSince: MonotonicTime?

    // MARK: the request

    /// The head for the upstream and as much of the body as came with it, kept whole until the answer begins so that
    /// it can be sent again. For a handler of the gateway, the body.
    var replayBuffer = ByteBuffer(capacity: 2_048)
    var replaySent = 0
    /// Where in the replay buffer the address's own base path and name are.
    var endpointSlices = EndpointSlices()
    /// Body bytes behind the replay buffer that the upstream's socket has not taken yet.
    var pending = ByteBuffer()
    var requestIsChunked = false
    var passesTrailers = true
    var bodyLimit = UInt64.max
    var bodyCount: UInt64 = 0
    /// Milliseconds the upstream may take to its first byte, and between two.
    var timeout: UInt64 = 0
    var retriesLeft = 0

    // MARK: the answer

    var answerReadSize = AdaptiveReadSize()
    /// Carries the middle of large bodies past this process; kept for the next exchange.
    var pipe: KernelPipe?
    /// Bytes that wait in it for the upstream, or for the client: never both.
    var pipedRequest = 0
    var pipedAnswer = 0
    /// When a long answer must end.
    var life: StreamLife?
    var filter = AnswerFilter()
    /// Fields of the gateway's own for the answer.
    var answerEdits = FieldEdits()

    // MARK: telemetry

    var ids = RequestIDs()
    var record = RequestRecord()
    /// How it was decided about, should it be refused in the end.
    var note = DecisionRecord()

    /// Makes a used exchange new. Buffers that a large body once filled give their memory back.
    mutating func reset(for client: Handle<Client>, at now: MonotonicTime) {
        self.client = client
        state = ExchangeState()
        upstream = .none
        heldHead.reuse()
        replayBuffer.reuse()
        replaySent = 0
        pending.reuse()
        requestIsChunked = false
        bodyLimit = .max
        bodyCount = 0
        answerReadSize = AdaptiveReadSize()
        answerEdits.removeAll()
        record.begin(at: now)
    }

    /// Lets go of what only a request under way needs.
    mutating func end() {
        state.ended()
        if refresh != nil { refresh = nil }
        if local != nil { local = nil }
        waitsUntil = nil
        wantsRoomSince = nil
        life = nil
        filter.reset()
    }

    /// Bytes of head and early body that are kept to be sent again.
    private static var mostKept: Int { 16 * 1_024 }

    /// Whether more of the body has somewhere to go.
    var takesBody: Bool { state.takesBody(hasReplayRoom: replayBuffer.count < Self.mostKept, isFlushed: isFlushed) }

    /// Whether chunks that were received together go on together, behind each other.
    var gathersChunks: Bool { requestIsChunked && state.phase == .relaying && takesBody }

    /// Whether the upstream's socket has taken all there is of the request, or will take no more.
    var isFlushed: Bool {
        state.upstreamStoppedReading || replaySent == replayBuffer.count && pending.isEmpty && pipedRequest == 0
    }

    /// Moves out the buffer that is to be sent from; it must be put back.
    mutating func takeWaiting(_ isReplay: Bool) -> ByteBuffer {
        var taken = ByteBuffer()
        if isReplay { swap(&taken, &replayBuffer) } else { swap(&taken, &pending) }
        return taken
    }

    mutating func putBack(_ buffer: consuming ByteBuffer, _ isReplay: Bool) {
        if isReplay { replayBuffer = buffer } else { pending = buffer }
    }
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
