import Gate
import HTTP
import Transport
import Wire

/// One request and its answer: the client and stream that it came on, the upstream connection that carries it, and the bytes that
/// wait in between.
///
/// Exchanges are reused together with their buffers, so a request in the steady state allocates nothing.
package struct Exchange: ~Copyable {
    private let pin = AddressPin()
    var state = ExchangeState()
    var client = Handle<Client>.none
    /// The connection that carries it; none before one is chosen, and for an answer of the gateway's own.
    var upstream = Handle<UpstreamConnection>.none
    var endpoint = EndpointIndex(pool: 0, number: 0)
    var dialect = Dialect.problem
    var method = Method.other
    var version = HTTPVersion.http11

    // MARK: waiting

    /// The request's head, kept while it waits for an entitlement or a refresh, after which it is decided about again.
    var heldHead = ByteBuffer()
    /// Where the request was described, if it is only checked. Method and version of the exchange are those of the check.
    var check: CheckEndpoint?
    /// The outcome of the refresh that the request asked for.
    var refresh: RefreshAnswer?
    /// When that refresh began and ended.
    var refreshBegan = MonotonicTime(nanoseconds: 0)
    var refreshEnded = MonotonicTime(nanoseconds: 0)
    /// Set while Redis decides the request's limits; forwarding waits.
    var limits: AwaitedLimits?
    /// The handler that answers it, and the request for it.
    var local: LocalExchange?
    /// The source of an answer that a handler sends in parts.
    var source: LocalStream?
    /// Deadline of the wait under way; nil for a wait that has none.
    var waitsUntil: MonotonicTime?
    /// For whom it counts: its client, once it was looked for room. Kept until the exchange ends.
    var share: ShareIndex?
    /// Whether it counts for `maxRequests`.
    var holdsSlot = false
    /// Whether it counts as a long answer instead.
    var isLong = false
    /// When it first found no room for a connection; nil until then.
    var wantsRoomSince: MonotonicTime?

    // MARK: the request

    /// The head for the upstream and the start of the body, kept until the answer begins so that it can be sent again. For a
    /// handler of the gateway, the body; for a check, the fields of the answer that lets the request pass.
    var replayBuffer = ByteBuffer()
    /// Bytes of the replay buffer that were sent on the current connection.
    var replaySent = 0
    /// The parts of the replay buffer that belong to the upstream's address, and the offer of a WebSocket.
    var endpointSlices = EndpointSlices()
    /// Whether it is the handshake of a WebSocket.
    var asksForTunnel: Bool { endpointSlices.offer > 0 }
    /// Body bytes behind the replay buffer that the upstream's socket has not taken yet.
    var pending = ByteBuffer()
    /// Whether content goes out in chunks: its length is not known, and the upstream speaks HTTP/1.1.
    var requestIsChunked = false
    /// Whether content is kept without chunks because the upstream speaks HTTP/2, or may. See `reframe`.
    var isForHTTP2 = false
    var hasUnknownLength = false
    /// Whether the client ended the request with its head: there is no content, not even an empty frame of it.
    var isHeadAlone = false
    /// Trailer fields for an upstream that speaks HTTP/2, as lines.
    var requestTrailers = ByteBuffer()
    var passesTrailers = true
    var bodyLimit = UInt64.max
    /// Milliseconds the upstream may take to its first byte, and between two.
    var timeout: UInt64 = 0
    var retriesLeft = 0
    /// Whether a reused connection was closed under it. The upstream may have done so because of this request, which must not end one
    /// reused connection after the other.
    var needsNewConnection = false
    /// The counts of its upstream that it is part of.
    var holdings = RequestHoldings()
    /// When the client gives up (`grpc-timeout`); nil for never.
    var deadline: MonotonicTime?

    // MARK: WebSocket

    /// Whether the token of a handshake came with the subprotocol `bearer`.
    var offersBearer = false
    /// The count of it among its subject's WebSockets.
    var socket: LimitKey?
    /// Set once the upstream has accepted the handshake.
    var tunnel: Tunnel?

    // MARK: the answer

    var answerReadSize = AdaptiveReadSize()
    /// Splices the middle of large bodies; kept for the next exchange.
    var pipe: KernelPipe?
    /// The body whose bytes are in the pipe.
    var pipeDirection = BodyDirection.request
    /// The token, session and tier that its answer depends on, should it become a stream.
    var life: StreamLife?
    var streamRule = StreamRule()
    /// The place between the frames of an answer that has any.
    var frames = FrameScan.none
    /// Set while its answer is a stream.
    var live: LiveStream?
    var filter = AnswerFilter()
    /// Fields of the gateway's own for the answer.
    var answerEdits = FieldEdits()

    // MARK: telemetry

    /// `X-Request-Id`: 36 bytes of our own, or a trusted proxy's.
    var requestID = ByteBuffer(capacity: 40)
    /// Whether the request is recorded as spans, in `trace`.
    var isTraced = false
    /// Made for the first request that is recorded, and kept with its buffers: most exchanges have none.
    lazy var trace = RequestTrace()
    var record = RequestRecord()
    /// How it was decided about, for `RecentRefusals` if it is refused in the end.
    var note = DecisionRecord()

    /// Prepares a reused exchange for the next request. Buffers that a large body has grown are freed.
    mutating func reset(for client: Handle<Client>, at now: MonotonicTime) {
        self.client = client
        check = nil
        state = ExchangeState()
        upstream = .none
        heldHead.reuse()
        replayBuffer.reuse()
        replaySent = 0
        needsNewConnection = false
        endpointSlices = EndpointSlices()
        pending.reuse()
        requestIsChunked = false
        isForHTTP2 = false
        if !requestTrailers.isEmpty { requestTrailers.reuse() }
        bodyLimit = .max
        answerReadSize = AdaptiveReadSize()
        answerEdits.removeAll()
        record.begin(at: now)
    }

    /// Releases what only a request under way needs.
    mutating func end() {
        state.ended()
        if refresh != nil { refresh = nil }
        isTraced = false
        if local != nil { local = nil }
        if source != nil { source.take()?.ended() }
        waitsUntil = nil
        wantsRoomSince = nil
        deadline = nil
        life = nil
        frames = .none
        live = nil
        tunnel = nil
        filter.reset()
    }

    /// Keeps the head of a request that will be decided about again.
    mutating func hold(_ head: RawSpan) {
        if state.waitsForDecision { heldHead.append(head) }
    }

    /// After a wait: takes the request to the target that was chosen before it.
    mutating func resumeTarget() {
        let isWhole = state.hasWholeRequest
        if local != nil { state.collect(isWhole: isWhole) } else { state.forward(isWhole: isWhole) }
    }

    /// Sends the request to another address, whose base path and name its head must carry.
    mutating func readdress(to endpoint: EndpointIndex, at address: UpstreamAddress) {
        self.endpoint = endpoint
        ForwardedRequest.readdress(&replayBuffer, &endpointSlices, to: address)
    }

    // MARK: the request's body

    /// Bytes of head and early body that are kept to be sent again.
    private static var mostKept: Int { 16 * 1_024 }

    /// Whether more of the body may be read now.
    var takesBody: Bool { state.takesBody(hasReplayRoom: replayBuffer.count < Self.mostKept, isFlushed: isFlushed) }

    /// Whether chunks that were received together are sent together.
    var gathersChunks: Bool { requestIsChunked && state.phase == .relaying && takesBody }

    /// Whether nothing waits for the upstream's socket, or the upstream has stopped reading.
    var isFlushed: Bool {
        state.upstreamStoppedReading || replaySent == replayBuffer.count && pending.isEmpty && !hasPiped(.request)
    }

    /// Whether the upstream has all that has come of a request that is not complete, so that it waits for the client.
    var isClientAwaited: Bool {
        state.phase == .relaying && !state.hasWholeRequest && !state.upstreamStoppedReading && isFlushed
    }

    /// Whether all of it was received and sent.
    var isSent: Bool { state.hasWholeRequest && isFlushed && !state.upstreamStoppedReading }

    /// Queues content: in the replay buffer while there is no connection, or behind other chunks. Returns false for content that
    /// is sent at once.
    mutating func queue(_ content: RawSpan) -> Bool {
        guard state.phase == .relaying else {
            replayBuffer.appendContent(content, chunked: requestIsChunked)
            return true
        }
        state.streamed()
        if requestIsChunked { pending.appendContent(content, chunked: true) }
        return requestIsChunked
    }

    /// Appends the end of the body. It goes behind the replay buffer while that holds all of the request.
    mutating func appendEnd(_ end: RawSpan) {
        switch state.delivery {
        case .nothing, .replayable: replayBuffer.append(end)
        case .streamed: pending.append(end)
        }
        requestIsChunked = false
    }

    /// Sends once of what waits for the upstream: from the pipe, the replay buffer, or what is queued behind it.
    mutating func sendWaiting(on connection: inout Connection) -> IOOutcome {
        if hasPiped(.request) { return pipe!.drain(into: connection.socket) }
        let isReplay = replaySent < replayBuffer.count
        let outcome = isReplay ? connection.send(replayBuffer, from: replaySent) : connection.send(pending)
        // With TLS the upstream may have received part of a record although none counts as sent.
        if !connection.isPlain { state.sent() }
        guard case .done(let count) = outcome else { return outcome }
        state.sent()
        if isReplay { replaySent += count } else { pending.discard(count) }
        return outcome
    }

    // MARK: both bodies

    /// Counts content of a body as it passes.
    mutating func passed(_ count: Int, _ direction: BodyDirection) {
        switch direction {
        case .request: record.bytesIn += UInt64(count)
        case .answer: record.bytesOut += UInt64(count)
        }
    }

    // MARK: the pipe

    /// Bytes that wait in the pipe.
    var pipedCount: Int {
        switch pipe {
        case .none: 0
        case .some(let pipe): pipe.count
        }
    }

    /// Whether bytes of this body wait in the pipe.
    func hasPiped(_ direction: BodyDirection) -> Bool { pipedCount > 0 && pipeDirection == direction }
}

extension ByteBuffer {
    /// Empties a buffer that is kept for reuse, and frees it above 16 KiB.
    mutating func reuse() {
        if capacity > 16_384 { self = ByteBuffer() } else { removeAll() }
    }
}
