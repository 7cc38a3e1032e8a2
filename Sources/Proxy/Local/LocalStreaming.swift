import HTTP
import Transport
import Wire

/// Local answers that go on: a source on the control plane posts parts, and learns when the client has taken them.
///
/// A source writes one part at a time, so no more than that waits for a client that does not read; its send timeout ends such a client.
extension Worker {
    /// Sends the head of a streamed answer and starts its source.
    mutating func open(_ stream: LocalStream, _ exchange: ExchangeIndex, status: Int, _ scratch: inout Scratch) {
        if exchanges[exchange].request.isTraced { recordHandled(exchange) }
        leaveRequests(exchange)
        exchanges[exchange].state.produce()
        exchanges[exchange].answer.source = stream
        exchanges[exchange].record.status = status
        let client = exchanges[exchange].client.index
        let framing = BodyFraming.untilClose.relayed(to: exchanges[exchange].request.version)
        let persistence = downstream.clients[client].http.sendHead(framing)
        var out = scratch.takeOutput()
        OwnResponse.writeStreamHead(
            status: status, isChunked: framing == .chunked, requestID: exchanges[exchange].buffers.requestID.readable,
            edits: exchanges[exchange].buffers.answerEdits, persistence: persistence, at: now.wall, into: &out)
        let handle = exchanges.handle(exchange)
        sendToClient(client, out.count, of: &out, &scratch)
        scratch.putBackOutput(out)
        guard exchanges.isCurrent(handle) else { return }
        guard phase == .serving else { return send(.end, of: handle, &scratch) }
        let mailbox = mailbox
        stream.begin { mailbox.post(.content(handle, $0)) }
    }

    /// Sends a part of a streamed answer, unless the answer has ended.
    mutating func send(_ part: LocalStream.Part, of handle: Handle<Exchange>, _ scratch: inout Scratch) {
        guard exchanges.isCurrent(handle), exchanges[handle.index].state.phase == .producing else { return }
        let client = exchanges[handle.index].client
        scratch.prepareOutput()
        switch part {
        case .content(let bytes):
            exchanges[handle.index].passed(bytes.count, .answer)
            downstream.clients[client.index].http.sendContent(bytes.rawBytes, into: &scratch.output)
            if sendGathered(handle, &scratch) { resumeSource(client.index) }
        case .end:
            downstream.clients[client.index].http.sendEnd(into: &scratch.output)
            if sendGathered(handle, &scratch) { finishAnswer(handle.index, reusable: false, &scratch) }
            resumeClient(client, &scratch)
        }
    }

    /// Tells the source of the client's answer, if it has one, once nothing waits for the client.
    mutating func resumeSource(_ client: ClientIndex) {
        let exchange = downstream.clients[client].exchange
        guard !exchange.isNone, let source = exchanges[exchange.index].answer.source, downstream.hasRoom(client) else { return }
        source.taken()
    }
}

extension OwnResponse {
    /// Writes the head of an answer without a length.
    fileprivate static func writeStreamHead(
        status: Int, isChunked: Bool, requestID: RawSpan, edits: borrowing FieldEdits, persistence: Persistence, at now: WallTime,
        into out: inout ByteBuffer
    ) {
        out.appendStatusLine(status, StatusText.reason(status).rawBytes)
        out.append("Date: ")
        HTTPDate.write(now, into: &out)
        out.append("\r\nServer: tollgate\r\nCache-Control: no-store\r\nX-Request-Id: ")
        out.append(requestID)
        out.append("\r\n")
        out.append(edits.http1)
        if isChunked { out.append("Transfer-Encoding: chunked\r\n") }
        out.append(persistence)
        out.append("\r\n")
    }
}
