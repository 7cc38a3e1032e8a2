/// The next step of the driver of a server connection.
package enum ServerAction: Equatable, Sendable {
    /// No message is under way: look for a head in the bytes that are here (a pipelined one), then wait for more.
    case readHead
    /// Read the request body.
    case readBody
    /// Write `100 Continue`, then read the body.
    case sendContinue
    /// The answer is over and the request is not: read the rest of its body and drop it, calling `discarded`.
    case discardBody
    /// The request is complete: read no further head until the answer is over.
    case waitForAnswer
    /// End the exchange, if one has begun, and answer with an error: `answerStarted` follows.
    case refuse
    /// End the exchange and close at once: the answer so far must not look complete.
    case abort
    /// Close once everything written has gone out. `lingering`: end only the sending side, then read and drop for a bounded
    /// time until the client closes, lest unread bytes reset the connection and destroy the answer (RFC 9112 §9.6).
    case closeAfterFlush(lingering: Bool)
    /// No change.
    case carryOn
}

/// The `Connection` field that the head of an answer must carry.
package enum Persistence: Equatable, Sendable {
    /// None: persistent is the default of HTTP/1.1.
    case implied
    /// `keep-alive`, for a client of HTTP/1.0 that asked for it.
    case keepAlive
    case close
}

/// How the next bytes of a client are read.
package enum ServerReading: Equatable, Sendable {
    case head
    case body
    /// The rest of a body whose answer is over.
    case discard
    /// They are not read: the next request waits for the answer under way.
    case nothing
}
