import Gate
import HTTP
import Telemetry
import Wire

/// Requests on the check listeners: a proxy describes a request, and is answered whether it may pass.
extension Worker {
    /// Answers the check whose head is in `scratch.request`, parsed from `bytes`: decides about the request that it describes, as
    /// about one that came from a client. The exchange may be over afterwards. `shedding`: see `decide`.
    mutating func check(
        _ handle: Handle<Exchange>, _ bytes: RawSpan, isSampled: Bool, shedding: OverloadReason?, _ scratch: inout Scratch
    ) {
        let exchange = handle.index
        let client = exchanges[exchange].client.index
        exchanges[exchange].request.method = scratch.request.method
        exchanges[exchange].request.version = scratch.request.version
        // Proxies copy a length and do not send the content. No next request can be told from content that is missing, so this answer
        // is the connection's last.
        if scratch.request.framing.hasContent { apply(downstream.clients[client].http.drainRequested(headBegun: true), client, &scratch) }
        guard let endpoint = CheckEndpoint(path: bytes[scratch.request.path]) else {
            return refuseCheck(exchange, .notFound, bytes, &scratch)
        }
        exchanges[exchange].request.check = endpoint
        var described = ByteBuffer()
        swap(&described, &scratch.described)
        described.removeAll()
        do throws(DescriptionFault) {
            try admission.describe(scratch.request, bytes, at: endpoint, into: &described)
            judge(handle, described.readable, of: bytes, isSampled: isSampled, shedding: shedding, &scratch)
        } catch {
            exchanges[exchange].record.error = error.text
            refuseCheck(exchange, .badRequest(.description(error)), bytes, &scratch)
        }
        swap(&described, &scratch.described)
    }

    private mutating func judge(
        _ handle: Handle<Exchange>, _ described: RawSpan, of bytes: RawSpan, isSampled: Bool, shedding: OverloadReason?,
        _ scratch: inout Scratch
    ) {
        switch scratch.describedRequest.parse(described, limits: settings.headLimits) {
        case .complete:
            swap(&scratch.request, &scratch.describedRequest)
            decide(handle.index, described, isSampled: isSampled, shedding: shedding, &scratch)
            if exchanges.isCurrent(handle) { exchanges[handle.index].hold(described) }
        case .incomplete: preconditionFailure("a described head without an end")
        case .invalid(let fault):
            exchanges[handle.index].record.error = fault.text
            refuseCheck(handle.index, Refusal(fault), bytes, &scratch)
        }
    }

    /// Refuses a check that describes no request.
    private mutating func refuseCheck(_ exchange: ExchangeIndex, _ refusal: Refusal, _ bytes: RawSpan, _ scratch: inout Scratch) {
        let peer = downstream.clients[exchanges[exchange].client.index].peer
        admission.refuse(refusal, scratch.request, bytes, peer: peer, &scratch.decision)
        identify(exchange, bytes, &scratch)
        log(exchange, bytes, &scratch)
        answer(exchange, with: refusal, &scratch)
    }

    /// Keeps the fields of the answer that lets the request pass, which may have to wait for limits.
    mutating func stageAllowAnswer(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) {
        guard let endpoint = exchanges[exchange].request.check else { return }
        let attributes = endpoint == .envoy ? admission.policy.attributeFields : []
        scratch.decision.addPassage(
            at: endpoint, scratch.request, bytes, attributes: attributes, to: &exchanges[exchange].attempt.replay)
    }

    /// Lets the checked request pass.
    mutating func letPass(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        var passage = ByteBuffer()
        swap(&passage, &exchanges[exchange].attempt.replay)
        exchanges[exchange].buffers.answerEdits.append(rendered: passage.readable)
        swap(&passage, &exchanges[exchange].attempt.replay)
        answer(exchange, status: 200, contentType: "", RawSpan(), &scratch)
    }
}

extension CheckKind {
    /// The metrics' label value.
    init(_ endpoint: CheckEndpoint) {
        switch endpoint {
        case .check: self = .check
        case .envoy: self = .envoy
        case .nginx: self = .nginx
        }
    }
}
