import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Answers of the gateway itself: the only place where a refusal or a failure becomes bytes.
extension Worker {
    // MARK: refusing

    /// Refuses a request that is malformed, too large or late, before or after it was decided about. `hasFields`: `scratch.request` has
    /// the fields of its head that were read, with their bytes in `scratch.section`.
    mutating func refuse(_ client: ClientIndex, _ fault: HTTPFault, hasFields: Bool = false, _ scratch: inout Scratch) {
        var exchange = downstream.clients[client].exchange
        if exchange.isNone {
            exchange = openExchange(client)
            noteUnread(exchange.index, client, fault)
            exchanges[exchange.index].request.dialect = admission.policy.dialect
            addStrictTransport(exchange.index)
            let listener = downstream.listeners[downstream.clients[client].listener]
            if hasFields, !listener.isAdmin, !listener.isCheck {
                admission.addCORSFields(
                    ofUnserved: scratch.request.fields, scratch.section.head, to: &exchanges[exchange.index].buffers.answerEdits)
            }
        } else {
            releaseUpstream(exchange.index, reusable: false)
        }
        answer(exchange.index, with: Refusal(fault), &scratch)
    }

    /// Notes a request of HTTP/2 that was malformed: the reset of its stream is the answer.
    mutating func noteMalformed(_ client: ClientIndex, _ fault: HTTPFault) {
        let exchange = openExchange(client).index
        noteUnread(exchange, client, fault)
        exchanges[exchange].keep(Refusal(fault), in: &refusals, policy: admission.policy, at: now.wall)
        cancel(exchange, status: 400)
    }

    /// The upstream has failed, and there is no retry: answers with the failure, or cuts an answer that has begun. `awaitsClient`: it
    /// waited for the client's content, so the request was late. A call of gRPC may send nothing for long, and knows no such status.
    mutating func answerLost(_ exchange: ExchangeIndex, _ loss: UpstreamLoss, awaitsClient: Bool = false, _ scratch: inout Scratch) {
        if exchanges[exchange].rare?.copiedRoute != nil { return endCopy(exchange, loss.row.bound == nil ? .failed : .dropped) }
        exchanges[exchange].record.error = loss.row.text
        if exchanges[exchange].state.answer == .started { exchanges[exchange].rare?.live?.ends(loss == .timeout ? .idle : .error) }
        let isLate = awaitsClient && exchanges[exchange].request.dialect != .grpc
        endLost(exchange, isLate ? Refusal(HTTPFault(.late)) : loss.row.refusal, &scratch)
    }

    /// There will be no more of an answer: answers with `refusal`, or ends an answer that has begun.
    mutating func endLost(_ exchange: ExchangeIndex, _ refusal: Refusal, _ scratch: inout Scratch) {
        guard exchanges[exchange].state.answer == .started else { return answer(exchange, with: refusal, &scratch) }
        guard mayEndWithStatus(exchange) else { return cutAnswer(exchange, &scratch) }
        endWithStatus(exchange, refusal, &scratch)
    }

    /// Whether the client of an answer that has begun can be told by trailers that it is incomplete.
    func mayEndWithStatus(_ exchange: ExchangeIndex) -> Bool {
        exchanges[exchange].request.dialect == .grpc && exchanges[exchange].state.answer == .started
            && downstream.clients[exchanges[exchange].client.index].http.endsByTrailers
    }

    /// Ends an answer that has begun with the status of gRPC as its trailers. Unlike after a reset, clients see the true status and
    /// the reason.
    mutating func endWithStatus(_ exchange: ExchangeIndex, _ refusal: Refusal, _ scratch: inout Scratch) {
        let client = exchanges[exchange].client.index
        exchanges[exchange].rare?.live?.ends(.error)
        exchanges[exchange].record.refusal = refusal.code
        var status = FieldEdits()
        refusal.addGRPCStatus(to: &status)
        if downstream.clients[client].isStream {
            downstream.clients[client].trailers.removeAll()
            downstream.clients[client].trailers.append(status.http1)
        } else {
            scratch.beginOutput()
            scratch.output.append(ChunkWriter.lastChunkBeforeTrailers)
            scratch.output.append(status.http1)
            scratch.output.append("\r\n")
        }
        endAnswer(exchange, &scratch)
    }

