/// What the driver of a server-side connection must do next.
package enum ServerAction: Equatable, Sendable {
    /// No message is under way: look for a head in the bytes that are here (a pipelined one), then wait for more.
    case readHead
    /// Read the request body for whoever wants it.
    case readBody
    /// Write `100 Continue`, then read the body.
    case sendContinue
    /// The answer is over and the request is not: read the rest of its body and drop it, telling `discarded`.
    case discardBody
    /// The request is complete: read no further head until the answer is over.
    case waitForAnswer
    /// End the exchange, if one has begun, and answer with an error: `answerStarted` follows.
    case refuse
    /// End the exchange and close at once: what was answered so far must not look whole.
    case abort
    /// Close once everything written has gone out. `lingering`: end only the sending side, then read and drop for a bounded time until
    /// the client closes, lest unread bytes reset the connection and destroy the answer (RFC 9112 §9.6).
    case closeAfterFlush(lingering: Bool)
    /// Nothing to do that is not being done.
    case carryOn
}

/// The `Connection` field that an answer must carry.
package enum Persistence: Equatable, Sendable { case implied, keepAlive, close }

/// One server-side HTTP/1 connection.
package struct ServerMessageState: Equatable, Hashable, Sendable {
    package init() {}
    package mutating func headReceived(hasBody: Bool, keepAlive: Bool, minorVersion: UInt8, expectsContinue: Bool) -> ServerAction { .carryOn }
    /// Someone wants the request body. `hasArrived`: bytes of it are already here, so the client did not wait.
    package mutating func bodyWanted(hasArrived: Bool) -> ServerAction { .carryOn }
    package mutating func bodyReceived() -> ServerAction { .carryOn }
    /// The head of the final answer is about to be written. `unread`: content bytes of the request still to come, nil if unknown.
    /// `bodyIsWanted`: the exchange still reads the request body.
    package mutating func answerStarted(untilClose: Bool, unread: UInt64?, bodyIsWanted: Bool) -> Persistence { .implied }
    package mutating func answerFinished() -> ServerAction { .carryOn }
    /// The answer cannot be completed.
    package mutating func answerBroken() -> ServerAction { .abort }
    package mutating func discarded(_ count: Int) -> ServerAction { .carryOn }
    /// The request is malformed or late, in head or body.
    package mutating func requestFaulted() -> ServerAction { .carryOn }
    package mutating func inputClosed() -> ServerAction { .carryOn }
    package mutating func drainRequested(headBegun: Bool) -> ServerAction { .carryOn }
    package mutating func idledOut() -> ServerAction { .carryOn }
}
