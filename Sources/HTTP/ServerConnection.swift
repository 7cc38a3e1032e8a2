package import Wire

/// An event that `ServerConnection` found in the bytes of a client.
package enum ServerEvent: Equatable, Sendable {
    /// Call again with more bytes, or when the answer has ended.
    case needMore
    /// The first bytes of a head have arrived, and not all: the header timeout begins.
    case headBegun
    /// The head that was passed in holds a request: the first `head.length` bytes of the input, which the caller consumes.
    case head
    /// The first so many bytes of the input are content. The caller consumes them before it calls again.
    case content(Int)
    /// The table that was passed in holds trailer fields: the first `length` bytes of the input, which the caller consumes.
    /// `end` follows.
    case trailers(length: Int)
    /// The request is complete. Where its answer is over already, the connection waits for the next one.
    case end
    /// The exchange cannot be completed: end it and close, so that the answer so far does not look complete.
    case reset
    /// The request is malformed. End the exchange, if one has begun, and answer with this error.
    case fault(HTTPFault)
    /// Close when everything written has gone out; `lingering` as in `ServerAction`.
    case close(lingering: Bool)
}

/// The server's side of one connection: bytes in, events out, and the wire form of answers. It does no I/O and has no clock.
///
/// Its state lies in place: a connection at rest costs some 100 bytes and no allocation.
///
/// It is also the server's side of one stream of HTTP/2, which is one request and its answer. There `HTTP2Core` has
/// removed the framing: the input is that of a `StreamMessage`, and the answer is a head and content as they stand.
package struct ServerConnection: ~Copyable {
    private let pin = AddressPin()
    private var messages = ServerMessageState() {
        didSet { reading = messages.reading }
    }
    /// How the next bytes are read. Stored, so that other modules read it without a call.
    package private(set) var reading = ServerReading.head
    private var scan = HeadScan()
    private var body = BodyDecoder(.none)
    /// The answer's framing. Meaningful from `sendHead` to `sendEnd`.
    private var answerFraming = BodyFraming.none
    private var headBegun = false
    /// Empty lines since the last request.
    private var emptyLines: UInt8 = 0
    /// Whether it is the server's side of a stream.
    private var isStream = false
    /// The request of a stream, as far as it has arrived.
    package var message = StreamMessage()

    package init() {}

    // MARK: state

    /// Whether no request is under way and none has begun to arrive.
    package var isAtRest: Bool { messages.isIdle && !headBegun }

    /// Whether a head has arrived in part.
    package var isHeadBegun: Bool { headBegun }

    /// Whether all content of the request has been read: `end` needs no more bytes.
    package var isBodyAtEnd: Bool { isStream ? message.isAtEnd : body.isAtEnd }

    /// Bytes of content still to come; nil if not known.
    package var bodyRemaining: UInt64? { body.remaining }

    // MARK: bytes in

    /// The next event in `input`, everything received and not consumed. Drops framing bytes itself.
    ///
    /// - Parameters:
    ///   - head: overwritten by a request; its slices refer to the input.
    ///   - trailers: overwritten by trailer fields.
    package mutating func next(
        _ input: inout ByteBuffer, _ head: inout RequestHead, _ trailers: inout FieldTable, _ limits: HeadLimits
    ) -> ServerEvent {
        switch reading {
        case .head: nextHead(&input, &head, limits)
        case .body: nextContent(&input, &trailers)
        case .discard: discardContent(&input, &trailers)
        case .nothing: .needMore
        }
    }

    private mutating func nextHead(
        _ input: inout ByteBuffer, _ head: inout RequestHead, _ limits: HeadLimits
    ) -> ServerEvent {
        if headBegun {
            guard scan.isDue(input.readable, limits: limits) else { return .needMore }
        } else {
            guard skipEmptyLines(&input) else {
                input.removeAll()
                return faulted(HTTPFault(.requestLine))
            }
            guard RequestHead.isBegun(by: input.readable) else { return .needMore }
        }
        switch head.parse(input.readable, limits: limits) {
        case .incomplete:
            guard !headBegun else { return .needMore }
            headBegun = true
            scan = HeadScan()
            return .headBegun
        case .invalid(let fault):
            input.removeAll()
            return faulted(fault)
        case .complete:
            headBegun = false
            emptyLines = 0
            body = BodyDecoder(head.framing)
            _ = messages.headReceived(
                hasBody: head.framing.hasContent, keepAlive: head.keepAlive, minorVersion: head.minorVersion,
                expectsContinue: head.expectsContinue)
            return .head
        }
    }

    /// Skips empty lines before a request line (RFC 9112 §2.2). They do not end the idle timeout.
    ///
    /// - Returns: whether there were no more than a client may send.
    private mutating func skipEmptyLines(_ input: inout ByteBuffer) -> Bool {
        while RequestHead.isEmptyLine(input.readable) {
            guard emptyLines < RequestHead.maxEmptyLines else { return false }
            emptyLines += 1
            input.discard(2)
        }
        return true
    }

    private mutating func nextContent(_ input: inout ByteBuffer, _ trailers: inout FieldTable) -> ServerEvent {
        switch isStream ? message.advance(input, &trailers) : body.advance(&input, &trailers) {
        case .content(let count): return .content(count)
        case .needMore: return .needMore
        case .trailers(let length): return .trailers(length: length)
        case .end:
            _ = messages.bodyReceived()
            return .end
        case .fault(let fault):
            input.removeAll()
            return faulted(fault)
        }
    }

    /// Reads and drops the rest of a request body whose answer is over, so that the connection can be kept.
    private mutating func discardContent(_ input: inout ByteBuffer, _ trailers: inout FieldTable) -> ServerEvent {
        while true {
            switch nextContent(&input, &trailers) {
            case .content(let count):
                input.discard(count)
                if case .closeAfterFlush(let lingering) = messages.discarded(count) { return .close(lingering: lingering) }
            case .trailers(let length): input.discard(length)
            // After a drain has begun there is no next request.
            case .end: return messages.isIdle ? .end : .close(lingering: true)
            case let event: return event
            }
        }
    }

    /// The request under way is malformed, too large or late; returns the event for the driver.
    package mutating func faulted(_ fault: HTTPFault) -> ServerEvent {
        switch messages.requestFaulted() {
        case .refuse: .fault(fault)
        case .abort: .reset
        case .closeAfterFlush(let lingering): .close(lingering: lingering)
        case .readHead, .readBody, .sendContinue, .discardBody, .waitForAnswer, .carryOn: .needMore
        }
    }

    /// The request's body is read from here on. `hasArrived`: some of it has, so the client did not wait for `100 Continue`.
    package mutating func bodyWanted(hasArrived: Bool) -> ServerAction { messages.bodyWanted(hasArrived: hasArrived) }

    /// The request's body is not needed any more.
    package mutating func bodyAbandoned() { messages.bodyAbandoned() }

    /// `count` bytes of content, fewer than `bodyRemaining`, were spliced and not seen here.
    package mutating func bodyPassed(_ count: Int) { body.passed(count) }

    /// The client will send no more.
    package mutating func inputClosed() -> ServerAction { messages.inputClosed() }

    /// See `ServerMessageState`.
    package mutating func drainRequested(headBegun: Bool) -> ServerAction { messages.drainRequested(headBegun: headBegun) }

    /// See `ServerMessageState`.
    package mutating func idledOut() -> ServerAction { messages.idledOut() }

    // MARK: bytes out

    /// Writes `100 Continue` (RFC 9110 §15.2.1).
    package func sendContinue(into out: inout ByteBuffer) {
        out.append("HTTP/1.1 100 Continue\r\n\r\n" as StaticString)
    }

    /// The head of the final answer is about to be written, for content with this framing; returns its `Connection` field.
    package mutating func sendHead(_ framing: BodyFraming) -> Persistence {
        answerFraming = framing
        let persistence = messages.answerStarted(untilClose: endsWithConnection, unread: body.remaining)
        return isStream ? .implied : persistence
    }

    /// Writes content in the answer's framing.
    package func sendContent(_ content: RawSpan, into out: inout ByteBuffer) {
        out.appendContent(content, chunked: answerFraming == .chunked)
    }

    /// Writes the end of the answer's content.
    package func sendEnd(into out: inout ByteBuffer) {
        if answerFraming == .chunked { out.append(ChunkWriter.lastChunk) }
    }

    /// The last byte of the answer was given to the socket or its queue; returns what the connection does next.
    package mutating func answerSent() -> ServerAction { messages.answerFinished() }

    /// The answer cannot be completed.
    package mutating func sendReset() -> ServerAction { messages.answerBroken() }

    /// Whether each piece of content is written with a frame of its own.
    package var framesContent: Bool { answerFraming == .chunked }

    /// Whether trailers can end the answer.
    package var mayHaveTrailers: Bool { framesContent || isStream }

    /// Whether trailers can end the answer before its content is complete: no length of it was announced.
    package var endsByTrailers: Bool { framesContent || isStream && answerFraming == .untilClose }

    /// Whether the answer's content has a length and goes out without framing: then it may be spliced.
    package var sendsKnownLength: Bool {
        switch answerFraming {
        case .length: !isStream
        case .none, .chunked, .untilClose: false
        }
    }

    /// Whether the end of the connection ends the answer.
    package var endsWithConnection: Bool { answerFraming == .untilClose && !isStream }
}

// MARK: streams of HTTP/2

extension ServerConnection {
    /// Begins as a stream, with the request `head`.
    package mutating func streamBegan(_ head: borrowing RequestHead) {
        isStream = true
        if case .length(let length) = head.framing, length > 0 || head.awaitsEnd { message = StreamMessage(announced: length) }
        _ = messages.headReceived(
            hasBody: head.framing.hasContent || head.awaitsEnd, keepAlive: true, minorVersion: 1, expectsContinue: head.expectsContinue)
    }

    /// Begins with a request of the gateway's own, which is whole and has no socket.
    package mutating func fetchBegan() {
        _ = messages.headReceived(hasBody: false, keepAlive: true, minorVersion: 1, expectsContinue: false)
    }

    /// Begins as a stream whose request cannot be read; `faulted` follows.
    package mutating func streamBegan() { isStream = true }
}

extension ByteBuffer {
    /// Appends content as it stands, or as one chunk.
    package mutating func appendContent(_ content: RawSpan, chunked: Bool) {
        guard chunked else { return append(content) }
        ChunkWriter.appendSize(content.byteCount, to: &self)
        append(content)
        append(ChunkWriter.chunkEnd)
    }
}
