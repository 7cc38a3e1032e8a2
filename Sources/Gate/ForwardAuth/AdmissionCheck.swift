package import HTTP
package import Wire

/// Decisions about requests that are only checked: the proxy forwards them as they came, and the gateway never sees the answers.
extension Admission {
    /// Writes the request that the check in `head` describes; see `DescribedRequest.write`.
    package func describe(
        _ head: borrowing RequestHead, _ bytes: RawSpan, at endpoint: CheckEndpoint, into out: inout ByteBuffer
    ) throws(DescriptionFault) {
        try DescribedRequest.write(head, bytes, at: endpoint, hostMayBeMissing: !policy.table.namesHosts, into: &out)
    }

    /// Refuses a check that describes no request.
    package func refuse(
        _ refusal: Refusal, _ head: borrowing RequestHead, _ bytes: RawSpan, peer: Peer, _ decision: inout Decision
    ) {
        decision.reset(dialect: policy.dialect, corsNumber: -1)
        decision.client = ClientAddress.resolve(head, bytes, peer: peer, trusted: policy.trustedProxies)
        decision.refuse(refusal)
    }

    /// Whether the described request has a field that the gateway would remove before the upstream, which the proxy passes on: one of
    /// `ProxyFields` without `keep=`, in any spelling, or an `X-Real-IP` of another address than the client's and the proxy's own in
    /// `X-Forwarded-For`.
    ///
    /// A proof of possession passes, and so do the fields that proxies send in each check: Traefik writes `X-Forwarded-Server` and
    /// `X-Forwarded-Port` itself.
    func hasProxyField(_ head: borrowing RequestHead, _ bytes: RawSpan, kept: KeptFields, client: IPAddress) -> Bool {
        let names = ReservedNames.shared
        for index in 0..<head.fields.count where head.fields[index].known == .other {
            let name = bytes[head.fields[index].name]
            guard names.mayHold(name) else { continue }
            if FoldedName.matches(name, ("x-real-ip" as StaticString).rawBytes) {
                let address = IPAddress(parsing: bytes[head.fields[index].value])
                if address == nil || address != client && address != Self.lastForwarded(head.fields, bytes) { return true }
            } else if names.holdsProxyField(name, except: kept), !Self.isOfEveryCheck(name) {
                return true
            }
        }
        return false
    }

    /// The address at the end of `X-Forwarded-For`, which the proxy that asks has written; nil without one.
    private static func lastForwarded(_ fields: borrowing FieldTable, _ bytes: RawSpan) -> IPAddress? {
        var index = fields.count - 1
        while index >= 0, fields[index].known != .xForwardedFor { index -= 1 }
        guard index >= 0 else { return nil }
        let value = bytes[fields[index].value]
        var start = value.byteCount
        while start > 0, value[start - 1] != UInt8(ascii: ","), value[start - 1] != UInt8(ascii: " ") { start -= 1 }
        return IPAddress(parsing: value.dropping(start))
    }

    private static func isOfEveryCheck(_ name: RawSpan) -> Bool {
        name.equalsIgnoringCase("x-forwarded-server") || name.equalsIgnoringCase("x-forwarded-port") || name.equalsIgnoringCase("dpop")
    }

    /// Whether an upstream that gets `path` as it was sent may take it for one of another rule than `match`, which is that of its
    /// canonical form: it has dot segments, or matches another rule letter by letter.
    func differsAsSent(_ path: RawSpan, _ match: RouteMatch, _ head: borrowing RequestHead, _ bytes: RawSpan) -> Bool {
        if path.hasDotSegment { return true }
        return policy.table.match(host: bytes[head.host], path: path, method: head.method, methodText: bytes[head.methodText]) != match
    }
}

extension ClientAddress {
    /// The address in a check. The peer is a proxy, so an address that no trusted proxy has named is not the client's: it counts for
    /// limits, but proves no internal caller.
    func inCheck(_ fields: borrowing FieldTable) -> ClientAddress {
        var address = self
        let isNamed = peerIsTrusted && (fields.contains(.xForwardedFor) || fields.contains(.forwarded))
        address.isCertain = isCertain && isNamed
        return address
    }
}

