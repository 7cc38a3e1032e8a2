package import HTTP
import Wire

/// CORS (Fetch standard, "CORS protocol"): the standing of a request's origin, the fields of its answer, and the answers to
/// preflights.
extension Admission {
    /// Decides about a preflight: an `OPTIONS` with `Origin` and `Access-Control-Request-Method`. The browser sends it without
    /// credentials, so it is answered before identity and limits. False for any other request, and where no policy applies.
    mutating func answersPreflight(
        _ head: borrowing RequestHead, _ bytes: RawSpan, _ peer: Peer, _ decision: inout Decision
    ) -> Bool {
        guard head.method == .options, policy.hasCORS, head.fields.contains(.origin),
            let asked = Self.requestedMethod(head.fields, bytes)
        else { return false }
        // Taken out of the decision while the decision is written.
        var canonical = ByteBuffer()
        swap(&canonical, &decision.bareBytes)
        defer { swap(&canonical, &decision.bareBytes) }
        canonical.removeAll()
        switch head.form.isAsterisk
            ? .same([]) : CanonicalPath.canonicalise(bytes[head.path], into: &canonical, encodedSlash: .pass)
        {
        case .same: return answersPreflight(for: bytes[asked], at: bytes[head.path], head, bytes, peer, &decision)
        case .rewritten: return answersPreflight(for: bytes[asked], at: canonical.readable, head, bytes, peer, &decision)
        // The path's fault is the answer.
        case .refused: return false
        }
    }

    private func answersPreflight(
        for asked: RawSpan, at path: RawSpan, _ head: borrowing RequestHead, _ bytes: RawSpan, _ peer: Peer,
        _ decision: inout Decision
    ) -> Bool {
        let match = policy.table.match(host: bytes[head.host], path: path, method: Method(asked), methodText: asked)
        let number = policy.corsNumber(of: match)
        guard number >= 0 else { return false }
        decision.corsNumber = number
        addCORSFields(head, bytes, peer, &decision)
        if case .route(let route) = match { decision.routeIndex = route }
        if decision.cors == .allowed { addPreflightFields(match, asked, at: path, bytes[head.host], &decision) }
        decision.verdict = .answer(status: 204)
        return true
    }

    /// The value of `Access-Control-Request-Method`; nil without it.
    private static func requestedMethod(_ fields: borrowing FieldTable, _ bytes: RawSpan) -> Slice? {
        for index in 0..<fields.count where fields[index].known == .other {
            if bytes[fields[index].name].equalsIgnoringCase("access-control-request-method") { return fields[index].value }
        }
        return nil
    }

    private func addPreflightFields(
        _ match: RouteMatch, _ asked: RawSpan, at path: RawSpan, _ host: RawSpan, _ decision: inout Decision
    ) {
        let number = decision.corsNumber
        var methods = MethodSet.all
        if match != .none {
            // A browser keeps the list for each method, so one of another policy must not be on it.
            methods = policy.table.methods(host: host, path: path) { policy.gates[$0].corsNumber == number }
        }
        decision.answerEdits.begin("Access-Control-Allow-Methods")
        policy.table.forEachPiece(ofAllow: methods) { decision.answerEdits.append($0) }
        // A route for all methods also takes those without a name here.
        if case .route = match, policy.table.isUnnamed(asked) {
            decision.answerEdits.append(", ")
            decision.answerEdits.append(asked)
        }
        decision.answerEdits.end()
        let gate = policy.cors[number]
        decision.answerEdits.append(rendered: gate.preflight.rawBytes)
    }

    /// Adds the fields of every answer to the request, whatever becomes of it, by `decision.corsNumber`.
    func addCORSFields(_ head: borrowing RequestHead, _ bytes: RawSpan, _ peer: Peer, _ decision: inout Decision) {
        guard decision.corsNumber >= 0 else { return }
        decision.answerEdits.removeCORS()
        decision.answerEdits.add("Vary", "Origin")
        guard let index = head.fields.first(.origin) else {
            decision.cors = .noOrigin
            return
        }
        let origin = bytes[head.fields[index].value]
        let gate = policy.cors[decision.corsNumber]
        if head.fields.isRepeated(.origin) {
            decision.cors = .foreign
        } else if Self.allow(origin, gate, &decision.answerEdits) {
            decision.cors = .allowed
        } else {
            let believesProxy = decision.check != nil || decision.client.peerIsTrusted
            decision.cors = isOwn(origin, head, bytes, peer, believesProxy: believesProxy) ? .own : .foreign
        }
    }

    /// Adds the fields of the answer to a request that is not served, whose route is therefore not known, by `TOLLGATE_CORS`. `fields`
    /// are those that were read of its head.
    package func addCORSFields(ofUnserved fields: borrowing FieldTable, _ bytes: RawSpan, to edits: inout FieldEdits) {
        guard policy.defaultCORS >= 0 else { return }
        edits.add("Vary", "Origin")
        guard let index = fields.first(.origin), !fields.isRepeated(.origin) else { return }
        _ = Self.allow(bytes[fields[index].value], policy.cors[policy.defaultCORS], &edits)
    }

