/// An event that `HTTP2Core` found in the bytes of its peer.
package enum HTTP2Event: Equatable, Sendable {
    /// Call again with more bytes.
    case needMore
    /// The head that was passed in is that of a request, or of a final answer. An answer's framing is `untilClose` if it has no content and
    /// does not say so, and `chunked` if it has content of unknown length, in which there are no chunks.
    case head(StreamID)
    /// The first so many bytes of the input are content. The caller consumes them before it calls again.
    case content(StreamID, Int)
    /// The field section that was passed in holds trailers. `end` follows.
    case trailers(StreamID)
    /// The message is complete. An upstream's reset behind it is not reported.
    case end(StreamID)
    /// The stream was reset, by the peer or because of its fault: end its exchange and `release` it. With REFUSED_STREAM, which also stands
    /// for streams that a GOAWAY left out, the request was not processed, so that any may be retried (RFC 9113 §8.7).
    case reset(StreamID, HTTP2ErrorCode)
    /// More may be sent to this stream, or to all streams if its number is 0.
    case roomGrew(StreamID)
    /// The connection cannot go on: GOAWAY has been written. End all exchanges and close when it has gone out.
    case fault(HTTP2Fault)

    // Of a server:

    /// A request that is answered with this error. Its fields are not to be used.
    case unreadable(StreamID, HTTPFault)
    /// A request was malformed, and its stream is reset: there is none to release (RFC 9113 §8.1.1).
    case malformed(HTTPFault)

    // Of a client:

    /// An interim answer (1xx): the head that was passed in.
    case interim(StreamID)
    /// The answer is malformed or too large, which may show behind its head too: the stream was reset. `release` it.
    case badAnswer(StreamID, HTTPFault)
    /// The upstream's SETTINGS were read: `maxStreams` may have changed.
    case settings
    /// GOAWAY: no more requests are taken. `reset` follows for each stream that it leaves out; the others are answered. May come again.
    case wentAway(HTTP2ErrorCode)
}

extension HTTP2Event {
    /// Whether it costs a server what a request costs, however it ends.
    package var beginsRequest: Bool {
        switch self {
        case .head, .unreadable, .malformed: true
        case .needMore, .content, .trailers, .end, .reset, .roomGrew, .fault, .interim, .badAnswer, .settings, .wentAway: false
        }
    }
}

/// Why a connection ended: the code of GOAWAY, and the glitch that there was too much of, if that was it.
package struct HTTP2Fault: Error, Equatable, Sendable {
    package let code: HTTP2ErrorCode
    package let glitch: HTTP2Glitch?

    init(_ code: HTTP2ErrorCode, _ glitch: HTTP2Glitch? = nil) {
        self.code = code
        self.glitch = glitch
    }

    /// For logs and metrics.
    package var text: StaticString { glitch?.text ?? code.text }
}
