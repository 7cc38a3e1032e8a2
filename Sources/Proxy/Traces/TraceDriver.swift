import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Records requests as spans. Nothing here decides or causes anything; a request that is not sampled meets one branch at each place.
extension Worker {
    // MARK: the request

    /// Decides whether the request is recorded, and begins its span. Only a trusted caller's trace is continued: any other
    /// client could fill the collector, or write into traces of others. Its trace is linked from a new one.
    mutating func beginTrace(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ sampler: TraceSampler, _ scratch: inout Scratch) {
        let client = exchanges[exchange].client.index
        guard !downstream.listeners[downstream.clients[client].listener].isAdmin else { return }
        var parent: TraceContext?
        var link: TraceContext?
        if let index = scratch.request.fields.first(.traceparent),
            let caller = TraceContext(parsing: bytes[scratch.request.fields[index].value])
        {
            let isTrusted = admission.trustsTrace(
                scratch.decision, scratch.request, bytes, downstream.clients[client].peer)
            if isTrusted { parent = caller } else { link = caller }
        }
        let fresh = TraceContext(
            traceHigh: telemetry.random.next(), traceLow: telemetry.random.next() | 1, spanID: telemetry.random.next() | 1,
            isSampled: true)
        let context = parent?.recorded(as: fresh.spanID) ?? fresh
        guard sampler.samples(traceLow: context.traceID.low, parent: parent?.isSampled) else { return }
        if telemetry.spans.isEmpty { telemetry.spans.reserve() }
        let attemptID = telemetry.random.next() | 1
        exchanges[exchange].trace.begin(context, parentID: parent?.spanID ?? 0, link: link, attemptID: attemptID, at: now)
        if link != nil { scratch.decision.removeTraceState() }
        exchanges[exchange].request.isTraced = true
        scratch.traceparent.removeAll()
        context.recorded(as: attemptID).write(into: &scratch.traceparent)
        describe(exchange, bytes, &scratch)
        if exchanges[exchange].rare?.refresh != nil { recordRefresh(exchange) }
    }

    /// Adds what is known of the request while its head is in memory.
    private mutating func describe(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) {
        let trace = exchanges[exchange].trace
        let peer = downstream.clients[exchanges[exchange].client.index].peer
        let target = scratch.request.path
        trace.attributes.addMethod(scratch.request.method, bytes[scratch.request.methodText])
        trace.attributes.add(.path, bytes[target])
        if !scratch.request.query.isEmpty { trace.attributes.add(.query, "[redacted]" as StaticString) }
        trace.attributes.add(.scheme, peer.isTLS ? "https" as StaticString : "http")
        trace.attributes.add(.protocolVersion, scratch.request.version.number)
        trace.attributes.addServer(bytes[scratch.request.host], isTLS: peer.isTLS)
        trace.attributes.add(.clientAddress, scratch.decision.client.address)
        if peer.isUnix {
            trace.attributes.add(.transport, "unix" as StaticString)
        } else {
            trace.attributes.add(.peerAddress, peer.address)
            trace.attributes.add(.peerPort, Int(peer.port))
        }
        if let index = scratch.request.fields.first(.userAgent) {
            trace.attributes.add(.userAgent, bytes[scratch.request.fields[index].value])
        }
        addRoute(exchange, &scratch)
        copyRequestID(exchange)
    }

    private mutating func addRoute(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        let trace = exchanges[exchange].trace
        let limit = scratch.decision.limit
        if scratch.decision.routeIndex >= 0 {
            let rule = admission.policy.rules[scratch.decision.routeIndex]
            trace.attributes.add(.route) { out in
                out.append(rule.path)
                if rule.isPrefix { out.append("*") }
            }
            trace.attributes.add(.routeName, rule.name)
        }
        trace.attributes.add(.authOutcome, scratch.decision.auth.text)
        if let tier = scratch.decision.tier { trace.attributes.add(.tier, admission.policy.tiers.name(of: tier)) }
        if let check = exchanges[exchange].request.check { trace.attributes.add(.forwardAuth, check.text) }
        if limit.result != .none {
            trace.attributes.add(.limitOutcome, limit.result.text)
            trace.attributes.add(.limitSource, limit.source.text)
        }
    }

    private mutating func copyRequestID(_ exchange: ExchangeIndex) {
        let trace = exchanges[exchange].trace
        var id = ByteBuffer()
        swap(&id, &exchanges[exchange].buffers.requestID)
        trace.attributes.add(.requestID, id.readable)
        swap(&id, &exchanges[exchange].buffers.requestID)
    }

