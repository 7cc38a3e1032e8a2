import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Carries an answer through the filter of its route. The head waits until something of the content may go out, for until
/// then the answer can still be refused; the slower side holds back as ever, also what is packed and would unpack to more
/// than the client takes.
extension Worker {
    /// So much output is gathered before it is sent.
    private static var mostGathered: Int { 64 * 1_024 }

    /// Decides what becomes of the answer whose head is in `scratch.response`; answers whether it goes on. A head that is
    /// to wait has been written; any other is still to be.
    mutating func beginFilter(_ exchange: Int, _ bytes: RawSpan, _ scratch: inout Scratch) -> Bool {
        guard let plan = exchanges[exchange].filter.plan else { return true }
        let course = FilterCourse(scratch.response, bytes, isStrict: plan.isStrict)
        if plan.isShadow {
            switch course {
            case .pass: break
            case .refuse(let failure): noteUnfit(exchange, failure)
            case .expectNothing(let failure): exchanges[exchange].filter.expectNothing(failure)
            case .judge(let form, let coding):
                exchanges[exchange].filter.begin(form, coding, status: scratch.response.status)
            }
            return true
        }
        switch course {
        case .pass: break
        case .refuse(let failure):
            exchanges[exchange].filter.isHeld = true
            refuseAnswer(exchange, failure, &scratch)
            return false
        case .judge(let form, let coding):
            exchanges[exchange].filter.begin(form, coding, status: scratch.response.status)
            holdAnswer(exchange)
        case .expectNothing(let failure):
            exchanges[exchange].filter.expectNothing(failure)
            holdAnswer(exchange)
        }
        return true
    }

    /// The head waits, and what length the content will have is not known.
    private mutating func holdAnswer(_ exchange: Int) {
        exchanges[exchange].filter.isHeld = true
        exchanges[exchange].delimiting = BodyFraming.chunked.relayed(toMinorVersion: exchanges[exchange].minorVersion)
    }

    /// What changes in the head of the answer; nil where nothing does.
    mutating func filteredFields(_ exchange: Int, _ head: borrowing ResponseHead, _ bytes: RawSpan) -> FilteredFields? {
        guard let plan = exchanges[exchange].filter.plan, !plan.isShadow else { return nil }
        var fields = FilteredFields(plan: plan, tier: exchanges[exchange].filter.tier)
        // What HEAD and 304 say is of the content that GET would bring.
        let speaksOfContent = exchanges[exchange].method == .head || head.status == 304
        fields.isRewritten =
            exchanges[exchange].filter.isJudging
            || speaksOfContent && (plan.isStrict || FilterCourse.ContentForm(head.fields, bytes) != nil)
        return fields
    }

    /// Ends the head that waits and gives it to the client, before the first of the content.
    private mutating func releaseHead(_ exchange: Int, _ out: inout ByteBuffer) {
        guard exchanges[exchange].filter.isHeld else { return }
        let client = Int(exchanges[exchange].client.index)
        let persistence = clients[client].messages.answerStarted(
            untilClose: exchanges[exchange].delimiting == .untilClose, unread: clients[client].body.remaining)
        exchanges[exchange].filter.isHeld = false
        out.append(exchanges[exchange].filter.head.readable)
        out.append(persistence)
        out.append("\r\n")
        exchanges[exchange].filter.head.removeAll()
    }

    // MARK: content

    /// Moves content from `input` through the filter into `out`.
    mutating func gatherFiltered(
        _ exchange: Int, _ input: inout ByteBuffer, _ out: inout ByteBuffer, _ scratch: inout Scratch
    ) -> AnswerEnding {
        do throws(FilterFailure) {
            while true {
                guard try unpackWaiting(exchange, &out, &scratch) else { return .gone }
                if exchanges[exchange].filter.isWaiting { return .more }
                switch exchanges[exchange].answerBody.next(input.readable) {
                case .data(let skip, let count):
                    try exchanges[exchange].filter.take(input.readable.extracting(skip..<skip + count))
                    input.discard(skip + count)
                case .needMore(let consumed):
                    input.discard(consumed)
                    handOn(exchange, &out)
                    return .more
                case .trailers(let slice, let consumed):
                    // What they say is of the upstream's content, not of this: they end here.
                    guard parseTrailers(input.readable, slice, into: &scratch.trailers) == nil else { return .broken }
                    input.discard(consumed)
                    try endFiltered(exchange, &out)
                    return .ended
                case .end(let consumed):
                    input.discard(consumed)
                    try endFiltered(exchange, &out)
                    return .ended
                case .fault: return .broken
                }
            }
        } catch {
            return .refused(error)
        }
    }

