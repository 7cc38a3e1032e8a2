import Gate
import HTTP
import Wire

/// Answers that depend on whether the client came with TLS or without.
extension Worker {
    /// Answers a request of a plain listener that needs no decision: an authority's for the response to its challenge, and all others where
    /// the listener redirects. False if there is to be a decision.
    ///
    /// The only place where a plain listener answers before routing.
    mutating func answersPlainly(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) -> Bool {
        let client = exchanges[exchange].client.index
        if !downstream.challenges.isEmpty, let response = challengeResponse(client, bytes, scratch.request) {
            scratch.decision = Decision()
            identify(exchange, bytes, &scratch)
            prepareLocal(exchange, { _ in response }, .documents, bytes, &scratch)
            return true
        }
        guard let port = downstream.listeners[downstream.clients[client].listener].redirectPort else { return false }
        admission.redirect(scratch.request, bytes, peer: downstream.clients[client].peer, port: port, &scratch.decision)
        identify(exchange, bytes, &scratch)
        log(exchange, bytes, &scratch)
        if let refusal = scratch.decision.refusal {
            answer(exchange, with: refusal, &scratch)
        } else {
            answer(exchange, status: 308, contentType: "", RawSpan(), &scratch)
        }
        return true
    }

    private func challengeResponse(_ client: ClientIndex, _ bytes: RawSpan, _ head: borrowing RequestHead) -> LocalResponse? {
        let listener = downstream.clients[client].listener
        guard downstream.listeners[listener].tls == nil, !downstream.listeners[listener].isCheck else { return nil }
        return downstream.challenges.response(to: head, bytes)
    }

    /// With TLS the answer says `Strict-Transport-Security`, if the gateway does, in place of an upstream's.
    mutating func addStrictTransport(_ exchange: ExchangeIndex) {
        guard !settings.strictTransport.isEmpty, downstream.clients[exchanges[exchange].client.index].peer.isTLS else { return }
        let line = settings.strictTransport
        exchanges[exchange].buffers.answerEdits.append(rendered: line.rawBytes)
        exchanges[exchange].buffers.answerEdits.removeStrictTransport()
    }
}
