/// State machine of one request, from its head to the end of its answer. `Worker` moves the bytes.
///
/// Calls that only a bug of the driver can make trap: going on would mix up messages of different users.
struct ExchangeState: Equatable, Hashable, Sendable {
    enum Phase: Equatable, Hashable, Sendable {
        /// Gate decides. Left by a wait, a target or an answer.
        case deciding
        /// Waits for an asynchronous answer; no more of the body is read. Left by that answer, its deadline, or the client's end.
        case waiting(Wait)
        /// The body is collected for a handler of the gateway. Left by the end of the body.
        case collecting
        /// The answer comes from a handler of the gateway, in parts, or from the cache. Left by its end.
        case producing
        /// Forwarded; the connection to the upstream is not established. Left by the connection, or an answer of the gateway.
        case connecting
        /// The connection to the upstream is established. Left by its loss, the end of the answer, or an upgrade.
        case relaying
        /// The upstream has accepted a WebSocket: bytes both ways. Left by its end.
        case tunnel
        /// The upstream's part is over; the last bytes of the answer go to the client. Left by the end.
        case finishing
        /// The answer is over, or there will be none. Final.
        case answered
    }

    /// The answer that a request waits for.
    enum Wait: CaseIterable, Sendable {
        /// The caller's tier, from the accounts.
        case entitlement
        /// The refresh of the caller's expired token.
        case refresh
        /// The verdict of limits that are counted in Redis.
        case limits
        /// The answer of a handler of the gateway.
        case handler
        /// A connection within `max-connections`, which other workers may free.
        case room
        /// An answer that another worker has or fetches.
        case fetch
    }

    /// How much of the request an upstream may have seen.
    enum Delivery: Sendable {
        case nothing
        /// Only bytes that the replay buffer still holds.
        case replayable
        /// More than the replay buffer holds: it cannot be retried.
        case streamed
    }

    /// How far the upstream's answer has come.
    enum Answer: Sendable {
        case none
        /// Its head was read and is held back: the client can still get another answer.
        case held
        /// The client was sent some of it.
        case started
    }

    private(set) var phase = Phase.deciding
    private(set) var delivery = Delivery.nothing
    private(set) var answer = Answer.none
    /// Whether all of the request has been received.
    private(set) var hasWholeRequest = false
    /// Whether the upstream takes no more of the request. The rest is dropped; its answer, if any, is still read.
    private(set) var upstreamStoppedReading = false

    // MARK: deciding

    /// The request waits before it goes on, or for its handler.
    mutating func wait(for wait: Wait) {
        switch (phase, wait) {
        // A request that is only checked has no target to wait in.
        case (.deciding, .entitlement), (.deciding, .refresh), (.deciding, .limits), (.connecting, .limits), (.collecting, .limits),
            (.collecting, .handler), (.connecting, .room), (.connecting, .fetch):
            phase = .waiting(wait)
        case (.deciding, _), (.waiting, _), (.collecting, _), (.producing, _), (.connecting, _), (.relaying, _), (.tunnel, _),
            (.finishing, _), (.answered, _):
            preconditionFailure("a wait out of turn")
        }
    }

    /// An answer has come; returns whether the request still waits for it.
    mutating func resumed(from wait: Wait) -> Bool {
        guard phase == .waiting(wait) else { return false }
        phase = .deciding
        return true
    }

    /// Whether it waits for an answer after which it is decided about again.
    var waitsForDecision: Bool { phase == .waiting(.entitlement) || phase == .waiting(.refresh) }

    /// The request is to be forwarded; `isWhole`: it has no content to come.
    mutating func forward(isWhole: Bool) {
        precondition(phase == .deciding, "forwarded out of turn")
        phase = .connecting
        hasWholeRequest = hasWholeRequest || isWhole
    }

    /// The request is for a handler of the gateway; `isWhole` likewise.
    mutating func collect(isWhole: Bool) {
        precondition(phase == .deciding, "collected out of turn")
        phase = .collecting
        hasWholeRequest = hasWholeRequest || isWhole
    }

    // MARK: the request

    /// The last byte of the request was received.
    mutating func requestReceived() { hasWholeRequest = true }

    /// The connection to the upstream stands.
    mutating func connected() {
        precondition(phase == .connecting, "connected out of turn")
        phase = .relaying
    }

    /// Some of the replay buffer was sent.
    mutating func sent() {
        if delivery == .nothing { delivery = .replayable }
    }

    /// Content goes to the upstream that the replay buffer does not hold.
    mutating func streamed() { delivery = .streamed }

    /// The upstream takes no more of the request.
    mutating func stoppedReading() { upstreamStoppedReading = true }

    /// Backpressure: whether more of the body may be read.
    ///
    /// - Parameters:
    ///   - hasReplayRoom: the replay buffer is not full.
    ///   - isFlushed: nothing waits for the upstream's socket.
    func takesBody(hasReplayRoom: Bool, isFlushed: Bool) -> Bool {
        switch phase {
        case .deciding, .waiting, .producing, .tunnel, .finishing, .answered: false
        case .collecting: true
        case .connecting: hasReplayRoom
        case .relaying: upstreamStoppedReading || isFlushed
        }
    }

    // MARK: the answer

    /// The answer comes from a handler or the cache.
    mutating func produce() {
        precondition((phase == .deciding || phase == .collecting) && hasWholeRequest && answer == .none, "produced out of turn")
        phase = .producing
    }

    /// The head of the final answer was read; `isHeld`: a stage may still refuse it.
    mutating func answerBegan(isHeld: Bool) {
        precondition((phase == .relaying || phase == .producing) && answer == .none, "an answer out of turn")
        answer = isHeld ? .held : .started
    }

    /// The upstream has accepted a WebSocket.
    mutating func upgraded() {
        precondition(phase == .relaying && answer == .none, "upgraded out of turn")
        phase = .tunnel
        answer = .started
    }

    /// The head that was held back goes to the client.
    mutating func answerReleased() {
        precondition(answer == .held, "released out of turn")
        answer = .started
    }

    /// Whether the request may be retried after this loss; `isIdempotent` by its method (RFC 9110 §9.2.2).
    func isRetryable(after loss: UpstreamLoss, isIdempotent: Bool) -> Bool {
        let traits = loss.row.traits
        guard answer == .none, delivery != .streamed, traits.contains(.retryable) else { return false }
        return traits.contains(.undelivered) || delivery == .nothing || isIdempotent
    }

    /// The connection is gone; the request is retried or answered by the gateway.
    mutating func disconnected() {
        precondition(phase == .connecting || phase == .relaying || phase == .tunnel, "disconnected out of turn")
        phase = .connecting
    }

    /// The request is retried from the start of its replay buffer.
    mutating func retried() {
        precondition(phase == .connecting && answer == .none && delivery != .streamed, "retried out of turn")
        delivery = .nothing
        upstreamStoppedReading = false
    }

    /// The connection is given back, as the request needs it no more.
    mutating func released() {
        precondition(phase == .connecting || phase == .relaying || phase == .tunnel, "released out of turn")
        phase = .finishing
    }

    /// Nothing more will happen to the request.
    mutating func ended() { phase = .answered }
}
