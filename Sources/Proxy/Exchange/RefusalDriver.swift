import Gate
import HTTP
import Transport
import Wire

/// Answers that the gateway makes itself instead of forwarding: the one place where a decision or a failure becomes bytes.
extension Worker {
    // MARK: instead of forwarding

    /// Refuses a request that is malformed, too large or late: none was decided about, or one is under way.
    mutating func refuse(_ client: ClientIndex, _ fault: HTTPFault, _ scratch: inout Scratch) {
        var exchange = downstream.clients[client].exchange
        if exchange.isNone {
            exchange = openExchange(client)
            noteUnread(exchange.index, client, fault)
            exchanges[exchange.index].dialect = admission.policy.dialect
        } else {
            releaseUpstream(exchange.index, reusable: false)
        }
        answer(exchange.index, with: Refusal(fault), &scratch)
    }

    // MARK: instead of an answer

    /// The upstream failed the exchange for good: says so, or cuts an answer that has begun.
    mutating func answerLost(_ exchange: ExchangeIndex, _ loss: UpstreamLoss, _ scratch: inout Scratch) {
        exchanges[exchange].record.error = loss.text
        guard exchanges[exchange].state.answer != .started else { return cutAnswer(exchange, &scratch) }
        answer(exchange, with: loss.refusal, &scratch)
    }

    /// The answer that has begun cannot be completed, and must not look whole.
    mutating func cutAnswer(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        let client = exchanges[exchange].client.index
        // To a client that takes the end of the connection for the end of the answer, only a reset says otherwise.
        if downstream.clients[client].http.endsWithConnection { downstream.clients[client].connection.resetOnClose() }
        apply(downstream.clients[client].http.sendReset(on: exchanges[exchange].stream), client, &scratch)
    }

    // MARK: writing

    private mutating func keepRefusal(_ exchange: ExchangeIndex, _ refusal: Refusal) {
        guard exchanges[exchange].record.isRecorded else { return }
        exchanges[exchange].note.refused(refusal, cause: exchanges[exchange].record.error)
        var note = DecisionRecord()
        var requestID = ByteBuffer()
        swap(&note, &exchanges[exchange].note)
        swap(&requestID, &exchanges[exchange].ids.requestID)
        refusals.keep(&note, requestID.readable, policy: admission.policy, at: now.wall)
        swap(&note, &exchanges[exchange].note)
        swap(&requestID, &exchanges[exchange].ids.requestID)
    }

    /// Writes the refusal in the exchange's dialect and ends the exchange.
    mutating func answer(_ exchange: ExchangeIndex, with refusal: Refusal, _ scratch: inout Scratch) {
        keepRefusal(exchange, refusal)
        var body = ByteBuffer(capacity: 512)
        exchanges[exchange].dialect.writeBody(
            refusal, requestID: exchanges[exchange].ids.requestID.readable, upgradeURL: admission.policy.upgradeURL,
            into: &body)
        refusal.addFields(admission.policy, to: &exchanges[exchange].answerEdits)
        answer(
            exchange, status: Int(refusal.status), contentType: exchanges[exchange].dialect.contentType, body.readable, &scratch)
    }

    /// Writes a whole answer of the gateway's own and ends the exchange.
    mutating func answer(
        _ exchange: ExchangeIndex, status: Int, contentType: StaticString, saysCaching: Bool = false, _ body: RawSpan,
        _ scratch: inout Scratch
    ) {
        let client = exchanges[exchange].client.index
        downstream.clients[client].http.bodyAbandoned()
        let persistence = downstream.clients[client].http.sendHead(.length(UInt64(body.byteCount)), on: exchanges[exchange].stream)
        var out = ByteBuffer()
        swap(&out, &scratch.output)
        out.removeAll()
        OwnResponse.write(
            status: status, contentType: contentType, body: body, isHead: exchanges[exchange].method == .head,
            requestID: exchanges[exchange].ids.requestID.readable, edits: exchanges[exchange].answerEdits,
            saysCaching: saysCaching, persistence: persistence, at: now.wall, into: &out)
        exchanges[exchange].record.status = status
        exchanges[exchange].record.bytesOut = UInt64(body.byteCount)
        let handle = exchanges.handle(exchange)
        sendToClient(client, out.readable, &scratch)
        out.removeAll()
        swap(&out, &scratch.output)
        if exchanges.isCurrent(handle) { finishAnswer(exchange, reusable: false, &scratch) }
    }
}

extension UpstreamLoss {
    /// What the client is told.
    var refusal: Refusal {
        switch self {
        case .tooManyConnections, .shortage: .unavailable(.overload, retryAfterSeconds: 1)
        case .connectTimeout, .timeout: .timeout
        case .notReached, .handshakeFailed, .brokenWhileSending, .closedUnanswered, .badAnswer, .brokenAnswer: .badGateway
        }
    }
}