    /// The exchange has ended: ends what was under way for it, and its span.
    mutating func endTrace(_ exchange: ExchangeIndex, micros: UInt64, isCancelled: Bool) {
        let trace = exchanges[exchange].trace
        let error = exchanges[exchange].record.error
        let (status, outcome) = (exchanges[exchange].record.status, exchanges[exchange].record.outcome)
        // 499 stands in the log for a client that went away before it was answered.
        let isAnswered = status > 0 && status != 499
        if let wait = trace.takeWait() {
            let isOver = isAnswered && error.utf8CodeUnitCount == 0
            if !isOver { trace.waited.add(.errorType, error.utf8CodeUnitCount > 0 ? error : "cancelled") }
            emitWait(exchange, wait.subject, wait.began, isError: !isOver)
        }
        if trace.attemptIsUnderWay { endAttempt(exchange, error: isCancelled ? "cancelled" : "") }
        if isAnswered { trace.attributes.add(.status, status) }
        trace.attributes.add(.requestBodySize, Int(clamping: exchanges[exchange].record.bytesIn))
        trace.attributes.add(.responseBodySize, Int(clamping: exchanges[exchange].record.bytesOut))
        if let refusal = exchanges[exchange].record.refusal { trace.attributes.add(.code, refusal.text) }
        let isError = outcome >= 500 || !isAnswered || error.utf8CodeUnitCount > 0 && outcome < 400
        if isError {
            if error.utf8CodeUnitCount > 0 {
                trace.attributes.add(.errorType, error)
            } else if isAnswered {
                trace.attributes.add(.errorType) { $0.append(decimal: outcome) }
            } else {
                trace.attributes.add(.errorType, "client_closed" as StaticString)
            }
        }
        let context = trace.context
        var record = SpanRecord(
            .request, context, parentID: trace.parentID,
            start: trace.epoch &+ exchanges[exchange].record.startedAt.nanoseconds,
            end: trace.epoch &+ now.monotonic.nanoseconds)
        record.parentIsRemote = record.parentID != 0
        record.link = trace.link
        record.isError = isError
        var attributes = SpanAttributes()
        swap(&attributes, &trace.attributes)
        telemetry.spans.append(record, attributes.encoded)
        swap(&attributes, &trace.attributes)
        telemetry.metrics.requestRecorded(route: exchanges[exchange].record.route, durationMicros: micros, as: context, at: now.wall)
    }

    // MARK: children

    /// An attempt begins: its span is the parent of the upstream's.
    mutating func beginAttempt(_ exchange: ExchangeIndex) {
        let trace = exchanges[exchange].trace
        if exchanges[exchange].record.attempts > 1 {
            trace.attemptID = telemetry.random.next() | 1
            exchanges[exchange].writeAttemptID()
        }
        trace.attemptIsUnderWay = true
        exchanges[exchange].describeAttempt(
            upstreams.directory.address(exchanges[exchange].attempt.endpoint),
            upstream: upstreams.directory.pools[exchanges[exchange].attempt.endpoint.pool].settings.name)
    }

    /// The attempt has ended; `error` is empty if it was answered.
    mutating func endAttempt(_ exchange: ExchangeIndex, error: StaticString) {
        let trace = exchanges[exchange].trace
        guard trace.attemptIsUnderWay else { return }
        trace.attemptIsUnderWay = false
        let status = exchanges[exchange].record.upstreamStatus
        let isFailed = error.utf8CodeUnitCount > 0
        if status > 0 { trace.attempt.add(.status, status) }
        if isFailed {
            trace.attempt.add(.errorType, error)
        } else if status >= 400 {
            trace.attempt.add(.errorType) { $0.append(decimal: status) }
        }
        var record = SpanRecord(
            .attempt, trace.context.recorded(as: trace.attemptID),
            parentID: trace.context.spanID,
            start: trace.epoch &+ exchanges[exchange].record.sentAt.nanoseconds,
            end: trace.epoch &+ now.monotonic.nanoseconds)
        record.isError = isFailed || status >= 400
        var attributes = SpanAttributes()
        swap(&attributes, &trace.attempt)
        telemetry.spans.append(record, attributes.encoded)
        swap(&attributes, &trace.attempt)
    }

    /// The request's limits have been decided.
    mutating func recordLimits(_ exchange: ExchangeIndex, _ outcome: LimitOutcome) {
        let trace = exchanges[exchange].trace
        guard let wait = trace.takeWait() else { return }
        trace.waited.add(.limitOutcome, outcome.result.text)
        trace.waited.add(.limitSource, outcome.source.text)
        trace.attributes.add(.limitOutcome, outcome.result.text)
        trace.attributes.add(.limitSource, outcome.source.text)
        if outcome.source == .fallback { trace.waited.add(.errorType, "no_answer" as StaticString) }
        emitWait(exchange, wait.subject, wait.began, isError: outcome.source == .fallback)
    }

