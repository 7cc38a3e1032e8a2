import Gate
import HTTP
import Transport
import Wire

/// Requests that the gateway answers itself: collects the body, hands the whole up, writes what comes back.
extension Worker {
    /// Starts the exchange for the request whose head is in `scratch.request`; consumes its head.
    mutating func beginLocal(
        _ client: Int, _ handler: @escaping LocalHandler, _ input: inout ByteBuffer, _ scratch: inout Scratch
    ) {
        let exchange = prepareLocal(client, handler, &input, &scratch)
        let handle = exchangeHandle(exchange)
        guard !clients[client].body.isAtEnd else { return startLocal(exchange) }
        apply(clients[client].messages.bodyWanted(hasArrived: !input.isEmpty), client, &scratch)
        if exchanges.isCurrent(handle) { advance(client, &input, &scratch) }
    }

    /// Makes the exchange ready, and consumes the head.
    mutating func prepareLocal(
        _ client: Int, _ handler: @escaping LocalHandler, _ input: inout ByteBuffer, _ scratch: inout Scratch
    ) -> Int {
        let exchange = openExchange(client)
        note(exchange, client, input.readable, &scratch)
        exchanges[exchange].lines.append(scratch.decision.refreshLines)
        exchanges[exchange].lines.append(scratch.decision.limitLines)
        exchanges[exchange].isLocal = true
        exchanges[exchange].bodyLimit = UInt64(LocalService.bodyLimit)
        exchanges[exchange].local = LocalExchange(handler: handler, request: localRequest(exchange, client, input.readable, scratch))
        input.discard(scratch.request.length)
        return exchange
    }

    /// Starts an exchange that was ready and waited; what has come of its body lies with the client.
    mutating func beginHeldLocal(_ exchange: Int, _ client: Int, _ scratch: inout Scratch) {
        guard !clients[client].body.isAtEnd else { return startLocal(exchange) }
        apply(clients[client].messages.bodyWanted(hasArrived: !clients[client].input.isEmpty), client, &scratch)
    }

    private func localRequest(
        _ exchange: Int, _ client: Int, _ bytes: RawSpan, _ scratch: borrowing Scratch
    ) -> LocalRequest {
        var fields: [(name: String, value: String)] = []
        for index in 0..<scratch.request.fields.count {
            let field = scratch.request.fields[index]
            fields.append((name: bytes[field.name].text, value: bytes[field.value].text))
        }
        // Nothing was decided about a request to the admin listeners.
        let isAdmin = listeners[clients[client].listener].isAdmin
        return LocalRequest(
            method: bytes[scratch.request.methodText].text, target: bytes[scratch.request.target].text,
            path: bytes[scratch.request.path].text,
            query: bytes[scratch.request.query].text, fields: fields, body: [], client: isAdmin ? clients[client].peer.address : scratch.decision.client.address,
            requestID: exchanges[exchange].marks.requestID.readable.text, caller: Self.caller(scratch.decision))
    }

    private static func caller(_ decision: borrowing Decision) -> LocalCaller? {
        guard let identity = decision.identity else { return nil }
        return LocalCaller(userID: decision.userID.text, sessionID: decision.sessionID.text, isOwn: identity.isOwn)
    }

    /// Adds to the body of a local request; starts it when that is whole.
    mutating func collectBody(_ exchange: Int, _ client: Int, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        while !exchanges[exchange].requestEnded {
            switch clients[client].body.next(input.readable) {
            case .data(let skip, let count):
                guard exchanges[exchange].opening.count + count <= LocalService.bodyLimit else {
                    input.removeAll()
                    return faulted(client, HTTPFault(.contentTooLarge), &scratch)
                }
                exchanges[exchange].opening.append(input.readable.extracting(skip..<skip + count))
                input.discard(skip + count)
            case .needMore(let consumed): return input.discard(consumed)
            case .trailers(let slice, let consumed):
                if let fault = parseTrailers(input.readable, slice, into: &scratch.trailers) {
                    input.removeAll()
                    return faulted(client, fault, &scratch)
                }
                input.discard(consumed)
                apply(clients[client].messages.bodyReceived(), client, &scratch)
                return startLocal(exchange)
            case .end(let consumed):
                input.discard(consumed)
                apply(clients[client].messages.bodyReceived(), client, &scratch)
                return startLocal(exchange)
            case .fault(let fault):
                input.removeAll()
                return faulted(client, fault, &scratch)
            }
        }
    }

    private mutating func startLocal(_ exchange: Int) {
        exchanges[exchange].requestEnded = true
        guard var local = exchanges[exchange].local else { return }
        exchanges[exchange].local = nil
        local.request.body = exchanges[exchange].opening.readable.array
        exchanges[exchange].bodyCount = UInt64(local.request.body.count)
        let deadline = now.monotonic.advanced(milliseconds: settings.localTimeout)
        exchanges[exchange].localDeadline = deadline
        clientTimers.set(Int(exchanges[exchange].client.index), deadline: deadline)
        LocalService.start(local.handler, local.request, for: exchangeHandle(exchange), answeringTo: mailbox)
    }

    /// The handler has not answered in time: the client is told, and an answer that still comes finds nobody.
    mutating func localTimedOut(_ exchange: Int, _ scratch: inout Scratch) {
        let client = exchanges[exchange].client
        exchanges[exchange].record.error = "handler_late"
        answer(exchange, with: .timeout, &scratch)
        if clients.isCurrent(client) { continueReading(Int(client.index), &scratch) }
    }

    /// A line break would end the field, and what follows it would be taken for another: such a field is left out.
    private static func isOneLine(_ text: String) -> Bool { !text.utf8.contains { $0 < 0x20 && $0 != 0x09 } }

    /// The answer came down; its exchange may have ended meanwhile.
    mutating func answered(_ handle: Handle, _ response: LocalResponse, _ scratch: inout Scratch) {
        guard exchanges.isCurrent(handle) else { return }
        let exchange = Int(handle.index)
        let client = exchanges[exchange].client
        var saysCaching = false
        for field in response.fields where Self.isOneLine(field.name) && Self.isOneLine(field.value) {
            if field.name.lowercased() == "cache-control" { saysCaching = true }
            exchanges[exchange].lines.append(field.name)
            exchanges[exchange].lines.append(": ")
            exchanges[exchange].lines.append(field.value)
            exchanges[exchange].lines.append("\r\n")
        }
        answer(
            exchange, Int(client.index), status: response.status, contentType: "", saysCaching: saysCaching,
            response.body.rawBytes, &scratch)
        if clients.isCurrent(client) { continueReading(Int(client.index), &scratch) }
    }
}

/// A local request while its body is collected.
struct LocalExchange {
    var handler: LocalHandler
    var request: LocalRequest
}
