package import Wire

/// An event that `ClientConnection` found in the bytes of a server.
package enum ClientEvent: Equatable, Sendable {
    /// Call again with more bytes.
    case needMore
    /// The head that was passed in holds an interim answer (1xx): the first `head.length` bytes of the input, which the
    /// caller consumes.
    case interim
    /// Likewise, the final answer.
    case head
    /// Likewise, a 101: the server speaks the protocol that the request asked for. What follows it is not read here.
    case upgraded
    /// The first so many bytes of the input are content. The caller consumes them before it calls again.
    case content(Int)
    /// The table that was passed in holds trailer fields: the first `length` bytes of the input, which the caller consumes.
    /// `end` follows.
    case trailers(length: Int)
    case end
    /// The server is faulty; nothing more can be read.
    case fault(HTTPFault)
}

/// The client's side of one connection, for upstreams and health probes: bytes in, events out.
///
/// It does not see the request's bytes: the exchange keeps them, as it may have to retry them on another connection.
///
/// It is also the client's side of one stream of HTTP/2. There `HTTP2Core` has removed the framing: the input is heads,
/// content, and trailers behind it.
package struct ClientConnection: ~Copyable {
    private enum Phase {
        /// No request is under way. Left by the next one.
        case idle
        /// The final answer's head is next. Left by it.
        case head
        /// Left by the end of the content.
        case content
        /// The answer is over. Left by the next request.
        case ended
        /// Nothing more can be read. Final.
        case broken
    }

    /// Interim answers before the final one; a server that sends more is faulty.
    package static let maxInterim: UInt8 = 16

    private let pin = AddressPin()
    private var phase = Phase.idle
    private var method = Method.other
    private var scan = HeadScan()
    private var headBegun = false
    private var interimCount: UInt8 = 0
    private var mayUpgrade = false
    private var keepAlive = false
    private var keepAliveSeconds: UInt32?
    private var body = BodyDecoder(.none)
    /// Whether it is the client's side of a stream.
    private var isStream = false
    /// The answer of a stream behind its head, as far as it has arrived.
    package var message = StreamMessage()
    /// Of a stream: whether the head that `next` is passed is already that at the start of the input.
    package var isHeadRead = false

    package init() {}

    /// A request with this method is sent; `mayUpgrade`: it asks to change protocols. Traps while another answer is under way.
    package mutating func requestSent(_ method: Method, mayUpgrade: Bool = false) {
        precondition(phase == .idle || phase == .ended, "a request before the last one's answer is over")
        self.method = method
        self.mayUpgrade = mayUpgrade
        phase = .head
        headBegun = false
        interimCount = 0
        keepAlive = false
    }

    /// Whether the final answer's head has been read.
    package var hasAnswered: Bool {
        switch phase {
        case .idle, .head: false
        case .content, .ended, .broken: true
        }
    }

    /// Whether any answer has been read, interim ones included.
    package var hasBegunAnswer: Bool { interimCount > 0 || hasAnswered }

    /// Whether the answer is over and the server keeps the connection open for another request.
    package var isReusable: Bool { phase == .ended && keepAlive }

    /// Milliseconds, at most `longest`, for which the connection may idle from the end of an answer on: a second less than the server said,
    /// so that no request meets its close, or half of little.
    package func idleTime(longest: UInt64) -> UInt64 {
        guard let seconds = keepAliveSeconds else { return longest }
        return min(longest, seconds < 2 ? UInt64(seconds) * 500 : UInt64(seconds - 1) * 1_000)
    }

    /// Whether all content of the answer has been found: `end` needs no more bytes.
    package var isBodyAtEnd: Bool { isStream ? message.isAtEnd : body.isAtEnd }

    /// Bytes of content still to come; nil if not known.
    package var bodyRemaining: UInt64? { phase == .content ? body.remaining : nil }

    /// `count` bytes of content, fewer than `bodyRemaining`, were spliced and not seen here.
    package mutating func bodyPassed(_ count: Int) { body.passed(count) }

    /// The next event in `input`, everything received and not consumed. Drops framing bytes itself.
    ///
    /// - Parameters:
    ///   - head: overwritten by an answer; its slices refer to the input.
    ///   - trailers: overwritten by trailer fields.
    package mutating func next(
        _ input: inout ByteBuffer, _ head: inout ResponseHead, _ trailers: inout FieldTable, _ limits: HeadLimits
    ) -> ClientEvent {
        switch phase {
        case .head: nextHead(input.readable, &head, limits)
        case .content: nextContent(&input, &trailers)
        case .idle, .ended: input.isEmpty ? .needMore : fail(HTTPFault(.statusLine).ofResponse)
        case .broken: .fault(HTTPFault(.statusLine).ofResponse)
        }
    }

    private mutating func nextHead(_ bytes: RawSpan, _ head: inout ResponseHead, _ limits: HeadLimits) -> ClientEvent {
        guard !bytes.isEmpty, !headBegun || scan.isDue(bytes, limits: limits) else { return .needMore }
        let outcome = isHeadRead ? .complete : head.parse(bytes, requestMethod: method, limits: limits, mayUpgrade: mayUpgrade)
        isHeadRead = false
        switch outcome {
        case .incomplete:
            if !headBegun { scan = HeadScan() }
            headBegun = true
            return .needMore
        case .invalid(let fault): return fail(fault)
        case .complete where head.status == 101:
            phase = .ended
            return .upgraded
        case .complete where head.isInterim:
            guard interimCount < Self.maxInterim else { return fail(HTTPFault(.statusLine).ofResponse) }
            interimCount += 1
            headBegun = false
            return .interim
        case .complete:
            headBegun = false
            phase = .content
            // A stream carries one request, and END_STREAM ends the answer.
            guard !isStream else { return .head }
            keepAlive = head.keepAlive
            keepAliveSeconds = head.keepAliveSeconds
            body = BodyDecoder(head.framing)
            return .head
        }
    }

    private mutating func nextContent(_ input: inout ByteBuffer, _ trailers: inout FieldTable) -> ClientEvent {
        switch isStream ? message.advance(input, &trailers) : body.advance(&input, &trailers) {
        case .content(let count): return .content(count)
        case .needMore: return .needMore
        case .trailers(let length): return .trailers(length: length)
        case .end:
            phase = .ended
            return .end
        case .fault(let fault): return fail(fault.ofResponse)
        }
    }

    /// The server will send no more: ends an answer that lasts until then, and is a fault for any other.
    package mutating func inputClosed() -> ClientEvent {
        switch phase {
        case .content:
            if case .end = body.inputClosed() {
                phase = .ended
                keepAlive = false
                return .end
            }
            return fail(HTTPFault(.truncated).ofResponse)
        case .idle, .head, .ended, .broken: return fail(HTTPFault(.truncated).ofResponse)
        }
    }

    private mutating func fail(_ fault: HTTPFault) -> ClientEvent {
        phase = .broken
        return .fault(fault)
    }
}

// MARK: streams of HTTP/2

extension ClientConnection {
    /// Begins as a stream. One event names so much content at most that a slow client stops a stream soon.
    package mutating func streamBegan() {
        isStream = true
        message = StreamMessage(most: 64 * 1_024)
    }
}