    /// Adds the fields by which a page of `origin` may read the answer; false if it may not.
    private static func allow(_ origin: RawSpan, _ gate: CORSGate, _ edits: inout FieldEdits) -> Bool {
        guard gate.rule.origins.allows(origin) else { return false }
        if gate.anyOrigin.isEmpty {
            edits.add("Access-Control-Allow-Origin", origin)
        } else {
            edits.append(rendered: gate.anyOrigin.rawBytes)
        }
        edits.append(rendered: gate.answer.rawBytes)
        return true
    }

    /// False and a refusal if a page of a foreign origin would change something with the user's credentials. Browsers send such
    /// requests without a preflight if they look like a form's, and keep only the answer from the page. A WebSocket they let any page
    /// open, read and write.
    func admitsOrigin(_ head: borrowing RequestHead, _ decision: inout Decision) -> Bool {
        guard decision.cors == .foreign else { return true }
        if decision.handshake == nil {
            guard !head.method.isSafe, head.authorizationCount > 0 || head.fields.contains(.cookie) else { return true }
        }
        decision.refuse(.forbidden(.origin), .refused, .foreignOrigin)
        return false
    }

    /// False and a refusal if a page of a foreign origin would change something, or open a WebSocket, as an internal caller that needs no
    /// key: a browser on the operator's network calls from the same addresses, and with the same certificate.
    func admitsPage(
        at caller: Int, _ head: borrowing RequestHead, _ bytes: RawSpan, _ peer: Peer, _ decision: inout Decision
    ) -> Bool {
        guard policy.internals[caller].keySHA256 == nil, decision.handshake != nil || !head.method.isSafe,
            let index = head.fields.first(.origin)
        else { return true }
        switch decision.cors {
        case .noOrigin, .allowed: return true
        case .own, .off:
            let believesProxy = decision.check != nil || decision.client.peerIsTrusted
            let origin = bytes[head.fields[index].value]
            if !head.fields.isRepeated(.origin), isOwn(origin, head, bytes, peer, believesProxy: believesProxy),
                policy.internals[caller].certificateName != nil || cannotBeRebound(origin, bytes[head.host], peer)
            {
                return true
            }
        case .foreign: break
        }
        decision.refuse(.forbidden(.origin), .refused, .foreignOrigin)
        return false
    }

    /// Whether no page of another server can be of `origin`, to whose host the request was sent. A page's own name may be made to lead to
    /// the gateway (DNS rebinding), but the configuration and the certificate do not contain it.
    private func cannotBeRebound(_ origin: RawSpan, _ host: RawSpan, _ peer: Peer) -> Bool {
        let own = policy.ownOrigin
        return origin.equals(own.rawBytes) || peer.isTLS || host.isOfThisNetwork || policy.table.names(host)
    }

    /// Whether `origin` is that of `TOLLGATE_PUBLIC_URL`, or of the URL that the request was sent to.
    private func isOwn(
        _ origin: RawSpan, _ head: borrowing RequestHead, _ bytes: RawSpan, _ peer: Peer, believesProxy: Bool
    ) -> Bool {
        let own = policy.ownOrigin
        if !own.isEmpty, origin.equals(own.rawBytes) { return true }
        let host = bytes[head.host]
        guard !host.isEmpty else { return false }
        if origin.hasPrefix("https://") { return origin.dropping(8).isAuthority(host, defaultPort: ":443") }
        // A proxy that ends TLS and is not declared leaves the scheme unknown, so both count on a plain connection.
        guard !peer.isTLS, !(believesProxy && head.cameOverTLS(bytes)) else { return false }
        return origin.hasPrefix("http://") && origin.dropping(7).isAuthority(host, defaultPort: ":80")
    }

}

extension RequestHead {
    /// Whether it says that the proxy in front received the request over TLS; for trusted proxies.
    package func cameOverTLS(_ bytes: RawSpan) -> Bool {
        guard let index = fields.first(.xForwardedProto) else { return false }
        return bytes[fields[index].value].equalsIgnoringCase("https")
    }
}

extension RawSpan {
    /// Whether a `Host` is an address or `localhost`, which no name server answers for.
    fileprivate var isOfThisNetwork: Bool {
        if hasPrefix("[") { return true }
        let name = extracting(0..<(firstIndex(of: UInt8(ascii: ":")) ?? byteCount))
        return name.equalsIgnoringCase("localhost") || IPAddress(parsing: name) != nil
    }

    /// Whether the authority of an origin, without a default port, is that of a `Host`, which may have one.
    fileprivate func isAuthority(_ host: RawSpan, defaultPort: StaticString) -> Bool {
        let port = defaultPort.utf8CodeUnitCount
        var count = host.byteCount
        if count > port, host.dropping(count - port).equals(defaultPort) { count -= port }
        guard byteCount == count else { return false }
        for offset in 0..<count where self[offset] != host[offset].lowercasedASCII { return false }
        return true
    }
}
