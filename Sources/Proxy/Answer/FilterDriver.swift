import Gate
import HTTP
import System
import Telemetry
import Transport
import Wire

/// Carries an answer through the filter of its route. The head waits until some of the content may go out: until then the answer
/// can still be refused.
extension Exchange {
    /// How content is framed whose length the filter changes.
    var filteredFraming: BodyFraming { BodyFraming.chunked.relayed(to: request.version) }

    /// The filter's changes to the head of the answer; nil for none.
    func filteredFields(_ head: borrowing ResponseHead, _ bytes: RawSpan) -> FilteredFields? {
        guard let plan = filter.plan, !plan.isShadow else { return nil }
        var fields = FilteredFields(plan: plan, tier: filter.tier)
        // The fields of HEAD and 304 describe the content that GET would bring.
        let describesContent = request.method == .head || head.status == 304
        fields.isRewritten =
            filter.isJudging || describesContent && (plan.isStrict || FilterCourse.ContentForm(head.fields, bytes) != nil)
        return fields
    }

    /// Writes the content that may go out, behind the head if that still waits.
    mutating func writeFiltered(to downstream: inout Downstream, into out: inout ByteBuffer) {
        guard filter.ready > 0 else { return }
        releaseHead(to: &downstream, into: &out)
        passed(filter.handOn(to: &out, isChunked: downstream.clients[client.index].http.framesContent), .answer)
    }

    /// Ends the content of the answer.
    mutating func endFiltered(to downstream: inout Downstream, into out: inout ByteBuffer) throws(FilterFailure) {
        try filter.finish()
        writeFiltered(to: &downstream, into: &out)
        releaseHead(to: &downstream, into: &out)
    }

    /// Completes the head that waits: the lines of HTTP/1, or the field block of HTTP/2.
    private mutating func releaseHead(to downstream: inout Downstream, into out: inout ByteBuffer) {
        guard state.answer == .held else { return }
        let persistence = downstream.clients[client.index].http.sendHead(filteredFraming)
        state.answerReleased()
        if downstream.clients[client.index].isStream {
            downstream.sendHead(filter.status, filter.head.readable, isFinal: true, to: client.index)
        } else {
            out.append(filter.head.readable)
            out.append(persistence)
            out.append("\r\n")
        }
        filter.head.removeAll()
    }

    /// Adds the lines of the upstream's error that stay to the answer in its place.
    fileprivate mutating func addGuidance() { filter.addGuidance(to: &buffers.answerEdits) }

    /// Feeds the filter with content that passes as it is, to count what it would drop.
    fileprivate mutating func watch(_ content: RawSpan) throws(FilterFailure) {
        try filter.feed(content)
        filter.discardOutput()
        while filter.isWaiting {
            try filter.unpack()
            filter.discardOutput()
        }
    }
}

extension Worker {
    /// Filtered content is gathered up to so many bytes before it is sent.
    private static var mostGathered: Int { 64 * 1_024 }

    /// Decides what becomes of the answer whose head is in `scratch.response`: it passes, is held until some of it may pass,
    /// or is refused.
    mutating func beginFilter(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) throws(FilterFailure) {
        let course = exchanges[exchange].filter.course(scratch.response, bytes)
        exchanges[exchange].state.answerBegan(isHeld: course != .pass && !exchanges[exchange].filter.isShadow)
        switch course {
        case .pass: break
        case .refuse(let failure):
            guard exchanges[exchange].filter.isShadow else { throw failure }
            noteUnfit(exchange, failure)
        case .expectNothing(let failure): exchanges[exchange].filter.expectNothing(failure)
        case .judge(let form, let coding): exchanges[exchange].filter.begin(form, coding)
        }
    }

    /// Decompresses and filters what waits, as long as the client has room; returns whether the exchange still exists.
    mutating func unpackWaiting(_ exchange: Handle<Exchange>, _ scratch: inout Scratch) throws(FilterFailure) -> Bool {
        let index = exchange.index
        while exchanges[index].filter.isWaiting, hasRoom(.answer, index) {
            try exchanges[index].filter.unpack()
            exchanges[index].writeFiltered(to: &downstream, into: &scratch.output)
            guard scratch.output.count < Self.mostGathered || sendGathered(exchange, &scratch) else { return false }
        }
        return true
    }

    /// Judges content that passes as it is (`shadow=filter`), and counts.
    mutating func watch(_ exchange: ExchangeIndex, _ content: RawSpan) {
        guard !exchanges[exchange].filter.hasStopped else { return }
        do throws(FilterFailure) {
            try exchanges[exchange].watch(content)
        } catch {
            noteUnfit(exchange, error)
            exchanges[exchange].filter.stopWatching()
        }
    }

    // MARK: failing

    /// The filter stops the answer: it is refused, or cut if the client has received some of it.
    mutating func refuseAnswer(_ exchange: ExchangeIndex, _ failure: FilterFailure, _ scratch: inout Scratch) {
        guard sendGathered(exchanges.handle(exchange), &scratch) else { return }
        exchanges[exchange].record.error = failure.text
        telemetry.metrics.filterFailed(failure.reason)
        noteUnfit(exchange, failure)
        guard exchanges[exchange].state.answer != .started else { return cutAnswer(exchange, &scratch) }
        let refusal = failure.refusal(status: exchanges[exchange].filter.status)
        if case .upstreamError = refusal { exchanges[exchange].addGuidance() }
        answer(exchange, with: refusal, &scratch)
    }

    /// Logs, at a limited rate, that an answer was not JSON, and which setting of its route would let it pass.
    mutating func noteUnfit(_ exchange: ExchangeIndex, _ failure: FilterFailure) {
        guard failure == .notJSON, exchanges[exchange].filter.status < 400, exchanges[exchange].record.isRecorded else { return }
        let route = exchanges[exchange].record.route
        guard let count = telemetry.answerNotices.count(route, at: now.monotonic) else { return }
        services.answerNotJSON(telemetry.labels.routes.name(of: route), count, exchanges[exchange].filter.isShadow)
    }

    /// Logs, at a limited rate, that elements passed in an answer without a single label.
    mutating func noteUnlabelled(_ exchange: ExchangeIndex, _ counts: FilterCounts) {
        let route = exchanges[exchange].record.route
        guard exchanges[exchange].filter.plan?.labelsTheUnlabelled == false,
            let count = telemetry.unlabelledAnswers.count(counts, of: route, at: now.monotonic)
        else { return }
        services.answerUnlabelled(telemetry.labels.routes.name(of: route), exchanges[exchange].note.sentPath, count)
    }
}

extension FilterPlan {
    /// Whether elements without a label count as labelled, by `filter-unlabelled=TIER`.
    fileprivate var labelsTheUnlabelled: Bool {
        switch unlabelled {
        case .byForm, .keep, .drop: false
        case .tier: true
        }
    }
}

extension FilterFailure {
    /// The metrics' label value.
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