    /// Cuts an answer that cannot be completed, so that it does not look complete.
    mutating func cutAnswer(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        if let flight = exchanges[exchange].rare?.fetch { return fetchLost(flight, exchange, .badGateway) }
        let client = exchanges[exchange].client.index
        // If the end of the connection ends the answer, only a reset shows that it is incomplete.
        if downstream.clients[client].http.endsWithConnection { downstream.clients[client].connection.resetOnClose() }
        apply(downstream.clients[client].http.sendReset(), client, &scratch)
    }

    // MARK: writing

    /// Writes the refusal in the exchange's dialect and ends the exchange.
    mutating func answer(_ exchange: ExchangeIndex, with refusal: Refusal, _ scratch: inout Scratch) {
        if let flight = exchanges[exchange].rare?.fetch { return fetchLost(flight, exchange, refusal) }
        if case .rateLimited = refusal { exchanges[exchange].count(in: &hottestKeys, policy: admission.policy, at: now.wall) }
        // Before the note goes to those that are kept.
        let route = exchanges[exchange].note.routeIndex(admission.policy)
        exchanges[exchange].keep(refusal, in: &refusals, policy: admission.policy, at: now.wall)
        exchanges[exchange].record.refusal = refusal.code
        let dialect = exchanges[exchange].request.dialect
        var body = ByteBuffer()
        swap(&body, &scratch.refusal)
        body.removeAll()
        let envelope = admission.policy.envelopes[dialect]
        envelope.writeBody(
            refusal, requestID: exchanges[exchange].buffers.requestID.readable, extras: admission.policy.extras(of: refusal),
            message: admission.policy.message(of: refusal), into: &body)
        // `response-set=Cache-Control:…` is about the upstream's answers: no cache may keep a refusal.
        if exchanges[exchange].buffers.answerEdits.removesByName {
            for name in ["cache-control", "cdn-cache-control", "surrogate-control", "expires"] as [StaticString] {
                exchanges[exchange].buffers.answerEdits.withdraw(name)
            }
        }
        refusal.addFields(admission.policy, route: route, in: dialect, to: &exchanges[exchange].buffers.answerEdits)
        if let wanted = admission.policy.upgradeProtocol(of: refusal), exchanges[exchange].request.version != .http2 {
            // RFC 9110 §15.5.22. HTTP/2 has no such fields (RFC 9113 §8.2.2).
            exchanges[exchange].buffers.answerEdits.add("Upgrade", wanted)
            exchanges[exchange].buffers.answerEdits.add("Connection", "Upgrade")
        }
        let check = exchanges[exchange].request.check
        if check == .nginx { refusal.addTrueStatus(to: &exchanges[exchange].buffers.answerEdits) }
        answer(
            exchange, status: check?.status(of: refusal) ?? dialect.status(of: refusal), contentType: envelope.contentType, body.readable,
            &scratch)
        swap(&body, &scratch.refusal)
    }

    /// Writes a whole answer of the gateway's own and ends the exchange.
    mutating func answer(
        _ exchange: ExchangeIndex, status: Int, contentType: StaticString, saysCaching: Bool = false, _ body: RawSpan,
        _ scratch: inout Scratch
    ) {
        let client = exchanges[exchange].client.index
        downstream.clients[client].http.bodyAbandoned()
        let persistence = downstream.clients[client].http.sendHead(.length(UInt64(body.byteCount)))
        scratch.beginOutput()
        OwnResponse.write(
            status: status, contentType: contentType, body: body, isHead: exchanges[exchange].request.method == .head,
            requestID: exchanges[exchange].buffers.requestID.readable, edits: exchanges[exchange].buffers.answerEdits,
            saysCaching: saysCaching, persistence: persistence, at: now.wall, into: &scratch.output)
        exchanges[exchange].record.status = status
        exchanges[exchange].record.bytesOut = UInt64(body.byteCount)
        endAnswer(exchange, &scratch)
    }
}

extension Exchange {
    /// Keeps the refusal for operators who ask about it.
    fileprivate mutating func keep(_ refusal: Refusal, in refusals: inout RecentRefusals, policy: Policy, at now: WallTime) {
        guard record.isRecorded else { return }
        note.refused(refusal, cause: record.error)
        var requestID = ByteBuffer()
        swap(&requestID, &buffers.requestID)
        refusals.keep(&note, requestID.readable, policy: policy, at: now)
        swap(&requestID, &buffers.requestID)
    }

    /// Counts the key that a limit refused.
    fileprivate mutating func count(in keys: inout HottestKeys, policy: Policy, at now: WallTime) {
        if record.isRecorded { keys.count(note, policy: policy, at: now) }
    }
}
