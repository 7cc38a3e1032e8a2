import Gate
import HTTP
import Transport
import Wire

/// Requests that the gateway answers itself: collects the body, calls the handler, writes its answer.
extension Worker {
    /// Prepares the exchange for its handler.
    mutating func prepareLocal(
        _ exchange: ExchangeIndex, _ handler: @escaping LocalHandler, _ bytes: RawSpan, _ scratch: inout Scratch
    ) {
        exchanges[exchange].answerEdits.append(scratch.decision.answerEdits)
        exchanges[exchange].bodyLimit = UInt64(LocalService.bodyLimit)
        let client = exchanges[exchange].client.index
        exchanges[exchange].local = LocalExchange(handler: handler, request: localRequest(exchange, client, bytes, scratch))
        exchanges[exchange].state.collect(isWhole: !scratch.request.framing.hasContent)
    }

    private func localRequest(
        _ exchange: ExchangeIndex, _ client: ClientIndex, _ bytes: RawSpan, _ scratch: borrowing Scratch
    ) -> LocalRequest {
        var fields: [(name: String, value: String)] = []
        for index in 0..<scratch.request.fields.count {
            let field = scratch.request.fields[index]
            fields.append((name: bytes[field.name].text, value: bytes[field.value].text))
        }
        // Gate has not decided about a request to the admin listeners, so there is no client address of a decision.
        let isAdmin = downstream.listeners[downstream.clients[client].listener].isAdmin
        return LocalRequest(
            method: bytes[scratch.request.methodText].text, target: bytes[scratch.request.target].text,
            path: bytes[scratch.request.path].text,
            query: bytes[scratch.request.query].text, fields: fields, body: [], client: isAdmin ? downstream.clients[client].peer.address : scratch.decision.client.address,
            requestID: exchanges[exchange].ids.requestID.readable.text, caller: Self.caller(scratch.decision))
    }

    private static func caller(_ decision: borrowing Decision) -> LocalCaller? {
        guard let identity = decision.identity else { return nil }
        return LocalCaller(userID: decision.userID.text, sessionID: decision.sessionID.text, isOwn: identity.isOwn)
    }

    /// Calls the handler with the complete request.
    mutating func startHandler(_ exchange: ExchangeIndex) {
        guard var local = exchanges[exchange].local.take() else { return }
        local.request.body = exchanges[exchange].replayBuffer.readable.array
        waitForHandler(exchange)
        LocalService.start(local.handler, local.request, for: exchanges.handle(exchange), answeringTo: mailbox)
    }

    /// Writes a handler's answer and ends the exchange.
    mutating func answer(_ exchange: ExchangeIndex, with response: LocalResponse, _ scratch: inout Scratch) {
        var saysCaching = false
        for field in response.fields where exchanges[exchange].answerEdits.add(field.name, field.value) {
            if field.name.lowercased() == "cache-control" { saysCaching = true }
        }
        answer(
            exchange, status: response.status, contentType: "", saysCaching: saysCaching, response.body.rawBytes, &scratch)
    }
}

/// A local request while its body is collected.
struct LocalExchange {
    var handler: LocalHandler
    var request: LocalRequest
}
