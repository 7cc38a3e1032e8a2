import Gate
import HTTP
import Transport
import Wire

/// One request and its answer: the client that it came from, the facts of the request, the attempt at an upstream, the answer, and the
/// bytes that wait in between.
///
/// Exchanges are reused together with their buffers, so a request in the steady state allocates nothing. All else stands in parts that
/// the end of a request resets by assignment, so that the next one finds nothing of it.
package struct Exchange: ~Copyable {
    private let pin = AddressPin()
    var state = ExchangeState()
    var client = Handle<Client>.none
    var request = RequestFacts()
    var attempt = Attempt()
    var answer = AnswerPipe()
    /// The token, session and tier that the answer depends on, should it become a stream.
    var life: StreamLife?
    private(set) var rare: RareParts?
    /// The wait under way, with what its end needs. Set together with the state.
    private(set) var wait = Wait.none
    var counts = ExchangeCounts()
    var buffers = ExchangeBuffers()
    /// Splices the middle of large bodies; kept for the next exchange.
    var pipe: KernelPipe?
    /// The body whose bytes are in the pipe.
    var pipeDirection = BodyDirection.request
    /// Made for the first request that is recorded as spans, and kept with its buffers: most exchanges have none.
    lazy var trace = RequestTrace()
    var record = RequestRecord()
    /// How it was decided about, for `RecentRefusals` if it is refused in the end.
    var note = DecisionRecord()

    /// Begins with a request of this client.
    mutating func begin(for client: Handle<Client>, at now: MonotonicTime) {
        self.client = client
        state = ExchangeState()
        record.begin(at: now)
    }

    /// The request is over: releases what it held, and frees buffers that a large body has grown.
    mutating func end() {
        state.ended()
        answer.ended()
        request = RequestFacts()
        attempt.reset()
        answer = AnswerPipe()
        if life != nil { life = nil }
        if rare != nil { rare = nil }
        wait = .none
        counts = ExchangeCounts()
        buffers.reuse()
    }

    /// The parts that few exchanges have, made if it has none yet.
    mutating func makeRare() -> RareParts {
        if let rare { return rare }
        let made = RareParts()
        rare = made
        return made
    }

    /// Whether it waits for a stored answer, or is answered from one.
    @inline(__always) var readsStored: Bool {
        if case .fetch = wait { return true }
        if case .stored = answer.source { return true }
        return false
    }

    // MARK: waiting

    /// The request waits before it goes on, or for its handler.
    mutating func wait(for wait: Wait) {
        state.wait(for: wait.kind)
        self.wait = wait
    }

    /// An answer has come; returns the wait that it ends, or nil if the request does not wait for it any more.
    mutating func resume(from kind: ExchangeState.Wait) -> Wait? {
        guard state.resumed(from: kind) else { return nil }
        defer { wait = .none }
        return wait
    }

    /// Keeps the head of a request that will be decided about again.
    mutating func hold(_ head: RawSpan) {
        if state.waitsForDecision { buffers.heldHead.append(head) }
    }

    /// After a wait: takes the request to the target that was chosen before it.
    mutating func resumeTarget() {
        let isWhole = state.hasWholeRequest
        var isOwn = rare?.local != nil
        if case .stored = answer.source { isOwn = true }
        if isOwn { state.collect(isWhole: isWhole) } else { state.forward(isWhole: isWhole) }
    }

    // MARK: the request's body

    /// Whether more of the body may be read now.
    var takesBody: Bool { state.takesBody(hasReplayRoom: attempt.hasReplayRoom, isFlushed: isFlushed) }

    /// Whether chunks that were received together are sent together.
    var gathersChunks: Bool { attempt.isChunked && state.phase == .relaying && takesBody }

    /// Whether nothing waits for the upstream's socket, or the upstream has stopped reading.
    var isFlushed: Bool {
        state.upstreamStoppedReading || attempt.unsentCount == 0 && !hasPiped(.request)
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
            attempt.replay.appendContent(content, chunked: attempt.isChunked)
            return true
        }
        state.streamed()
        if attempt.isChunked { attempt.pending.appendContent(content, chunked: true) }
        return attempt.isChunked
    }

    /// Appends the end of the body. It goes behind the replay buffer while that holds all of the request.
    mutating func appendEnd(_ end: RawSpan) {
        attempt.appendEnd(end, isKept: state.delivery != .streamed)
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
    /// Empties a buffer that is kept for reuse, and frees it above `limit` bytes.
    mutating func reuse(upTo limit: Int = 16_384) {
        if capacity > limit { self = ByteBuffer() } else { removeAll() }
    }
}
