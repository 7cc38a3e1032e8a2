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
    /// Close once everything written has gone out. `lingering`: end only the sending side, then read and drop for a bounded
    /// time until the client closes, lest unread bytes reset the connection and destroy the answer (RFC 9112 §9.6).
    case closeAfterFlush(lingering: Bool)
    /// Nothing but what is being done already.
    case carryOn
}

/// The `Connection` field that the head of an answer must carry.
package enum Persistence: Equatable, Sendable {
    /// None: HTTP/1.1 lives on by itself.
    case implied
    /// `keep-alive`, for a client of HTTP/1.0 that asked for it.
    case keepAlive
    case close
}

/// What the next bytes of a client are.
package enum ServerReading: Equatable, Sendable {
    case head
    case body
    /// The rest of a body whose answer is over.
    case discard
    /// The next request's, which waits for the answer under way.
    case nothing
}