    /// The handler has returned a streamed answer: its span ends here.
    mutating func recordHandled(_ exchange: ExchangeIndex) {
        let trace = exchanges[exchange].trace
        guard let wait = trace.takeWait() else { return }
        emitWait(exchange, wait.subject, wait.began, isError: false)
    }

    private mutating func emitWait(_ exchange: ExchangeIndex, _ subject: SpanSubject, _ began: MonotonicTime, isError: Bool) {
        let trace = exchanges[exchange].trace
        if subject == .limits {
            trace.waited.add(.database, "redis" as StaticString)
            trace.waited.add(.operation, "EVALSHA" as StaticString)
            trace.waited.add(.procedure, "limits" as StaticString)
        }
        emitChild(exchange, subject, from: began, to: now.monotonic, isError: isError)
    }

    /// The refresh was over before the request was identified.
    private mutating func recordRefresh(_ exchange: ExchangeIndex) {
        let trace = exchanges[exchange].trace
        guard let refresh = exchanges[exchange].rare?.refresh else { return }
        let result = RefreshResult(refresh.answer.outcome)
        trace.waited.removeAll()
        trace.waited.add(.refreshOutcome, result.text)
        trace.waited.add(.refreshRole, RefreshSource(refresh.answer.role).text)
        if result == .unavailable { trace.waited.add(.errorType, "unavailable" as StaticString) }
        emitChild(
            exchange, .refresh, from: refresh.began, to: refresh.ended,
            isError: result == .unavailable)
    }

    private mutating func emitChild(
        _ exchange: ExchangeIndex, _ subject: SpanSubject, from start: MonotonicTime, to end: MonotonicTime, isError: Bool
    ) {
        let trace = exchanges[exchange].trace
        var record = SpanRecord(
            subject, trace.context.recorded(as: telemetry.random.next() | 1),
            parentID: trace.context.spanID, start: trace.epoch &+ start.nanoseconds,
            end: trace.epoch &+ end.nanoseconds)
        record.isError = isError
        var attributes = SpanAttributes()
        swap(&attributes, &trace.waited)
        telemetry.spans.append(record, attributes.encoded)
        swap(&attributes, &trace.waited)
    }
}

extension Exchange {
    /// Writes the span of a further attempt into the head that is sent again.
    fileprivate mutating func writeAttemptID() {
        guard !attempt.head.span.isEmpty else { return }
        var digits = ByteBuffer(capacity: 16)
        digits.append(hex: trace.attemptID, digits: 16)
        for offset in 0..<16 { attempt.replay.set(digits.readable[offset], at: Int(attempt.head.span.start) + offset) }
    }

    /// Adds what is known of an attempt before it is sent.
    fileprivate mutating func describeAttempt(_ address: UpstreamAddress, upstream: String) {
        trace.attempt.removeAll()
        var head = ByteBuffer()
        swap(&head, &attempt.replay)
        trace.attempt.addTarget(address, head.readable, request.method)
        swap(&head, &attempt.replay)
        address.authority.withRawBytes { trace.attempt.addServer($0, isTLS: address.tls != nil) }
        if let ip = address.address.ip, let port = address.address.port {
            trace.attempt.add(.peerAddress, ip)
            trace.attempt.add(.peerPort, Int(port))
        } else {
            trace.attempt.add(.transport, "unix" as StaticString)
            trace.attempt.add(.peerAddress, address.addressText)
        }
        trace.attempt.add(.upstream, upstream)
        if record.attempts > 1 { trace.attempt.add(.resendCount, record.attempts - 1) }
    }
}

extension SpanAttributes {
    /// Adds method and URL from the head for the upstream, without the query.
    fileprivate mutating func addTarget(_ address: UpstreamAddress, _ head: RawSpan, _ method: Method) {
        let start = (head.firstIndex(of: UInt8(ascii: " "), from: 0) ?? -1) + 1
        addMethod(method, head.extracting(0..<max(0, start - 1)))
        var end = start
        while end < head.byteCount, head[end] != UInt8(ascii: " "), head[end] != UInt8(ascii: "?") { end += 1 }
        let hasQuery = end < head.byteCount && head[end] == UInt8(ascii: "?")
        let path = head.extracting(start..<min(end, start + SpanAttributes.maxText))
        add(.fullURL) { out in
            out.append(address.tls == nil ? "http://" as StaticString : "https://")
            out.append(address.authority)
            out.append(path)
            if hasQuery { out.append("?[redacted]") }
        }
    }
}

extension HTTPVersion {
    /// `network.protocol.version`.
    fileprivate var number: StaticString {
        switch self {
        case .http10: "1.0"
        case .http11: "1.1"
        case .http2: "2"
        }
    }
}
