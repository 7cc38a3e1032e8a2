import Gate
import HTTP
package import Telemetry
import Transport
import Wire

/// A worker's observation of an address, for the worker that judges.
package enum AddressReport: Sendable {
    /// A suspect, the words for it, and the milliseconds that it asks for; nil for an ejection.
    case suspect(EjectionReason, detail: String, rest: UInt64?)
    case window(AnswerWindow)
}

/// A change of an address, as the judge announces it.
package enum AddressChange: Sendable {
    case left(Absence, detail: String)
    case returned
}

/// Outlier detection: watches the answers of upstreams, and has suspects judged. One worker judges for all.
extension Worker {
    // MARK: answers

    /// The head of an answer came, the one in `scratch.response`, parsed from `bytes`.
    mutating func noteHead(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: borrowing Scratch) {
        let endpoint = exchanges[exchange].attempt.endpoint
        let status = scratch.response.status
        if upstreams.directory.watchesTimes(endpoint), let time = exchanges[exchange].answerTime(at: now.monotonic) {
            upstreams.directory.pools[endpoint.pool].windows[endpoint.number].times.add(microseconds: time)
        }
        if status >= 429 || exchanges[exchange].request.dialect == .grpc {
            return noteUncommonHead(exchange, scratch.response, bytes)
        }
        upstreams.directory.answerBegan(endpoint)
    }

    /// An answer that may count against its address, or whose status is gRPC's.
    private mutating func noteUncommonHead(_ exchange: ExchangeIndex, _ head: borrowing ResponseHead, _ bytes: RawSpan) {
        if exchanges[exchange].request.dialect == .grpc, head.status == 200 { return noteGRPCStatus(exchange, head.fields, bytes) }
        var rest: UInt64?
        if let index = head.fields.first(.retryAfter) { rest = restTime(bytes[head.fields[index].value]) }
        if head.status == 429, let rest { return note(.throttled, exchange, rest: rest) { "429 with Retry-After" } }
        note(AnswerSign(status: head.status), exchange, rest: head.status == 503 ? rest : nil) { "503 with Retry-After" }
    }

    /// The milliseconds of a `Retry-After` (RFC 9110 §10.2.3); nil if it is malformed or past.
    private func restTime(_ value: RawSpan) -> UInt64? {
        if let date = HTTPDate.parse(value) {
            let left = date.microseconds - now.wall.microseconds
            return left > 0 ? UInt64(left) / 1_000 : nil
        }
        return DecimalReader.only(value, below: 1_000_000).map { $0 * 1_000 }
    }

    /// An answer of gRPC has ended with these fields, or consists of them: notes its status. Without one they say nothing.
    mutating func noteGRPCStatus(_ exchange: ExchangeIndex, _ fields: borrowing FieldTable, _ bytes: RawSpan) {
        guard let status = fields.decimal(of: "grpc-status", bytes) else { return }
        let rest = status == 8 || status == 14 ? fields.decimal(of: "grpc-retry-pushback-ms", bytes) : nil
        if status == 8, let rest { return note(.throttled, exchange, rest: rest) { "RESOURCE_EXHAUSTED with grpc-retry-pushback-ms" } }
        note(AnswerSign(grpc: Int(status)), exchange, rest: rest) { "UNAVAILABLE with grpc-retry-pushback-ms" }
    }

    /// Notes an answer, which asks for so many milliseconds without requests. `detail`: how it has asked.
    private mutating func note(_ sign: AnswerSign, _ exchange: ExchangeIndex, rest: UInt64?, _ detail: () -> String) {
        let endpoint = exchanges[exchange].attempt.endpoint
        let rules = upstreams.directory.pools[endpoint.pool].settings.outliers
        switch sign {
        case .good: upstreams.directory.answerBegan(endpoint)
        case .serverError:
            upstreams.directory[endpoint].health.answerBegan()
            upstreams.directory.answerFailed(endpoint)
        case .unavailable:
            noteFailure(endpoint, isBrokenAnswer: false)
            if let rest, mayRest(endpoint) { suspect(endpoint, .retryAfter, detail: detail(), rest: rest) }
        case .throttled:
            // A fetch and a copy have no client whose doing it could be.
            guard exchanges[exchange].record.isRecorded else { return upstreams.directory.answerBegan(endpoint) }
            let client = exchanges[exchange].note.clientMark
            if upstreams.directory[endpoint].health.answerThrottled(client, at: now.monotonic, rules), let rest {
                suspect(endpoint, .retryAfter, detail: "\(detail()), for \(rules.failures ?? 5) clients in a row", rest: rest)
            }
        }
    }

    /// Whether the address is in, and not the last one: otherwise it is not judged for each of its answers.
    private func mayRest(_ endpoint: EndpointIndex) -> Bool {
        upstreams.directory[endpoint].health.isAvailable(at: now.monotonic)
            && upstreams.directory.pools[endpoint.pool].availableCount(at: now.monotonic) > 1
    }

    /// A request failed there, or was answered by a status that says as much.
    mutating func noteFailure(_ endpoint: EndpointIndex, isBrokenAnswer: Bool) {
        upstreams.directory.answerFailed(endpoint)
        let rules = upstreams.directory.pools[endpoint.pool].settings.outliers
        guard upstreams.directory[endpoint].health.requestFailed(at: now.monotonic, isBrokenAnswer: isBrokenAnswer, rules) else { return }
        let kind = isBrokenAnswer ? "answers in a row that broke off or were malformed" : "failures in a row"
        suspect(endpoint, .failures, detail: "\(rules.failures ?? 0) \(kind)", rest: nil)
    }

    // MARK: judging

