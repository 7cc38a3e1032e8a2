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

    /// Decides what becomes of the answer whose head is in `scratch.response`: it passes, is held until some of it may pass,
    /// or is refused.
    mutating func beginFilter(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) throws(AnswerFailure) {
        let course = exchanges[exchange].filter.course(scratch.response, bytes)
        exchanges[exchange].state.answerBegan(isHeld: course != .pass && !exchanges[exchange].filter.isShadow)
        switch course {
        case .pass: break
        case .refuse(let failure):
            guard exchanges[exchange].filter.isShadow else { throw .refused(failure) }
            noteUnfit(exchange, failure)
        case .expectNothing(let failure): exchanges[exchange].filter.expectNothing(failure)
        case .judge(let form, let coding): exchanges[exchange].filter.begin(form, coding, status: scratch.response.status)
        }
    }

    /// How content is framed whose length the filter changes.
    func heldFraming(_ exchange: ExchangeIndex) -> BodyFraming {
        BodyFraming.chunked.relayed(toMinorVersion: exchanges[exchange].minorVersion)
    }

    /// What changes in the head of the answer; nil where nothing does.
    mutating func filteredFields(_ exchange: ExchangeIndex, _ head: borrowing ResponseHead, _ bytes: RawSpan) -> FilteredFields? {
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
    private mutating func releaseHead(_ exchange: ExchangeIndex, _ out: inout ByteBuffer) {
        guard exchanges[exchange].state.answer == .held else { return }
        let client = exchanges[exchange].client.index
        let persistence = downstream.clients[client].http.sendHead(heldFraming(exchange), on: exchanges[exchange].stream)
        exchanges[exchange].state.answerReleased()
        out.append(exchanges[exchange].filter.head.readable)
        out.append(persistence)
        out.append("\r\n")
        exchanges[exchange].filter.head.removeAll()
    }

    // MARK: content

    /// Unpacks what waits, as long as the client takes what becomes of it; answers whether the exchange is still there.
    mutating func unpackWaiting(
        _ exchange: ExchangeIndex, _ out: inout ByteBuffer, _ scratch: inout Scratch
    ) throws(AnswerFailure) -> Bool {
        let client = exchanges[exchange].client.index
        let handle = exchanges.handle(exchange)
        while exchanges[exchange].filter.isWaiting, downstream.clients[client].output.isEmpty {
            do throws(FilterFailure) {
                try exchanges[exchange].filter.unpack()
            } catch {
                throw .refused(error)
            }
            handOn(exchange, &out)
            guard out.count >= Self.mostGathered else { continue }
            sendToClient(client, out.readable, &scratch)
            out.removeAll()
            guard exchanges.isCurrent(handle) else { return false }
        }
        return true
    }

    /// Moves the first `count` bytes of `input`, which are content, into the filter.
    mutating func filterContent(
        _ count: Int, of input: inout ByteBuffer, _ exchange: ExchangeIndex
    ) throws(AnswerFailure) {
        do throws(FilterFailure) {
            try exchanges[exchange].filter.take(input.readable.extracting(0..<count))
        } catch {
            throw .refused(error)
        }
        input.discard(count)
    }

    mutating func handOn(_ exchange: ExchangeIndex, _ out: inout ByteBuffer) {
        guard exchanges[exchange].filter.ready > 0 else { return }
        releaseHead(exchange, &out)
        let isChunked = downstream.clients[exchanges[exchange].client.index].http.framesContent
        let count = exchanges[exchange].filter.handOn(to: &out, isChunked: isChunked)
        exchanges[exchange].record.bytesOut += UInt64(count)
    }

    /// The content of the answer is over.
    mutating func endFiltered(_ exchange: ExchangeIndex, _ out: inout ByteBuffer) throws(AnswerFailure) {
        do throws(FilterFailure) {
            try exchanges[exchange].filter.finish()
        } catch {
            throw .refused(error)
        }
        handOn(exchange, &out)
        releaseHead(exchange, &out)
    }

    /// Looks at content that passes as it is, and counts.
    mutating func watch(_ exchange: ExchangeIndex, _ content: RawSpan) {
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
    mutating func resumeFiltered(_ exchange: ExchangeIndex, _ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        guard exchanges[exchange].filter.isWaiting else { return }
        let handle = upstreams.connections.handle(upstream)
        var input = scratch.takeInput()
        input.append(upstreams.connections[upstream].input.readable)
        upstreams.connections[upstream].input = ByteBuffer()
        relayAnswer(exchange, upstream, &input, &scratch)
        if !input.isEmpty, upstreams.connections.isCurrent(handle) { upstreams.connections[upstream].input.append(input.readable) }
        scratch.putBack(input)
    }

    // MARK: failing

    /// The answer cannot go on: it is refused, or cut where some of it is out.
    mutating func refuseAnswer(_ exchange: ExchangeIndex, _ failure: FilterFailure, _ scratch: inout Scratch) {
        exchanges[exchange].record.error = failure.text
        telemetry.metrics.filterFailed(failure.reason)
        noteUnfit(exchange, failure)
        guard exchanges[exchange].state.answer != .started else { return cutAnswer(exchange, &scratch) }
        answer(exchange, with: failure.refusal, &scratch)
    }

    /// Logs, at a limited rate, that an answer was not JSON, and which setting of its route would let it pass.
    mutating func noteUnfit(_ exchange: ExchangeIndex, _ failure: FilterFailure) {
        guard failure == .notJSON, exchanges[exchange].record.isRecorded else { return }
        let route = exchanges[exchange].record.route
        guard let count = telemetry.answerNotices.take(route, at: now.monotonic) else { return }
        services.answerNotJSON(telemetry.labels.routes.name(of: route), count, exchanges[exchange].filter.isShadow)
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
