package import HTTP
import Wire

extension Decision {
    /// The request begins a trace of its own: the state of the caller's (W3C Trace Context §3.3) is not forwarded.
    package mutating func removeTraceState() { requestEdits.remove(.tracestate) }
}

extension Admission {
    /// Whether the caller may go on with a trace of its own: a trusted proxy, or an internal caller on whatever route.
    package func trustsTrace(_ decision: borrowing Decision, _ head: borrowing RequestHead, _ bytes: RawSpan, _ peer: Peer) -> Bool {
        if decision.client.peerIsTrusted || decision.internalCaller >= 0 { return true }
        guard !policy.internals.isEmpty else { return false }
        return InternalCaller.match(policy.internals, head, bytes, decision.client, peer.certificateNames) >= 0
    }
}
