import Credentials
import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Counts requests and writes their lines of the access log. Nothing here decides or causes anything.
extension Worker {
    /// Counts the request and begins its line, from the head in `scratch.request` and the decision.
    mutating func log(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) {
        let client = exchanges[exchange].client.index
        exchanges[exchange].record.isRecorded = true
        exchanges[exchange].record.method = Int(scratch.request.method.rawValue)
        telemetry.metrics.requestStarted()
        exchanges[exchange].record.route = telemetry.labels.routes[scratch.decision.routeIndex]
        if let tier = scratch.decision.tier { exchanges[exchange].record.tier = telemetry.labels.tiers[Int(tier.rawValue)] }
        exchanges[exchange].record.awaited = scratch.decision.awaited
        telemetry.count(scratch.decision, exchanges[exchange].record.route, at: now.monotonic)
        if telemetry.logs {
            let room = exchanges[exchange].record.line.capacity
            telemetry.beginLine(
                scratch.request, bytes, exchanges[exchange].request.version, scratch.decision, downstream.clients[client].peer,
                admission.policy,
                at: now.wall, &exchanges[exchange].record.line)
            if let check = exchanges[exchange].request.check {
                telemetry.line.add(.forwardAuth, check.text, to: &exchanges[exchange].record.line)
            }
            addLimitKeys(exchange, &scratch)
            exchanges[exchange].addIDs(telemetry.line, scratch.traceparent.readable)
            if exchanges[exchange].record.line.capacity > room { exchanges[exchange].record.line.trim() }
        }
        telemetry.noteLimit(scratch.decision.limit, at: now.wall, &exchanges[exchange].record)
        exchanges[exchange].note.record(scratch.decision, scratch.request, bytes, policyVersion: admission.policy.version, at: now.wall)
    }

    /// The request's limits answered after the rest was decided.
    mutating func noteLimit(_ exchange: ExchangeIndex, _ limit: LimitOutcome, _ verdict: inout LimitVerdict) {
        telemetry.countAwaited(limit.spent, &exchanges[exchange].record)
        telemetry.noteLimit(limit, at: now.wall, &exchanges[exchange].record)
        exchanges[exchange].note.limited(limit, verdict)
    }

    /// Counts a request whose head was malformed, and begins its line.
    mutating func noteUnread(_ exchange: ExchangeIndex, _ client: ClientIndex, _ fault: HTTPFault) {
        exchanges[exchange].request.method = .other
        exchanges[exchange].request.version =
            downstream.clients[client].isStream || downstream.clients[client].session != nil ? .http2 : .http11
        telemetry.identifyUnread(at: now.wall, &exchanges[exchange].buffers.requestID)
        exchanges[exchange].record.error = fault.text
        guard !downstream.listeners[downstream.clients[client].listener].isAdmin else { return }
        exchanges[exchange].record.isRecorded = true
        telemetry.metrics.requestStarted()
        exchanges[exchange].note.recordUnparsed(fault, from: downstream.clients[client].peer.address, admission.policy)
        guard telemetry.logs else { return }
        telemetry.line.begin(at: now.wall, into: &exchanges[exchange].record.line)
        telemetry.line.add(.clientIP, downstream.clients[client].peer.address, to: &exchanges[exchange].record.line)
        exchanges[exchange].addIDs(telemetry.line, RawSpan())
    }

