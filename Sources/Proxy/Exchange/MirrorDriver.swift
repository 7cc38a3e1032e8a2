import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// A request that another upstream gets, too (`mirror=`), until all of its content has come.
final class RequestCopy {
    /// Bytes of content that are copied at most.
    static let maxContent = 64 * 1_024
    /// The copies of one worker, those under way and those that still gather content.
    static let maxCount = 128

    fileprivate var attempt = Attempt()
    fileprivate var content = ByteBuffer()
    fileprivate let method: Method
    fileprivate let upstream: LabelID
    fileprivate let route: LabelID

    fileprivate init(method: Method, upstream: LabelID, route: LabelID) {
        (self.method, self.upstream, self.route) = (method, upstream, route)
    }

    var count: Int { attempt.replay.count + content.count }

    fileprivate func takeContent() -> ByteBuffer {
        var taken = ByteBuffer()
        swap(&taken, &content)
        return taken
    }
}

/// Sends copies of requests to other upstreams. A copy is an exchange without a client: it is sent once the request that it was made of is
/// whole and was sent itself, waits for no room, and nothing waits for it. Its answer is dropped.
extension Worker {
    // MARK: making one

    /// Begins a copy of the request that was just prepared, if its route has a mirror, this request is among those that it gets, and there
    /// is room. `bytes` has the head.
    mutating func beginCopy(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) {
        guard let mirror = admission.mirror(scratch.decision), telemetry.random.next() % 100 < mirror.percent else { return }
        let route = telemetry.labels.routes[scratch.decision.routeIndex]
        if case .length(let length) = scratch.request.framing, length > RequestCopy.maxContent { return }
        guard copies < RequestCopy.maxCount, !load.isShortOfMemory, let pool = upstreams.directory.pool(of: mirror.upstream),
            let endpoint = upstreams.directory.choose(pool, avoiding: nil, at: now.monotonic)
        else { return telemetry.metrics.mirrored(route: route, .dropped) }
        // As the split chose it: one upstream does not carry a request out twice.
        guard pool != exchanges[exchange].attempt.endpoint.pool else { return }
        let address = upstreams.directory.address(endpoint)
        let copy = RequestCopy(
            method: scratch.request.method, upstream: upstreams.directory.label(pool, telemetry.labels), route: route)
        copy.attempt.begin(
            at: endpoint, isForHTTP2: address.speaksHTTP2 && !upstreams.directory.choseHTTP1(endpoint),
            isHeadAlone: exchanges[exchange].request.isHeadAlone, hasUnknownLength: scratch.request.framing == .chunked,
            timeout: upstreams.directory.pools[pool].settings.timeout, retries: 0)
        var own = admission.markCopy(&scratch.decision)
        copy.attempt.head = ForwardedRequest.write(
            scratch.request, bytes, scratch.decision, requestID: exchanges[exchange].buffers.requestID.readable,
            traceparent: scratch.traceparent.readable, from: downstream.clients[exchanges[exchange].client.index].peer, to: address,
            sendsOwnHost: upstreams.directory.pools[pool].settings.sendsOwnHost, into: &copy.attempt.replay)
        admission.unmarkCopy(&scratch.decision, &own)
        exchanges[exchange].makeRare().copy = copy
        copies += 1
    }

    /// Content of the request has come.
    mutating func copyContent(_ exchange: ExchangeIndex, _ content: RawSpan) {
        guard let copy = exchanges[exchange].rare?.copy else { return }
        guard copy.content.count + content.byteCount <= RequestCopy.maxContent else { return dropCopy(exchange) }
        copy.content.append(content)
    }

    /// The request has ended before it was whole, or is too large.
    mutating func dropCopy(_ exchange: ExchangeIndex) {
        guard let copy = exchanges[exchange].rare?.copy.take() else { return }
        copies -= 1
        // A request that was refused has no copy to miss.
        guard exchanges[exchange].record.attempts > 0 else { return }
        telemetry.metrics.mirrored(route: copy.route, .dropped)
    }

