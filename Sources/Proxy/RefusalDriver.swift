import Gate
import HTTP
import Transport
import Wire

/// Answers that the gateway makes itself instead of forwarding: the one place where a decision or a failure becomes bytes.
extension Worker {
    // MARK: instead of forwarding

    /// Refuses the request whose head is in `scratch.request` at the start of `input`, and consumes that head.
    mutating func refuse(_ client: Int, _ refusal: Refusal, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        let exchange = openExchange(client)
        note(exchange, client, input.readable, &scratch)
        exchanges[exchange].lines.append(scratch.decision.refreshLines)
        exchanges[exchange].lines.append(scratch.decision.limitLines)
        input.discard(scratch.request.length)
        answer(exchange, with: refusal, &scratch)
    }

    /// Refuses a request that is malformed, too large or late: none was decided about, or one is under way.
    mutating func refuse(_ client: Int, _ fault: HTTPFault, _ scratch: inout Scratch) {
        var exchange = clients[client].exchange
        if exchange.isNone {
            exchange = exchangeHandle(openExchange(client))
            noteUnread(Int(exchange.index), client, fault)
            exchanges[Int(exchange.index)].dialect = admission.policy.dialect
        } else {
            releaseUpstream(Int(exchange.index), reusable: false)
        }
        answer(Int(exchange.index), with: Refusal(fault), &scratch)
    }

    // MARK: instead of an answer

    /// The upstream failed the exchange for good: says so, or cuts an answer that has begun.
    mutating func answerLost(_ exchange: Int, _ loss: UpstreamLoss, _ scratch: inout Scratch) {
        exchanges[exchange].record.error = loss.text
        guard !exchanges[exchange].answerIsOut else { return cutAnswer(exchange, &scratch) }
        answer(exchange, with: loss.refusal, &scratch)
    }

    /// The answer that has begun cannot be completed, and must not look whole.
    mutating func cutAnswer(_ exchange: Int, _ scratch: inout Scratch) {
        let client = Int(exchanges[exchange].client.index)
        // To a client that takes the end of the connection for the end of the answer, only a reset says otherwise.
        if exchanges[exchange].delimiting == .untilClose { clients[client].channel.resetOnClose() }
        apply(clients[client].messages.answerBroken(), client, &scratch)
    }

    // MARK: writing

    private mutating func keepRefusal(_ exchange: Int, _ refusal: Refusal) {
        guard exchanges[exchange].record.isRecorded else { return }
        exchanges[exchange].note.refused(refusal, cause: exchanges[exchange].record.error)
        var note = DecisionNote()
        var requestID = ByteBuffer()
        swap(&note, &exchanges[exchange].note)
        swap(&requestID, &exchanges[exchange].marks.requestID)
        refusals.keep(&note, requestID.readable, policy: admission.policy, at: now.wall)
        swap(&note, &exchanges[exchange].note)
        swap(&requestID, &exchanges[exchange].marks.requestID)
    }

    /// Writes the refusal in the exchange's dialect and ends the exchange.
    mutating func answer(_ exchange: Int, with refusal: Refusal, _ scratch: inout Scratch) {
        let client = Int(exchanges[exchange].client.index)
        keepRefusal(exchange, refusal)
        var body = ByteBuffer(capacity: 512)
        exchanges[exchange].dialect.writeBody(
            refusal, requestID: exchanges[exchange].marks.requestID.readable, upgradeURL: admission.policy.upgradeURL,
            into: &body)
        refusal.writeHeaderLines(admission.policy, into: &exchanges[exchange].lines)
        answer(
            exchange, client, status: Int(refusal.status), contentType: exchanges[exchange].dialect.contentType, body.readable,
            &scratch)
    }

    /// Writes a whole answer of the gateway's own and ends the exchange.
    mutating func answer(
        _ exchange: Int, _ client: Int, status: Int, contentType: StaticString, saysCaching: Bool = false, _ body: RawSpan,
        _ scratch: inout Scratch
    ) {
        clients[client].messages.bodyAbandoned()
        let persistence = clients[client].messages.answerStarted(
            untilClose: false, unread: clients[client].body.remaining)
        var out = ByteBuffer()
        swap(&out, &scratch.output)
        out.removeAll()
        OwnResponse.write(
            status: status, contentType: contentType, body: body, isHead: exchanges[exchange].method == .head,
            requestID: exchanges[exchange].marks.requestID.readable, lines: exchanges[exchange].lines.readable,
            saysCaching: saysCaching, persistence: persistence, at: now.wall, into: &out)
        exchanges[exchange].record.status = status
        exchanges[exchange].record.bytesOut = UInt64(body.byteCount)
        let handle = exchangeHandle(exchange)
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