    /// Unpacks what waits, as long as the client takes what becomes of it; answers whether the exchange is still there.
    private mutating func unpackWaiting(
        _ exchange: Int, _ out: inout ByteBuffer, _ scratch: inout Scratch
    ) throws(FilterFailure) -> Bool {
        let client = Int(exchanges[exchange].client.index)
        let handle = exchangeHandle(exchange)
        while exchanges[exchange].filter.isWaiting, clients[client].output.isEmpty {
            try exchanges[exchange].filter.unpack()
            handOn(exchange, &out)
            guard out.count >= Self.mostGathered else { continue }
            sendToClient(client, out.readable, &scratch)
            out.removeAll()
            guard exchanges.isCurrent(handle) else { return false }
        }
        return true
    }

    private mutating func handOn(_ exchange: Int, _ out: inout ByteBuffer) {
        guard exchanges[exchange].filter.ready > 0 else { return }
        releaseHead(exchange, &out)
        let isChunked = exchanges[exchange].delimiting == .chunked
        let count = exchanges[exchange].filter.handOn(to: &out, isChunked: isChunked)
        exchanges[exchange].record.bytesOut += UInt64(count)
    }

    /// The content of the answer is over.
    mutating func endFiltered(_ exchange: Int, _ out: inout ByteBuffer) throws(FilterFailure) {
        try exchanges[exchange].filter.finish()
        handOn(exchange, &out)
        releaseHead(exchange, &out)
        if exchanges[exchange].delimiting == .chunked { out.append(ChunkWriter.lastChunk) }
    }

    /// Looks at content that passes as it is, and counts.
    mutating func watch(_ exchange: Int, _ content: RawSpan) {
        guard exchanges[exchange].filter.isJudging, !exchanges[exchange].filter.hasStopped
        else { return }
        do throws(FilterFailure) {
            try exchanges[exchange].filter.take(content)
            exchanges[exchange].filter.discardOutput()
            while exchanges[exchange].filter.isWaiting {
                try exchanges[exchange].filter.unpack()
                exchanges[exchange].filter.discardOutput()
            }
        } catch {
            noteUnfit(exchange, error)
            exchanges[exchange].filter.stopWatching()
        }
    }

    /// The client has taken all that waited: what is packed may be unpacked further.
    mutating func resumeFiltered(_ exchange: Int, _ upstream: Int, _ scratch: inout Scratch) {
        guard exchanges[exchange].filter.isWaiting else { return }
        let handle = upstreamHandle(upstream)
        var input = scratch.takeInput()
        input.append(upstreams[upstream].input.readable)
        upstreams[upstream].input = ByteBuffer()
        relayAnswer(exchange, upstream, &input, &scratch)
        if !input.isEmpty, upstreams.isCurrent(handle) { upstreams[upstream].input.append(input.readable) }
        scratch.putBack(input)
    }

    // MARK: failing

    /// The answer cannot go on: it is refused, or cut where some of it is out.
    mutating func refuseAnswer(_ exchange: Int, _ failure: FilterFailure, _ scratch: inout Scratch) {
        exchanges[exchange].record.error = failure.text
        telemetry.metrics.filterFailed(failure.reason)
        noteUnfit(exchange, failure)
        guard !exchanges[exchange].answerIsOut else { return cutAnswer(exchange, &scratch) }
        answer(exchange, with: failure.refusal, &scratch)
    }

    /// Logs, at a limited rate, that an answer was not JSON, and which setting of its route would let it pass.
    private mutating func noteUnfit(_ exchange: Int, _ failure: FilterFailure) {
        guard failure == .notJSON, exchanges[exchange].record.isRecorded else { return }
        let route = exchanges[exchange].record.route
        guard let count = telemetry.answerNotices.take(route, at: now.monotonic) else { return }
        services.answerNotJSON(telemetry.labels.routes.name(of: route), count, exchanges[exchange].filter.isShadow)
    }

    /// Counts what the filter found.
    mutating func noteFiltered(_ exchange: Int) {
        guard let counts = exchanges[exchange].filter.counts else { return }
        telemetry.metrics.filtered(
            route: exchanges[exchange].record.route, kept: UInt64(counts.kept), dropped: UInt64(counts.dropped),
            unlabelled: UInt64(counts.unlabelled), isShadow: exchanges[exchange].filter.isShadow)
        exchanges[exchange].record.filtered = counts
    }
}

extension FilterFailure {
    /// The word for the metric.
    var reason: FilterFailureReason {
        switch self {
        case .partial: .partial
        case .coding: .coding
        case .notJSON: .notJSON
        case .content(.broken): .broken
        case .content(.tooLarge): .tooLarge
        case .content(.noList): .noList
        case .content(.aboveTier): .aboveTier
        }
    }
}