    /// Sends the copy of the request, if it has one, is whole and was sent itself.
    @inline(__always)
    mutating func sendCopyIfDue(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        guard exchanges[exchange].rare?.copy != nil, exchanges[exchange].state.hasWholeRequest, exchanges[exchange].record.attempts > 0,
            let copy = exchanges[exchange].rare?.copy.take()
        else { return }
        sendCopy(copy, &scratch)
    }

    private mutating func sendCopy(_ copy: RequestCopy, _ scratch: inout Scratch) {
        let index = exchanges.acquire().index
        exchanges[index].begin(for: copy, at: now.monotonic)
        dispatch(index, &scratch)
    }

    // MARK: its answer

    /// Drops what `input` holds of the answer. A large or slow one is not worth its connection.
    mutating func dropAnswer(
        _ exchange: ExchangeIndex, _ upstream: UpstreamIndex, _ input: inout ByteBuffer, inputEnded: Bool, _ scratch: inout Scratch
    ) {
        let handle = exchanges.handle(exchange)
        while exchanges.isCurrent(handle) {
            var event = upstreams.connections[upstream].http.next(&input, &scratch.response, &scratch.trailers, settings.headLimits)
            if inputEnded, case .needMore = event { event = upstreams.connections[upstream].http.inputClosed() }
            switch event {
            case .needMore:
                let end = exchanges[exchange].record.sentAt.advanced(milliseconds: exchanges[exchange].attempt.timeout)
                guard now.monotonic < end else { return endCopy(exchange, .answered) }
                return refreshUpstreamInterest(upstream)
            case .interim: input.discard(scratch.response.length)
            case .head:
                noteHead(exchange, input.readable, scratch)
                telemetry.attemptEnded(&exchanges[exchange].record, status: scratch.response.status, at: now.monotonic)
                exchanges[exchange].state.answerBegan(isHeld: true)
                input.discard(scratch.response.length)
            case .content(let count):
                input.discard(count)
                exchanges[exchange].record.bytesOut += UInt64(count)
                guard exchanges[exchange].record.bytesOut <= RequestCopy.maxContent else { return endCopy(exchange, .answered) }
            case .trailers(let length): input.discard(length)
            case .end:
                let isReusable = isReusable(upstream, exchange, left: input.count)
                upstreams.directory.answerEnded(exchanges[exchange].attempt.endpoint)
                return endCopy(exchange, .answered, reusable: isReusable)
            case .upgraded, .fault:
                return lost(upstream, exchanges[exchange].state.answer == .none ? .badAnswer : .brokenAnswer, &scratch)
            }
        }
    }

    /// The copy is over.
    mutating func endCopy(_ exchange: ExchangeIndex, _ outcome: MirrorOutcome, reusable: Bool = false) {
        copies -= 1
        if let route = exchanges[exchange].rare?.copiedRoute { telemetry.metrics.mirrored(route: route, outcome) }
        releaseUpstream(exchange, reusable: reusable)
        closeExchange(exchange, isComplete: true)
    }
}

extension Exchange {
    /// Starts the exchange of a mirrored request. No client waits for its answer.
    fileprivate mutating func begin(for copy: RequestCopy, at now: MonotonicTime) {
        begin(for: .none, at: now)
        makeRare().copiedRoute = copy.route
        request.method = copy.method
        request.isHeadAlone = copy.attempt.isHeadAlone
        record.upstream = copy.upstream
        swap(&attempt, &copy.attempt)
        let content = copy.takeContent()
        if !content.isEmpty { attempt.replay.appendContent(content.readable, chunked: attempt.isChunked) }
        if attempt.isChunked { attempt.appendEnd(ChunkWriter.lastChunk.rawBytes, isKept: true) }
        state.forward(isWhole: true)
    }
}
