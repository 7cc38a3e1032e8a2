package import HTTP
import Wire

extension Admission {
    /// Leads a request that came without TLS to HTTPS at `port`, whatever its route: 308, with path and query byte for byte.
    ///
    /// The host is the one that the client named, so that every name of the gateway is led to itself. The parser has taken nothing else
    /// than a host, and no cache may keep the answer: a client can lead no other elsewhere.
    package func redirect(
        _ head: borrowing RequestHead, _ bytes: RawSpan, peer: Peer, port: UInt16, _ decision: inout Decision
    ) {
        refuse(.badRequest(.http(.missingHost)), head, bytes, peer: peer, &decision)
        if let denial = policy.addresses?.denial(of: decision.client) { return decision.refuse(.addressDenied(denial)) }
        guard !head.hostname.isEmpty else { return }
        decision.answerEdits.begin("Location")
        decision.answerEdits.append("https://")
        decision.answerEdits.append(bytes[head.hostname])
        if port != 443 {
            decision.answerEdits.append(":")
            decision.answerEdits.append(decimal: UInt64(port))
        }
        if !head.form.isAsterisk {
            decision.answerEdits.append(bytes[head.path])
            decision.answerEdits.append(bytes[head.query])
        }
        decision.answerEdits.end()
        decision.verdict = .answer(status: 308)
    }
}
