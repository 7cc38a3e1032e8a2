import Gate
import HTTP
import Transport
import Wire

/// Requests that the gateway answers itself: collects the body, calls the handler, writes its answer.
extension Worker {
    /// Prepares the exchange for its handler.
    mutating func prepareLocal(
        _ exchange: ExchangeIndex, _ handler: @escaping LocalHandler, _ kind: LocalKind, on executor: LocalExecutor? = nil,
        _ bytes: RawSpan, _ scratch: inout Scratch
    ) {
        let client = exchanges[exchange].client.index
        // Gate has not decided about a request to the admin listeners, and about a challenge of a certificate authority, so there is no
        // client address of a decision.
        let isUndecided = scratch.decision.routeIndex < 0
        exchanges[exchange].request.bodyLimit = isUndecided ? LocalService.adminBodyLimit : admission.bodyLimit(scratch.decision)
        var request = LocalRequest(
            scratch.request, bytes, from: isUndecided ? downstream.clients[client].peer.address : scratch.decision.client.address,
            requestID: exchanges[exchange].buffers.requestID.readable.text,
            isSecure: downstream.clients[client].peer.isTLS
                || scratch.decision.client.peerIsTrusted && scratch.request.cameOverTLS(bytes),
            caller: LocalCaller(scratch.decision))
        request.isFromProxy = scratch.decision.client.peerIsTrusted
        exchanges[exchange].makeRare().local = LocalExchange(handler: handler, kind: kind, executor: executor, request: request)
        exchanges[exchange].state.collect(isWhole: exchanges[exchange].request.isHeadAlone)
    }

    /// Calls the handler with the complete request, if there is room for it.
    mutating func startHandler(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        guard let local = exchanges[exchange].rare?.local.take() else { return }
        if let reason = takeLocalSlot(exchange, local.kind) {
            noteShed(exchange, reason)
            return answer(exchange, with: .unavailable(.overload, retryAfterSeconds: 1), &scratch)
        }
        let slot = exchanges[exchange].counts.share.map { LocalSlot(kind: local.kind, share: $0) }
        if let slot { downstream.shares.retain(slot.share) }
        local.request.body = exchanges[exchange].attempt.replay.readable.array
        waitForHandler(exchange)
        LocalService.start(local, for: exchanges.handle(exchange), slot, answeringTo: mailbox)
    }

    /// Writes a handler's answer and ends the exchange.
    mutating func answer(_ exchange: ExchangeIndex, with response: LocalResponse, _ scratch: inout Scratch) {
        var saysCaching = false
        for field in response.fields where exchanges[exchange].buffers.answerEdits.add(field.name, field.value) {
            if field.name.lowercased() == "cache-control" { saysCaching = true }
        }
        if let stream = response.stream { return open(stream, exchange, status: response.status, saysCaching: saysCaching, &scratch) }
        answer(
            exchange, status: response.status, contentType: "", saysCaching: saysCaching, response.body.rawBytes, &scratch)
    }
}

/// A local request while its body is collected. A class, so that other exchanges hold a reference's room for it.
final class LocalExchange {
    let handler: LocalHandler
    let kind: LocalKind
    let executor: LocalExecutor?
    var request: LocalRequest

    init(handler: @escaping LocalHandler, kind: LocalKind, executor: LocalExecutor?, request: LocalRequest) {
        self.handler = handler
        self.kind = kind
        self.executor = executor
        self.request = request
    }
}

extension LocalRequest {
    /// The request without its body, from its parsed head.
    fileprivate init(
        _ head: borrowing RequestHead, _ bytes: RawSpan, from client: IPAddress, requestID: String, isSecure: Bool, caller: LocalCaller?
    ) {
        var fields: [(name: String, value: String)] = []
        for index in 0..<head.fields.count {
            fields.append((name: bytes[head.fields[index].name].text, value: bytes[head.fields[index].value].text))
        }
        self.init(
            method: bytes[head.methodText].text, target: bytes[head.target].text, path: bytes[head.path].text,
            query: bytes[head.query].text, fields: fields, body: [], client: client, requestID: requestID, isSecure: isSecure,
            caller: caller)
    }
}

extension LocalCaller {
    /// nil without a valid token.
    fileprivate init?(_ decision: borrowing Decision) {
        guard let identity = decision.identity else { return nil }
        let outside = decision.account.flatMap { account in
            identity.outside.map { OutsideCaller(account: account, tokenID: $0.tokenID, expiresAt: identity.expiresAt) }
        }
        self.init(
            userID: decision.userID.text, sessionID: decision.sessionID.text, isOwn: identity.isOwn,
            contract: identity.contractNumber, outside: outside)
    }
}