    /// Has a suspect judged: here, or by the worker that judges for all.
    private mutating func suspect(_ endpoint: EndpointIndex, _ reason: EjectionReason, detail: String, rest: UInt64?) {
        guard upstreams.directory.pools[endpoint.pool].endpoints.count > 1 else { return }
        guard let report = services.reportSighting else { return judge(endpoint, reason, detail: detail, rest: rest) }
        report(
            upstreams.directory.pools[endpoint.pool].settings.name, upstreams.directory.address(endpoint),
            .suspect(reason, detail: detail, rest: rest))
    }

    private mutating func judge(_ endpoint: EndpointIndex, _ reason: EjectionReason, detail: String, rest: UInt64?) {
        let absence = upstreams.directory.pools[endpoint.pool].judge(
            endpoint.number, reason, rest: rest, detail: detail, at: now.monotonic)
        guard let absence else { return }
        telemetry.metrics.upstreamEjected(upstream: upstreams.directory.label(endpoint.pool, telemetry.labels), reason)
        announce(endpoint, .left(absence, detail: detail))
        announcePanic(endpoint.pool)
    }

    /// Another worker has seen something of an address.
    mutating func sighted(_ upstream: String, _ address: UpstreamAddress, _ sighting: AddressReport) {
        for endpoint in upstreams.directory.endpoints(of: upstream, at: address) {
            switch sighting {
            case .suspect(let reason, let detail, let rest): judge(endpoint, reason, detail: detail, rest: rest)
            case .window(let window): upstreams.directory.pools[endpoint.pool].gathered(window, of: endpoint.number)
            }
        }
    }

    private func announce(_ endpoint: EndpointIndex, _ change: AddressChange) {
        services.addressChanged(
            upstreams.directory.pools[endpoint.pool].settings.name, upstreams.directory.address(endpoint), change)
    }

    /// Tells if an upstream's panic has begun or ended.
    mutating func announcePanic(_ pool: Int) {
        let condition = upstreams.directory.pools[pool].condition(at: now.monotonic)
        let isPanicking = condition.isPanicking && condition.healthy > 0
        guard isPanicking != upstreams.directory.pools[pool].wasPanicking else { return }
        upstreams.directory.pools[pool].wasPanicking = isPanicking
        services.panicChanged(upstreams.directory.pools[pool].settings.name, isPanicking, condition.available, condition.total)
    }

    // MARK: time

    /// Milliseconds between two looks at windows and absences.
    private static var watchInterval: UInt64 { 1_000 }

    /// Ends the windows that are over, and judges those of the last look, when all workers have reported; tells of absences that are over.
    mutating func watchOutliersIfDue() {
        guard now.monotonic >= upstreams.directory.watchesNext else { return }
        upstreams.directory.watchesNext = now.monotonic.advanced(milliseconds: Self.watchInterval)
        for pool in upstreams.directory.pools.indices where upstreams.directory.pools[pool].endpoints.count > 1 {
            if services.reportSighting == nil { judgeWindows(pool) }
            endWindow(pool)
        }
    }

    private mutating func endWindow(_ pool: Int) {
        guard upstreams.directory.pools[pool].watchesAnswers else { return }
        for (number, window) in upstreams.directory.pools[pool].takeWindow(at: now.monotonic) {
            if let report = services.reportSighting {
                report(
                    upstreams.directory.pools[pool].settings.name, upstreams.directory.address(EndpointIndex(pool: pool, number: number)),
                    .window(window))
            } else {
                upstreams.directory.pools[pool].gathered(window, of: number)
                upstreams.directory.pools[pool].awaitsJudgement = true
            }
        }
    }

    private mutating func judgeWindows(_ pool: Int) {
        for number in upstreams.directory.pools[pool].returned(at: now.monotonic) {
            announce(EndpointIndex(pool: pool, number: number), .returned)
        }
        announcePanic(pool)
        guard upstreams.directory.pools[pool].awaitsJudgement else { return }
        upstreams.directory.pools[pool].awaitsJudgement = false
        for outlier in upstreams.directory.pools[pool].outliers(at: now.monotonic) {
            judge(EndpointIndex(pool: pool, number: outlier.number), outlier.reason, detail: outlier.detail, rest: nil)
        }
    }
}

extension UpstreamDirectory {
    /// A request to there failed, or was answered by a server's error.
    mutating func answerFailed(_ index: EndpointIndex) {
        if pools[index.pool].watchesAnswers { pools[index.pool].windows[index.number].failures += 1 }
    }
}

extension Exchange {
    /// Microseconds that the upstream took until now, from when it could have the whole request; nil while it cannot. Time in which the
    /// client sends its content does not count.
    fileprivate func answerTime(at now: MonotonicTime) -> UInt64? {
        guard state.hasWholeRequest else { return nil }
        return now.nanoseconds(since: max(record.sentAt, record.wholeAt)) / 1_000
    }
}

extension FieldTable {
    /// The number that a field of this name holds; nil if there is none, or something else.
    fileprivate func decimal(of name: StaticString, _ bytes: RawSpan) -> UInt64? {
        for index in 0..<count where self[index].known == .other && bytes[self[index].name].equalsIgnoringCase(name) {
            return DecimalReader.only(bytes[self[index].value], below: 1_000_000_000)
        }
        return nil
    }
}

extension DecimalReader {
    /// The number that is all of `text`; nil if there is more, or less, or it is not below `bound`.
    fileprivate static func only(_ text: RawSpan, below bound: UInt64) -> UInt64? {
        guard !text.isEmpty else { return nil }
        var reader = DecimalReader(text)
        guard let number = reader.next(), reader.isAtEnd, number < bound else { return nil }
        return number
    }
}