    /// The exchange has ended: counts it and completes its line.
    mutating func finishRecord(_ exchange: ExchangeIndex) {
        let isCancelled = exchanges[exchange].record.attemptIsOpen
        if isCancelled { telemetry.attemptCancelled(&exchanges[exchange].record, at: now.monotonic) }
        guard exchanges[exchange].record.isRecorded else { return }
        telemetry.countAwaited(SingleUses(rawValue: 0), &exchanges[exchange].record)
        let filtered = exchanges[exchange].answer.mayHaveStages ? countStages(exchange) : nil
        let micros = now.monotonic.nanoseconds(since: exchanges[exchange].record.startedAt) / 1_000
        telemetry.metrics.requestFinished(
            route: exchanges[exchange].record.route, method: exchanges[exchange].record.method,
            statusCode: exchanges[exchange].record.outcome, tier: exchanges[exchange].record.tier, durationMicros: micros,
            bytesIn: exchanges[exchange].record.bytesIn, bytesOut: exchanges[exchange].record.bytesOut)
        if exchanges[exchange].note.splitSide != .none, exchanges[exchange].hasAskedUpstream, exchanges[exchange].record.status >= 200 {
            admission.noteSplit(exchanges[exchange].note, isFailed: exchanges[exchange].record.outcome >= 500)
        }
        if let code = exchanges[exchange].record.refusal {
            telemetry.metrics.refused(route: exchanges[exchange].record.route, code: Int(code.rawValue))
        }
        if let result = exchanges[exchange].record.cached {
            telemetry.metrics.cached(route: exchanges[exchange].record.route, result)
        }
        if let check = exchanges[exchange].request.check {
            telemetry.metrics.checked(CheckKind(check), statusCode: exchanges[exchange].record.outcome)
        }
        if exchanges[exchange].request.isTraced { endTrace(exchange, micros: micros, isCancelled: isCancelled) }
        guard telemetry.logs else { return }
        if exchanges[exchange].record.attempts > 0 {
            // The address of the last attempt.
            let endpoint = exchanges[exchange].attempt.endpoint
            telemetry.line.add(.upstream, upstreams.directory.pools[endpoint.pool].settings.name, to: &exchanges[exchange].record.line)
            telemetry.line.add(.upstreamAddress, upstreams.directory.address(endpoint).addressText, to: &exchanges[exchange].record.line)
        }
        telemetry.log(&exchanges[exchange].record, filtered, micros: micros)
    }

    /// Counts what the stages of the answer have done; returns the filter's part.
    @inline(never)
    private mutating func countStages(_ exchange: ExchangeIndex) -> FilterCounts? {
        let route = exchanges[exchange].record.route
        let filtered = exchanges[exchange].answer.filterCounts
        if let filtered {
            telemetry.noteFiltered(route, filtered, isShadow: exchanges[exchange].answer.stages?.filter.isShadow ?? false)
            noteUnlabelled(exchange, filtered)
        }
        if let outcome = exchanges[exchange].answer.compressionOutcome { telemetry.note(outcome, route) }
        return filtered
    }

    /// Adds whom the limits count. Also before they have answered, as the request's bytes are in memory only now.
    private mutating func addLimitKeys(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        guard scratch.decision.charge.count > 0 else { return }
        var keys = scratch.takeOutput()
        admission.appendLimitMarks(&scratch.decision, to: &keys)
        telemetry.line.add(
            .limitPolicy, admission.policy.rules[scratch.decision.routeIndex].name, to: &exchanges[exchange].record.line)
        telemetry.line.add(.limitKeys, keys.readable, to: &exchanges[exchange].record.line)
        scratch.putBackOutput(keys)
    }
}

extension WorkerTelemetry {
    /// Counts and logs the outcome of a request's limits, if they have answered.
    fileprivate mutating func noteLimit(_ limit: LimitOutcome, at now: WallTime, _ record: inout RequestRecord) {
        guard record.isRecorded else { return }
        if case .none = limit.result { return }
        metrics.rateLimitDecision(route: record.route, outcome: Int(limit.result.rawValue), source: Int(limit.source.rawValue))
        guard logs else { return }
        record.isLimited = true
        addLimit(limit, at: now, to: &record.line)
    }

    fileprivate mutating func noteFiltered(_ route: LabelID, _ counts: FilterCounts, isShadow: Bool) {
        metrics.filtered(
            route: route, kept: UInt64(counts.kept), dropped: UInt64(counts.dropped), unlabelled: UInt64(counts.unlabelled),
            droppedUnlabelled: UInt64(counts.droppedUnlabelled), isShadow: isShadow)
    }

