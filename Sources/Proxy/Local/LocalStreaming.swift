import HTTP
import Transport
import Wire

/// Local answers that go on: a source on the control plane posts parts, and learns when the client has taken them.
///
/// A source writes one part at a time, so no more than that waits for a client that does not read; its send timeout ends such a client.
extension Worker {
    /// Sends the head of a streamed answer and starts its source.
    mutating func open(_ stream: LocalStream, _ exchange: ExchangeIndex, status: Int, saysCaching: Bool, _ scratch: inout Scratch) {
        if exchanges[exchange].request.isTraced { recordHandled(exchange) }
        leaveRequests(exchange)
        exchanges[exchange].state.produce()
        exchanges[exchange].state.answerBegan(isHeld: false)
        exchanges[exchange].answer.source = .handler(stream)
        exchanges[exchange].record.status = status
        let client = exchanges[exchange].client.index
        let framing = BodyFraming.untilClose.relayed(to: exchanges[exchange].request.version)
        let persistence = downstream.clients[client].http.sendHead(framing)
        scratch.prepareOutput()
        OwnResponse.writeHead(
            status: status, framing: framing, requestID: exchanges[exchange].buffers.requestID.readable,
            edits: exchanges[exchange].buffers.answerEdits, saysCaching: saysCaching, persistence: persistence, at: now.wall,
            into: &scratch.output)
        let handle = exchanges.handle(exchange)
        guard sendGathered(handle, &scratch) else { return }
        guard phase == .serving else { return send(.end, of: handle, &scratch) }
        let mailbox = mailbox
        stream.begin { mailbox.post(.content(handle, $0)) }
    }

    /// Sends a part of a streamed answer, unless the answer has ended.
    mutating func send(_ part: LocalStream.Part, of handle: Handle<Exchange>, _ scratch: inout Scratch) {
        guard exchanges.isCurrent(handle), exchanges[handle.index].isFromHandler else { return }
        let client = exchanges[handle.index].client
        switch part {
        case .content(let bytes):
            writeContent(handle.index, bytes.rawBytes, &scratch)
            if sendGathered(handle, &scratch) { resumeSource(client.index, &scratch) }
        case .end:
            scratch.prepareOutput()
            downstream.clients[client.index].http.sendEnd(into: &scratch.output)
            endAnswer(handle.index, &scratch)
            resumeClient(client, &scratch)
        }
    }
}

extension Exchange {
    /// Whether a handler sends its answer in parts.
    var isFromHandler: Bool {
        if case .handler = answer.source { state.phase == .producing } else { false }
    }
}