extension Decision {
    /// Adds what the upstream must get, as fields of the answer that lets the request pass: the identity fields, and `Authorization`
    /// where the route keeps it. Of these fields, one that is missing is to be removed from the client's request by the proxy.
    /// For Envoy the answer names the missing ones, with those of `attributes`, the fields of all that routes forward.
    package func addPassage(
        at endpoint: CheckEndpoint, _ head: borrowing RequestHead, _ bytes: RawSpan, attributes: [[UInt8]] = [],
        to fields: inout ByteBuffer
    ) {
        fields.append(requestEdits.http1)
        let keepsAuthorization = forwardsAuthorization && !requestEdits.removes(.authorization) && head.authorizationCount == 1
        if keepsAuthorization {
            fields.append("Authorization: ")
            fields.append(bytes[head.authorization])
            fields.append("\r\n")
        }
        if endpoint == .envoy {
            IdentityHeaders.addMissing(
                attributes, [removesKey ? Admission.keyField : nil, keepsAuthorization ? nil : Admission.proofField], to: &fields)
        }
    }
}

extension IdentityHeaders {
    /// Whether `name` is another spelling of an identity field than its own: many servers read `X_User_Id` as `X-User-Id`. Those of
    /// attributes and merges are in any spelling.
    static func isLookAlike(_ name: RawSpan) -> Bool {
        guard ReservedNames.shared.mayHold(name) else { return false }
        // Proxies replace the fields that they are told of: these are of any name, or newer than their configuration.
        if isAttribute(name) || FoldedName.matches(name, IdentityHeader.mergedFrom.name.rawBytes) { return true }
        for header in IdentityHeader.allCases {
            let own = header.name.rawBytes
            if FoldedName.matches(name, own), !FoldedName.isSpelling(name, of: own) { return true }
        }
        return false
    }

    /// Adds `X-Envoy-Auth-Headers-To-Remove` with these credentials, and with the names of the passage's and the attributes' fields
    /// that the lines lack.
    fileprivate static func addMissing(_ attributes: [[UInt8]], _ credentials: [StaticString?], to fields: inout ByteBuffer) {
        var separator: StaticString = "X-Envoy-Auth-Headers-To-Remove: "
        for case let name? in credentials {
            fields.append(separator)
            fields.append(name)
            separator = ","
        }
        for name in passage where !fields.readable.hasLine(name.rawBytes) {
            fields.append(separator)
            fields.append(name)
            separator = ","
        }
        for name in attributes where !fields.readable.hasLine(name.rawBytes) {
            fields.append(separator)
            fields.append(name)
        }
        // Credentials are always missing, so there is a line to end.
        fields.append("\r\n")
    }
}

extension Refusal {
    /// Adds the true status and the code beside a 401 or 403 for nginx.
    package func addTrueStatus(to edits: inout FieldEdits) {
        edits.add("X-Tollgate-Status", decimal: Int(status))
        edits.add("X-Tollgate-Code", code.text)
    }
}

extension RawSpan {
    /// Whether a segment of the path is `.` or `..`, encoded or not.
    fileprivate var hasDotSegment: Bool {
        var offset = 0
        while offset < byteCount {
            // Behind the segment's slash.
            offset += 1
            var (dots, others) = (0, 0)
            while offset < byteCount, self[offset] != UInt8(ascii: "/") {
                let isEncodedDot = offset + 3 <= byteCount && extracting(offset..<offset + 3).equalsIgnoringCase("%2e")
                if isEncodedDot || self[offset] == UInt8(ascii: ".") { dots += 1 } else { others += 1 }
                offset += isEncodedDot ? 3 : 1
            }
            if others == 0, dots == 1 || dots == 2 { return true }
        }
        return false
    }

    /// Whether one of these field lines is called `name`.
    fileprivate func hasLine(_ name: RawSpan) -> Bool {
        let count = name.byteCount
        var start = 0
        while start + count < byteCount {
            if dropping(start).hasPrefix(name), self[start + count] == UInt8(ascii: ":") { return true }
            guard let end = firstIndex(of: UInt8(ascii: "\n"), from: start) else { return false }
            start = end + 1
        }
        return false
    }
}