    fileprivate mutating func note(_ outcome: CompressionOutcome, _ route: LabelID) {
        switch outcome {
        case .skipped(let reason): metrics.compressionSkipped(route: route, reason)
        case .compressed(let bytes):
            let coding: CompressionCoding = bytes.coding == .zstd ? .zstd : bytes.coding == .br ? .br : .gzip
            metrics.compressed(route: route, coding, from: bytes.taken, to: bytes.handedOn)
        }
    }

    /// An attempt ended: with the status of an answer's head, or 0 for none.
    mutating func attemptEnded(_ record: inout RequestRecord, status: Int, at now: MonotonicTime) {
        record.attemptIsOpen = false
        record.upstreamStatus = status
        record.upstreamMicros = now.nanoseconds(since: record.sentAt) / 1_000
        metrics.upstreamFinished(upstream: record.upstream, statusCode: status, durationMicros: record.upstreamMicros)
    }

    /// An attempt was given up: its client has gone, or the gateway has answered without waiting for it.
    fileprivate mutating func attemptCancelled(_ record: inout RequestRecord, at now: MonotonicTime) {
        record.attemptIsOpen = false
        record.upstreamStatus = 0
        record.upstreamMicros = now.nanoseconds(since: record.sentAt) / 1_000
        metrics.upstreamCancelled(upstream: record.upstream, durationMicros: record.upstreamMicros)
    }

    fileprivate mutating func count(_ decision: borrowing Decision, _ route: LabelID, at now: MonotonicTime) {
        let awaited = decision.awaited
        if !awaited.hasProof { count(decision.auth, decision.authReason, route) }
        countToken(decision, since: now)
        if let attestation = decision.attestation, !awaited.hasAttestation { count(attestation, route) }
        if let issuer = decision.effects.keysWanted { metrics.unknownKeyID(issuer: labels.issuers[issuer]) }
    }

    private mutating func count(_ auth: AuthOutcome, _ reason: AuthReason, _ route: LabelID) {
        metrics.authDecision(route: route, outcome: Int(auth.rawValue), reason: Int(reason.rawValue))
    }

    private mutating func count(_ attestation: AuthReason, _ route: LabelID) {
        metrics.attested(route: route, reason: Int(attestation.rawValue))
    }

    /// Counts and logs what Redis was asked about, once: as used before, or not.
    fileprivate mutating func countAwaited(_ spent: SingleUses, _ record: inout RequestRecord) {
        guard record.awaited.rawValue != 0 else { return }
        if record.awaited.hasAttestation { count(spent == .attestation ? .used : .none, record.route) }
        if record.awaited.hasProof {
            let (auth, reason): (AuthOutcome, AuthReason) = spent == .proof ? (.refused, .proofReplayed) : (.accepted, .proven)
            count(auth, reason, record.route)
            if logs { add(auth, reason, to: &record.line) }
        }
        record.awaited = SingleUses(rawValue: 0)
    }

    private func add(_ auth: AuthOutcome, _ reason: AuthReason, to out: inout ByteBuffer) {
        line.add(.authOutcome, auth.text, to: &out)
        if reason != .none { line.add(.authReason, reason.text, to: &out) }
    }

    /// Counts the verification of the request's token, in a turn that began then.
    mutating func countToken(_ decision: borrowing Decision, since turn: MonotonicTime) {
        switch decision.tokenSource {
        case .none: break
        case .hit: metrics.tokenCacheHit()
        case .miss:
            metrics.tokenCacheMiss()
            metrics.tokenVerified(
                algorithm: decision.verifiedAlgorithm.map { Int($0.rawValue) }, reason: Int(decision.authReason.rawValue),
                nanoseconds: EventLoop.now().monotonic.nanoseconds(since: turn))
        }
    }

    /// Begins the line with all that the decision knows. `version` is that of the client's connection: a head that a proxy described
    /// has none.
    fileprivate func beginLine(
        _ head: borrowing RequestHead, _ bytes: RawSpan, _ version: HTTPVersion, _ decision: borrowing Decision, _ peer: Peer,
        _ policy: Policy, at now: WallTime, _ out: inout ByteBuffer
    ) {
        line.begin(at: now, into: &out)
        line.add(.clientIP, decision.client.address, to: &out)
        if decision.client.address != peer.address { line.add(.peerIP, peer.address, to: &out) }
        line.add(.method, bytes[head.methodText], to: &out)
        line.add(.host, bytes[head.host], to: &out)
        line.addPath(bytes[head.path], hasQuery: !head.query.isEmpty, to: &out)
        line.add(.proto, version.text, to: &out)
        if decision.routeIndex >= 0 { line.add(.route, policy.rules[decision.routeIndex].name, to: &out) }
        if let index = head.fields.first(.userAgent) { line.add(.userAgent, bytes[head.fields[index].value], to: &out) }
        addIdentity(decision, policy, at: now, &out)
        if decision.refusal != nil { line.add(.dialect, policy.envelopes[decision.dialect].name, to: &out) }
    }

    private func addIdentity(_ decision: borrowing Decision, _ policy: Policy, at now: WallTime, _ out: inout ByteBuffer) {
        if !decision.awaited.hasProof { add(decision.auth, decision.authReason, to: &out) }
        switch decision.tokenSource {
        case .none: break
        case .hit: line.add(.cache, "hit" as StaticString, to: &out)
        case .miss: line.add(.cache, "miss" as StaticString, to: &out)
        }
        if decision.offersRefresh { line.add(.refresh, decision.refreshRole.text, to: &out) }
        guard let identity = decision.identity else { return }
        line.add(.userID, decision.userID, to: &out)
        line.add(.sessionID, decision.sessionID, to: &out)
        if let tier = decision.tier { line.add(.tier, policy.tiers.name(of: tier), to: &out) }
        line.add(.issuer, policy.trust.issuers[Int(identity.issuerIndex)].name, to: &out)
        line.add(.kid, decision.keyID, to: &out)
        if let algorithm = identity.algorithm { line.add(.alg, algorithm.name, to: &out) }
        if identity.issuedAt > 0 { line.add(.tokenAgeSeconds, Int(now.seconds - identity.issuedAt), to: &out) }
    }
}

extension Exchange {
    /// Adds the ids of request and trace to the log line.
    fileprivate mutating func addIDs(_ line: AccessLogLine, _ traceparent: RawSpan) {
        var out = ByteBuffer()
        swap(&out, &record.line)
        line.add(.requestID, buffers.requestID.readable, to: &out)
        // The upstream's `traceparent` names the attempt's span.
        let context = request.isTraced ? trace.context : TraceContext(parsing: traceparent)
        if let context { line.add(context, to: &out) }
        swap(&out, &record.line)
    }
}

extension Exchange {
    /// Whether its answer, or the want of one, is an upstream's: it was sent there, or by a fetch of the cache.
    fileprivate var hasAskedUpstream: Bool {
        !record.isBeyondBound && (record.attempts > 0 || record.cached.map { $0 != .hit } ?? false)
    }
}

extension RequestRecord {
    /// The status by which the request is counted: that of its refusal, also where the client of gRPC gets 200.
    var outcome: Int { refusal.map { Int($0.status) } ?? status }

    /// Resets the record for a request that begins now, and keeps its buffer.
    mutating func begin(at now: MonotonicTime) {
        var fresh = RequestRecord()
        swap(&fresh.line, &line)
        self = fresh
        line.removeAll()
        startedAt = now
    }
}

/// `contains` and `isEmpty` of a set of another module are not specialised.
extension SingleUses {
    fileprivate var hasProof: Bool { rawValue & Self.proof.rawValue != 0 }
    fileprivate var hasAttestation: Bool { rawValue & Self.attestation.rawValue != 0 }
}
